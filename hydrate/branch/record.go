package branch

import (
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/rollout"
)

// Files that record the state of an environment branch.
const (
	Dir             = ".sluice"
	environmentFile = "environment.yaml"
	kindsFile       = "kinds.yaml"
	inputsDir       = "inputs"     // a file for each cluster, with the fleet's own apps
	scopedDir       = "workspaces" // a folder for each workspace, with a file for each cluster
)

// Record is the content of .sluice/environment.yaml.
type Record struct {
	APIVersion  string `yaml:"apiVersion"`
	Kind        string `yaml:"kind"`
	Environment string `yaml:"environment"`
	Source      string `yaml:"source"`   // source commit
	Renderer    string `yaml:"renderer"` // source.Epoch that the input digests were computed with
	Objects     int    `yaml:"objects"`
	// Apps maps an app to its source commit, for apps that were not rendered from Source.
	Apps map[string]string `yaml:"apps,omitempty"`
	// Clusters replaces Source and Apps for clusters that run something else.
	Clusters map[string]ClusterRecord `yaml:"clusters,omitempty"`
}

// ClusterRecord records the source commits of one cluster's tree.
type ClusterRecord struct {
	Source string            `yaml:"source"`
	Apps   map[string]string `yaml:"apps,omitempty"`
}

// RecordOf returns the record for a source.
func RecordOf(environment string, source Source, renderer string, objects int) Record {
	out := Record{
		Environment: environment, Source: source.Commit, Renderer: renderer, Objects: objects,
		Apps: source.Apps,
	}
	for name, c := range source.Clusters {
		if out.Clusters == nil {
			out.Clusters = map[string]ClusterRecord{}
		}
		out.Clusters[name] = ClusterRecord{Source: c.Commit, Apps: c.Apps}
	}
	return out
}

// Runs returns the source that the record names.
func (r Record) Runs() Source {
	out := Source{Commit: r.Source, Apps: r.Apps}
	for name, c := range r.Clusters {
		if out.Clusters == nil {
			out.Clusters = map[string]rollout.ClusterSource{}
		}
		out.Clusters[name] = rollout.ClusterSource{Commit: c.Source, Apps: c.Apps}
	}
	return out
}

// Encode returns the record as canonical YAML.
func (r Record) Encode() ([]byte, error) {
	out := map[string]any{
		"apiVersion": fleet.APIVersion, "kind": "RenderedEnvironment", "environment": r.Environment, "source": r.Source,
		"renderer": r.Renderer, "objects": int64(r.Objects),
	}
	if len(r.Apps) > 0 {
		out["apps"] = anyMap(r.Apps)
	}
	if len(r.Clusters) > 0 {
		clusters := map[string]any{}
		for name, c := range r.Clusters {
			one := map[string]any{"source": c.Source}
			if len(c.Apps) > 0 {
				one["apps"] = anyMap(c.Apps)
			}
			clusters[name] = one
		}
		out["clusters"] = clusters
	}
	return manifest.Append(nil, out)
}

func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// Source names the source commit of each app of an environment.
type Source = rollout.Source

// Kinds maps each custom kind that an environment's CustomResourceDefinitions define to its scope.
type Kinds map[manifest.GroupKind]manifest.Scope

// Encode returns the kinds as canonical YAML.
func (k Kinds) Encode() ([]byte, error) {
	out := map[string]any{}
	for kind, scope := range k {
		out[kind.String()] = scope.String()
	}
	return manifest.Append(nil, out)
}

// Differing returns the kinds whose scope differs between k and other.
func (k Kinds) Differing(other Kinds) map[string]bool {
	out := map[string]bool{}
	for kind, scope := range k {
		if other[kind] != scope {
			out[kind.String()] = true
		}
	}
	for kind, scope := range other {
		if k[kind] != scope {
			out[kind.String()] = true
		}
	}
	return out
}

// ParseKind parses the form that GroupKind.String returns.
func ParseKind(s string) manifest.GroupKind {
	kind, group, _ := strings.Cut(s, ".")
	return manifest.GroupKind{Group: group, Kind: kind}
}

// kindsOf parses the content of .sluice/kinds.yaml.
func kindsOf(text map[string]string) Kinds {
	out := Kinds{}
	for kind, scope := range text {
		out[ParseKind(kind)] = parseScope(scope)
	}
	return out
}

func parseScope(s string) manifest.Scope {
	if s == manifest.ScopeCluster.String() {
		return manifest.ScopeCluster
	}
	return manifest.ScopeNamespaced
}
