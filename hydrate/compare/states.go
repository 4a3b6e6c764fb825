package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/objects"
)

// StatesRequest names two states of an environment branch.
type StatesRequest struct {
	Fleet         *fleet.Fleet
	Environment   string
	Before, After gitstore.Hash // trees of the branch; zero is an empty one
	Key           []byte        // of the fingerprints of masked secrets
	Most          int           // pairs of different trees that are read; 0 is 20,000
	MostBytes     int64         // of the files that are read; 0 is 64 MiB. Objects in memory take several times as much
	MostObjects   int           // of all targets that differ; 0 is 2,000,000
}

const (
	mostPairs   = 20_000
	mostBytes   = 64 << 20
	mostObjects = 2_000_000
)

// ErrTooMany classifies two states that differ by more than a request allows to read.
var ErrTooMany = errors.New("too many targets differ")

// Differ returns a function that compares two trees of an environment branch. It returns nil if more pairs of renderings
// differ than a limit, or more than States compares.
func Differ(h *hydrate.Hydrator, key []byte, most int) func(ctx context.Context, f *fleet.Fleet, environment string,
	before, after gitstore.Hash) (*diff.ChangeSet, error) {
	return func(ctx context.Context, f *fleet.Fleet, environment string, before, after gitstore.Hash) (*diff.ChangeSet,
		error,
	) {
		changes, _, err := States(ctx, h, StatesRequest{
			Fleet: f, Environment: environment,
			Before: before, After: after, Key: key, Most: most,
		})
		if errors.Is(err, ErrTooMany) {
			return nil, nil //nolint:nilnil // documented
		}
		return changes, err
	}
}

// States compares two states of an environment branch, as the branch holds them: it renders nothing. Notes name files
// that were not compared.
func States(ctx context.Context, h *hydrate.Hydrator, r StatesRequest) (changes *diff.ChangeSet, notes []string,
	err error,
) {
	r.Most, r.MostBytes, r.MostObjects = cmp.Or(r.Most, mostPairs), cmp.Or(r.MostBytes, mostBytes),
		cmp.Or(r.MostObjects, mostObjects)
	s := &states{
		request: r, store: h.Store, reads: NewReads(r.Fleet),
		reader: objects.NewReader(h.Store, diff.NewMasker(r.Key)), pairs: map[[2]gitstore.Hash]*objects.Difference{},
	}
	s.reader.LimitTo(r.MostBytes)
	var targets []diff.Target
	if err = s.find(ctx); err == nil {
		targets, err = s.targets(ctx)
	}
	if errors.Is(err, objects.ErrTooMuch) {
		const mebi = 20
		err = tooMany(fmt.Sprintf("more than %d MiB of files", r.MostBytes>>mebi))
	}
	if err != nil {
		return nil, nil, err
	}
	out := Rules(r.Fleet).Compare(targets, nil, []string{r.Environment}, s.reads.placedIn(r.Environment))
	out.Compared = s.compared
	return out, s.reader.Notes(), nil
}

func tooMany(what string) error {
	return fmt.Errorf("%w: %s; compare states that are closer, or use git diff", ErrTooMany, what)
}

type states struct {
	request  StatesRequest
	store    *gitstore.Store
	reads    *Reads
	reader   *objects.Reader
	compared int
	differ   []stateTarget
	pairs    map[[2]gitstore.Hash]*objects.Difference // of differ, by their trees
}

// stateTarget is a target whose trees differ.
type stateTarget struct {
	cluster, app string
	trees        [2]gitstore.Hash
}

// find lists the targets that differ, and learns the secrets of their trees before any object is read.
func (s *states) find(ctx context.Context) error {
	return eachTarget(ctx, s.store, [2]gitstore.Hash{s.request.Before, s.request.After}, false,
		func(cluster, app string, trees [2]gitstore.Hash) error {
			s.compared++
			if trees[0] == trees[1] {
				return nil
			}
			s.differ = append(s.differ, stateTarget{cluster, app, trees})
			if s.pairs[trees] != nil {
				return nil
			}
			if len(s.pairs) >= s.request.Most {
				return tooMany(fmt.Sprintf("more than %d pairs of renderings", s.request.Most))
			}
			d, err := s.reader.Compare(ctx, trees)
			s.pairs[trees] = d
			return err
		})
}

// readTree returns the entries of a tree.
type readTree func(ctx context.Context, tree gitstore.Hash) ([]gitstore.Entry, error)

// eachFolder calls do for the folders of two trees, by name. It leaves out Sluice's own, which begin with a dot.
func eachFolder(ctx context.Context, trees [2]gitstore.Hash, read readTree,
	do func(name string, trees [2]gitstore.Hash) error,
) error {
	both := map[string][2]gitstore.Hash{}
	for i, tree := range trees {
		if tree.IsZero() {
			continue
		}
		entries, err := read(ctx, tree)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Mode == gitstore.ModeTree && !strings.HasPrefix(e.Name, ".") {
				pair := both[e.Name]
				pair[i] = e.Hash
				both[e.Name] = pair
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if err := do(name, both[name]); err != nil {
			return err
		}
	}
	return nil
}

// targets reads the objects of the targets that differ.
func (s *states) targets(ctx context.Context) ([]diff.Target, error) {
	environment := s.request.Environment
	sync := s.reads.sync(environment)
	read := map[[2]gitstore.Hash][2][]diff.Object{} // targets with the same trees share them
	count := 0
	out := make([]diff.Target, 0, len(s.differ))
	for _, t := range s.differ {
		sides, ok := read[t.trees]
		if !ok {
			d := s.pairs[t.trees]
			for i, files := range [][]objects.File{d.Before, d.After} {
				list, err := s.reader.Read(ctx, t.cluster, t.app, files)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", path.Join(t.cluster, t.app), err)
				}
				sides[i] = plainObjects(list)
			}
			read[t.trees] = sides
		}
		if count += len(sides[0]) + len(sides[1]); count > s.request.MostObjects {
			return nil, tooMany(fmt.Sprintf("more than %d objects", s.request.MostObjects))
		}
		out = append(out, diff.Target{
			App: t.app, Cluster: t.cluster, Environment: environment, Sync: sync,
			Before: sides[0], After: sides[1],
			Facts: func() map[string]string { return s.reads.factsOf(t.cluster, t.app) },
		})
	}
	return out, nil
}
