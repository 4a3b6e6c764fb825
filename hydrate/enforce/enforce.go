// Package enforce applies the fleet's policy to the change of an environment before it is written. It implements
// hydrate.Gate.
//
// If the fleet enforces its policy, every finding of severity error forbids the change. Otherwise only a plaintext
// Secret, an object outside the bounds of its workspace and, unless spec.policy.enforce is false, an error of the
// workspace's own policy do. The gate judges only objects that differ from the branch,
// and those of rendered targets of workspaces, so that its cost follows the change. Findings that the fleet's policy
// exempts pass.
package enforce

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/internal/memo"
	"github.com/sluice-gitops/sluice/policy"
)

// Loader loads the policy of a source tree. If schemas is false, it fetches no schemas. Mistakes in the policy are
// reported as policy.Problems.
type Loader func(ctx context.Context, tree gitstore.Hash, schemas bool) (*policy.Engine, error)

// Gate is a hydrate.Gate.
type Gate struct {
	store *gitstore.Store
	load  Loader
	key   []byte
	kept  *memo.File
}

// New returns a Gate that reads objects from a store. key is the key for the fingerprints of masked secrets.
func New(store *gitstore.Store, key []byte, load Loader) *Gate {
	return &Gate{store: store, load: load, key: key}
}

// Keeping has the gate keep what it reads of rendered trees between runs; nil keeps nothing. It returns the gate.
func (g *Gate) Keeping(kept *memo.File) *Gate {
	g.kept = kept
	return g
}

// Judge implements hydrate.Gate.
func (g *Gate) Judge(ctx context.Context, c hydrate.Change) ([]hydrate.Violation, error) {
	own, err := g.hasPolicy(ctx, c.Policy.Tree)
	if err != nil {
		return nil, err
	}
	j := &judgement{gate: g, change: c, enforced: c.Fleet.Enforces(c.Environment, own), own: c.Fleet.Enforces(c.Environment, true), reader: objects.NewReader(g.store, diff.NewMasker(g.key))}
	if err := j.compare(ctx); err != nil {
		return nil, err
	}
	subjects, err := j.subjects(ctx, c.Targets, j.enforced)
	if err != nil {
		return nil, err
	}
	confined, err := j.confined(ctx)
	if err != nil || len(subjects)+len(confined) == 0 {
		return nil, err
	}
	engine, err := g.load(ctx, c.Policy.Tree, j.enforced)
	if problems, ok := errors.AsType[policy.Problems](err); ok {
		return nil, &admit.RefusedError{Reason: "the policy cannot be loaded: " + strings.Join(problems.Strings(), "; ")}
	}
	if err != nil {
		return nil, err
	}
	in := policy.Input{Subjects: subjects}
	if j.enforced {
		in.Surroundings = j.surroundings()
	}
	result, err := engine.Check(ctx, in)
	if err != nil {
		return nil, err
	}
	bounded, err := engine.Confine(ctx, policy.Input{Subjects: confined, Surroundings: j.surroundings()})
	if err != nil {
		return nil, err
	}
	findings := slices.DeleteFunc(result.Findings, func(f policy.Finding) bool { return policy.OfWorkspace(f.Rule) }) // bounded has them all
	return j.violations(append(findings, bounded.Findings...)), nil
}

