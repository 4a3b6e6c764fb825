// Package enforce applies the fleet's policy to the change of an environment before it is written. It implements
// hydrate.Gate.
//
// If the fleet enforces its policy, every finding of severity error forbids the change. Otherwise only a plaintext
// Secret, an object outside the bounds of its workspace and, unless spec.policy.enforce is false, an error of the
// workspace's own policy do. The gate judges only objects that differ from the branch,
// and those of rendered targets of workspaces, so that its cost follows the change. Findings that the fleet's policy
// exempts pass.
//
// The package is not API: it can change in every release.
package enforce

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/hydrate/objects"
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
}

// New returns a Gate that reads objects from a store. key is the key for the fingerprints of masked secrets.
func New(store *gitstore.Store, key []byte, load Loader) *Gate {
	return &Gate{store: store, load: load, key: key}
}

// Judge implements hydrate.Gate.
func (g *Gate) Judge(ctx context.Context, c hydrate.Change) ([]hydrate.Violation, error) {
	own, err := g.hasPolicy(ctx, c.Policy.Tree)
	if err != nil {
		return nil, err
	}
	j := &judgement{
		gate: g, change: c, rules: own, enforced: c.Fleet.Enforces(c.Environment, own),
		own: c.Fleet.Enforces(c.Environment, true), reader: objects.NewReader(g.store, diff.NewMasker(g.key)),
	}
	if err := j.compare(ctx); err != nil {
		return nil, err
	}
	changed, confined := j.changed(), j.confined()
	some := func(t judged) bool { return len(j.files(t)) > 0 }
	if !slices.ContainsFunc(changed, some) && !slices.ContainsFunc(confined, some) {
		return nil, nil
	}
	engine, err := g.load(ctx, c.Policy.Tree, j.enforced)
	if problems, ok := errors.AsType[policy.Problems](err); ok {
		return nil, &admit.RefusedError{Reason: "the policy cannot be loaded: " +
			strings.Join(problems.Strings(), "; ")}
	}
	if err != nil {
		return nil, err
	}
	in := policy.Input{Subjects: j.subjects(ctx, changed)}
	if j.enforced {
		in.Surroundings = j.surroundings()
	}
	result, err := engine.Check(ctx, in)
	if err != nil {
		return nil, err
	}
	bounded, err := engine.Confine(ctx, policy.Input{
		Subjects:     j.subjects(ctx, confined),
		Surroundings: j.surroundings(),
	})
	if err != nil {
		return nil, err
	}
	// bounded has them all
	findings := slices.DeleteFunc(result.Findings, func(f policy.Finding) bool { return policy.OfWorkspace(f.Rule) })
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
	rules       bool // the fleet has rules of its own
	enforced    bool
	own         bool // the workspaces' own policies are enforced
	reader      *objects.Reader
	differences map[[2]gitstore.Hash]*objects.Difference // by treesOf, of all targets of change
}

// treesOf returns the old and the new tree of a target. Targets of many clusters have the same trees.
func treesOf(t *hydrate.ChangedTarget) [2]gitstore.Hash { return [2]gitstore.Hash{t.Old, t.New} }

// compare compares the trees of all targets. The reader then knows every Secret before it reads the first object, so
// that it masks their values in all of them.
func (j *judgement) compare(ctx context.Context) error {
	var pairs [][2]gitstore.Hash
	for _, targets := range [][]hydrate.ChangedTarget{j.change.Targets, j.change.Confined} {
		for i := range targets {
			pairs = append(pairs, treesOf(&targets[i]))
		}
	}
	var err error
	j.differences, err = j.reader.CompareAll(ctx, pairs)
	return err
}

// hasOwn reports whether a target belongs to a workspace with a policy of its own.
func (j *judgement) hasOwn(t *hydrate.ChangedTarget) bool {
	w, ok := j.change.Fleet.Workspace(fleet.WorkspaceOf(t.Target.App.Name))
	return ok && w.PolicyDir() != ""
}

// judged is a target with what is judged of it.
type judged struct {
	*hydrate.ChangedTarget
	everything bool // all changed objects; otherwise only the Secrets
}

