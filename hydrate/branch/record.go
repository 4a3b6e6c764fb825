package branch

import (
	"context"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	yaml "sigs.k8s.io/yaml/goyaml.v2"
)

// Names of the files that an environment branch keeps about itself.
const (
	Dir             = ".sluice"
	environmentFile = "environment.yaml"
	kindsFile       = "kinds.yaml"
	inputsDir       = "inputs"
)

// Record is the content of .sluice/environment.yaml.
type Record struct {
	APIVersion  string `yaml:"apiVersion"`
	Kind        string `yaml:"kind"`
	Environment string `yaml:"environment"`
	Source      string `yaml:"source"`   // source commit
	Renderer    string `yaml:"renderer"` // epoch that the input digests were computed with
	Objects     int    `yaml:"objects"`
	// Apps maps an app to its source commit, for apps that were not rendered from Source.
	Apps map[string]string `yaml:"apps,omitempty"`
}

// Encode returns the record as canonical YAML.
func (r Record) Encode() ([]byte, error) {
	out := map[string]any{
		"apiVersion": fleet.APIVersion, "kind": "RenderedEnvironment", "environment": r.Environment, "source": r.Source,
		"renderer": r.Renderer, "objects": int64(r.Objects),
	}
	if len(r.Apps) > 0 {
		apps := map[string]any{}
		for app, commit := range r.Apps {
			apps[app] = commit
		}
		out["apps"] = apps
	}
	return manifest.Append(nil, out)
}

// Source names the source commit of an environment, and the source commits of the apps that have another one.
type Source struct {
	Commit string
	Apps   map[string]string // app → source commit
}

// Of returns the source commit of an app.
func (s Source) Of(app string) string {
	if c, ok := s.Apps[app]; ok {
		return c
	}
	return s.Commit
}

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

func parseScope(s string) manifest.Scope {
	if s == manifest.ScopeCluster.String() {
		return manifest.ScopeCluster
	}
	return manifest.ScopeNamespaced
}

// Inputs is the content of .sluice/inputs/<cluster>.yaml.
type Inputs struct {
	Apps map[string]string `yaml:"apps"` // app → input digest
	// Scopes maps an app to the custom kinds of its objects that the renderer left without a namespace. A change of
	// such a kind's scope changes the app's files.
	Scopes map[string][]string `yaml:"scopes,omitempty"`
}

// NewInputs returns empty inputs.
func NewInputs() Inputs { return Inputs{Apps: map[string]string{}, Scopes: map[string][]string{}} }

// Encode returns the inputs as canonical YAML.
func (in Inputs) Encode() ([]byte, error) {
	apps := map[string]any{}
	for app, digest := range in.Apps {
		apps[app] = digest
	}
	out := map[string]any{"apps": apps}
	scopes := map[string]any{}
	for app, list := range in.Scopes {
		if len(list) > 0 {
			scopes[app] = anyList(list)
		}
	}
	if len(scopes) > 0 {
		out["scopes"] = scopes
	}
	return manifest.Append(nil, out)
}

func anyList(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// ReadInputs reads the inputs of a cluster from a blob. The zero hash gives empty inputs.
func ReadInputs(ctx context.Context, store *gitstore.Store, blob gitstore.Hash) (Inputs, error) {
	in := NewInputs()
	if blob.IsZero() {
		return in, nil
	}
	data, err := store.Blob(ctx, blob)
	if err != nil {
		return in, err
	}
	if err := yaml.Unmarshal(data, &in); err != nil {
		return NewInputs(), nil //nolint:nilerr // damaged: no digest is known, so that every target is rendered
	}
	if in.Apps == nil {
		in.Apps = map[string]string{}
	}
	if in.Scopes == nil {
		in.Scopes = map[string][]string{}
	}
	return in, nil
}
