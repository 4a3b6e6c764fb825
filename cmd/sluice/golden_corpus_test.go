package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGoldenCorpus compares the branches of charts and repositories of others. Its golden files have names of targets
// and ids.
func TestGoldenCorpus(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	corpus := cmp.Or(os.Getenv("CORPUS"), "../../../shared/corpus")
	if _, err := os.Stat(corpus); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s does not exist: get the corpus of charts and repositories, or set CORPUS", corpus)
	}
	t.Run("Charts", func(t *testing.T) {
		t.Parallel()
		charts(newGoldenRepo(t), corpus)
	})
	t.Run("Roots", func(t *testing.T) {
		t.Parallel()
		roots(newGoldenRepo(t), corpus)
	})
	for dir, entry := range map[string]string{
		"flux/bjw-s--home-ops":                           "{flux: {clusters: {main: {path: kubernetes/main/flux, environment: all}}}, ignore: [IGNORE]}",
		"flux/onedr0p--home-ops":                         "{flux: {clusters: {main: {path: kubernetes/flux/cluster, environment: all}}}, ignore: [IGNORE]}",
		"kustomize/fluxcd--flux2-kustomize-helm-example": "{flux: {clusters: {production: {path: clusters/production, environment: all}, staging: {path: clusters/staging, environment: all}}}, ignore: [IGNORE]}",
		"kustomize/fluxcd--flux2-multi-tenancy":          "{flux: {clusters: {production: {path: clusters/production, environment: all}, staging: {path: clusters/staging, environment: all}}}, ignore: [IGNORE]}",
		"kustomize/giantswarm--gitops-template":          "{flux: {clusters: {mc: {path: management-clusters/MC_NAME, environment: all}}}, ignore: [IGNORE]}",
		"argocd/argoproj--argo-cd": `{argocd: {repositories: ["https://github.com/argoproj/argo-cd", "https://github.com/argoproj/argocd-example-apps"], clusters: {in-cluster: {server: "https://kubernetes.default.svc", environment: all},` +
			` dev: {server: "https://1.2.3.4", environment: all}, prod: {server: "https://2.4.6.8", environment: all}, other: {server: "https://9.8.7.6", environment: all}}}, ignore: [IGNORE]}`,
		"argocd/gitops-bridge-dev--gitops-bridge": `{argocd: {clusters: {in-cluster: {server: "https://kubernetes.default.svc", environment: all}}}, ignore: [IGNORE]}`,
		"argocd/redhat-appstudio--infra-deployments": `{argocd: {repositories: ["https://github.com/redhat-appstudio/infra-deployments"], clusters: {in-cluster: {server: "https://kubernetes.default.svc", environment: all},` +
			` local: {server: "https://kubernetes.default.svc", environment: all, labels: {argocd.argoproj.io/secret-type: cluster}}}}, ignore: [IGNORE]}`,
	} {
		t.Run(path.Base(dir), func(t *testing.T) {
			t.Parallel()
			if large := strings.Contains(dir, "infra-deployments") || strings.Contains(dir, "argo-cd"); large && os.Getenv("SLUICE_GOLDEN") != allCases {
				t.Skip("it takes minutes: run make test-thorough")
			}
			g := newGoldenRepo(t)
			g.folder(filepath.Join(corpus, dir), ".")
			if strings.HasSuffix(dir, "infra-deployments") { // it has placeholders of secrets in plain text
				g.write("policy/exemptions.yaml",
					"apiVersion: sluice.dev/v1alpha1\nkind: Exemption\nmetadata: {name: secrets}\n"+
						"spec: {rule: plaintext-secret, object: \"*\", reason: they are placeholders}\n")
			}
			ignore := map[string]bool{}
			g.untilRendered(func(failures []failure) {
				if len(failures) > 0 {
					files := g.origins()
					for _, f := range failures {
						if file := files[f.Cluster+"/"+f.App]; file != "" {
							ignore[file] = true
						}
					}
				}
				g.write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\n"+
					"spec: {environments: [{name: all}], policy: {enforce: false}, import: ["+
					strings.Replace(entry, "IGNORE", quoted(ignore), 1)+"]}\n")
			})
			g.compare()
		})
	}
}