// changed returns the targets whose changes are judged: without enforcement only their Secrets, because nothing else is
// refused, but all of a workspace with a policy of its own.
func (j *judgement) changed() []judged {
	out := make([]judged, len(j.change.Targets))
	for i := range out {
		t := &j.change.Targets[i]
		out[i] = judged{t, j.enforced || j.own && j.hasOwn(t)}
	}
	return out
}

// confined returns what is checked against the bounds of workspaces: all objects of their rendered targets, which have
// no old tree in Confined, and the changed objects of the fleet's own apps, which could be objects of a workspace.
func (j *judgement) confined() []judged {
	out := make([]judged, len(j.change.Confined))
	for i := range out {
		out[i] = judged{&j.change.Confined[i], true}
	}
	if len(j.change.Fleet.Workspaces) == 0 {
		return out
	}
	for i := range j.change.Targets {
		if t := &j.change.Targets[i]; t.Target.App.Workspace() == nil {
			out = append(out, judged{t, true})
		}
	}
	return out
}

// subjects reads the new and changed objects of targets, and the old version of each.
func (j *judgement) subjects(ctx context.Context, list []judged) policy.Subjects {
	at := func(i int) Part {
		t := list[i]
		return Part{
			Cluster: t.Target.Cluster, App: policy.App{Name: t.Target.App.Name, Namespace: t.Target.Namespace},
			Objects: Key{treesOf(t.ChangedTarget), t.everything}, Files: len(j.files(t)),
		}
	}
	return Batches(ctx, len(list), at, func(ctx context.Context, i int) ([]policy.Object, error) {
		t, d := list[i].Target, j.differences[treesOf(list[i].ChangedTarget)]
		after, err := j.reader.Read(ctx, t.Cluster.Name, t.App.Name, j.files(list[i]))
		if err != nil || len(after) == 0 {
			return nil, err
		}
		before, err := j.reader.Read(ctx, t.Cluster.Name, t.App.Name, d.Before)
		if err != nil {
			return nil, err
		}
		return Changed(after, before), nil
	})
}

// files returns the files of a target that are judged.
func (j *judgement) files(t judged) []objects.File {
	files := j.differences[treesOf(t.ChangedTarget)].After
	if !t.everything {
		files = slices.DeleteFunc(slices.Clone(files), func(f objects.File) bool { return !objects.IsSecret(f.Name) })
	}
	return files
}

// surroundings describes the clusters after the change and before it.
func (j *judgement) surroundings() policy.Surroundings {
	return Surroundings(objects.NewInventory(j.reader, j.apps(j.change.Clusters)),
		objects.NewInventory(j.reader, j.apps(j.change.Before)))
}

// apps returns clusters by their trees.
func (j *judgement) apps(clusters map[string]gitstore.Hash) objects.Apps {
	return func(_ context.Context, cluster string) (objects.Cluster, error) {
		return objects.Cluster{Tree: clusters[cluster]}, nil
	}
}

// Forbids reports whether a finding of severity error stops the hydration of an environment. hasRules says whether the
// fleet has rules of its own.
func Forbids(fl *fleet.Fleet, environment string, hasRules bool, f *policy.Finding) bool {
	return fl.Enforces(environment, hasRules) || f.Rule == policy.RulePlaintextSecret || policy.OfWorkspace(f.Rule) ||
		f.Own && fl.Enforces(environment, true)
}

// violations groups the findings that forbid the change by cluster.
func (j *judgement) violations(findings []policy.Finding) []hydrate.Violation {
	var out []hydrate.Violation
	index := map[string]int{}
	for i := range findings {
		f := &findings[i]
		if f.Severity != policy.SeverityError || f.Exemption != nil || !Forbids(j.change.Fleet, j.change.Environment, j.rules, f) {
			continue
		}
		key := fmt.Sprintf("%q", []string{f.Rule, f.App, f.Object.String(), f.Path, f.Message})
		at, ok := index[key]
		if !ok {
			at = len(out)
			index[key] = at
			out = append(out, hydrate.Violation{
				Rule: f.Rule, App: f.App, Object: f.Object.String(), Path: f.Path,
				Message: f.Message, Hint: f.Hint,
			})
		}
		out[at].Clusters = append(out[at].Clusters, f.Cluster)
	}
	return out
}
