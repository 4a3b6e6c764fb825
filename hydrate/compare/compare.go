package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/hydrate/source"
)

// Request names the two states to compare. The second state is always a commit.
type Request struct {
	Against Against
	// Base is for AgainstCommit. With AgainstBranches, Run ignores it: it may name the tip of the branch, so that
	// requests about different states differ.
	Base         gitstore.Commit
	Head         gitstore.Commit
	Environments []string // empty: all
	Apps         []string // empty: all
	Clusters     []string // empty: all
	Without      []string // apps to leave out
	Key          []byte   // key for the fingerprints of masked secrets
	Preview      *Preview // nil: no preview

	// Rendered are trees of environments that were rendered before, in the store. Targets with equal inputs are taken
	// from them.
	Rendered map[string]*branch.State `json:"-"`
	// TargetsOnly leaves Changes without groups, declarations and files: they cost time, and a reader of Targets does
	// not need them.
	TargetsOnly bool
}

// hasApp reports whether the request is about an app.
func (r *Request) hasApp(app string) bool {
	return (len(r.Apps) == 0 || slices.Contains(r.Apps, app)) && !slices.Contains(r.Without, app)
}

func (r *Request) hasCluster(name string) bool {
	return len(r.Clusters) == 0 || slices.Contains(r.Clusters, name)
}

// Against is the first state.
type Against string

// The states to compare a commit with.
const (
	AgainstCommit   Against = ""         // Request.Base
	AgainstBranches Against = "branches" // what the environment branches hold
	AgainstNothing  Against = "nothing"  // every object is new
)

// Comparison is the result of Run.
type Comparison struct {
	Base, Head string // source commits; Base is "" unless two commits were compared
	Targets    []Target
	Changes    *diff.ChangeSet
	NewImages  []diff.NewImage // of Changes, on all clusters
	Errors     fleet.Problems  // of targets that have no place in Changes, because their cluster is not known
	Warnings   fleet.Problems
	Rendered   int // targets, both sides together
	Frozen     int // targets on frozen clusters, which are not compared
	Detached   int // targets on clusters that the head detaches: nothing is removed from them
	Mask       *diff.Masker
	Preview    *PreviewResult // nil without Request.Preview

	notes []string
	run   *run
}

// Notes returns what the comparison leaves out, and why. A file that Sluice did not write is named once its target was
// read.
func (c *Comparison) Notes() []string {
	if c.run == nil || c.run.reader == nil {
		return c.notes
	}
	return append(slices.Clone(c.notes), c.run.reader.Notes()...)
}

// BaseFleet returns the fleet of the base; nil unless two commits with valid fleets were compared.
func (c *Comparison) BaseFleet() *fleet.Fleet {
	if c.run == nil || c.run.views[0] == nil {
		return nil
	}
	return c.run.views[0].Fleet
}

// HeadFleet returns the fleet of the head.
func (c *Comparison) HeadFleet() *fleet.Fleet { return c.run.views[1].Fleet }

// Scope returns the targets that the change can affect, which are those that Run compared. It is valid until Close.
func (c *Comparison) Scope() []fleet.AffectedTarget {
	if c.run == nil {
		return nil
	}
	out := make([]fleet.AffectedTarget, 0, len(c.run.list))
	for _, one := range c.run.list {
		t := fleet.AffectedTarget{Cluster: one.cluster, App: one.app, Effect: fleet.EffectChanged}
		switch {
		case one.sides[0] == nil:
			t.Effect = fleet.EffectAdded
		case one.sides[1] == nil:
			t.Effect = fleet.EffectRemoved
		}
		out = append(out, t)
	}
	return out
}

// Close releases the rendered objects. Afterwards, Read and an Inventory must not be used; the other results stay
// valid.
func (c *Comparison) Close() {
	if c.run != nil {
		c.run.close()
	}
}

// Target is a target whose trees differ, or whose cluster gets another Kubernetes version.
type Target struct {
	Target      fleet.Target  // of the head; if the head does not have it, of the base
	Old         *fleet.Target // of the base; nil if it does not have it
	Environment string
	Namespace   string              // of the app on the cluster
	Trees       [2]gitstore.Hash    // before and after
	Files       *objects.Difference // of Trees; see Read
	Upgraded    bool                // the Kubernetes version of the cluster changes, so that Unchanged matters too
	Gone        bool                // the head does not have the target
	BaseUnknown bool                // the base cannot be rendered: all objects of the head are in Files.After
}

// Unchanged returns the files of a target that are equal on both sides.
func (c *Comparison) Unchanged(ctx context.Context, t *Target) ([]objects.File, error) {
	return c.run.reader.Unchanged(ctx, t.Trees)
}

// Read reads objects of a target. Secrets are masked. Nobody may change the objects, because other targets share them.
// It keeps the objects that were read last; see objects.Reader. It is safe for concurrent use.
func (c *Comparison) Read(ctx context.Context, t *Target, files []objects.File) ([]Object, error) {
	return c.run.reader.Read(ctx, t.Target.Cluster.Name, t.Target.App.Name, files)
}

// Object is an object and the file that holds it, as app/file.
type Object = objects.Object

// File is a file of a target's tree.
type File = objects.File

