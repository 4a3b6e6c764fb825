package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// checker judges one object.
type checker interface {
	// scope returns a key of everything that the result depends on: equal scopes give equal results. "" means that
	// the checker does not apply to the object.
	scope(s *Subject, o *Object) string
	check(ctx context.Context, s *Subject, o *Object) ([]breach, error)
}

// Check judges all objects of the input. It judges equal objects in equal circumstances once for the whole fleet, or
// again after very many others. A rule that cannot be evaluated is a finding of the rule policy-error; an error means
// that nothing was judged.
func (e *Engine) Check(ctx context.Context, in Input) (*Result, error) {
	run := newRun(ctx, e, in)
	run.checkers = run.every()
	if err := run.all(ctx, run.ownPolicies); err != nil {
		return nil, err
	}
	run.expired()
	sortFindings(run.out)
	return &Result{Findings: run.out, Notes: run.notes.list()}, nil
}

// all judges batch after batch, with further steps for each, and then what concerns no batch.
func (r *run) all(ctx context.Context, further ...func(context.Context) error) error {
	if r.input.Subjects != nil {
		for batch, err := range r.input.Subjects {
			if err != nil {
				return err
			}
			r.subjects = batch
			for _, step := range append([]func(context.Context) error{r.batch}, further...) {
				if err := step(ctx); err != nil {
					return err
				}
			}
			r.subjects = nil // before the next batch is read
			r.crds.begin(nil)
		}
	}
	if !r.engine.own {
		r.emptied()
	}
	return nil
}

// batch judges the objects of a batch, then who owns them, and then the workspaces.
func (r *run) batch(ctx context.Context) error {
	r.crds.begin(r.subjects)
	if err := r.judge(ctx); err != nil {
		return err
	}
	r.collect()
	if len(r.memo) > maxMemo {
		clear(r.memo)
	}
	if r.crds.err != nil || r.engine.own {
		return r.crds.err
	}
	if err := r.owners(ctx); err != nil {
		return err
	}
	return r.workspaces(ctx)
}

// emptied reports clusters that lose everything: a mistake in a placement or a path looks like that, and the sync tool
// would prune all.
func (r *run) emptied() {
	for _, c := range r.input.Emptied {
		b := breach{
			rule:    RuleClusterEmptied,
			message: "the change deletes all that the cluster has, and the cluster stays active",
			hint:    "if that is right, set state: retired for the cluster in the same change, or merge an Exemption of this rule for it before; if not, see why the fleet no longer has its apps",
		}
		if c.Unread {
			b.message = "the change deletes all that the cluster has, because the fleet no longer reads the cluster's file"
			b.hint = "add the file to spec.files.clusters; if the cluster must go, remove the file, or set state: retired first"
		}
		r.add(b, &Subject{Cluster: c.Cluster, App: &App{}}, manifest.Identity{})
	}
}

type memoKey struct {
	checker int
	scope   string
}

// maxMemo is the number of answers that a run remembers from earlier batches, about 200 bytes each.
const maxMemo = 1 << 17

type answer struct {
	subject  *Subject // nil when it has been judged
	object   *Object
	breaches []breach
}

type run struct {
	engine   *Engine
	input    Input
	subjects []Subject // the batch at hand
	notes    *notes
	crds     *definitions
	checkers []checker
	memo     map[memoKey]*answer
	own      map[string]*OwnUse // by workspace
	out      []Finding
}

func newRun(ctx context.Context, e *Engine, in Input) *run {
	n := &notes{}
	return &run{
		engine: e, input: in, notes: n, crds: newDefinitions(ctx, in.Surroundings, n),
		memo: map[memoKey]*answer{}, own: map[string]*OwnUse{},
	}
}

