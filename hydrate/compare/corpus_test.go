package compare_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const corpus = "../../../shared/corpus/charts"

// Compares the change set of each chart's upgrade with a textual comparison, object by object, of two `helm template`
// outputs. The change set names every object that differs, and no object that is equal.
func TestUpgradesOfRealCharts(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	files, err := filepath.Glob(corpus + "/*.tgz")
	if err != nil || len(files) == 0 {
		t.Skip("the real charts of ../shared/corpus are not here")
	}
	versions := map[string][]string{}
	name := regexp.MustCompile(`^(.*)-(v?\d+\.\d+\.\d+)\.tgz$`)
	for _, f := range files {
		if m := name.FindStringSubmatch(filepath.Base(f)); m != nil {
			versions[m[1]] = append(versions[m[1]], f)
		}
	}
	compared := 0
	for _, chart := range slices.Sorted(maps.Keys(versions)) {
		if len(versions[chart]) != 2 {
			continue
		}
		compared++
		t.Run(chart, func(t *testing.T) { upgrade(t, chart, versions[chart][0], versions[chart][1]) })
	}
	if compared < 6 {
		t.Errorf("only %d charts with two versions", compared)
	}
}

func upgrade(t *testing.T, chart, from, to string) {
	t.Helper()
	r := hydratetest.New(t)
	r.Write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec: {environments: [{name: prod}]}\n")
	r.Write("clusters/a.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {environment: prod, kubeVersion: 1.33.0}\n")
	r.Write("apps/x/app.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: x}\nspec: {namespace: ns, placement: {}, source: {helm: {path: charts/"+chart+", includeCRDs: true}}}\n")
	unpack(r, from)
	r.Commit("from")
	if err := os.RemoveAll(filepath.Join(r.Dir, "charts")); err != nil {
		t.Fatal(err)
	}
	unpack(r, to)
	r.Commit("to")
	c := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")})
	defer c.Close()
	if len(c.Changes.Withheld) > 0 {
		t.Fatalf("withheld: %+v", c.Changes.Withheld)
	}
	named := map[string]bool{}
	for _, g := range c.Changes.Groups {
		for _, o := range g.Objects {
			named[o.ID.String()] = true
			if o.Verb == diff.Renamed {
				named[o.OldID.String()] = true
			}
		}
	}
	before, after := templated(t, from), templated(t, to)
	want, text := map[string]bool{}, 0
	for id, o := range before {
		if o.text != after[id].text {
			text++
		}
		if o.canonical != after[id].canonical {
			want[id] = true
		}
	}
	for id := range after {
		if _, had := before[id]; !had {
			want[id] = true
			text++
		}
	}
	t.Logf("%d objects, %d differ as text, %d in what they say", len(after), text, len(want))
	for id := range want {
		if !named[id] {
			t.Errorf("%s differs and is not named", id)
		}
	}
	for id := range named {
		if !want[id] {
			t.Errorf("%s is named and does not differ", id)
		}
	}
}

func unpack(r *hydratetest.Repo, archive string) {
	r.T.Helper()
	data, err := os.ReadFile(archive)
	if err != nil {
		r.T.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		r.T.Fatal(err)
	}
	for files := tar.NewReader(zip); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			r.T.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(files)
		if err != nil {
			r.T.Fatal(err)
		}
		r.Write("charts/"+h.Name, string(text))
	}
}

type templatedObject struct{ text, canonical string }

// templated is what `helm template` says, object by object.
func templated(t *testing.T, archive string) map[string]templatedObject {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), helmBinary(t), "template", "x", archive, "--namespace", "ns",
		"--include-crds", "--skip-tests", "--kube-version", "1.33.0")
	cmd.Env = []string{
		"HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home,
		"PATH=" + os.Getenv("PATH"),
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	result := map[string]templatedObject{}
	for _, text := range regexp.MustCompile(`(?m)^---\s*$`).Split(string(out), -1) {
		objects, err := manifest.Decode([]byte(text), manifest.DefaultBudget())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if helm.HookOf(o.Annotation(helm.HookAnnotation)) >= helm.TestHook {
				continue
			}
			id := o.Identity()
			if id.Namespace == "" && manifest.BuiltinScope(manifest.GroupKind{
				Group: id.Group,
				Kind:  id.Kind,
			}) != manifest.ScopeCluster {
				o.SetNamespace("ns")
				id.Namespace = "ns"
			}
			canonical, err := manifest.Encode(o)
			if err != nil {
				t.Fatal(err)
			}
			result[id.String()] = templatedObject{strings.TrimSpace(text), string(canonical)}
		}
	}
	return result
}

// helmBinary builds the helm of the tools module.
func helmBinary(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = t.TempDir()
	}
	dir = filepath.Join(dir, "sluice-test", "helm")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../../tools", "-o", dir+"/helm",
		"helm.sh/helm/v3/cmd/helm").CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("%w\n%s", err, out))
	}
	return dir + "/helm"
}
