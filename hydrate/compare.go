package hydrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// CompareRequest says which two states to compare. After is a commit. Before is another commit, or what environment
// branches hold, or nothing.
type CompareRequest struct {
	Base         gitstore.Commit // zero: Environments' branches, or nothing
	Head         gitstore.Commit
	Environments []string // without Base, which ones; with it, none means all
	Apps         []string // none means all
	Without      []string // apps that are left out
	Against      Against
	Key          []byte // of the masks' fingerprints
	Preview      *Preview
}

// Against says what a commit is compared with.
type Against string

// What a commit can be compared with.
const (
	AgainstCommit   Against = ""         // Base
	AgainstBranches Against = "branches" // what the environments' branches hold
	AgainstNothing  Against = "nothing"  // everything is new: the whole environments
)

// Comparison is what comes out.
type Comparison struct {
	Base, Head string // source commits; Base is "" without one
	Targets    []ComparedTarget
	Changes    *diff.ChangeSet
	Warnings   fleet.Problems
	Notes      []string
	Rendered   int // targets, both sides together
	Frozen     int // targets of frozen clusters, which the change does not reach
	Mask       *diff.Masker
	Preview    *PreviewResult // nil if none was asked for

	run *comparison
}

// Close gives back what was rendered: after it, Beside has nothing more to tell. The comparison itself stays.
func (c *Comparison) Close() {
	if c.run != nil {
		c.run.close()
	}
}

// ComparedTarget is a target with the objects that differ, secrets masked.
type ComparedTarget struct {
	Target        fleet.Target  // as the head has it, or the base if the head has it no more
	Old           *fleet.Target // as the base has it; nil without one
	Environment   string
	Namespace     string // of the app on the cluster
	Before, After []ComparedObject
	Same          []ComparedObject // objects that stay as they are on a cluster whose Kubernetes version changes
	Unchanged     int              // objects that are the same on both sides
	Gone          bool             // the head has the target no more
}

// ComparedObject is an object with the name of its content and its file on the branch.
type ComparedObject struct {
	diff.Object
	File string // app/file
}

// candidate is a target that may differ.
type candidate struct {
	cluster, app  string
	before, after *fleet.Target // nil: not there
	trees         [2]gitstore.Hash
	failed        [2]string
	skip          bool
	anew          bool // the cluster's Kubernetes version changes: equal objects may be judged otherwise
}

// comparedSide is one side of a comparison in one environment.
type comparedSide struct {
	plan     *environmentPlan
	jobs     []job
	owner    map[[2]string]*candidate
	outcomes []*outcome
}