// every returns all checkers of the engine.
func (r *run) every() []checker {
	e, crds := r.engine, r.crds
	checkers := []checker{
		&plainCheck{engine: e}, &apiCheck{engine: e}, &customCheck{engine: e, known: crds},
		&schemaCheck{engine: e, crds: crds, notes: r.notes}, &namespaceCheck{engine: e, crds: crds},
		&confineCheck{engine: e, crds: crds},
	}
	if e.own {
		checkers = nil
	}
	if e.rego != nil && len(e.rego.names) > 0 {
		checkers = append(checkers, &regoCheck{engine: e, rules: e.rego, notes: r.notes})
	}
	for _, a := range e.admission {
		checkers = append(checkers, a)
	}
	return checkers
}

// questions returns the scopes of the batch that have no answer yet.
func (r *run) questions() []memoKey {
	var out []memoKey
	for i := range r.subjects {
		s := &r.subjects[i]
		for j := range s.Objects {
			for n, c := range r.checkers {
				key := memoKey{n, c.scope(s, &s.Objects[j])}
				if key.scope == "" || r.memo[key] != nil {
					continue
				}
				r.memo[key] = &answer{subject: s, object: &s.Objects[j]}
				out = append(out, key)
			}
		}
	}
	return out
}

// judge runs every checker once for each scope.
func (r *run) judge(ctx context.Context) error {
	work := r.questions()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, r.engine.options.Parallel))
	for _, key := range work {
		a, c := r.memo[key], r.checkers[key.checker]
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			var err error
			if a.breaches, err = c.check(ctx, a.subject, a.object); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				a.breaches = append(a.breaches, breach{rule: RulePolicyError, message: err.Error()})
			}
			return nil
		})
	}
	err := group.Wait()
	for _, key := range work {
		a := r.memo[key]
		a.subject, a.object = nil, nil // of this batch
	}
	return err
}

// collect turns the results into findings for every object that shares them. It asks only the checkers that found
// something: most find nothing, and each scope is a text of its own.
func (r *run) collect() {
	found := make([]bool, len(r.checkers))
	for key, a := range r.memo {
		found[key.checker] = found[key.checker] || len(a.breaches) > 0
	}
	if !slices.Contains(found, true) {
		return
	}
	for i := range r.subjects {
		s := &r.subjects[i]
		for j := range s.Objects {
			o := &s.Objects[j]
			for n, c := range r.checkers {
				if !found[n] {
					continue
				}
				scope := c.scope(s, o)
				if scope == "" {
					continue
				}
				for _, b := range r.memo[memoKey{n, scope}].breaches {
					b.same = o.OldKey == o.Key
					r.add(b, s, o.Object.Identity())
				}
			}
		}
	}
}

func (r *run) add(b breach, s *Subject, id manifest.Identity) {
	severity := r.engine.severity(b.rule, b.severity, s.Cluster.Environment)
	if severity == SeverityOff {
		return
	}
	f := Finding{
		Rule: b.rule, Severity: severity, Message: b.message, Hint: b.hint, Path: b.path, Object: id,
		App: s.App.Name, Cluster: s.Cluster.Name, Environment: s.Cluster.Environment, Same: b.same,
	}
	r.exempt(&f)
	r.out = append(r.out, f)
}

// exempt sets the exemption of a finding.
func (r *run) exempt(f *Finding) {
	for i := range r.engine.exemptions {
		e := &r.engine.exemptions[i]
		if !e.expired(r.engine.options.Now) && e.covers(f) {
			f.Exemption = &Exempt{Reason: e.Reason, Until: e.Until, File: e.file}
			return
		}
	}
}

// expired reports expired exemptions that would cover a finding.
func (r *run) expired() {
	for i := range r.engine.exemptions {
		e := &r.engine.exemptions[i]
		if !e.expired(r.engine.options.Now) {
			continue
		}
		for _, f := range slices.Clone(r.out) {
			if f.Exemption != nil || f.Rule == RuleExemptionExpired || !e.covers(&f) {
				continue
			}
			severity := r.engine.severity(RuleExemptionExpired, "", f.Environment)
			if severity == SeverityOff {
				continue
			}
			f.Message = fmt.Sprintf("the exemption %s from %s expired on %s (%s): %s", e.name, f.Rule, e.Until, e.file,
				e.Reason)
			f.Hint = "fix the finding, or renew the exemption"
			f.Rule, f.Severity, f.Path, f.Own = RuleExemptionExpired, severity, "", false
			r.out = append(r.out, f)
		}
	}
}

