package importer

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer/flux"
)

// Detect implements fleet.Importer: it writes a sluice.yaml that imports every cluster it finds, each in an environment
// of its own.
func (i *Importer) Detect(ctx context.Context, tree fleet.Tree) ([]byte, error) {
	importer, err := flux.New(tree, i.builder)
	if err != nil {
		return nil, err
	}
	importer.Memory = i.memory
	roots, err := importer.Detect()
	if err != nil {
		return nil, err
	}
	found := detected{}
	found.flux, found.fluxVersions = fluxClusters(roots)
	if len(found.flux) == 0 { // Argo CD's examples and leftovers in a Flux repository are no clusters
		if err = i.detectArgoCD(ctx, tree, &found); err != nil {
			return nil, err
		}
	}
	if len(found.flux) == 0 && found.argocd == nil {
		return nil, nil
	}
	return found.fleet(tree)
}

// detected is what a repository without sluice.yaml describes.
type detected struct {
	flux          map[string]fleet.ImportedCluster // by name
	fluxVersions  map[string]toolVersion           // by cluster
	argocd        *fleet.ArgoCDImport              // nil if there are clusters of Flux
	argocdVersion toolVersion
	note          string // a comment of the file
}

// fluxClusters names clusters, and gives the version of Flux on each. Those that would share a name get their path in
// it. Each is in an environment of its own, unless its path names one that several clusters can share.
func fluxClusters(roots []flux.Root) (map[string]fleet.ImportedCluster, map[string]toolVersion) {
	named := map[string]int{}
	for _, r := range roots {
		named[r.Cluster]++
	}
	clusters, versions := map[string]fleet.ImportedCluster{}, map[string]toolVersion{}
	for _, r := range roots {
		name := r.Cluster
		if named[name] > 1 {
			name = strings.ReplaceAll(r.Path, "/", "-")
			if r.Environment != "" {
				name = r.Environment + "-" + r.Cluster
			}
		}
		name = freeName(clusters, name)
		environment := name
		if fleet.ValidName(r.Environment) {
			environment = r.Environment
		}
		clusters[name] = fleet.ImportedCluster{Path: r.Path, Environment: environment}
		var seen []evidence
		for _, one := range r.Installed {
			seen = append(seen, evidence{version: one.Version, at: one.Origin.String()})
		}
		versions[name] = versionFrom(seen, newestFlux)
	}
	return clusters, versions
}

// invalid are the characters that the name of a cluster cannot have, and runs of others that it cannot have.
var invalid = regexp.MustCompile(`[^a-z0-9.-]+|\.\.+`)

// freeName makes a name that a cluster can have, and that none has. A name that is both stays.
func freeName[C any](clusters map[string]C, name string) string {
	if _, taken := clusters[name]; !taken && fleet.ValidName(name) {
		return name
	}
	name = invalid.ReplaceAllString(strings.ToLower(name), "-")
	name = strings.Trim(name[max(0, len(name)-maxClusterName):], "-.") // the end of a path or an address says more
	if !fleet.ValidName(name) {
		name = strings.Trim("cluster-"+strings.ReplaceAll(name, ".", "-"), "-")
	}
	out := name
	for n := 2; ; n++ {
		if _, taken := clusters[out]; !taken {
			return out
		}
		out = fmt.Sprintf("%s-%d", name, n)
	}
}

// maxClusterName leaves room for what freeName adds.
const maxClusterName = 50

// fleet writes sluice.yaml. Every cluster without a file of capabilities has the newest version of Kubernetes that
// Sluice knows, since charts must see some version.
func (d detected) fleet(tree fs.FS) ([]byte, error) {
	version := func(name string) string {
		if _, err := fs.Stat(tree, fleet.CapabilitiesFile(name)); err == nil {
			return ""
		}
		return fleet.NewestKubeVersion
	}
	for name, c := range d.flux {
		c.KubeVersion = version(name)
		d.flux[name] = c
	}
	if d.argocd != nil {
		for name, c := range d.argocd.Clusters {
			c.KubeVersion = version(name)
			d.argocd.Clusters[name] = c
		}
	}
	sync, entries := "flux", d.fluxEntries()
	var environments []string
	for _, c := range d.flux {
		environments = append(environments, c.Environment)
	}
	slices.Sort(environments)
	environments = slices.Compact(environments)
	if len(d.flux) == 0 {
		d.argocd.Version = d.argocdVersion.version
		sync, entries = "argocd", []any{map[string]any{"argocd": d.argocd}}
		environments = slices.Sorted(maps.Keys(d.argocd.Clusters))
	}
	out, err := yaml.Marshal(map[string]any{
		"apiVersion": fleet.APIVersion, "kind": "Fleet", "metadata": map[string]any{"name": "fleet"},
		"spec": map[string]any{"sync": sync, "environments": names(environments), "import": entries},
	})
	if err != nil {
		return nil, fmt.Errorf("writing sluice.yaml: %w", err)
	}
	out = bytes.ReplaceAll(out, []byte(guessedVersion), []byte(guessedVersion+guess))
	out = d.argocdVersion.comment(out)
	for _, name := range slices.Sorted(maps.Keys(d.fluxVersions)) {
		out = d.fluxVersions[name].comment(out)
	}
	return append([]byte(d.note), out...), nil
}

const (
	guessedVersion = "kubeVersion: " + fleet.NewestKubeVersion
	guess          = " # a guess: write what `kubectl version` prints as the server's version, or see `sluice capabilities`"
)

// WithTrunk returns a sluice.yaml that Detect wrote, with the name of the trunk, unless that is the default.
func WithTrunk(text []byte, trunk string) []byte {
	if trunk == "" || trunk == fleet.DefaultTrunk {
		return text
	}
	quoted, err := yaml.Marshal(trunk)
	if err != nil {
		return text // not possible: it is a string
	}
	return append(bytes.TrimRight(text, "\n"), fmt.Sprintf("\n  trunk: %s", quoted)...) // spec is the last key
}

// WithKubeVersion returns a sluice.yaml that Detect wrote, with a version in place of those that it guessed.
func WithKubeVersion(text []byte, version string) []byte {
	return bytes.ReplaceAll(text, []byte(guessedVersion+guess), []byte("kubeVersion: "+version))
}

func names(environments []string) []map[string]any {
	out := make([]map[string]any, len(environments))
	for i, name := range environments {
		out[i] = map[string]any{"name": name}
	}
	return out
}