// Compare renders what differs between two sides and says how. A target that cannot be rendered is withheld, and says so;
// it falsifies no other. Nothing is written but a preview that was asked for. The caller closes the comparison.
func (h *Hydrator) Compare(ctx context.Context, r CompareRequest) (*Comparison, error) {
	c := &comparison{h: h, request: r, out: &Comparison{Head: r.Head.Hash.String(), Mask: diff.NewMasker(r.Key)}}
	c.out.run = c
	if err := c.all(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c.out, nil
}

func (c *comparison) all(ctx context.Context) error {
	for _, step := range []func(context.Context) error{c.open, c.candidates, c.render, c.objects} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	c.compare()
	if c.request.Preview == nil {
		return nil
	}
	var err error
	c.out.Preview, err = c.preview(ctx, c.request.Preview)
	return err
}

// comparison is one call of Compare.
type comparison struct {
	h       *Hydrator
	request CompareRequest
	views   [2]*view
	refs    map[string]gitstore.Hash
	states  map[string]*branch.State
	sides   [2]map[string]*comparedSide // by environment
	writer  *gitstore.Writer
	list    []*candidate
	reader  *objectReader
	outputs *fleet.Fleet             // says where the branches are
	trees   map[string]gitstore.Hash // by digest: what a branch holds; zero if it must be rendered
	out     *Comparison
}

func (c *comparison) close() {
	if c.writer != nil {
		_ = c.writer.Close()
		c.writer = nil
	}
}

func (c *comparison) open(ctx context.Context) error {
	h := c.h
	h.Progress("read the fleet", 0, 0)
	var err error
	if c.views[1], err = h.open(ctx, c.request.Head.Tree); err != nil {
		return err
	}
	c.out.Warnings = c.views[1].problems.Warnings()
	if c.request.Against == AgainstCommit {
		c.out.Base = c.request.Base.Hash.String()
		c.views[0], err = h.open(ctx, c.request.Base.Tree)
		if problems, broken := errors.AsType[fleet.Problems](err); broken {
			c.request.Against = AgainstBranches
			c.out.Notes = append(c.out.Notes, fmt.Sprintf("the base %s is no valid fleet (%d problems): the head is compared with what the branches hold", c.request.Base.Hash.Short(), len(problems)))
		} else if err != nil {
			return err
		}
	}
	for _, name := range c.request.Environments {
		if _, ok := c.views[1].fleet.Environment(name); !ok {
			return fmt.Errorf("there is no environment %q in the fleet", name)
		}
	}
	// What is rendered already is taken from where the base says that the branches are: a change must not bring its own.
	c.outputs = c.views[1].fleet
	if c.views[0] != nil {
		c.outputs = c.views[0].fleet
	}
	if c.refs, err = h.Branches.List(ctx, c.outputs.BranchPrefixes()...); err != nil {
		return err
	}
	c.states, c.trees = map[string]*branch.State{}, map[string]gitstore.Hash{}
	c.sides = [2]map[string]*comparedSide{{}, {}}
	c.writer, err = h.store.NewWriter()
	return err
}

func (c *comparison) wanted(environment string) bool {
	return len(c.request.Environments) == 0 || slices.Contains(c.request.Environments, environment)
}

// state is what an environment's branch holds, read once.
func (c *comparison) state(ctx context.Context, environment string) (*branch.State, error) {
	if st, ok := c.states[environment]; ok {
		return st, nil
	}
	name := c.outputs.EnvironmentBranch(environment)
	tip := c.refs[name]
	if !tip.IsZero() {
		if err := c.h.Branches.Fetch(ctx, tip); err != nil {
			return nil, err
		}
	}
	st, err := branch.ReadState(ctx, c.h.store, name, tip)
	c.states[environment] = st
	return st, err
}

// candidates finds the targets that may differ.
func (c *comparison) candidates(ctx context.Context) error {
	if err := c.reachable(ctx); err != nil {
		return err
	}
	c.list = slices.DeleteFunc(c.list, func(one *candidate) bool {
		return len(c.request.Apps) > 0 && !slices.Contains(c.request.Apps, one.app) || slices.Contains(c.request.Without, one.app)
	})
	return nil
}

func (c *comparison) reachable(ctx context.Context) error {
	if c.request.Against == AgainstCommit {
		affected, err := c.h.affected(ctx, c.request.Base.Tree, c.request.Head.Tree, c.views[1])
		if err != nil {
			return err
		}
		for _, a := range affected {
			one := &candidate{cluster: a.Cluster, app: a.App, before: targetOf(c.views[0].fleet, a), after: targetOf(c.views[1].fleet, a)}
			one.anew = one.before != nil && one.after != nil && one.before.Cluster.KubeVersion != one.after.Cluster.KubeVersion
			if c.reached(one) {
				c.list = append(c.list, one)
			}
		}
		return nil
	}
	f := c.views[1].fleet
	for _, e := range f.Spec.Environments {
		if !c.wanted(e.Name) {
			continue
		}
		st, err := c.state(ctx, e.Name)
		if err != nil {
			return err
		}
		if c.request.Against == AgainstNothing {
			st = branch.NewState("")
		}
		if err := c.branchCandidates(ctx, f, e.Name, st); err != nil {
			return err
		}
	}
	return nil
}

// branchCandidates are the targets of an environment, and what its branch holds beside them.
func (c *comparison) branchCandidates(ctx context.Context, f *fleet.Fleet, environment string, st *branch.State) error {
	held := map[[2]string]gitstore.Hash{}
	for cluster, tree := range st.Clusters {
		apps, err := c.h.store.Tree(ctx, tree)
		if err != nil {
			return err
		}
		for _, a := range apps {
			held[[2]string{cluster, a.Name}] = a.Hash
		}
	}
	for _, cluster := range f.ClustersOf(environment) {
		for _, t := range f.TargetsOf(cluster) {
			one := &candidate{cluster: cluster.Name, app: t.App.Name, after: &t}
			key := [2]string{cluster.Name, t.App.Name}
			one.trees[0] = held[key]
			delete(held, key)
			if c.reached(one) {
				c.list = append(c.list, one)
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(held), func(a, b [2]string) int { return compareTargets(a[0], a[1], b[0], b[1]) }) {
		if cluster, ok := f.Cluster(key[0]); ok && cluster.State == "frozen" {
			c.out.Frozen++
			continue
		}
		gone := fleet.Target{App: &fleet.App{Name: key[1]}, Cluster: &fleet.Cluster{Name: key[0], Environment: environment}}
		c.list = append(c.list, &candidate{cluster: key[0], app: key[1], before: &gone, trees: [2]gitstore.Hash{held[key], {}}})
	}
	return nil
}

// reached leaves out what a change does not reach: frozen clusters, and environments that were not asked for.
func (c *comparison) reached(one *candidate) bool {
	if one.after == nil && one.before == nil {
		return false
	}
	if one.after != nil && one.after.Cluster.State == "frozen" {
		c.out.Frozen++
		return false
	}
	return one.after != nil && c.wanted(one.after.Cluster.Environment) || one.before != nil && c.wanted(one.before.Cluster.Environment)
}

func targetOf(f *fleet.Fleet, a fleet.AffectedTarget) *fleet.Target {
	cluster, ok := f.Cluster(a.Cluster)
	if !ok || cluster.State == "retired" {
		return nil
	}
	app, ok := f.App(a.App)
	if !ok || !f.Places(app, cluster) {
		return nil
	}
	return &fleet.Target{App: app, Cluster: cluster}
}
