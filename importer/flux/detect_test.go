package flux_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-gitops/sluice/importer/flux"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// importer reads the files of an archive.
func importer(t *testing.T, archive string) *flux.Importer {
	t.Helper()
	tree := fstest.MapFS{}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	i, err := flux.New(mapTree{tree}, kustomize.NewBuilder(manifest.DefaultBudget()).AnyFile())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// ks is a file with a Kustomization of this repository.
func ks(file, name, path string) string {
	return fmt.Sprintf("-- %s --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: %s, namespace: flux-system}\nspec: {interval: 1h, path: %q, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n", file, name, path)
}

const instance = `
apiVersion: fluxcd.controlplane.io/v1
kind: FluxInstance
metadata: {name: flux, namespace: flux-system}
spec:
  distribution: {version: 2.x, registry: ghcr.io/fluxcd}
  sync: {kind: GitRepository, url: "https://git.example.com/acme/fleet", ref: refs/heads/main, path: "./cluster"}
`

const instanceChart = `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: flux-instance, namespace: flux-system}
spec:
  interval: 1h
  chartRef: {kind: OCIRepository, name: flux-instance}
  values: {instance: {sync: {kind: GitRepository, url: "https://git.example.com/acme/fleet", ref: refs/heads/main, path: cluster}}}
`

// Every layout has the roots that Flux applies: those of FluxInstances, those that bootstrap set up, and those that
// nothing else reaches.
func TestRoots(t *testing.T) {
	t.Parallel()
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\n"
	const source = "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: flux-system, namespace: flux-system}\nspec: {interval: 1m, url: \"https://git.example.com/acme/fleet\", ref: {branch: main}}\n"
	apps := ks("cluster/ks.yaml", "apps", "./apps") + "-- apps/web/cm.yaml --\n" + object
	self := ks("apps/db/ks.yaml", "db", "./apps/db") + "-- apps/db/cm.yaml --\n" + object
	bases := ks("clusters/base/apps.yaml", "apps", "./apps") +
		"-- clusters/base/kustomization.yaml --\nresources: [apps.yaml]\n-- apps/cm.yaml --\n" + object
	for name, c := range map[string]struct{ files, want string }{
		"a FluxInstance": {"-- fi/fluxinstance.yaml --" + instance + apps, "cluster:cluster"},
		"an older API": {"-- fi/fluxinstance.yaml --" +
			strings.Replace(instance, "io/v1", "io/v1beta1", 1) + apps, "cluster:cluster"},
		"values of its chart":         {"-- apps/flux/release.yaml --" + instanceChart + apps, "cluster:cluster"},
		"a values file of its chart":  {"-- apps/flux/values.yaml --\ninstance: {sync: {url: \"https://git.example.com/acme/fleet\", path: cluster}}\n" + apps, "cluster:cluster"},
		"a ConfigMap with its values": {"-- apps/flux/values.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: values}\ndata:\n  values.yaml: |\n    instance:\n      sync: {path: cluster}\n" + apps, "cluster:cluster"},
		"a helmfile with its values":  {"-- bootstrap/helmfile.yaml --\nreleases:\n  - name: flux-instance\n    values: [values.yaml, {instance: {sync: {path: cluster}}}]\n" + apps, "cluster:cluster"},
		"an OCI repository": {"-- fi/fluxinstance.yaml --" +
			strings.ReplaceAll(strings.Replace(instance, "GitRepository", "OCIRepository", 1), "https://git",
				"oci://registry") + apps, "cluster:cluster"},
		"a bucket": {"-- fi/fluxinstance.yaml --" +
			strings.Replace(instance, "GitRepository", "Bucket", 1) + apps, "cluster:cluster"},
		"the whole repository": {"-- fi/fluxinstance.yaml --" +
			strings.Replace(instance, "./cluster", "./", 1) + apps, ".:."},
		"a variable in its path": {"-- fi/fluxinstance.yaml --" +
			strings.Replace(instance, "./cluster", "clusters/${NAME}", 1) + ks("clusters/a/ks.yaml", "apps", "./apps") +
			ks("clusters/b/ks.yaml", "apps", "./apps"), "a:clusters/a b:clusters/b"},
		"a path of another repository": {
			"-- fi/fluxinstance.yaml --" +
				strings.Replace(instance, "./cluster", "elsewhere", 1) + ks("clusters/prod/ks.yaml", "apps", "./apps"),
			"prod:clusters/prod",
		},
		"a folder's own Kustomization": {"-- fi/fluxinstance.yaml --" + instance + apps + self, "cluster:cluster"},
		"what is switched off": {"-- fi/fluxinstance.yaml --" + instance + apps +
			ks("apps/old/ks.yaml", "old", "./apps/old/app") +
			"-- apps/kustomization.yaml --\nresources: [web/cm.yaml]\n", "cluster:cluster"},
		"bootstrap": {ks("clusters/prod/flux-system/gotk-sync.yaml", "flux-system",
			"./clusters/prod") + ks("clusters/prod/apps.yaml", "apps", "./apps") + self, "prod:clusters/prod"},
		"bootstrap with a name": {ks("k8s/main/flux/sync.yaml", "cluster", "./k8s/main/flux") + source +
			ks("k8s/main/flux/apps.yaml", "apps", "./apps") + self, "main:k8s/main/flux"},
		"numbered clusters": {
			ks("clusters/prod/01/apps.yaml", "apps", "./apps") +
				ks("clusters/prod/02/apps.yaml", "apps", "./apps") + ks("clusters/dev/01/apps.yaml", "apps", "./apps"),
			"dev-01(dev):clusters/dev/01 prod-01(prod):clusters/prod/01 prod-02(prod):clusters/prod/02",
		},
		"numbered clusters with a base": {bases +
			"-- clusters/prod/01/kustomization.yaml --\nresources: [../../base]\n-- clusters/prod/02/kustomization.yaml --\nresources: [../../base]\n", "prod-01(prod):clusters/prod/01 prod-02(prod):clusters/prod/02"},
		"a base through another": {bases +
			"-- clusters/prod/base/kustomization.yaml --\nresources: [../../base]\n-- clusters/prod/eu/kustomization.yaml --\nresources: [../base]\n", "eu(prod):clusters/prod/eu"},
		"a folder of a cluster": {ks("clusters/prod/infrastructure/x.yaml", "x", "./x") +
			ks("clusters/prod/apps/y.yaml", "y", "./y"), "prod:clusters/prod"},
		"not set up in Git": {
			ks("k8s/flux/apps.yaml", "apps", "./k8s/apps") +
				ks("k8s/apps/web/ks.yaml", "web", "./k8s/apps/web/app") + ks("k8s/old/ks.yaml", "old", "./k8s/old/app"),
			"k8s:k8s/flux",
		},
		"its folder, made by hand": {ks("mc/ONE/ONE.yaml", "one", "./mc/ONE") +
			ks("mc/ONE/teams/kustomization/a.yaml", "a", "./mc/ONE/teams/a") +
			ks("mc/ONE/teams/a/b.yaml", "b", "./apps"), "one:mc/ONE"},
		"one Kustomization":   {ks("ks.yaml", "apps", "./apps") + "-- apps/cm.yaml --\n" + object, ".:."},
		"only a folder's own": {self, ""},
		"for another cluster": {strings.Replace(ks("clusters/hub/x.yaml", "x", "./clusters/edge"), "spec: {",
			"spec: {kubeConfig: {secretRef: {name: edge}}, ", 1) + ks("clusters/hub/y.yaml", "y", "./apps") +
			ks("clusters/edge/x.yaml", "x", "./apps"), "edge:clusters/edge hub:clusters/hub"},
		"a ResourceSet that reaches": {"-- fi/fluxinstance.yaml --" + instance +
			"-- cluster/set.yaml --\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: set, namespace: flux-system}\nspec:\n  resources:\n    - " + strings.ReplaceAll(strings.SplitAfterN(ks("x", "x", "./clusters/<< inputs.name >>"), "\n", 2)[1], "\n", "\n      ") + "\n" + ks("clusters/a/x.yaml", "x", "./apps"), "cluster:cluster"},
		"a patch of Kustomizations": {"-- fi/fluxinstance.yaml --" + instance + apps +
			"-- clusters/x/patch.yaml --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: _}\nspec: {path: ./x}\n", "cluster:cluster"},
		"a damaged file among the files": {"-- fi/fluxinstance.yaml --" + instance + apps +
			"-- broken.yaml --\nsync: instance: [\n", "cluster:cluster"},
	} {
		roots, err := importer(t, c.files).Detect()
		if err != nil {
			t.Errorf("%s: the error is %v", name, err)
			continue
		}
		var got []string
		for _, r := range roots {
			text := r.Cluster
			if r.Environment != "" {
				text += "(" + r.Environment + ")"
			}
			got = append(got, text+":"+r.Path)
			if r.Origin.File == "" || r.Origin.Line == 0 {
				t.Errorf("%s: %s has the origin %q, want a file with a line", name, r.Path, r.Origin)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: the roots are %q, want %q", name, got, c.want)
		}
	}
}

// The objects that are written in a commit are counted once each, without patches, generated ones and what is ignored.
func TestWritten(t *testing.T) {
	t.Parallel()
	files := ks("a.yaml", "a", "./a") +
		"---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web}\nspec: {chart: {}}\n" +
		"-- patch.yaml --\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web}\nspec: {values: {a: b}}\n" + ks("old/b.yaml", "b", "./b") +
		"-- config.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n-- broken.yaml --\na.toolkit.fluxcd.io/: [\n"
	i := importer(t, files)
	i.Ignore = func(name string) bool { return strings.HasPrefix(name, "old/") }
	list, err := i.Written()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(list), "[{Kustomization a a.yaml:1} {HelmRelease web a.yaml:6}]"; got != want {
		t.Errorf("the objects are %s, want %s", got, want)
	}
}
