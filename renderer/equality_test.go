package renderer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	sigsyaml "sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// corpus has real charts and Kustomize roots.
var corpus = cmp.Or(os.Getenv("CORPUS"), "../../shared/corpus")

// rivals builds helm and kustomize from the tools module, in the versions of the libraries.
func rivals(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = t.TempDir()
	}
	dir = filepath.Join(dir, "sluice-test", "rivals")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tool := range map[string]string{
		"helm3": "helm.sh/helm/v3/cmd/helm", "helm4": "helm.sh/helm/v4/cmd/helm",
		"kustomize": "sigs.k8s.io/kustomize/kustomize/v5",
	} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-C", "../tools", "-o", filepath.Join(dir, name), tool)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", tool, err, out)
		}
	}
	return dir
}

// process runs one of them without the user's settings.
func process(t *testing.T, name string, args ...string) ([]byte, error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" +
		home, "HELM_DATA_HOME=" + home}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	return out, nil
}

// keyed decodes a stream by identity. Helm accepts several objects of one identity; they are compared in order.
func keyed(t *testing.T, text []byte) map[string]manifest.Object {
	t.Helper()
	objects, err := manifest.Decode(text, manifest.DefaultBudget())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]manifest.Object{}
	for _, o := range objects {
		if helm.HookOf(o.Annotation(helm.HookAnnotation)) >= helm.TestHook && o.Kind() != "CustomResourceDefinition" {
			continue // test hooks; definitions in crds/ stay, whatever their annotations are
		}
		key := o.Identity().String()
		for n := 2; out[key] != nil && !reflect.DeepEqual(out[key], o); n++ { // Sluice merges equal ones
			key = fmt.Sprint(o.Identity(), " #", n)
		}
		out[key] = o
	}
	return out
}

// compareObjects masks non-deterministic fields and returns the number of compared objects.
func compareObjects(t *testing.T, got *Rendering, want map[string]manifest.Object) int {
	t.Helper()
	var text []byte
	for _, o := range got.Objects {
		text = append(append(text, "---\n"...), o.YAML...)
	}
	have := keyed(t, text)
	for _, f := range got.Unstable {
		for _, side := range []map[string]manifest.Object{have, want} {
			if o, ok := side[f.Object.String()]; ok && f.Path != nil {
				mask(map[string]any(o), f.Path)
			}
		}
	}
	for key, o := range want {
		if !reflect.DeepEqual(have[key], o) {
			t.Errorf("%s:\n%s\nshould be\n%s", key, asYAML(have[key]), asYAML(o))
		}
	}
	for key := range have {
		if want[key] == nil {
			t.Errorf("%s should not be there", key)
		}
	}
	return len(want)
}

func asYAML(o manifest.Object) []byte {
	out, err := manifest.Encode(o)
	if err != nil {
		return []byte(err.Error())
	}
	return out[:min(len(out), 1500)]
}

func mask(v any, path []string) {
	for _, key := range path[:len(path)-1] {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			var i int
			_, _ = fmt.Sscan(key, &i)
			v = x[i]
		}
	}
	switch x := v.(type) {
	case map[string]any:
		x[path[len(path)-1]] = "masked"
	case []any:
		var i int
		_, _ = fmt.Sscan(path[len(path)-1], &i)
		x[i] = "masked"
	}
}

type helmCase struct {
	name    string
	place   string // for the command line: an archive or a folder
	content Content
	deps    []Dependency
	values  string // YAML
	crds    bool
}

func helmCases(t *testing.T) []helmCase {
	t.Helper()
	var out []helmCase
	archives, err := filepath.Glob(corpus + "/charts/*.tgz")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range archives {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".tgz")
		content := Content{Name: name, Digest: name, Archive: data}
		for _, values := range corpusValues(name) {
			out = append(out, helmCase{name: name, place: file, content: content, values: values},
				helmCase{name: name + " crds", place: file, content: content, values: values, crds: true})
		}
	}
	for _, name := range []string{"umbrella", "plain"} {
		dir := "testdata/charts/" + name
		for _, values := range ownValues(name) {
			out = append(out, helmCase{name: name, place: dir, content: folder(t, dir), values: values, crds: true})
		}
	}
	return out
}

