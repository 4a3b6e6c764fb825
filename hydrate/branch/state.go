package branch

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	yaml "sigs.k8s.io/yaml/goyaml.v2"
)

// State is what an environment branch, or one tree of it, holds.
type State struct {
	Branch   string
	Tip      gitstore.Commit // the zero Commit if the branch does not exist
	Record   Record
	Kinds    Kinds
	Clusters map[string]gitstore.Hash // cluster → its subtree
	Inputs   map[string]gitstore.Hash // cluster → blob of its inputs
	Foreign  string                   // why Sluice did not make the tip; "" if it did
}

// NewState returns the state of a branch that does not exist.
func NewState(branch string) *State {
	return &State{Branch: branch, Kinds: Kinds{}, Clusters: map[string]gitstore.Hash{}, Inputs: map[string]gitstore.Hash{}}
}

// Exists reports whether the branch exists.
func (s *State) Exists() bool { return !s.Tip.Hash.IsZero() }

// Source returns the source that the branch, or the tree, was rendered from. It is empty if the branch does not exist.
func (s *State) Source() Source { return s.Record.Runs() }

// ClusterNames returns the clusters that the branch holds, sorted.
func (s *State) ClusterNames() []string { return slices.Sorted(maps.Keys(s.Clusters)) }

// Clone returns a copy whose maps can be changed.
func (s *State) Clone() *State {
	out := *s
	out.Kinds, out.Clusters, out.Inputs = maps.Clone(s.Kinds), maps.Clone(s.Clusters), maps.Clone(s.Inputs)
	return &out
}

// ReadState reads an environment branch at a commit. The zero hash gives the state of a branch that does not exist.
func ReadState(ctx context.Context, store *gitstore.Store, branch string, tip gitstore.Hash) (*State, error) {
	if tip.IsZero() {
		return NewState(branch), nil
	}
	commit, err := store.Commit(ctx, tip)
	if err != nil {
		return nil, fmt.Errorf("branch %s: %w", branch, err)
	}
	s, err := ReadTree(ctx, store, commit.Tree)
	if err != nil {
		return nil, err
	}
	s.Branch, s.Tip = branch, commit
	if s.Record.Source == "" {
		s.Foreign = fmt.Sprintf("it has no readable %s/%s", Dir, environmentFile)
	} else if source := Trailer(s.Tip.Message, TrailerSource); source != s.Record.Source && !mergesPromotion(ctx, store, s) {
		s.Foreign = fmt.Sprintf("its commit %s by %s was not made by Sluice", s.Tip.Hash.Short(), s.Tip.Author.Name)
	}
	return s, nil
}

// mergesPromotion reports whether the tip is the forge's merge of a promotion's merge request: a merge of one commit of
// Sluice onto its parent, with an unchanged tree.
func mergesPromotion(ctx context.Context, store *gitstore.Store, s *State) bool {
	if len(s.Tip.Parents) != 2 {
		return false
	}
	merged, err := store.Commit(ctx, s.Tip.Parents[1])
	return err == nil && merged.Tree == s.Tip.Tree && Trailer(merged.Message, TrailerSource) == s.Record.Source &&
		len(merged.Parents) == 1 && merged.Parents[0] == s.Tip.Parents[0]
}

// ReadTree reads what a tree of an environment branch records. The state's Tip has the tree alone.
func ReadTree(ctx context.Context, store *gitstore.Store, tree gitstore.Hash) (*State, error) {
	s := NewState("")
	s.Tip.Tree = tree
	snap := store.Snapshot(ctx, tree)
	if err := readYAML(snap, path.Join(Dir, environmentFile), &s.Record); err != nil {
		s.Record = Record{}
	}
	raw := map[string]string{}
	if err := readYAML(snap, path.Join(Dir, kindsFile), &raw); err == nil {
		for kind, scope := range raw {
			s.Kinds[ParseKind(kind)] = parseScope(scope)
		}
	}
	entries, err := snap.Entries(".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Mode == gitstore.ModeTree && e.Name != Dir {
			s.Clusters[e.Name] = e.Hash
		}
	}
	if list, err := snap.Entries(path.Join(Dir, inputsDir)); err == nil {
		for _, e := range list {
			s.Inputs[strings.TrimSuffix(e.Name, ".yaml")] = e.Hash
		}
	}
	return s, nil
}

// ReadSource reads the source that a tree of an environment branch records. It is empty if the tree has no readable record.
func ReadSource(ctx context.Context, store *gitstore.Store, tree gitstore.Hash) Source {
	var r Record
	if err := readYAML(store.Snapshot(ctx, tree), path.Join(Dir, environmentFile), &r); err != nil {
		return Source{}
	}
	return r.Runs()
}

func readYAML(snap *gitstore.Snapshot, name string, into any) error {
	data, err := snap.ReadFile(name)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(data, into)
}
