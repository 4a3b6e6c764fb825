package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	kubeVersion = "1.33.2"
	apiVersion  = "monitoring.coreos.com/v1"
)

// variant is a set of values for the charts whose names begin with prefix. What names it on the page.
type variant struct{ prefix, what, values string }

// variants are further sets of values beside the defaults of each chart.
func variants() []variant {
	return []variant{
		{"app-template", "a Deployment and a Service", "controllers: {main: {containers: {main: {image: {repository: r.example.com/x, tag: \"1\"}}}}}\nservice: {main: {controller: main, ports: {http: {port: 80}}}}\n"},
		{"argo-cd", "Redis HA, an Ingress", "redis-ha: {enabled: true}\nserver: {ingress: {enabled: true}}\n"},
		{"cert-manager", "CRDs as templates, a ServiceMonitor", "crds: {enabled: true}\nprometheus: {servicemonitor: {enabled: true}}\n"},
		{"external-dns", "a provider, sources", "provider: {name: aws}\nsources: [service]\n"},
		{"grafana", "a fixed password, persistence, a sidecar", "adminPassword: fixed\npersistence: {enabled: true}\nsidecar: {dashboards: {enabled: true}}\n"},
		{"ingress-nginx", "a DaemonSet, metrics, a default backend", "controller: {kind: DaemonSet, metrics: {enabled: true, serviceMonitor: {enabled: true}}, admissionWebhooks: {enabled: false}}\ndefaultBackend: {enabled: true}\n"},
		{"metallb", "without FRR and CRDs", "speaker: {frr: {enabled: false}}\ncrds: {enabled: false}\n"},
		{"podinfo", "an Ingress, an HPA, null", "replicaCount: 3\ningress: {enabled: true}\nhpa: {enabled: true}\nresources: null\nservice: {annotations: {a: \"on\"}}\n"},
		{"prometheus-29", "a StatefulSet, null", "alertmanager: {enabled: false}\nprometheus-node-exporter: {hostNetwork: false, tolerations: null}\nserver: {replicaCount: 2, statefulSet: {enabled: true}}\n"},
		{"traefik", "a port deleted, a dashboard", "ports: {web: null}\ningressRoute: {dashboard: {enabled: true}}\n"},
	}
}

// chartCase is one chart with one set of values.
type chartCase struct {
	app, archive, source, id, values string
}

// chartFleet writes a fleet with an app for each case: every archive of the corpus with its defaults and with each of
// its variants.
func (r *run) chartFleet() (dir string, cases []chartCase, err error) {
	archives, err := filepath.Glob(filepath.Join(r.corpus, "charts", "*.tgz"))
	if err != nil || len(archives) == 0 {
		return "", nil, fmt.Errorf("no charts in %s: set CORPUS", r.corpus)
	}
	dir = filepath.Join(r.dir, "charts")
	files := map[string]string{
		"sluice.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: parity}\nspec: {environments: [{name: all}], policy: {enforce: false}, output: {namespaces: asRendered}}\n",
	}
	for _, v := range []int{3, 4} {
		files[fmt.Sprintf("clusters/helm%d.yaml", v)] = fmt.Sprintf(
			"apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: helm%d}\nspec: {environment: all, kubeVersion: %s, apiVersions: [%s], helm: %d}\n", v, kubeVersion, apiVersion, v)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tgz")
		data, err := os.ReadFile(archive)
		if err != nil {
			return "", nil, err
		}
		chart, err := unpack(data, filepath.Join(dir, "charts", name))
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", archive, err)
		}
		sum := sha256.Sum256(data)
		sets := []variant{{what: "its defaults"}}
		for _, v := range variants() {
			if strings.HasPrefix(name, v.prefix) {
				sets = append(sets, v)
			}
		}
		for i, set := range sets {
			c := chartCase{
				app: strings.ReplaceAll(name, ".", "-") + "-" + strconv.Itoa(i), archive: archive, values: set.values,
				source: strings.Replace(name, "-"+versionOf(name), " "+versionOf(name), 1) + ", " + set.what,
				id:     "sha256:" + hex.EncodeToString(sum[:])[:12],
			}
			schema := "validate"
			if skipsSchema(c) {
				schema = "skip"
			}
			files["apps/"+c.app+"/app.yaml"] = fmt.Sprintf(
				"apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: %s}\nspec: {namespace: ns, placement: {}, source: {helm: {path: charts/%s/%s, releaseName: rel, includeCRDs: true, schema: %s}}}\n", c.app, name, chart, schema)
			if set.values != "" {
				files["apps/"+c.app+"/layers/global/values.yaml"] = set.values
			}
			cases = append(cases, c)
		}
	}
	return dir, cases, write(dir, files)
}

