package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/internal/parallel"
	"github.com/sluice-gitops/sluice/policy/lifecycle"
	"github.com/sluice-gitops/sluice/report"
)

// Request asks for a plan.
type Request struct {
	Tree   gitstore.Hash               // of the source commit
	To     lifecycle.Minor             // the new version of Kubernetes
	Covers func(c *fleet.Cluster) bool // the clusters to plan for
	Key    []byte                      // of the fingerprints of masked secrets
	Images Images                      // nil: nobody is asked for images
}

// Images returns those of the images that their registries do not have, with the error of each, and notes about images
// of which it is not known.
type Images func(ctx context.Context, names []string) (missing map[string]error, notes []string, err error)

// maxSteps is the most minor versions that a plan renders.
const maxSteps = 20

// Plan renders the covered clusters at their present version of Kubernetes and at each minor version up to the new one,
// and says what stands in the way. The Took, Repository, Commit and Version of the result are the caller's.
func Plan(ctx context.Context, h *hydrate.Hydrator, r Request) (*report.Upgrade, error) {
	view, err := h.Open(ctx, r.Tree)
	if err != nil {
		return nil, err
	}
	p := &plan{
		h: h, request: r, fleet: view.Fleet, out: &report.Upgrade{To: "Kubernetes " + r.To.String()},
		mask: diff.NewMasker(r.Key), table: Table(view.Fleet),
		trees: map[gitstore.Hash][]objects.File{}, facts: map[gitstore.Hash]*lifecycle.Facts{},
		now: map[string]lifecycle.Minor{}, states: map[string]*branch.State{}, recorded: map[string]*branch.Recorded{},
	}
	p.reader = objects.NewReader(h.Store, p.mask)
	if p.writer, err = h.Store.NewWriter(); err != nil {
		return nil, err
	}
	defer p.writer.Close() //nolint:errcheck // nothing of it is kept
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	return p.out, nil
}

// plan is one call of Plan.
type plan struct {
	h       *hydrate.Hydrator
	request Request
	fleet   *fleet.Fleet
	table   *lifecycle.Table
	writer  *gitstore.Writer
	mask    *diff.Masker
	reader  *objects.Reader
	out     *report.Upgrade
	now     map[string]lifecycle.Minor // of the covered clusters, by name
	// of the environment branches
	refs     map[string]gitstore.Hash
	states   map[string]*branch.State    // by environment
	recorded map[string]*branch.Recorded // by cluster
	// the files of trees, and the facts of files; nil for a file without facts
	trees map[gitstore.Hash][]objects.File
	facts map[gitstore.Hash]*lifecycle.Facts
}

func (p *plan) run(ctx context.Context) error {
	steps, err := p.clusters()
	if err != nil {
		return err
	}
	present, err := p.render(ctx, p.h, "now", func(name string) bool { return p.now[name].Before(p.request.To) })
	if err != nil {
		return err
	}
	by := make([]map[string]*side, len(steps)) // by cluster
	for n, at := range steps {
		raised := p.h.Raising(fleet.Raise{
			KubeVersion: at.String() + ".0",
			Served:      func(list []string) []string { return lifecycle.Served(list, at) },
		})
		by[n], err = p.render(ctx, raised, at.String(), func(name string) bool { return p.now[name].Before(at) })
		if err != nil {
			return err
		}
		p.out.Steps = append(p.out.Steps, at.String())
	}
	if err := p.read(ctx, append([]map[string]*side{present}, by...)); err != nil {
		return err
	}
	p.judge(present, steps, by)
	images, err := p.changes(ctx, present, steps, by)
	if err == nil && p.request.Images != nil {
		err = p.images(ctx, images)
	}
	p.out.Settle(p.out.Changes)
	return err
}

// clusters finds the covered clusters with their versions, and the versions to render.
func (p *plan) clusters() ([]lifecycle.Minor, error) {
	first, frozen := p.request.To, 0
	for _, c := range p.fleet.Clusters {
		if c.Retired() || !p.request.Covers(c) {
			continue
		}
		now, ok := lifecycle.ParseMinor(c.ChartVersion())
		if !ok {
			return nil, fmt.Errorf("the cluster %s has kubeVersion %q, which names no minor version", c.Name, c.ChartVersion())
		}
		if c.Frozen() {
			frozen++
		}
		p.now[c.Name] = now
		one := report.UpgradeCluster{
			Name: c.Name, Environment: c.Environment, From: now.String(), To: p.request.To.String(),
			Assumed: c.KubeVersion == "",
		}
		if !now.Before(p.request.To) {
			one.Verdict, one.To = report.UpgradeCurrent, now.String()
		} else if now.Before(first) {
			first = now
		}
		p.out.Clusters = append(p.out.Clusters, one)
	}
	order(p.fleet, p.out.Clusters)
	if frozen > 0 {
		p.out.Notes = append(p.out.Notes, fmt.Sprintf("frozen clusters keep what they have: of %s the plan says what this commit renders for them", hydrate.Count(frozen, "frozen cluster")))
	}
	if first.Major != p.request.To.Major {
		return nil, fmt.Errorf("a plan from %s to %s is not possible: the major version differs", first, p.request.To)
	}
	var steps []lifecycle.Minor
	for at := first; at.Before(p.request.To); {
		at = at.Next()
		steps = append(steps, at)
	}
	if len(steps) > maxSteps {
		return nil, fmt.Errorf("from %s to %s are %d minor versions, more than the %d of one plan", first, p.request.To, len(steps), maxSteps)
	}
	return steps, nil
}

