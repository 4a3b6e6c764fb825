package argocd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	log "github.com/sirupsen/logrus"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/tools/gitops/argocd/argoref"
)

var binary, tools string // sluice, and the directory of sluice-reference-argocd

// TestMain builds sluice, and the helm and kustomize that Argo CD calls.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sluice-argocd")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary, tools = filepath.Join(dir, "sluice"), dir
		for _, args := range [][]string{
			{"build", "-C", "../../..", "-o", binary, "./cmd/sluice"},
			{"build", "-o", filepath.Join(dir, "helm"), fmt.Sprintf("helm.sh/helm/v%d/cmd/helm", argoref.Helm)},
			{"build", "-o", filepath.Join(dir, "kustomize"), "sigs.k8s.io/kustomize/kustomize/v5"},
			{"build", "-o", filepath.Join(dir, "sluice-reference-argocd"), "./sluice-reference-argocd"},
		} {
			if argoref.Helm == 3 && args[1] != "-C" { // the flags of this test are not those of its commands
				args = slices.Insert(args, 1, "-modfile=argocd-3.2.mod", "-tags=argocd32")
			}
			if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "go %s: %v\n%s", strings.Join(args, " "), err, out)
				return 1
			}
		}
		if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		log.SetLevel(log.PanicLevel)
		return m.Run()
	}())
}

func decode(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for doc := range strings.SplitSeq(text, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
	return out
}

func identity(t *testing.T, u *unstructured.Unstructured) (id, text string) {
	t.Helper()
	content, err := json.MarshalIndent(u.Object, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join([]string{u.GetAPIVersion(), u.GetKind(), u.GetNamespace(), u.GetName()}, "/"), string(content)
}

// rendered returns Sluice's rendering of a cluster, by app.
func rendered(t *testing.T, dir, cluster string) map[string]map[string]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	c := exec.CommandContext(t.Context(), binary, "render", "--cluster", cluster, "--out", out, "-q")
	c.Dir = dir
	c.Env = append(os.Environ(), "SLUICE_OFFLINE=1")
	if text, err := c.CombinedOutput(); err != nil {
		t.Logf("sluice render: %v\n%.2000s", err, text)
	}
	found := map[string]map[string]string{}
	err := filepath.WalkDir(out, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		app := path.Base(path.Dir(filepath.ToSlash(name)))
		if found[app] == nil {
			found[app] = map[string]string{}
		}
		for _, u := range decode(t, string(data)) {
			id, content := identity(t, u)
			found[app][id] = content
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return found
}

// equal compares objects. Sluice writes the namespace of every namespaced object; Argo CD adds that of the destination
// when it applies them.
func equal(t *testing.T, unit, namespace string, theirs, ours map[string]string) int {
	t.Helper()
	same := 0
	left := maps.Clone(ours)
	for id, want := range theirs {
		at := id
		got, ok := left[at]
		if parts := strings.Split(id, "/"); !ok && parts[len(parts)-2] == "" {
			parts[len(parts)-2] = namespace
			at = strings.Join(parts, "/")
			if text, placed := left[at]; placed {
				u := &unstructured.Unstructured{}
				if err := u.UnmarshalJSON([]byte(text)); err != nil {
					t.Fatal(err)
				}
				u.SetNamespace("")
				_, got = identity(t, u)
				ok = true
			}
		}
		delete(left, at)
		switch {
		case !ok:
			t.Errorf("%s: Argo CD makes %s, Sluice does not", unit, id)
		case got != want:
			t.Errorf("%s: %s: Sluice renders\n%s\nArgo CD makes\n%s", unit, id, got, want)
		default:
			same++
		}
	}
	for id := range left {
		t.Errorf("%s: Sluice renders %s, Argo CD does not make it", unit, id)
	}
	return same
}

// refused lists directories of the corpus that are not compared, with the reason.
var refused = map[string]string{
	"jsonnet-tla":            "Jsonnet is refused by name",
	"jsonnet-tla-cm":         "Jsonnet is refused by name",
	"ksonnet":                "its app.yaml is no Kubernetes object: it has no name",
	"helm-api-versions":      "it prints the API versions that the helm command was compiled with",
	"kustomize-api-versions": "as helm-api-versions does",
	"helm-kube-version":      "it prints the version of Kubernetes that the helm command was compiled with",
	"kustomize-kube-version": "as helm-kube-version does",
}

// compare compares all Applications of a repository, and returns the numbers of equal Applications and objects.
func compare(t *testing.T, dir, url string, clusters map[string]string) (apps, objects int) {
	t.Helper()
	initialize(t, dir)
	o := argoref.Options{
		Dir: dir, Apps: []string{"argocd/**"}, Repositories: []string{url},
		BuildOptions: "--enable-helm",
	}
	for _, server := range slices.Sorted(maps.Keys(clusters)) {
		o.Clusters = append(o.Clusters, argoref.Cluster{Name: clusters[server], Server: server})
	}
	theirs, err := argoref.Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]map[string]string{}
	for _, cluster := range slices.Sorted(maps.Values(clusters)) {
		for app, list := range rendered(t, dir, cluster) {
			ours[cluster+"/"+app] = list
		}
	}
	var failed []string
	for i := range theirs {
		a := &theirs[i]
		name := a.Cluster + "/" + a.Name
		switch {
		case a.Name == "": // the API server accepts no such Application
			continue
		case refused[a.Name] != "":
			delete(ours, name)
			continue
		case a.Err != nil || a.Skipped != "":
			failed = append(failed, fmt.Sprintf("%s: %v %s", name, a.Err, a.Skipped))
			continue
		}
		want := map[string]string{}
		for _, o := range a.Objects {
			id, text := identity(t, o)
			want[id] = text
		}
		apps, objects = apps+1, objects+equal(t, name, a.Namespace, want, ours[name])
		delete(ours, name)
	}
	for name := range ours {
		t.Errorf("Sluice renders %s, Argo CD does not: %s", name, strings.Join(failed, "; "))
	}
	return apps, objects
}

// initialize makes a Git repository of a directory.
func initialize(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", "main", "."}, {"add", "-A"}} {
		c := exec.CommandContext(t.Context(), "git", args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git: %v\n%s", err, out)
		}
	}
}

const url = "https://git.example.com/acme/fleet"

// sections reads the fixtures by name.
func sections(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/argocd.txt")
	if err != nil {
		t.Fatal(err)
	}
	fixtures, at := map[string]string{}, ""
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(line, "== "); ok {
			at = strings.TrimSpace(name)
			fixtures[at] = ""
			continue
		}
		fixtures[at] += strings.Replace(line, "VERSION", argoref.Version, 1)
	}
	return fixtures
}