// corpusValues are further values files for rendering a real chart.
func corpusValues(name string) []string {
	if strings.HasPrefix(name, "app-template") {
		return []string{"controllers: {main: {containers: {main: {image: {repository: r.example.com/x, tag: \"1\"}}}}}\nservice: {main: {controller: main, ports: {http: {port: 80}}}}\n"}
	}
	out := []string{""}
	for prefix, values := range map[string]string{
		"podinfo":       "replicaCount: 3\ningress: {enabled: true}\nhpa: {enabled: true}\nresources: null\nservice: {annotations: {a: \"on\"}}\n",
		"ingress-nginx": "controller: {kind: DaemonSet, metrics: {enabled: true, serviceMonitor: {enabled: true}}, admissionWebhooks: {enabled: false}}\ndefaultBackend: {enabled: true}\n",
		"prometheus-29": "alertmanager: {enabled: false}\nprometheus-node-exporter: {hostNetwork: false, tolerations: null}\nserver: {replicaCount: 2, statefulSet: {enabled: true}}\n",
		"argo-cd":       "redis-ha: {enabled: true}\nserver: {ingress: {enabled: true}}\n",
		"grafana":       "adminPassword: fixed\npersistence: {enabled: true}\nsidecar: {dashboards: {enabled: true}}\n",
		"traefik":       "ports: {web: null}\ningressRoute: {dashboard: {enabled: true}}\n",
		"metallb":       "speaker: {frr: {enabled: false}}\ncrds: {enabled: false}\n",
		"cert-manager":  "crds: {enabled: true}\nprometheus: {servicemonitor: {enabled: true}}\n",
		"external-dns":  "provider: {name: aws}\nsources: [service]\n",
	} {
		if strings.HasPrefix(name, prefix) {
			out = append(out, values)
		}
	}
	return out
}

func ownValues(name string) []string {
	if name != "umbrella" {
		return []string{"", "list: [9]\ntext: \"12:30\"\n"}
	}
	return []string{
		"", "sub: {enabled: false}\n", "sub: {level: null, nested: {gone: null}}\nnested: {own: null}\n",
		"tags: {extra: true}\n",
		"second: {name: other}\nglobal: {colour: red}\n",
	}
}