// skipsSchema is true for a chart whose schema refers to documents on the network.
func skipsSchema(c chartCase) bool { return strings.HasPrefix(c.app, "app-template") && c.values != "" }

// versionOf returns the version at the end of the name of an archive.
func versionOf(name string) string { return name[strings.LastIndex(name, "-")+1:] }

// charts compares with `helm template` of a version of Helm.
func (r *run) charts(version int) (Part, error) {
	helm := filepath.Join(r.bin, "helm"+strconv.Itoa(version))
	if _, err := os.Stat(helm); err != nil {
		return Part{}, errNoTool
	}
	short, err := r.must(r.dir, helm, "version", "--template", "{{.Version}}")
	if err != nil {
		return Part{}, err
	}
	dir, cases, err := r.chartFleet()
	if err != nil {
		return Part{}, err
	}
	ours, err := r.rendered(dir, "helm"+strconv.Itoa(version))
	if err != nil {
		return Part{}, err
	}
	part := Part{
		Tool: "helm " + short,
		Call: "`helm template rel ARCHIVE --namespace ns --include-crds --kube-version " + kubeVersion + " --api-versions " + apiVersion + "`",
	}
	for _, c := range cases {
		row := Row{Source: c.source, ID: c.id}
		theirs, why, err := r.template(helm, c)
		if err != nil {
			return Part{}, err
		}
		refusal, refused := ours.refused[c.app]
		switch {
		case why != "" && refused:
			row.skip(1, known().of(why))
		case why != "":
			row.Units++
			row.Differences = append(row.Differences, Difference{"helm refuses it, Sluice renders it", known().of(why), 1})
		case refused:
			row.refuse("the chart", refusal)
		default:
			again, _, err := r.template(helm, c)
			if err != nil {
				return Part{}, err
			}
			row.compare("the chart", ours.objects[c.app], theirs, again)
		}
		part.Rows = append(part.Rows, row)
	}
	return part, nil
}

// template renders a case with helm, or returns why helm refuses it.
func (r *run) template(helm string, c chartCase) (objects, string, error) {
	args, err := r.templateArgs(c)
	if err != nil {
		return nil, "", err
	}
	out, err := r.command(r.dir, helm, args...)
	if failed(err) {
		return nil, out.stderr, nil
	}
	if err != nil {
		return nil, "", err
	}
	list, err := decode([]byte(out.stdout))
	return list, "", err
}

func (r *run) templateArgs(c chartCase) ([]string, error) {
	archive, err := filepath.Abs(c.archive)
	args := []string{
		"template", "rel", archive, "--namespace", "ns", "--include-crds", "--kube-version", kubeVersion,
		"--api-versions", apiVersion,
	}
	if skipsSchema(c) {
		args = append(args, "--skip-schema-validation")
	}
	if c.values != "" {
		file := filepath.Join(r.dir, c.app+".values.yaml")
		err = errors.Join(err, os.WriteFile(file, []byte(c.values), 0o644))
		args = append(args, "-f", file)
	}
	return args, err
}

// unpack writes the files of a packed chart and returns the name of its folder.
func unpack(archive []byte, to string) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return "", err
	}
	name := ""
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) {
			continue
		}
		data, err := io.ReadAll(files)
		if err != nil {
			return "", err
		}
		name, _, _ = strings.Cut(h.Name, "/")
		if err := write(to, map[string]string{h.Name: string(data)}); err != nil {
			return "", err
		}
	}
}

// write writes files below a directory.
func write(dir string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return nil
}
