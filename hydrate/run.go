package hydrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/internal/signers"
)

// Hydrate renders a commit and writes its branches. A failure in one environment does not stop the others; the result
// reports it. An error stops all of them: a fleet that cannot be read (fleet.Problems), or branches that cannot be
// listed.
func (h *Hydrator) Hydrate(ctx context.Context, r Request) (*Result, error) {
	h.Progress("read the fleet", 0, 0)
	v, err := h.Open(ctx, r.Commit.Tree)
	if err != nil {
		return nil, err
	}
	if len(r.AllowPolicy) > 0 && strings.TrimSpace(r.Reason) == "" {
		return nil, errors.New("an exception from policy needs a reason")
	}
	wanted, err := wantedEnvironments(v.Fleet, r.Environments)
	if err != nil {
		return nil, err
	}
	run := &run{h: h, request: r, view: v, result: &Result{
		Source:   r.Commit.Hash.String(),
		Warnings: v.Problems.Warnings(),
	}}
	defer run.close()
	if err := run.prepare(ctx); err != nil {
		return nil, err
	}
	for _, e := range v.Fleet.Spec.Environments {
		result, err := run.environment(ctx, e.Name, wanted[e.Name])
		if err != nil {
			return nil, fmt.Errorf("environment %s: %w", e.Name, err)
		}
		run.result.Environments = append(run.result.Environments, *result)
	}
	return run.result, nil
}

func wantedEnvironments(f *fleet.Fleet, names []string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, name := range names {
		if _, ok := f.Environment(name); !ok {
			return nil, fmt.Errorf("there is no environment %q in the fleet", name)
		}
		out[name] = true
	}
	if len(names) > 0 {
		return out, nil
	}
	for _, e := range f.Spec.Environments {
		out[e.Name] = len(e.After) == 0
	}
	return out, nil
}

// run is one call of Hydrate.
type run struct {
	h       *Hydrator
	request Request
	view    *source.View
	result  *Result
	writers []*gitstore.Writer
	refs    *admit.Refs // nil before they are listed
	// of the source's remote, with the branches that prepare listed; nil if there is no remote, or they are out of date
	trunks  *admit.Trunks
	admit   admit.Checker // checks each environment before it is rendered
	signers signers.List  // spec.signers of the trunk
}

// prepare reads the signers of the trunk. A run that writes nothing admits commits that no trunk contains.
func (r *run) prepare(ctx context.Context) error {
	if r.h.Source != nil {
		r.trunks = r.h.Trunks(r.h.Source)
	}
	var err error
	if r.signers, err = admit.Signers(ctx, r.trunks, r.view.Fleet); err != nil {
		return err
	}
	r.admit = admit.Checker{
		Store: r.h.Store, Branches: r.h.Branches, Signers: r.signers,
		Request: admit.Request{
			Commit: r.request.Commit.Hash, Fleet: r.view.Fleet,
			AllowUnmerged: r.request.AllowUnmerged, Recreate: r.request.Recreate, Overwrite: r.request.Overwrite,
		},
	}
	if r.request.Write {
		r.admit.Trunks = r.trunks
	}
	return nil
}

func (r *run) close() {
	for _, w := range r.writers {
		_ = w.Close() // what was pushed is stored, and the rest is not wanted
	}
}

// environment hydrates one environment. If another process moves a branch meanwhile, it plans and tries once more.
func (r *run) environment(ctx context.Context, name string, write bool) (*EnvironmentResult, error) {
	for try := 1; ; try++ {
		if r.refs == nil {
			r.h.Progress("list branches", 0, 0)
			var err error
			if r.refs, err = r.trunks.ListOutput(ctx, r.h.Branches, r.view.Fleet); err != nil {
				return nil, err
			}
		}
		if site := r.refs.AtHome(r.view.Fleet, name); site != "" {
			return r.atHome(name, site), nil
		}
		result, err := r.attempt(ctx, name, write)
		if err != nil || result.Status != StatusConflict || try > 1 {
			return result, err
		}
		r.refs, r.trunks = nil, nil // list the branches again
	}
}

// atHome is the result for an environment that belongs to home. It is refused if the request names it.
func (r *run) atHome(name, site string) *EnvironmentResult {
	out := &EnvironmentResult{
		Name: name, Status: StatusElsewhere, Branch: r.view.Fleet.EnvironmentBranch(name),
		Reason: "it belongs to home: this repository is the site of " + site,
	}
	if slices.Contains(r.request.Environments, name) {
		out.Status = StatusRefused
	}
	return out
}

// attempt takes the check of an environment that it does not write from Request.Checked, if nothing can have changed
// since: it depends on the commit, which pins all content that it renders, on the commit of the environment branch, and
// on the signers whose commits count there.
func (r *run) attempt(ctx context.Context, name string, write bool) (*EnvironmentResult, error) {
	ref := r.view.Fleet.EnvironmentBranch(name)
	tip := r.refs.Output[ref]
	if write || r.request.NoCache || r.request.Checked == nil {
		return r.renderEnvironment(ctx, name, ref, tip, write)
	}
	commit := r.request.Commit
	key := fmt.Sprintf("%s\x00%s\x00%s %s\x00%s %s %s %s", r.h.Branches, name, ref, tip, commit.Hash, commit.Tree,
		r.signers.ID(), r.h.Version)
	if have, ok := r.request.Checked.Get(key); ok {
		have.Rendered, have.Reused = 0, have.Targets
		return &have, nil
	}
	out, err := r.renderEnvironment(ctx, name, ref, tip, false)
	// a failure may end, such as that of a network
	if err == nil && out.Status == StatusChecked && len(out.Failures)+len(out.Held) == 0 {
		have := *out
		have.Notes = nil // they are about targets that this run rendered
		r.request.Checked.Add(key, have)
	}
	return out, err
}

