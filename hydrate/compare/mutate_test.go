package compare_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	imports "github.com/sluice-gitops/sluice/importer"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// scalar is a line with something after `: `, `- ` or `= `, whose last word a mutation changes.
var scalar = regexp.MustCompile(`[:=-] .*[A-Za-z0-9]`)

// mutationsOf returns the contents that a file is given, one at a time; "" deletes it. At most most lines are changed.
func mutationsOf(text string, most int) []string {
	lines := strings.SplitAfter(text, "\n")
	var at []int
	for i, line := range lines {
		if scalar.MatchString(line) && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			at = append(at, i)
		}
	}
	out := []string{""}
	for n := range min(most, len(at)) {
		i := at[n*len(at)/min(most, len(at))] // spread over the file
		end := strings.LastIndexFunc(lines[i], func(r rune) bool {
			return r >= 'a' && r <= 'z' ||
				r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		})
		changed := slices.Clone(lines)
		mutant := "1" // a number stays a number
		changed[i] = lines[i][:end+1] + mutant + lines[i][end+1:]
		out = append(out, strings.Join(changed, ""))
	}
	return out
}

// whole is everything that a commit renders, without any knowledge of what changed.
type whole struct {
	objects map[string]string // cluster, app and file → a key of the content
	failed  map[string]string // cluster and app → message
}

func wholeOf(r *hydratetest.Repo, h *hydrate.Hydrator, revision string) (whole, error) {
	c, err := compare.Run(r.T.Context(), h, compare.Request{
		Against: compare.AgainstNothing, Head: r.Resolve(revision),
		Key: []byte("k"),
	})
	if err != nil {
		return whole{}, err
	}
	defer c.Close()
	out := whole{objects: map[string]string{}, failed: map[string]string{}}
	for i := range c.Targets {
		t := &c.Targets[i]
		for _, f := range t.Files.After {
			out.objects[path.Join(t.Target.Cluster.Name, t.Target.App.Name, f.Name)] = f.Hash.String()
		}
	}
	for _, w := range c.Changes.Withheld {
		out.failed[w.Cluster+"/"+w.App] = w.Message
	}
	return out, nil
}

// differences returns the objects and the failures that only one side has, or that differ.
func differences(a, b map[string]string) map[string]bool {
	out := map[string]bool{}
	for key := range maps.Keys(a) {
		if v, ok := b[key]; !ok || v != a[key] {
			out[key] = true
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			out[key] = true
		}
	}
	return out
}

// scopedOf returns what the comparison of two commits names: objects, and targets that cannot be compared.
func scopedOf(c *compare.Comparison) (objects, failed map[string]bool) {
	objects, failed = map[string]bool{}, map[string]bool{}
	for i := range c.Targets {
		t := &c.Targets[i]
		before, after := map[string]string{}, map[string]string{}
		for _, f := range t.Files.Before {
			before[path.Join(t.Target.Cluster.Name, t.Target.App.Name, f.Name)] = f.Hash.String()
		}
		for _, f := range t.Files.After {
			after[path.Join(t.Target.Cluster.Name, t.Target.App.Name, f.Name)] = f.Hash.String()
		}
		maps.Copy(objects, differences(before, after))
	}
	for _, w := range c.Changes.Withheld {
		failed[w.Cluster+"/"+w.App] = true
	}
	return objects, failed
}

// jobRenderer runs the jobs of a worker process in this process.
type jobRenderer struct {
	renderer.Renderer
	jobs worker.Jobs
}

// Call implements renderer.Caller.
func (j jobRenderer) Call(ctx context.Context, c worker.Call) ([]byte, error) {
	return j.jobs[c.Job](ctx, c.Input, c.Answer)
}

// remembering is what a new run of the command line has: empty caches in memory, and the files that earlier runs left
// in a folder.
func remembering(h *hydrate.Hydrator, dir string) *hydrate.Hydrator {
	c := h.Config
	c.Renderer, c.Imports = jobRenderer{c.Renderer, imports.Jobs()},
		imports.NewMemory(dir, "repository", "build", time.Now)
	return hydrate.New(c)
}