// folder reads a chart's directory as Git would store it.
func folder(t *testing.T, dir string) Content {
	t.Helper()
	out := Content{Name: dir, Digest: dir}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out.Files = append(out.Files, File{filepath.ToSlash(rel), data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestChartsEqualHelmTemplate(t *testing.T) {
	bin := rivals(t)
	engine := NewEngine(DefaultLimits())
	var mu sync.Mutex
	charts, objects, refused := 0, 0, 0
	for _, c := range helmCases(t) {
		for _, version := range []int{3, 4} {
			t.Run(fmt.Sprint(c.name, " Helm ", version), func(t *testing.T) {
				args := []string{
					"template", "rel", c.place, "--namespace", "ns", "--kube-version", "1.33.2",
					"--api-versions", "monitoring.coreos.com/v1",
				}
				if c.crds {
					args = append(args, "--include-crds")
				}
				values := filepath.Join(t.TempDir(), "values.yaml")
				if err := os.WriteFile(values, []byte(c.values), 0o644); err != nil {
					t.Fatal(err)
				}
				want, wantErr := process(t, bin+"/helm"+strconv.Itoa(version), append(args, "-f", values)...)
				asJSON, err := sigsyaml.YAMLToJSON([]byte(c.values))
				if err != nil {
					t.Fatal(err)
				}
				if c.values == "" {
					asJSON = []byte("{}")
				}
				got, gotErr := engine.Render(t.Context(), &Bundle{
					Namespace: "ns", KubeVersion: "1.33.2", APIVersions: []string{"monitoring.coreos.com/v1"},
					Helm: version,
					Sources: []Source{{Helm: &HelmSource{
						Release: "rel", Chart: c.content, Dependencies: c.deps,
						Values: asJSON, IncludeCRDs: c.crds,
					}}},
				})
				if (wantErr == nil) != (gotErr == nil) {
					t.Fatalf("Helm: %v\nSluice: %v", wantErr, gotErr)
				}
				n := 0
				if wantErr != nil {
					refused++
				} else {
					n = compareObjects(t, got, keyed(t, want))
				}
				mu.Lock()
				defer mu.Unlock()
				charts++
				objects += n
			})
		}
	}
	t.Logf("%d renderings, %d objects compared with helm template; %d refused by both", charts, objects, refused)
	if charts == 0 || objects == 0 || refused > charts/10 {
		t.Fatal("nothing was compared")
	}
}

func TestRootsEqualKustomizeBuild(t *testing.T) {
	bin := rivals(t)
	roots := map[string]string{} // root → tree
	for _, tree := range []string{
		"../testdata/fleet/kustomize", "testdata/kustomize", corpus + "/kustomize/fluxcd--flux2-kustomize-helm-example",
		corpus + "/kustomize/fluxcd--flux2-multi-tenancy", corpus + "/kustomize/giantswarm--gitops-template",
	} {
		_ = filepath.WalkDir(tree, func(p string, d fs.DirEntry, err error) error {
			if err == nil && slices.Contains(kustomize.FileNames(), d.Name()) {
				roots[filepath.Dir(p)] = tree
			}
			return nil
		})
	}
	engine := NewEngine(DefaultLimits())
	compared, objects := 0, 0
	for root, tree := range roots {
		want, wantErr := process(t, bin+"/kustomize", "build", root)
		rel, err := filepath.Rel(tree, root)
		if err != nil {
			t.Fatal(err)
		}
		onDisk := diskTree(tree)
		names, gotErr := kustomize.NewWalker(onDisk, manifest.DefaultBudget()).Closure(filepath.ToSlash(rel))
		var got *Rendering
		if gotErr == nil {
			files := Content{Name: root, Digest: root, Files: []File{}}
			for _, name := range names {
				data, err := onDisk.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				files.Files = append(files.Files, File{name, data})
			}
			got, gotErr = engine.Render(t.Context(),
				&Bundle{Sources: []Source{{Kustomize: &KustomizeSource{Files: files, Root: filepath.ToSlash(rel)}}}})
		}
		if (wantErr == nil) != (gotErr == nil) {
			t.Errorf("%s: kustomize: %v\nSluice: %v", root, wantErr, gotErr)
			continue
		}
		if wantErr == nil {
			objects += compareObjects(t, got, keyed(t, want))
			compared++
		}
	}
	t.Logf("%d roots, %d objects compared with kustomize build", compared, objects)
	if compared == 0 || objects == 0 {
		t.Fatal("nothing was compared")
	}
}

// diskTree is a folder as a kustomize.Tree.
type diskTree string

func (d diskTree) ReadFile(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(d), filepath.FromSlash(name)))
}

func (d diskTree) Stat(name string) (fs.FileInfo, error) {
	return os.Lstat(filepath.Join(string(d), filepath.FromSlash(name)))
}

func TestComponentsEqualKustomizeOnHelm(t *testing.T) {
	bin := rivals(t)
	dir := t.TempDir()
	want, err := process(t, bin+"/helm", "template", "rel", "testdata/charts/plain", "--namespace", "ns",
		"--kube-version", "1.33.2")
	if err != nil {
		t.Fatal(err)
	}
	component := folder(t, "testdata/component")
	for name, data := range map[string][]byte{
		"all.yaml":           want,
		"kustomization.yaml": []byte("resources: [all.yaml]\ncomponents: [component]\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "component"), os.DirFS("testdata/component")); err != nil {
		t.Fatal(err)
	}
	if want, err = process(t, bin+"/kustomize", "build", dir); err != nil {
		t.Fatal(err)
	}
	values, _ := json.Marshal(map[string]any{})
	got, err := NewEngine(DefaultLimits()).Render(t.Context(), &Bundle{
		Namespace: "ns", KubeVersion: "1.33.2", Components: []Component{{Files: component}},
		Sources: []Source{{Helm: &HelmSource{
			Release: "rel", Chart: folder(t, "testdata/charts/plain"),
			Values: values,
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := compareObjects(t, got, keyed(t, want)); n == 0 {
		t.Fatal("nothing was compared")
	}
}
