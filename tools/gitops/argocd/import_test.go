package argocd

import (
	"context"
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

	"github.com/argoproj/argo-cd/v3/applicationset/controllers/template"
	"github.com/argoproj/argo-cd/v3/applicationset/generators"
	"github.com/argoproj/argo-cd/v3/applicationset/utils"
	v1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/reposerver/apiclient"
	"github.com/argoproj/argo-cd/v3/reposerver/repository"
	"github.com/argoproj/argo-cd/v3/util/git"
	utilio "github.com/argoproj/argo-cd/v3/util/io"
	log "github.com/sirupsen/logrus"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	k8sfake "k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

var binary string

// TestMain builds sluice, and the helm and kustomize that Argo CD calls.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sluice-argocd")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "sluice")
		for _, args := range [][]string{
			{"build", "-C", "../../..", "-o", binary, "./cmd/sluice"},
			{"build", "-o", filepath.Join(dir, "helm"), "helm.sh/helm/v3/cmd/helm"},
			{"build", "-o", filepath.Join(dir, "kustomize"), "sigs.k8s.io/kustomize/kustomize/v5"},
		} {
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

const namespace = "argocd"

// repo answers the requests of git generators from a directory, as the repository server does.
type repo struct{ dir string }

// GetFiles implements services.Repos.
func (r repo) GetFiles(ctx context.Context, _, _, _, pattern string, _, _ bool) (map[string][]byte, error) {
	c := exec.CommandContext(ctx, "git", "ls-files", "--full-name", "-z", "--", pattern)
	c.Dir = r.dir
	out, err := c.Output()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		if files[name], err = os.ReadFile(filepath.Join(r.dir, name)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// GetDirectories implements services.Repos.
func (r repo) GetDirectories(_ context.Context, _, _, _ string, _, _ bool) ([]string, error) {
	var out []string
	err := filepath.WalkDir(r.dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir() || name == r.dir:
			return err
		case strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(r.dir, name)
		out = append(out, filepath.ToSlash(rel))
		return err
	})
	return out, err
}

// argo simulates Argo CD for one repository.
type argo struct {
	t        *testing.T
	dir      string
	url      string
	clusters map[string]string // name by server
	secrets  []corev1.Secret
	built    map[string]map[string]string // cluster/app → identity → object
	failed   map[string]error
}

// run generates and renders all Applications in files below argocd/, and the Applications that these create.
func run(t *testing.T, dir, url string, clusters map[string]string) *argo {
	t.Helper()
	a := &argo{t: t, dir: dir, url: url, clusters: clusters, built: map[string]map[string]string{}, failed: map[string]error{}}
	var all []*unstructured.Unstructured
	err := filepath.WalkDir(filepath.Join(dir, "argocd"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".yaml") {
			return err
		}
		data, err := os.ReadFile(name)
		all = append(all, decode(t, string(data))...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.GetKind() == "Secret" {
			var s corev1.Secret
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s); err != nil {
				t.Fatal(err)
			}
			s.Data = map[string][]byte{}
			for k, v := range s.StringData {
				s.Data[k] = []byte(v)
			}
			a.secrets = append(a.secrets, s)
		}
	}
	for len(all) > 0 {
		o := all[0]
		all = append(all[1:], a.object(o)...)
	}
	return a
}

// object renders an Application, or the Applications of an ApplicationSet, and returns the Applications among the
// rendered objects.
func (a *argo) object(o *unstructured.Unstructured) []*unstructured.Unstructured {
	switch o.GetKind() {
	case "Application":
		var app v1alpha1.Application
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &app); err != nil {
			a.t.Fatal(err)
		}
		return a.application(&app)
	case "ApplicationSet":
		data, err := json.Marshal(o.Object)
		if err != nil {
			a.t.Fatal(err)
		}
		var set v1alpha1.ApplicationSet
		if err := json.Unmarshal(data, &set); err != nil {
			a.t.Fatal(err)
		}
		var out []*unstructured.Unstructured
		for _, app := range a.generate(&set) {
			out = append(out, a.application(&app)...)
		}
		return out
	}
	return nil
}

func (a *argo) generate(set *v1alpha1.ApplicationSet) []v1alpha1.Application {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		a.t.Fatal(err)
	}
	set.Namespace = namespace
	project := &v1alpha1.AppProject{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(project)
	var objects []runtime.Object
	for i := range a.secrets {
		s := a.secrets[i].DeepCopy()
		s.Namespace = namespace
		builder = builder.WithObjects(s)
		objects = append(objects, s.DeepCopy())
	}
	all := generators.GetGenerators(a.t.Context(), builder.Build(), k8sfake.NewClientset(objects...), namespace, repo{a.dir}, nil, generators.SCMConfig{})
	apps, _, err := template.GenerateApplications(log.NewEntry(log.StandardLogger()), *set, all, &utils.Render{}, builder.Build())
	if err != nil {
		a.failed[set.Name] = err
	}
	return apps
}

func (a *argo) application(app *v1alpha1.Application) []*unstructured.Unstructured {
	cluster := app.Spec.Destination.Name
	if cluster == "" {
		cluster = a.clusters[app.Spec.Destination.Server]
	}
	name := cluster + "/" + app.Name
	objects, err := a.render(app)
	if err != nil {
		a.failed[name] = err
		return nil
	}
	built := map[string]string{}
	var children []*unstructured.Unstructured
	for _, o := range objects {
		if strings.HasPrefix(o.GetAPIVersion(), "argoproj.io/") && strings.HasPrefix(o.GetKind(), "Application") {
			children = append(children, o)
			continue
		}
		id, text := identity(a.t, o)
		built[id] = text
	}
	a.built[name] = built
	return children
}

// render does the same as the repository server with the sources of an Application.
func (a *argo) render(app *v1alpha1.Application) ([]*unstructured.Unstructured, error) {
	work := a.t.TempDir() // Argo CD edits kustomizations in place
	if err := os.CopyFS(work, os.DirFS(a.dir)); err != nil {
		return nil, err
	}
	refs := map[string]*v1alpha1.RefTarget{}
	for _, s := range app.Spec.GetSources() {
		if s.Ref != "" {
			refs["$"+s.Ref] = &v1alpha1.RefTarget{Repo: v1alpha1.Repository{Repo: s.RepoURL}, TargetRevision: s.TargetRevision}
		}
	}
	paths := utilio.NewRandomizedTempPaths(a.t.TempDir())
	paths.Add(git.NormalizeGitURL(a.url), work)
	var out []*unstructured.Unstructured
	for _, s := range app.Spec.GetSources() {
		if s.Ref != "" && s.Path == "" && s.Chart == "" {
			continue
		}
		if git.NormalizeGitURL(s.RepoURL) != git.NormalizeGitURL(a.url) {
			return nil, fmt.Errorf("%s is another repository", s.RepoURL)
		}
		response, err := repository.GenerateManifests(a.t.Context(), filepath.Join(work, s.Path), work, "revision", &apiclient.ManifestRequest{
			Repo: &v1alpha1.Repository{Repo: s.RepoURL}, AppName: app.Name, Namespace: app.Spec.Destination.Namespace, ApplicationSource: &s,
			NoCache: true, RefSources: refs, HasMultipleSources: app.Spec.HasMultipleSources(), ProjectName: app.Spec.Project, ProjectSourceRepos: []string{"*"},
		}, true, nil, resource.MustParse("0"), paths)
		if err != nil {
			return nil, err
		}
		for _, text := range response.Manifests {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON([]byte(text)); err != nil {
				return nil, err
			}
			out = append(out, u)
		}
	}
	return out, nil
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

// equal compares objects. Sluice writes the namespace of every namespaced object; Argo CD adds it when it applies
// them.
func equal(t *testing.T, unit string, theirs, ours map[string]string) int {
	t.Helper()
	same := 0
	left := maps.Clone(ours)
	for id, want := range theirs {
		got, ok := left[id]
		if ok {
			delete(left, id)
		} else {
			for other, text := range left {
				u := &unstructured.Unstructured{}
				if err := u.UnmarshalJSON([]byte(text)); err != nil {
					t.Fatal(err)
				}
				u.SetNamespace("")
				if plain, content := identity(t, u); plain == id {
					got, ok = content, true
					delete(left, other)
					break
				}
			}
		}
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
	"jsonnet-tla":       "Jsonnet is refused by name",
	"jsonnet-tla-cm":    "Jsonnet is refused by name",
	"ksonnet":           "its app.yaml is no Kubernetes object: it has no name",
	"helm-api-versions": "it prints the API versions that the helm command was compiled with",
}

// compare compares all Applications of a repository, and returns the numbers of equal Applications and objects.
func compare(t *testing.T, dir, url string, clusters map[string]string) (apps, objects int) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", "main", "."}, {"add", "-A"}} {
		c := exec.CommandContext(t.Context(), "git", args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git: %v\n%s", err, out)
		}
	}
	theirs := run(t, dir, url, clusters)
	ours := map[string]map[string]string{}
	for _, cluster := range slices.Sorted(maps.Values(clusters)) {
		for app, list := range rendered(t, dir, cluster) {
			ours[cluster+"/"+app] = list
		}
	}
	for name, want := range theirs.built {
		if refused[path.Base(name)] != "" {
			delete(ours, name)
			continue
		}
		apps, objects = apps+1, objects+equal(t, name, want, ours[name])
		delete(ours, name)
	}
	for name := range ours {
		t.Errorf("Sluice renders %s, Argo CD does not: %v", name, theirs.failed)
	}
	return apps, objects
}

const url = "https://git.example.com/acme/fleet"

// Compares small repositories, one for each field.
func TestImportFieldsEqualArgoCD(t *testing.T) {
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
		fixtures[at] += line
	}
	base, all := fixtures["base"], 0
	delete(fixtures, "base")
	for _, name := range slices.Sorted(maps.Keys(fixtures)) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range txtar.Parse([]byte(base + fixtures[name])).Files {
				full := filepath.Join(dir, f.Name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, f.Data, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			apps, objects := compare(t, dir, url, map[string]string{"https://kubernetes.default.svc": "in-cluster", "https://prod.example.com": "prod", "https://staging.example.com": "staging"})
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
		fmt.Fprintf(&all, "---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: %s, namespace: argocd}\nspec:\n  project: default\n  source: {repoURL: %s, path: %s}\n  destination: {server: https://kubernetes.default.svc, namespace: ns}\n", strings.ToLower(strings.ReplaceAll(e.Name(), "_", "-")), url, e.Name())
	}
	fleet := "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\nspec:\n  environments: [{name: in-cluster}]\n  import: [{argocd: {apps: [argocd/**], repositories: [\"" + url + "\"], clusters: {in-cluster: {server: https://kubernetes.default.svc, environment: in-cluster}}}}]\n"
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "argocd"), 0o755), os.WriteFile(filepath.Join(dir, "argocd/all.yaml"), []byte(strings.TrimPrefix(all.String(), "---\n")), 0o600),
		os.WriteFile(filepath.Join(dir, "sluice.yaml"), []byte(fleet), 0o600)); err != nil {
		t.Fatal(err)
	}
	apps, objects := compare(t, dir, url, map[string]string{"https://kubernetes.default.svc": "in-cluster"})
	t.Logf("%d Applications, %d objects compared", apps, objects)
	if apps < 78 || objects < 135 {
		t.Errorf("compared %d Applications and %d objects", apps, objects)
	}
}