// mutate changes every file of a repository, one at a time, and compares the scoped comparison with that of two whole
// builds. Imports of the scoped comparison take what earlier comparisons kept on disk; whole builds take nothing. It
// returns how many mutations change objects, and how many change failures.
func mutate(t *testing.T, r *hydratetest.Repo, files []string, most int) (differing, failing int) {
	t.Helper()
	h, kept := r.Hydrator(2), t.TempDir()
	base, err := wholeOf(r, h, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if len(base.objects) == 0 {
		t.Fatal("the repository renders nothing")
	}
	mutants, invalid, objects := 0, 0, 0
	for _, name := range files {
		text := r.Read(name)
		for _, mutant := range mutationsOf(text, most) {
			if mutant == "" {
				r.Git("rm", "-q", name)
			} else {
				r.Write(name, mutant)
			}
			r.Commit("mutate " + name)
			mutants++
			head, err := wholeOf(r, h, "HEAD")
			if err != nil { // no commit of a fleet: there is nothing to compare
				invalid++
			} else {
				c, err := compare.Run(t.Context(), remembering(h, kept),
					compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD"), Key: []byte("k")})
				if err != nil {
					t.Fatalf("%s: the error is %v", name, err)
				}
				named, withheld := scopedOf(c)
				if c.Changes.Empty() && len(c.Changes.Files)+len(c.Errors) == 0 && path.Ext(name) != ".txt" &&
					!sameMeaning(text, mutant) {
					t.Errorf("%s: the comparison says nothing about the change\n%s", name, r.Git("show", "HEAD"))
				}
				c.Close()
				want := differences(base.objects, head.objects)
				failures := differences(base.failed, head.failed)
				for key := range want {
					cluster, file, _ := strings.Cut(key, "/")
					app, _, _ := strings.Cut(file, "/")
					if !named[key] && !withheld[cluster+"/"+app] {
						t.Errorf("%s: %s differs between two whole builds, and the comparison misses it\n%s", name, key,
							r.Git("show", "HEAD"))
					}
				}
				for key := range failures {
					if _, fails := head.failed[key]; fails && !withheld[key] {
						t.Errorf("%s: %s fails (%s), and the comparison does not say it", name, key, head.failed[key])
					}
				}
				for key := range named {
					if !want[key] {
						t.Errorf("%s: the comparison names %s, which does not differ", name, key)
					}
				}
				if objects += len(want); len(want) > 0 {
					differing++
				}
				if len(failures) > 0 {
					failing++
				}
			}
			r.Git("reset", "-q", "--hard", "HEAD~1")
		}
	}
	t.Logf("%d mutations of %d files: %d change objects (%d objects in all), %d change failures, %d make the fleet invalid", mutants, len(files), differing, objects, failing, invalid)
	return differing, failing
}

// sameMeaning reports whether two texts are equal as YAML, apart from comments and the format.
func sameMeaning(a, b string) bool {
	values := func(text string) (out []any, ok bool) {
		for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
			var v any
			if err := decoder.Decode(&v); err != nil {
				return out, errors.Is(err, io.EOF)
			}
			if v != nil {
				out = append(out, v)
			}
		}
	}
	x, okX := values(a)
	y, okY := values(b)
	return okX && okY && reflect.DeepEqual(x, y)
}

// A comparison looks only at targets that a change can affect. It must not miss one: every file of these repositories
// is changed.
func TestNoChangeIsMissed(t *testing.T) {
	lines := 4 // of each file
	if testing.Short() {
		lines = 1
	}
	for _, script := range []string{"import_flux", "import_argocd", "import_partial"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			r := imported(t, script)
			files := strings.Fields(r.Git("ls-files"))
			if differing, _ := mutate(t, r, files, lines); differing == 0 {
				t.Error("no mutation changes an object")
			}
		})
	}
	t.Run("fleet", func(t *testing.T) {
		if testing.Short() {
			t.Skip("end-to-end: make test-e2e")
		}
		t.Parallel()
		r := hydratetest.Demo(t)
		if differing, _ := mutate(t, r, strings.Fields(r.Git("ls-files")), 1); differing == 0 {
			t.Error("no mutation changes an object")
		}
	})
}

// fleets are what `sluice import --detect` writes for the repositories of the scripts.
var fleets = map[string]string{
	"import_flux": `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  environments: [{name: prod}, {name: staging}]
  import: [{flux: {clusters: {prod: {path: clusters/prod, environment: prod}, staging: {path: clusters/staging, environment: staging}}}}]
`,
	"import_argocd": `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  environments: [{name: in-cluster}, {name: prod}, {name: staging}]
  import:
  - argocd:
      clusters:
        in-cluster: {server: "https://kubernetes.default.svc", environment: in-cluster}
        prod: {server: "https://prod.example.com", environment: prod}
        staging: {server: "https://staging.example.com", environment: staging}
`,
}

// sampled returns at most most files: always the same ones, so that a commit that changes nothing here cannot fail; the
// nightly make test-thorough chooses others with SLUICE_MUTATE_SEED.
func sampled(t *testing.T, files []string, most int) []string {
	t.Helper()
	if len(files) <= most {
		return files
	}
	seed := uint64(1)
	if text := os.Getenv("SLUICE_MUTATE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SLUICE_MUTATE_SEED=%d chooses %d of %d files", seed, most, len(files))
	out := slices.Clone(files)
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:most]
}

// Real repositories of Flux: every file with a manifest is changed once, and deleted once. Of the large one, a sample
// of the files that its cluster can read; SLUICE_MUTATE_SEED repeats one.
func TestNoChangeOfRealRepositoriesIsMissed(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	for dir, clusters := range map[string]string{
		"flux/bjw-s--home-ops":                           "{main: {path: kubernetes/main/flux, environment: all}}",
		"kustomize/fluxcd--flux2-kustomize-helm-example": "{production: {path: clusters/production, environment: all}, staging: {path: clusters/staging, environment: all}}",
		"kustomize/fluxcd--flux2-multi-tenancy":          "{production: {path: clusters/production, environment: all}, staging: {path: clusters/staging, environment: all}}",
	} {
		t.Run(path.Base(dir), func(t *testing.T) {
			t.Parallel()
			root := os.Getenv("CORPUS")
			if root == "" {
				root = filepath.Join(hydratetest.Root(t), "../shared/corpus")
			}
			from := filepath.Join(root, dir)
			if _, err := os.Stat(from); err != nil {
				t.Skip("the corpus of real repositories is not on this machine")
			}
			r := hydratetest.New(t)
			if err := os.CopyFS(r.Dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			r.Git("add", "-A")
			var files []string
			for name := range strings.FieldsSeq(r.Git("ls-files")) {
				if ext := path.Ext(name); ext == ".yaml" || ext == ".yml" {
					files = append(files, name)
				}
			}
			few := 6 // each takes seconds
			if os.Getenv("SLUICE_MUTATE_SEED") != "" {
				few = 16
			}
			// of forges and task runners
			files = slices.DeleteFunc(sampled(t, files, few), func(name string) bool {
				return strings.HasPrefix(name,
					".")
			})
			r.Write("sluice.yaml", fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\nspec: {environments: [{name: all}], import: [{flux: {clusters: %s}}]}\n", clusters))
			r.Commit("start")
			if differing, failing := mutate(t, r, files, 2); differing+failing == 0 {
				t.Error("no mutation changes a target")
			}
		})
	}
}
