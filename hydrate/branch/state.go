package branch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/signers"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	yaml "sigs.k8s.io/yaml/goyaml.v2"
)

// State is the content of an environment branch, or of one tree of it.
type State struct {
	Branch   string
	Tip      gitstore.Commit // the zero Commit if the branch does not exist
	Record   Record
	Kinds    Kinds
	Clusters map[string]gitstore.Hash // cluster → its subtree
	Inputs   map[string]gitstore.Hash // cluster → blob with the inputs of the fleet's own apps
	Scoped   map[string]gitstore.Hash // workspace → folder with such a blob of its apps for each cluster
	Foreign  string                   // reason why Sluice did not make the tip; "" if it did
	Origin   Origin                   // of the tip

	order []string // the names of the clusters as the tree has them
}

// NewState returns the state of a branch that does not exist.
func NewState(branch string) *State {
	return &State{
		Branch: branch, Kinds: Kinds{}, Clusters: map[string]gitstore.Hash{},
		Inputs: map[string]gitstore.Hash{}, Scoped: map[string]gitstore.Hash{},
	}
}

// Exists reports whether the branch exists.
func (s *State) Exists() bool { return !s.Tip.Hash.IsZero() }

// Trailer returns a trailer of the commit that Sluice made, or "". If spec.signers does not allow the tip, it returns
// "", because anybody can write trailers.
func (s *State) Trailer(key string) string {
	if s.Origin.Unsigned != nil {
		return ""
	}
	return Trailer(s.Origin.Rendered.Message, key)
}

// Source returns the source that the branch, or the tree, was rendered from. It is empty if the branch does not exist.
func (s *State) Source() Source { return s.Record.Runs() }

// ClusterNames returns the clusters that the branch holds, sorted.
func (s *State) ClusterNames() []string { return slices.Sorted(maps.Keys(s.Clusters)) }

// Clone returns a copy whose maps can be changed.
func (s *State) Clone() *State {
	out := *s
	out.Kinds, out.Clusters, out.Inputs, out.Scoped = maps.Clone(s.Kinds), maps.Clone(s.Clusters), maps.Clone(s.Inputs),
		maps.Clone(s.Scoped)
	return &out
}

// ReadState reads a branch of an environment at a commit. The zero hash gives the state of a branch that does not
// exist. A commit of another environment is foreign. allowed is spec.signers of the trunk; if it is not empty, a tip
// that none of these signers signed is foreign, see Inspect.
func ReadState(ctx context.Context, store *gitstore.Store, branch, environment string, tip gitstore.Hash,
	allowed signers.List,
) (*State, error) {
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
	if s.Origin, err = inspect(ctx, store, commit, allowed); err != nil {
		return nil, fmt.Errorf("branch %s: %w", branch, err)
	}
	switch {
	case s.Foreign != "": // ReadTree could not parse a file
	case s.Origin.Foreign != "":
		s.Foreign = s.Origin.Foreign
	case s.Record.Source == "":
		s.Foreign = fmt.Sprintf("it has no %s/%s", Dir, environmentFile)
	case s.Trailer(TrailerSource) != s.Record.Source:
		s.Foreign = notMade(commit)
	case s.Record.Environment != environment:
		s.Origin.misplace(commit, "environment "+s.Record.Environment)
		s.Foreign = s.Origin.Foreign
	case s.Trailer(TrailerEnvironment) != environment:
		s.Origin.misplace(commit, "environment "+s.Trailer(TrailerEnvironment))
		s.Foreign = s.Origin.Foreign
	}
	return s, nil
}

// ReadTree reads the records in a tree of an environment branch. Of the state's Tip, only the tree is set. A missing
// file counts as empty. A file that cannot be parsed makes the state foreign, because Sluice did not write it. A file
// that cannot be read is an error.
func ReadTree(ctx context.Context, store *gitstore.Store, tree gitstore.Hash) (*State, error) {
	s := NewState("")
	s.Tip.Tree = tree
	snap := store.Snapshot(ctx, tree)
	kinds := map[string]string{}
	for name, into := range map[string]any{environmentFile: &s.Record, kindsFile: &kinds} {
		err := readYAML(snap, path.Join(Dir, name), into)
		if _, ok := errors.AsType[*parseError](err); ok {
			s.Foreign = "its " + err.Error()
		} else if err != nil {
			return nil, err
		}
	}
	if s.Foreign != "" {
		s.Record, kinds = Record{}, nil
	}
	s.Kinds = kindsOf(kinds)
	return s, s.readFolders(snap)
}

// readFolders lists the clusters and the files with their inputs.
func (s *State) readFolders(snap *gitstore.Snapshot) error {
	for dir, read := range map[string]func([]gitstore.Entry){
		".": func(entries []gitstore.Entry) {
			s.Clusters, s.order = make(map[string]gitstore.Hash, len(entries)), make([]string, 0, len(entries))
			for _, e := range entries {
				if e.Mode == gitstore.ModeTree && e.Name != Dir {
					s.Clusters[e.Name], s.order = e.Hash, append(s.order, e.Name)
				}
			}
		},
		path.Join(Dir, inputsDir): func(entries []gitstore.Entry) {
			s.Inputs = make(map[string]gitstore.Hash, len(entries))
			for _, e := range entries {
				s.Inputs[strings.TrimSuffix(e.Name, inputsSuffix)] = e.Hash
			}
		},
		path.Join(Dir, scopedDir): func(entries []gitstore.Entry) {
			for _, e := range entries {
				if e.Mode == gitstore.ModeTree {
					s.Scoped[e.Name] = e.Hash
				}
			}
		},
	} {
		entries, err := snap.Entries(dir)
		if err != nil && (dir == "." || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		read(entries)
	}
	return nil
}

// ReadSource reads the source from the record in a tree of an environment branch. It is empty if the record does not
// exist or cannot be parsed. A record that cannot be read is an error.
func ReadSource(ctx context.Context, store *gitstore.Store, tree gitstore.Hash) (Source, error) {
	var r Record
	err := readYAML(store.Snapshot(ctx, tree), path.Join(Dir, environmentFile), &r)
	if _, ok := errors.AsType[*parseError](err); ok {
		return Source{}, nil
	}
	return r.Runs(), err
}

// parseError is an existing file whose content Sluice did not write.
type parseError struct {
	file string
	err  error
}

func (e *parseError) Error() string { return fmt.Sprintf("%s cannot be parsed: %v", e.file, e.err) }

func (e *parseError) Unwrap() error { return e.err }

// readYAML decodes a file. A missing file leaves into unchanged.
func readYAML(snap *gitstore.Snapshot, name string, into any) error {
	data, err := snap.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, fs.ErrInvalid) { // a symbolic link or a folder
		return &parseError{name, err}
	}
	if err != nil {
		return err
	}
	if err := decode(data, into); err != nil {
		return &parseError{name, err}
	}
	return nil
}

// Limits of a file that an environment branch records: whoever can push to the branch writes it.
const (
	maxBytes = 16 << 20 // 10,000 clusters with a source and 20 apps of their own each have 14 MiB
	maxNodes = 2_000_000
	maxDepth = 20
)

// decode decodes a file of a branch within the limits. Sluice writes no aliases.
func decode(data []byte, into any) error {
	if err := manifest.Check(data, manifest.Budget{
		Bytes: maxBytes, Nodes: maxNodes, Expanded: maxBytes,
		Depth: maxDepth,
	}); err != nil {
		return err
	}
	return yaml.Unmarshal(data, into)
}