// origins returns the file of the object that describes each imported target, by CLUSTER/APP.
func (g *goldenRepo) origins() map[string]string {
	g.t.Helper()
	text, failed := g.run("sluice", "import", "-q", "-o", "json")
	var units []struct{ Cluster, App, File string }
	if err := json.Unmarshal([]byte(text), &units); err != nil {
		g.t.Fatalf("%v\n%v", err, failed)
	}
	out := map[string]string{}
	for _, u := range units {
		out[u.Cluster+"/"+u.App] = u.File
	}
	return out
}

func quoted(set map[string]bool) string {
	var out []string
	for _, s := range slices.Sorted(maps.Keys(set)) {
		out = append(out, fmt.Sprintf("%q", s))
	}
	return strings.Join(out, ", ")
}

// untilRendered hydrates, and again without the targets that failed, because an environment with a failure is not
// written. leaveOut writes the fleet without them; its first call has none.
func (g *goldenRepo) untilRendered(leaveOut func([]failure)) {
	g.t.Helper()
	var failures []failure
	for range 8 {
		leaveOut(failures)
		g.commit("leave out what failed")
		before := g.record.Len()
		failures = g.hydrate()
		if len(failures) == 0 && g.git("branch", "--list", "env/*") == "" {
			g.t.Errorf("no branch was written:\n%s", g.record.String())
		}
		// or nothing of it can be rendered
		if len(failures) == 0 || bytes.Contains(g.record.Bytes()[before:], []byte(" 0 rendered,")) {
			return
		}
	}
	g.t.Errorf("%d targets still fail, such as %+v", len(failures), failures[0])
}

// The clusters that each chart and each Kustomize root is on. They differ in Kubernetes version, capabilities and
// variables.
const goldenClusters = `apiVersion: sluice.dev/v1alpha1
kind: Cluster
metadata: {name: one, labels: {region: eu}}
spec: {environment: all, kubeVersion: 1.31.4, vars: {replicas: 1}}
---
apiVersion: sluice.dev/v1alpha1
kind: Cluster
metadata: {name: two, labels: {region: eu}}
spec: {environment: all, kubeVersion: 1.33.2, apiVersions: [monitoring.coreos.com/v1, monitoring.coreos.com/v1/ServiceMonitor, gateway.networking.k8s.io/v1], vars: {replicas: 2}}
---
apiVersion: sluice.dev/v1alpha1
kind: Cluster
metadata: {name: three, labels: {region: us}}
spec: {environment: all, kubeVersion: 1.34.1, vars: {replicas: 3}}
`

const goldenFleet = "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: corpus}\nspec: {layers: [region, cluster], environments: [{name: all}], policy: {enforce: false}}\n"

// goldenValues has values for charts whose defaults do not render, or whose default output is random.
var goldenValues = map[string]string{
	"app-template": "controllers: {main: {containers: {main: {image: {repository: registry.example.com/web, tag: v1}}}}}\nservice: {main: {controller: main, ports: {http: {port: 8080}}}}\n",
	"grafana":      "admin: {existingSecret: grafana-admin}\n",
}

