package hydrate

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	yaml "sigs.k8s.io/yaml/goyaml.v2"
)

// Where an environment branch keeps its own record.
const (
	recordDir       = ".sluice"
	environmentFile = "environment.yaml"
	kindsFile       = "kinds.yaml"
	inputsDir       = "inputs"
)

// Trailers of rendered commits.
const (
	TrailerSource      = "Sluice-Source"
	TrailerEnvironment = "Sluice-Environment"
	TrailerVersion     = "Sluice-Version"
)

// record is .sluice/environment.yaml: what the branch was rendered from.
type record struct {
	APIVersion  string `yaml:"apiVersion"`
	Kind        string `yaml:"kind"`
	Environment string `yaml:"environment"`
	Source      string `yaml:"source"`   // commit
	Renderer    string `yaml:"renderer"` // epoch of the digests
	Objects     int    `yaml:"objects"`
	// Apps are those whose source commit is another one.
	Apps map[string]string `yaml:"apps,omitempty"`
}

// kinds are the scopes of the custom kinds that an environment's CustomResourceDefinitions define.
type kinds map[manifest.GroupKind]manifest.Scope

// inputs is .sluice/inputs/<cluster>.yaml.
type inputs struct {
	Apps   map[string]string   `yaml:"apps"`             // app → input digest
	Scopes map[string][]string `yaml:"scopes,omitempty"` // app → custom kinds of objects that it renders without a namespace
}

// state is what an environment branch holds.
type state struct {
	branch   string
	tip      gitstore.Commit // zero if there is no branch
	record   record
	kinds    kinds
	clusters map[string]gitstore.Hash // cluster → its subtree
	inputs   map[string]gitstore.Hash // cluster → blob of its inputs
	foreign  string                   // why the tip is not Sluice's own work
}

func (s *state) exists() bool { return !s.tip.Hash.IsZero() }

// merges says that the tip is the forge's merge of a promotion request: a merge of a commit of ours that changes nothing of it.
func (h *Hydrator) merges(ctx context.Context, s *state) bool {
	if len(s.tip.Parents) != 2 {
		return false
	}
	ours, err := h.store.Commit(ctx, s.tip.Parents[1])
	return err == nil && ours.Tree == s.tip.Tree && trailer(ours.Message, TrailerSource) == s.record.Source && len(ours.Parents) == 1 && ours.Parents[0] == s.tip.Parents[0]
}

// readState reads an environment branch.
func (h *Hydrator) readState(ctx context.Context, branch string, tip gitstore.Hash) (*state, error) {
	s := &state{branch: branch, kinds: kinds{}, clusters: map[string]gitstore.Hash{}, inputs: map[string]gitstore.Hash{}}
	if tip.IsZero() {
		return s, nil
	}
	var err error
	if s.tip, err = h.store.Commit(ctx, tip); err != nil {
		return nil, fmt.Errorf("branch %s: %w", branch, err)
	}
	if err := h.readTree(ctx, s, s.tip.Tree); err != nil {
		return nil, err
	}
	if s.record.Source == "" {
		s.foreign = fmt.Sprintf("it has no readable %s/%s", recordDir, environmentFile)
	} else if source := trailer(s.tip.Message, TrailerSource); source != s.record.Source && !h.merges(ctx, s) {
		s.foreign = fmt.Sprintf("its commit %s by %s was not made by Sluice", s.tip.Hash.Short(), s.tip.Author.Name)
	}
	return s, nil
}

// readTree reads what an environment's tree says.
func (h *Hydrator) readTree(ctx context.Context, s *state, tree gitstore.Hash) error {
	snap := h.store.Snapshot(ctx, tree)
	if err := readYAML(snap, path.Join(recordDir, environmentFile), &s.record); err != nil {
		s.record = record{}
	}
	raw := map[string]string{}
	if err := readYAML(snap, path.Join(recordDir, kindsFile), &raw); err == nil {
		for kind, scope := range raw {
			s.kinds[parseKind(kind)] = parseScope(scope)
		}
	}
	entries, err := snap.Entries(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Mode == gitstore.ModeTree && e.Name != recordDir {
			s.clusters[e.Name] = e.Hash
		}
	}
	if list, err := snap.Entries(path.Join(recordDir, inputsDir)); err == nil {
		for _, e := range list {
			s.inputs[strings.TrimSuffix(e.Name, ".yaml")] = e.Hash
		}
	}
	return nil
}

func trailer(message, key string) string {
	for _, t := range gitstore.Trailers(message) {
		if t.Key == key {
			return t.Value
		}
	}
	return ""
}

func readYAML(snap *gitstore.Snapshot, name string, into any) error {
	data, err := snap.ReadFile(name)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(data, into)
}

func (h *Hydrator) readInputs(ctx context.Context, blob gitstore.Hash) (inputs, error) {
	in := inputs{Apps: map[string]string{}, Scopes: map[string][]string{}}
	if blob.IsZero() {
		return in, nil
	}
	data, err := h.store.Blob(ctx, blob)
	if err != nil {
		return in, err
	}
	if err := yaml.Unmarshal(data, &in); err != nil {
		return inputs{Apps: map[string]string{}, Scopes: map[string][]string{}}, nil //nolint:nilerr // damaged: nothing is known, all is rendered
	}
	if in.Apps == nil {
		in.Apps = map[string]string{}
	}
	if in.Scopes == nil {
		in.Scopes = map[string][]string{}
	}
	return in, nil
}

func (in inputs) encode() ([]byte, error) {
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

func (r record) encode() ([]byte, error) {
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

func (k kinds) encode() ([]byte, error) {
	out := map[string]any{}
	for kind, scope := range k {
		out[kind.String()] = scope.String()
	}
	return manifest.Append(nil, out)
}

// differing are the kinds whose scope is another in b.
func (k kinds) differing(b kinds) map[string]bool {
	out := map[string]bool{}
	for kind, scope := range k {
		if b[kind] != scope {
			out[kind.String()] = true
		}
	}
	for kind, scope := range b {
		if k[kind] != scope {
			out[kind.String()] = true
		}
	}
	return out
}

func parseKind(s string) manifest.GroupKind {
	kind, group, _ := strings.Cut(s, ".")
	return manifest.GroupKind{Group: group, Kind: kind}
}

func parseScope(s string) manifest.Scope {
	if s == manifest.ScopeCluster.String() {
		return manifest.ScopeCluster
	}
	return manifest.ScopeNamespaced
}

// clusterNames are the clusters that the branch holds, in order.
func (s *state) clusterNames() []string { return slices.Sorted(maps.Keys(s.clusters)) }