// Run compares two states. The caller closes the comparison.
func Run(ctx context.Context, h *hydrate.Hydrator, r Request) (*Comparison, error) {
	c := &run{h: h, request: r, out: &Comparison{Head: r.Head.Hash.String(), Mask: diff.NewMasker(r.Key)}}
	c.out.run = c
	if err := c.all(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c.out, nil
}

// run is one call of Run.
type run struct {
	h       *hydrate.Hydrator
	request Request
	out     *Comparison
	views   [2]*source.View // base and head; the base is nil if no commit is compared with
	outputs *fleet.Fleet    // gives the names of the branches; see openBase
	refs    map[string]gitstore.Hash
	// no branch counts: only the head names some
	withoutBranches bool
	states          map[string]*branch.State // by environment
	writer          *gitstore.Writer
	list            []*candidate
	reader          *objects.Reader

	unplaced  []string                // imported apps whose cluster is not known, and whose declaration or files change
	byCluster map[string][]*candidate // of list; see candidatesByCluster
}

func (c *run) close() {
	if c.writer != nil {
		_ = c.writer.Close() // everything to keep has been pushed
		c.writer = nil
	}
}

func (c *run) all(ctx context.Context) error {
	for _, step := range []func(context.Context) error{c.open, c.findCandidates, c.unread, c.render, c.findTargets, c.changes} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if c.request.Preview == nil {
		return nil
	}
	var err error
	c.out.Preview, err = c.preview(ctx, c.request.Preview)
	return err
}

// open reads the fleets and lists the branches.
func (c *run) open(ctx context.Context) error {
	c.h.Progress("read the fleet", 0, 0)
	var err error
	if c.views[1], err = c.h.Open(ctx, c.request.Head.Tree); err != nil {
		return err
	}
	c.out.Warnings = c.views[1].Problems.Warnings()
	if err := c.openBase(ctx); err != nil {
		return err
	}
	if base := c.views[0]; base != nil { // leave out problems that the change did not introduce
		known := base.Problems.Warnings()
		c.out.Warnings = slices.DeleteFunc(slices.Clone(c.out.Warnings),
			func(p fleet.Problem) bool { return slices.Contains(known, p) })
	}
	for _, name := range c.request.Environments {
		if _, ok := c.views[1].Fleet.Environment(name); !ok {
			return fmt.Errorf("there is no environment %q in the fleet", name)
		}
	}
	if !c.withoutBranches {
		if c.refs, err = c.h.Branches.List(ctx, c.outputs.BranchPrefixes()...); err != nil {
			return err
		}
	}
	c.states = map[string]*branch.State{}
	c.writer, err = c.h.Store.NewWriter()
	return err
}

// unread adds the values of changed targets that no chart reads, and that the base did not have. A file of another
// target may be the same, so what is found counts only if the whole fleet confirms it.
func (c *run) unread(ctx context.Context) error {
	var sides [2][]fleet.Target
	for _, one := range c.list {
		for i, t := range one.sides {
			if t != nil && !one.equal {
				sides[i] = append(sides[i], *t)
			}
		}
	}
	found := c.views[1].UnreadValues(ctx, sides[1])
	if len(found) == 0 {
		return ctx.Err()
	}
	all := c.views[1].UnreadValues(ctx, c.views[1].Fleet.Targets())
	known := map[[2]string]bool{} // lines move
	if c.views[0] != nil {
		for _, p := range c.views[0].UnreadValues(ctx, sides[0]) {
			known[[2]string{p.File, p.Message}] = true
		}
	}
	for _, p := range found {
		if slices.Contains(all, p) && !known[[2]string{p.File, p.Message}] {
			c.out.Warnings = append(c.out.Warnings, p)
		}
	}
	c.out.Warnings = c.out.Warnings.Sorted()
	return ctx.Err()
}

// openBase reads the fleet of the base, which names the branches whose output is reused and compared with, so that a
// change cannot choose other ones. If the fleet is invalid, Run compares the head with the branches that the last valid
// one before it names. If there is none, all objects of the head are new.
func (c *run) openBase(ctx context.Context) error {
	c.outputs = c.views[1].Fleet
	if c.request.Against != AgainstCommit {
		return nil
	}
	c.out.Base = c.request.Base.Hash.String()
	var err error
	c.views[0], err = c.h.Open(ctx, c.request.Base.Tree)
	if err == nil {
		c.outputs = c.views[0].Fleet
		return nil
	}
	problems, invalid := errors.AsType[fleet.Problems](err)
	if !invalid {
		return err
	}
	instead := "what the branches hold"
	c.request.Against = AgainstBranches
	at, valid, err := c.h.Readable(ctx, c.request.Base)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		c.outputs = valid
		instead += ", which the fleet of " + at.Hash.Short() + " names"
	} else {
		c.request.Against, c.withoutBranches = AgainstNothing, true
		instead = "nothing, because no commit before it has a valid one"
	}
	c.out.notes = append(c.out.notes, fmt.Sprintf("the base %s is no valid fleet (%s): the head is compared with %s",
		c.request.Base.Hash.Short(), hydrate.Count(len(problems), "problem"), instead))
	return nil
}

// state returns the content of an environment's branch. It reads each branch once.
func (c *run) state(ctx context.Context, environment string) (*branch.State, error) {
	if st, ok := c.states[environment]; ok {
		return st, nil
	}
	st, err := c.h.EnvironmentState(ctx, c.outputs, environment, c.refs[c.outputs.EnvironmentBranch(environment)])
	if err != nil {
		return nil, err
	}
	c.states[environment] = st
	return st, nil
}

func (c *run) wants(environment string) bool {
	return len(c.request.Environments) == 0 || slices.Contains(c.request.Environments, environment)
}