// hasPolicy reports whether a source tree has policy files.
func (g *Gate) hasPolicy(ctx context.Context, tree gitstore.Hash) (bool, error) {
	entries, err := g.store.Snapshot(ctx, tree).Entries(policy.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}

// judgement is one call of Judge.
type judgement struct {
	gate        *Gate
	change      hydrate.Change
	enforced    bool
	own         bool // the workspaces' own policies are enforced
	reader      *objects.Reader
	differences map[trees]*objects.Difference // of all targets of change
}

// trees are the old and the new tree of a target. Targets of many clusters have the same trees.
type trees [2]gitstore.Hash

func treesOf(t *hydrate.ChangedTarget) trees { return trees{t.Old, t.New} }

// compare compares the trees of all targets. The reader then knows every Secret before it reads the first object, so that it masks their
// values in all of them.
func (j *judgement) compare(ctx context.Context) error {
	j.differences = map[trees]*objects.Difference{}
	for _, targets := range [][]hydrate.ChangedTarget{j.change.Targets, j.change.Confined} {
		for i := range targets {
			pair := treesOf(&targets[i])
			if j.differences[pair] != nil {
				continue
			}
			d, err := j.reader.Compare(ctx, pair)
			if err != nil {
				return err
			}
			j.differences[pair] = d
		}
	}
	return nil
}

// changedKey identifies the objects of targets that are judged: of equal trees, all of them or only the Secrets.
type changedKey struct {
	trees
	whole bool
}

// hasOwn reports whether a target belongs to a workspace with a policy of its own.
func (j *judgement) hasOwn(t *hydrate.ChangedTarget) bool {
	w, ok := j.change.Fleet.Workspace(fleet.WorkspaceOf(t.Target.App.Name))
	return ok && w.PolicyDir() != ""
}

// subjects returns the changed objects of each target; unless all, only the Secrets, because nothing else is refused without enforcement. Of
// a workspace with a policy of its own, all are judged.
func (j *judgement) subjects(ctx context.Context, targets []hydrate.ChangedTarget, all bool) ([]policy.Subject, error) {
	changed := map[changedKey][]policy.Object{}
	clusters := map[*fleet.Cluster]*policy.Cluster{}
	var out []policy.Subject
	for i := range targets {
		t := &targets[i]
		pair := treesOf(t)
		whole := all || j.own && j.hasOwn(t)
		key := changedKey{pair, whole}
		list, known := changed[key]
		if !known {
			var err error
			if list, err = j.changed(ctx, t.Target, j.differences[pair], whole); err != nil {
				return nil, err
			}
			changed[key] = list
		}
		if len(list) == 0 {
			continue
		}
		c := t.Target.Cluster
		if clusters[c] == nil {
			clusters[c] = Cluster(c)
		}
		app := &policy.App{Name: t.Target.App.Name, Namespace: t.Target.Namespace}
		out = append(out, policy.Subject{Cluster: clusters[c], App: app, Objects: list})
	}
	return out, nil
}

// changed reads the new and changed objects, and the old version of each; unless all, only the Secrets.
func (j *judgement) changed(ctx context.Context, t *source.Target, d *objects.Difference, all bool) ([]policy.Object, error) {
	files := d.After
	if !all {
		files = slices.DeleteFunc(slices.Clone(files), func(f objects.File) bool { return !objects.IsSecret(f.Name) })
	}
	after, err := j.reader.Read(ctx, t.Cluster.Name, t.App.Name, files)
	if err != nil || len(after) == 0 {
		return nil, err
	}
	before, err := j.reader.Read(ctx, t.Cluster.Name, t.App.Name, d.Before)
	if err != nil {
		return nil, err
	}
	return Changed(after, before), nil
}

// confined returns what is checked against the bounds of workspaces: all objects of their rendered targets, which have no old tree in
// Confined, and the changed objects of the fleet's own apps, which could be objects of a workspace.
func (j *judgement) confined(ctx context.Context) ([]policy.Subject, error) {
	out, err := j.subjects(ctx, j.change.Confined, true)
	if err != nil || len(j.change.Fleet.Workspaces) == 0 {
		return out, err
	}
	own := slices.DeleteFunc(slices.Clone(j.change.Targets), func(t hydrate.ChangedTarget) bool { return t.Target.App.Workspace() != nil })
	more, err := j.subjects(ctx, own, true)
	return append(out, more...), err
}

// surroundings describes the clusters after the change and before it.
func (j *judgement) surroundings() policy.Surroundings {
	after, before := objects.NewInventory(j.reader, j.apps(j.change.Clusters)), objects.NewInventory(j.reader, j.apps(j.change.Before))
	after.Keep(j.gate.kept)
	before.Keep(j.gate.kept)
	return Surroundings(after, before)
}

// apps returns clusters by their trees.
func (j *judgement) apps(clusters map[string]gitstore.Hash) objects.Apps {
	return func(_ context.Context, cluster string) (objects.Cluster, error) {
		return objects.Cluster{Tree: clusters[cluster]}, nil
	}
}

// forbids reports whether an error of a rule stops the change.
func (j *judgement) forbids(f *policy.Finding) bool {
	return j.enforced || f.Rule == policy.RulePlaintextSecret || policy.OfWorkspace(f.Rule) || j.own && f.Own
}

// violations groups the findings that forbid the change by cluster.
func (j *judgement) violations(findings []policy.Finding) []hydrate.Violation {
	var out []hydrate.Violation
	index := map[string]int{}
	for i := range findings {
		f := &findings[i]
		if f.Severity != policy.SeverityError || f.Exemption != nil || !j.forbids(f) {
			continue
		}
		key := fmt.Sprintf("%q", []string{f.Rule, f.App, f.Object.String(), f.Path, f.Message})
		at, ok := index[key]
		if !ok {
			at = len(out)
			index[key] = at
			out = append(out, hydrate.Violation{Rule: f.Rule, App: f.App, Object: f.Object.String(), Path: f.Path, Message: f.Message, Hint: f.Hint})
		}
		out[at].Clusters = append(out[at].Clusters, f.Cluster)
	}
	return out
}