// render renders what some clusters have.
func (p *plan) render(ctx context.Context, h *hydrate.Hydrator, name string, covers func(cluster string) bool,
) (map[string]*side, error) {
	p.h.Progress("read the fleet at "+name, 0, 0)
	view, err := h.Open(ctx, p.request.Tree)
	if err != nil {
		return nil, fmt.Errorf("the fleet at Kubernetes %s: %w", name, err)
	}
	out := map[string]*side{}
	var targets []fleet.Target
	for _, t := range view.Fleet.Targets() {
		if _, covered := p.now[t.Cluster.Name]; !covered || !covers(t.Cluster.Name) {
			continue
		}
		if i := t.Imported(); i != nil && i.Suspended {
			continue
		}
		if out[t.Cluster.Name] == nil {
			out[t.Cluster.Name] = newSide()
		}
		targets = append(targets, t)
	}
	failed := func(t fleet.Target, err error) {
		f := hydrate.NewFailure(t.Cluster.Environment, t, err)
		out[t.Cluster.Name].failed[t.App.Name] = failure{f.Message, f.File, f.Line}
	}
	resolved := make([]render.Job, len(targets))
	errs := make([]error, len(targets))
	err = parallel.Each(ctx, len(targets), func(_ context.Context, n int) error {
		resolved[n].Target, errs[n] = view.Target(targets[n])
		return nil
	})
	if err != nil {
		return nil, err
	}
	batches := map[string][]render.Job{}
	for n, t := range targets {
		if errs[n] != nil {
			failed(t, errs[n])
			continue
		}
		held, err := p.held(ctx, resolved[n].Target)
		if err != nil {
			return nil, err
		}
		if !held.IsZero() {
			out[t.Cluster.Name].apps[t.App.Name] = held
			continue
		}
		batches[t.Cluster.Environment] = append(batches[t.Cluster.Environment], resolved[n])
	}
	for _, environment := range slices.Sorted(maps.Keys(batches)) {
		jobs := batches[environment]
		render.Sort(jobs)
		rendered, notes, err := h.RenderBatch(ctx, hydrate.Batch{
			Environment: environment, State: p.states[environment], Jobs: jobs,
		}, p.writer)
		if err != nil {
			return nil, err
		}
		_ = notes // hydration and review say them
		for i := range rendered {
			t := rendered[i].Target
			if rendered[i].Err != nil {
				failed(t.Target, rendered[i].Err)
				continue
			}
			out[t.Cluster.Name].apps[t.App.Name] = rendered[i].Tree
		}
	}
	return out, nil
}

// held returns the tree that the branch of a target's environment holds for its digest; zero if it holds none. Most
// targets are rendered already at the present version.
func (p *plan) held(ctx context.Context, t *source.Target) (gitstore.Hash, error) {
	st, err := p.state(ctx, t.Cluster.Environment)
	if err != nil {
		return gitstore.Hash{}, err
	}
	in := p.recorded[t.Cluster.Name]
	if in == nil {
		in = st.Recorded(p.h.Store, t.Cluster.Name)
		p.recorded[t.Cluster.Name] = in
	}
	return p.h.Held(ctx, st, in, t)
}

// state returns the content of an environment's branch, which also says which custom kinds are namespaced.
func (p *plan) state(ctx context.Context, environment string) (*branch.State, error) {
	if st := p.states[environment]; st != nil {
		return st, nil
	}
	if p.refs == nil {
		var err error
		if p.refs, err = p.h.Branches.List(ctx, p.fleet.BranchPrefixes()...); err != nil {
			return nil, err
		}
	}
	st, err := p.h.EnvironmentState(ctx, p.fleet, environment, p.refs[p.fleet.EnvironmentBranch(environment)])
	p.states[environment] = st
	return st, err
}