func (r *run) renderEnvironment(ctx context.Context, name, ref string, tip gitstore.Hash,
	write bool,
) (*EnvironmentResult, error) {
	out := &EnvironmentResult{Name: name, Branch: ref, Old: hashText(tip)}
	st, err := r.state(ctx, name, ref, tip)
	if err != nil {
		return nil, err
	}
	if write {
		exception, err := r.admit.Check(ctx, name, r.refs, st)
		if exception.Reason != "" {
			out.Exceptions, out.unmergedAt = append(out.Exceptions, exception.Reason), exception.Trunk
		}
		promoted, ok := errors.AsType[*admit.PromotedError](err)
		if ok && promoted.Refused == nil && r.request.Prune {
			return out, r.prune(ctx, out, st)
		}
		if err := out.refusal(err); err != nil || out.Status != "" {
			return out, err
		}
	}
	held := holds{}
	held.unknown(r.view.Fleet)
	if len(held) > 0 && !st.Exists() {
		out.Status, out.Reason = StatusFailed, "there is no earlier state of "+held.names()
		return out, nil
	}
	exceptions := len(out.Exceptions)
	for {
		before := len(held)
		out.Exceptions, out.policyExceptions = out.Exceptions[:exceptions:exceptions], nil
		err := r.writeEnvironment(ctx, out, st, held, write)
		out.Held = held.list()
		if errors.Is(err, errHeld) && len(held) > before {
			continue
		}
		return out, out.refusal(err)
	}
}

// errHeld means that an environment must be rendered again, because a workspace is held: it keeps its earlier state.
var errHeld = errors.New("a workspace is held")

// writeEnvironment renders an environment and writes it. It returns errHeld if it has added a workspace to held, one of
// whose targets cannot be written; and an error of package admit if the environment must not be written.
func (r *run) writeEnvironment(ctx context.Context, out *EnvironmentResult, st *branch.State, held holds,
	write bool,
) error {
	w, err := r.h.Store.NewWriter()
	if err != nil {
		return err
	}
	r.writers = append(r.writers, w)
	plan, err := r.plan(ctx, out.Name, st, held)
	if err != nil {
		return err
	}
	unplanned := len(plan.failures)
	tree, rendered, err := r.h.execute(ctx, plan, r.request.Commit.Hash.String(), w)
	if err != nil {
		return err
	}
	out.Targets, out.Rendered, out.Failures = plan.total, rendered, plan.failures
	out.Reused = plan.total - rendered - unplanned
	out.Notes = plan.notes.list()
	if tree == nil {
		if st.Exists() && st.Foreign == "" {
			if out.Failures = held.failed(plan.failures); len(out.Failures) == 0 {
				return errHeld
			}
		}
		out.Status = StatusFailed
		out.Reason = fmt.Sprintf("%d of %d targets failed", len(plan.failures), out.Targets)
		return nil
	}
	out.Tree = tree.tree.String()
	out.Objects = tree.counts
	if !write {
		out.Status = StatusChecked
		return nil
	}
	before := len(held)
	if err := r.limitDeletions(ctx, st, tree, held); err != nil {
		return err
	}
	if len(held) > before {
		return errHeld
	}
	if err := r.judge(ctx, out, st, tree, held); err != nil {
		return err
	}
	if len(held) > before {
		if st.Exists() && st.Foreign == "" {
			return errHeld
		}
		return admit.Refusef("there is no earlier state of %s", held.names())
	}
	err = r.commit(ctx, out, plan, tree, w)
	if _, refused := errors.AsType[*admit.RefusedError](err); refused { // the prepared commits are not written
		out.New, out.Clusters = "", nil
	}
	return err
}

// state fetches and reads what the branches of an environment hold.
func (r *run) state(ctx context.Context, name, ref string, tip gitstore.Hash) (*branch.State, error) {
	fetch := []gitstore.Hash{}
	if !tip.IsZero() {
		fetch = append(fetch, tip)
	}
	for _, c := range r.view.Fleet.ClustersOf(name) {
		if tip := r.refs.Output[r.view.Fleet.ClusterBranch(c)]; !tip.IsZero() {
			fetch = append(fetch, tip)
		}
	}
	if err := r.h.Branches.Fetch(ctx, fetch...); err != nil {
		return nil, err
	}
	return branch.ReadState(ctx, r.h.Store, ref, name, tip, r.signers)
}

func (r *run) plan(ctx context.Context, name string, st *branch.State, held holds) (*environmentPlan, error) {
	all := r.request.NoCache || st.Foreign != ""
	touched := &source.Touched{All: true}
	// otherwise parts of the branch are older than its source commit
	uniform := len(st.Record.Apps)+len(st.Record.Clusters) == 0
	// otherwise the files of clusters that do not change would keep their old form
	together := false
	if len(r.view.Fleet.Workspaces) > 0 {
		var err error
		if together, err = st.Together(ctx, r.h.Store); err != nil {
			return nil, err
		}
	}
	if !all && !together && uniform && st.Record.Renderer == Epoch {
		var err error
		if touched, err = r.h.touchedSince(ctx, st.Record.Source, r.view); err != nil {
			return nil, err
		}
	}
	r.h.Progress("plan "+name, 0, 0)
	return r.h.plan(ctx, planRequest{
		view: r.view, environment: name, state: st, touched: touched, all: all, held: held,
	})
}