func unpack(t *testing.T, dir, text string) {
	t.Helper()
	files := map[string]string{}
	for _, f := range txtar.Parse([]byte(text)).Files {
		files[f.Name] = string(f.Data)
	}
	write(t, dir, files)
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755),
			os.WriteFile(full, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// Compares small repositories, one for each field.
func TestImportFieldsEqualArgoCD(t *testing.T) {
	fixtures := sections(t)
	base, all := fixtures["base"], 0
	delete(fixtures, "base")
	for _, name := range slices.Sorted(maps.Keys(fixtures)) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, dir, base+fixtures[name])
			apps, objects := compare(t, dir, url, map[string]string{
				"https://kubernetes.default.svc": "in-cluster",
				"https://prod.example.com":       "prod", "https://staging.example.com": "staging",
			})
			if apps == 0 || objects == 0 {
				t.Errorf("compared %d Applications and %d objects", apps, objects)
			}
			all += objects
		})
	}
	t.Logf("%d fixtures, %d objects compared", len(fixtures), all)
	if len(fixtures) < 30 || all == 0 {
		t.Errorf("%d fixtures, %d objects compared", len(fixtures), all)
	}
}

// Compares the directories of Argo CD's own tests, each as the source of an Application.
func TestImportEqualsArgoCD(t *testing.T) {
	corpus := os.Getenv("CORPUS")
	if corpus == "" {
		corpus = "../../../../shared/corpus"
	}
	from := filepath.Join(corpus, "argocd/argoproj--argo-cd/test/e2e/testdata")
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Skip("the corpus of real repositories is not on this machine")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, e := range entries {
		if e.Name() == "kustomize-with-version-override" {
			continue // it asks for a Kustomize that an Argo CD may have installed and the reference has not: Sluice has one
		}
		fmt.Fprintf(&all, "---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: %s, namespace: argocd}\nspec:\n  project: default\n  source: {repoURL: %s, path: %s}\n  destination: {server: https://kubernetes.default.svc, namespace: ns}\n", strings.ToLower(strings.ReplaceAll(e.Name(), "_", "-")), url, e.Name())
	}
	fleet := "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\nspec:\n  environments: [{name: in-cluster}]\n  import: [{argocd: {version: " + argoref.Version + ", apps: [argocd/**], repositories: [\"" + url + "\"], kustomize: {buildOptions: --enable-helm}, clusters: {in-cluster: {server: https://kubernetes.default.svc, environment: in-cluster}}}}]\n"
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "argocd"), 0o755),
		os.WriteFile(filepath.Join(dir, "argocd/all.yaml"), []byte(strings.TrimPrefix(all.String(), "---\n")), 0o600),
		os.WriteFile(filepath.Join(dir, "sluice.yaml"), []byte(fleet), 0o600)); err != nil {
		t.Fatal(err)
	}
	apps, objects := compare(t, dir, url, map[string]string{"https://kubernetes.default.svc": "in-cluster"})
	t.Logf("%d Applications, %d objects compared", apps, objects)
	if apps < 78 || objects < 135 {
		t.Errorf("compared %d Applications and %d objects", apps, objects)
	}
}