// read reads the facts of all objects, each once.
func (p *plan) read(ctx context.Context, all []map[string]*side) error {
	var trees []gitstore.Hash
	for _, sides := range all {
		for _, s := range sides {
			for _, tree := range s.apps {
				if _, known := p.trees[tree]; !known {
					p.trees[tree], trees = nil, append(trees, tree)
				}
			}
		}
	}
	pairs := make([][2]gitstore.Hash, len(trees))
	for i, tree := range trees {
		pairs[i][1] = tree
	}
	found, err := p.reader.CompareAll(ctx, pairs)
	if err != nil {
		return err
	}
	var files []objects.File
	for i, tree := range trees {
		p.trees[tree] = found[pairs[i]].After
		for _, f := range p.trees[tree] {
			if _, known := p.facts[f.Hash]; !known {
				p.facts[f.Hash], files = nil, append(files, f)
			}
		}
	}
	facts := make([]*lifecycle.Facts, len(files))
	err = parallel.Each(ctx, len(files), func(ctx context.Context, n int) error {
		list, err := p.reader.Read(ctx, "", "", files[n:n+1])
		if err == nil && len(list) == 1 {
			facts[n] = p.table.Read(list[0].Object.Object)
		}
		return err
	})
	for n, f := range files {
		p.facts[f.Hash] = facts[n]
	}
	return err
}

func (p *plan) factsOf(tree gitstore.Hash) []*lifecycle.Facts {
	var out []*lifecycle.Facts
	for _, f := range p.trees[tree] {
		if one := p.facts[f.Hash]; one != nil {
			out = append(out, one)
		}
	}
	return out
}

func (p *plan) judge(present map[string]*side, steps []lifecycle.Minor, by []map[string]*side) {
	j := newJudge(p.fleet, p.table, p.factsOf)
	for _, sides := range append([]map[string]*side{present}, by...) {
		for _, s := range sides {
			for app, f := range s.failed {
				f.message = p.mask.Text(f.message)
				s.failed[app] = f
			}
		}
	}
	for i := range p.out.Clusters {
		name := p.out.Clusters[i].Name
		c, ok := p.fleet.Cluster(name)
		if now := present[name]; ok && now != nil {
			var at []step
			for n, version := range steps {
				if s := by[n][name]; s != nil {
					at = append(at, step{version, s})
				}
			}
			j.cluster(c, step{p.now[name], now}, at)
		}
	}
	p.out.Issues = j.issues
}

// changes compares what the clusters have now with what they have at the last step.
func (p *plan) changes(ctx context.Context, present map[string]*side, steps []lifecycle.Minor,
	by []map[string]*side,
) ([]diff.NewImage, error) {
	p.out.Changes = &diff.ChangeSet{}
	if len(steps) == 0 {
		return nil, nil
	}
	last := by[len(steps)-1]
	var pairs []compare.TreePair
	for _, cluster := range slices.Sorted(maps.Keys(last)) {
		c, ok := p.fleet.Cluster(cluster)
		before, after := present[cluster], last[cluster]
		if !ok || before == nil {
			continue
		}
		apps := map[string]bool{}
		for app := range before.apps {
			apps[app] = true
		}
		for app := range after.apps {
			apps[app] = true
		}
		for _, app := range slices.Sorted(maps.Keys(apps)) {
			_, lost := before.failed[app]
			if _, failed := after.failed[app]; lost || failed {
				continue // an issue says so
			}
			a, ok := p.fleet.App(app)
			if !ok {
				a = &fleet.App{Name: app}
			}
			pairs = append(pairs, compare.TreePair{
				Target: fleet.Target{App: a, Cluster: c}, Trees: [2]gitstore.Hash{before.apps[app], after.apps[app]},
			})
		}
	}
	slices.SortStableFunc(pairs, func(a, b compare.TreePair) int { return cmp.Compare(a.Target.App.Name, b.Target.App.Name) })
	changes, images, err := compare.Trees(ctx, p.fleet, p.reader, pairs)
	if err == nil {
		p.out.Changes = changes
	}
	return images, err
}

// images adds an issue for each image that only the new version needs and that its registry does not have: charts name
// images by the version of the cluster.
func (p *plan) images(ctx context.Context, list []diff.NewImage) error {
	var names []string
	for i := range list {
		names = append(names, list[i].Image)
	}
	missing, notes, err := p.request.Images(ctx, slices.Compact(names)) // the list is sorted by them
	if err != nil {
		return err
	}
	p.out.Notes = append(p.out.Notes, notes...)
	for i := range list {
		one := &list[i]
		if missing[one.Image] == nil {
			continue
		}
		file := ""
		if a, ok := p.fleet.App(one.App); ok {
			file = a.File
		}
		p.out.Issues = append(p.out.Issues, report.UpgradeIssue{At: p.request.To.String(), Finding: report.Finding{
			Rule: RuleImage, Severity: report.SeverityError, Message: missing[one.Image].Error(), Object: one.Object,
			Hint: "wait for the image, or set another one", App: one.App, Environment: one.Environment,
			Clusters: one.Clusters, File: file,
		}})
	}
	return nil
}