// charts has each chart of the corpus as an app on three clusters, with values of its own on each; the second commit
// changes a value.
func charts(g *goldenRepo, corpus string) {
	g.t.Helper()
	archives, err := filepath.Glob(filepath.Join(corpus, "charts", "*.tgz"))
	if err != nil || len(archives) == 0 {
		g.t.Fatalf("no charts in %s: %v", corpus, err)
	}
	g.write("sluice.yaml", goldenFleet)
	g.write("clusters/all.yaml", goldenClusters)
	g.write("layers/region/eu/values.yaml", "region: eu\n")
	for _, file := range archives {
		name := strings.TrimSuffix(filepath.Base(file), ".tgz")
		app := strings.ReplaceAll(name, ".", "-")
		chart := g.unpack(file, "charts/"+name)
		schema := "validate"
		if chart == "app-template" { // its schema refers to another document
			schema = "skip"
		}
		g.write("apps/"+app+"/app.yaml",
			fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: %s}\n"+
				"spec: {namespace: %[2]s, placement: {}, source: {helm: {path: charts/%[3]s/%[2]s, releaseName: %[2]s, includeCRDs: true, schema: %[4]s}}}\n", app, chart, name, schema))
		if values := goldenValues[chart]; values != "" {
			g.write("apps/"+app+"/layers/global/values.yaml", values)
		}
		if chart != "app-template" {
			g.write("apps/"+app+"/layers/cluster/two/values.yaml", "fullnameOverride: on-${cluster.name}\n")
			g.write("apps/"+app+"/layers/cluster/three/values.yaml", "nameOverride: third\n")
		}
		g.write("apps/"+app+"/layers/region/us/kustomization.yaml",
			"apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {example.com/region: us}\n")
	}
	for name, values := range map[string]string{
		"cert-manager-v1-21-1": "replicaCount: ${cluster.vars.replicas}\ncrds: {enabled: true}\nprometheus: {servicemonitor: {enabled: true}}\n",
		"ingress-nginx-4-15-1": "controller: {replicaCount: \"${cluster.vars.replicas}\", metrics: {enabled: true}}\n",
		"podinfo-6-14-1":       "replicaCount: ${cluster.vars.replicas}\nhpa: {enabled: true}\ningress: {enabled: true}\n",
		"traefik-41-3-0":       "deployment: {replicas: 2}\ningressClass: {isDefaultClass: false}\n",
		"argo-cd-10-1-1":       "dex: {enabled: false}\nserver: {replicas: 2}\n",
		"prometheus-29-27-0":   "alertmanager: {enabled: false}\nserver: {retention: 3d}\n",
		"metallb-0-16-1":       "speaker: {frr: {enabled: false}}\n",
		"app-template-4-1-1":   "controllers: {main: {replicas: 2}}\n",
	} {
		g.write("apps/"+name+"/layers/region/eu/values.yaml", values)
	}
	g.untilRendered(func(failures []failure) { g.withoutApps(failures) })
	g.write("layers/region/eu/values.yaml", "region: eu-2\n")
	g.replace("apps/podinfo-6-14-1/layers/region/eu/values.yaml", "hpa: {enabled: true}", "hpa: {enabled: false}")
	g.commit("change values of a region")
	g.hydrate()
	g.compare()
}

func (g *goldenRepo) withoutApps(failures []failure) {
	g.t.Helper()
	for _, f := range failures {
		if err := os.RemoveAll(filepath.Join(g.dir, "apps", f.App)); err != nil {
			g.t.Fatal(err)
		}
	}
}

// unpack unpacks a chart and returns its name.
func (g *goldenRepo) unpack(file, to string) string {
	g.t.Helper()
	f, err := os.Open(file)
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		g.t.Fatal(err)
	}
	name := ""
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return name
		}
		if err != nil {
			g.t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			g.t.Fatal(err)
		}
		name, _, _ = strings.Cut(h.Name, "/")
		g.write(to+"/"+h.Name, string(data))
	}
}

// roots has each Kustomize root of the repositories in corpus/kustomize as an app on three clusters; the second commit
// adds a patch.
func roots(g *goldenRepo, corpus string) {
	g.t.Helper()
	g.write("sluice.yaml", goldenFleet)
	g.write("clusters/all.yaml", goldenClusters)
	g.folder(filepath.Join(corpus, "kustomize"), "content")
	count := 0
	var apps []string
	err := fs.WalkDir(os.DirFS(filepath.Join(g.dir, "content")), ".",
		func(name string, _ fs.DirEntry, err error) error {
			if err != nil || path.Base(name) != "kustomization.yaml" {
				return err
			}
			count++
			app := fmt.Sprintf("root-%02d", count)
			apps = append(apps, app)
			g.write("apps/"+app+"/app.yaml",
				fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: %s}\n"+
					"spec: {namespace: %[1]s, placement: {}, source: {kustomize: {path: %q}}}\n", app,
					path.Join("content", path.Dir(name))))
			return nil
		})
	if err != nil || count == 0 {
		g.t.Fatalf("%d Kustomize roots: %v", count, err)
	}
	g.untilRendered(func(failures []failure) { g.withoutApps(failures) })
	for _, app := range apps {
		if _, err := os.Stat(filepath.Join(g.dir, "apps", app)); err == nil {
			g.write("apps/"+app+"/layers/cluster/two/kustomization.yaml",
				"apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {example.com/cluster: \"${cluster.name}\"}\n")
		}
	}
	g.commit("annotate on one cluster")
	g.hydrate()
	g.compare()
}