// owners finds objects that several apps of a cluster contain. It takes one cluster after the other, so that neither it
// nor the surroundings keep what concerns all of them.
func (r *run) owners(ctx context.Context) error {
	order := make([]*Subject, len(r.subjects))
	for i := range order {
		order[i] = &r.subjects[i]
	}
	slices.SortStableFunc(order, func(a, b *Subject) int { return strings.Compare(a.Cluster.Name, b.Cluster.Name) })
	for len(order) > 0 {
		cluster, n := order[0].Cluster.Name, 1
		for n < len(order) && order[n].Cluster.Name == cluster {
			n++
		}
		if err := r.ownersOn(ctx, cluster, order[:n]); err != nil {
			return err
		}
		order = order[n:]
	}
	return nil
}

// ownersOn finds the objects on one cluster that several apps contain.
func (r *run) ownersOn(ctx context.Context, cluster string, subjects []*Subject) error {
	if len(subjects) == 1 { // most clusters that a change of one app concerns
		for j := range subjects[0].Objects {
			if err := r.owned(ctx, cluster, subjects, subjects[0].Objects[j].Object.Identity()); err != nil {
				return err
			}
		}
		return nil
	}
	objects := map[manifest.Identity][]*Subject{}
	for _, s := range subjects {
		for j := range s.Objects {
			id := s.Objects[j].Object.Identity()
			objects[id] = append(objects[id], s)
		}
	}
	for id, subjects := range objects {
		if err := r.owned(ctx, cluster, subjects, id); err != nil {
			return err
		}
	}
	return nil
}

// owned judges an object that targets of one cluster contain: another app of the cluster must not contain it too.
func (r *run) owned(ctx context.Context, cluster string, subjects []*Subject, id manifest.Identity) error {
	var known []string
	if r.input.Surroundings != nil {
		var err error
		if known, err = r.input.Surroundings.Owners(ctx, cluster, id); err != nil {
			return err
		}
	}
	if len(known) == 1 && len(subjects) == 1 && known[0] == subjects[0].App.Name {
		return nil
	}
	apps := slices.Clone(known)
	for _, s := range subjects {
		apps = append(apps, s.App.Name)
	}
	slices.Sort(apps)
	apps = slices.Compact(apps)
	if len(apps) == 1 {
		return nil
	}
	for _, s := range subjects {
		for _, other := range apps {
			if other == s.App.Name || workspaceOf(other) != workspaceOf(s.App.Name) {
				continue
			}
			r.add(breach{
				rule: RuleDuplicateOwner,
				message: fmt.Sprintf("app %s contains this object too, and the two would overwrite each other",
					other),
				hint: "remove it from one of the apps",
			}, s, id)
			break
		}
	}
	return r.shared(ctx, cluster, subjects, apps, id)
}

// notes collects what could not be checked, with the affected objects. It is safe for concurrent use.
type notes struct {
	mu   sync.Mutex
	seen map[string]map[string]bool
}

// add records what could not be checked for an object; "" means no particular object.
func (n *notes) add(what, object string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil {
		n.seen = map[string]map[string]bool{}
	}
	if n.seen[what] == nil {
		n.seen[what] = map[string]bool{}
	}
	n.seen[what][object] = true
}

func (n *notes) list() []string {
	out := make([]string, 0, len(n.seen))
	for what, objects := range n.seen {
		delete(objects, "")
		names := slices.Collect(maps.Keys(objects))
		sort.Strings(names)
		switch {
		case len(names) == 0:
			out = append(out, what)
		case len(names) > 5:
			out = append(out, fmt.Sprintf("%s: %s and %d more", what, strings.Join(names[:5], ", "), len(names)-5))
		default:
			out = append(out, what+": "+strings.Join(names, ", "))
		}
	}
	sort.Strings(out)
	return out
}
