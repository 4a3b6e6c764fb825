package hydrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// Request says what to hydrate.
type Request struct {
	Commit       gitstore.Commit
	Environments []string // those to write; none: all that follow the trunk
	Write        bool     // move branches; without it, nothing leaves this process
	NoCache      bool     // render every target
	Prune        bool     // delete the branches of clusters that are retired or gone
	Recreate     bool     // make branches again that somebody deleted
	Overwrite    bool     // put Sluice's content on top of commits that it did not make
	MaxDeletions int      // objects that may go from one environment; 0: what the fleet says
	PerPush      int      // refs in one push; 0: all
}

// Status of an environment after a run.
type Status string

// The statuses. Only the last four keep an environment from being what the commit says.
const (
	StatusUpdated    Status = "updated"
	StatusUnchanged  Status = "unchanged"
	StatusChecked    Status = "checked"    // rendered, not written: it does not follow the trunk
	StatusPlanned    Status = "planned"    // what a run without --dry-run would write
	StatusSuperseded Status = "superseded" // the branch has a newer commit already
	StatusFailed     Status = "failed"     // targets could not be rendered
	StatusRefused    Status = "refused"    // a rule of safety says no
	StatusConflict   Status = "conflict"   // somebody else moved a branch, twice
	StatusRejected   Status = "rejected"   // by the server
)

// OK says that the environment is, or would be, what the commit says.
func (s Status) OK() bool {
	switch s {
	case StatusFailed, StatusRefused, StatusConflict, StatusRejected:
		return false
	}
	return true
}

// Result is what a run did.
type Result struct {
	Source       string              `json:"source"`
	Environments []EnvironmentResult `json:"environments"`
	Warnings     fleet.Problems      `json:"warnings,omitempty"`
}

// EnvironmentResult is what a run did for one environment.
type EnvironmentResult struct {
	Name     string          `json:"environment"`
	Status   Status          `json:"status"`
	Reason   string          `json:"reason,omitempty"`
	Branch   string          `json:"branch"`
	Old      string          `json:"old,omitempty"`
	New      string          `json:"new,omitempty"`
	Tree     string          `json:"tree,omitempty"`
	Targets  int             `json:"targets"`
	Rendered int             `json:"rendered"`
	Reused   int             `json:"reused"`
	Objects  ObjectCounts    `json:"objects"`
	Clusters []ClusterResult `json:"clusters,omitempty"` // whose branches moved
	Failures []Failure       `json:"failures,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
}

// ObjectCounts are numbers of objects against the branch before.
type ObjectCounts struct {
	Total   int `json:"total"`
	Added   int `json:"added"`
	Changed int `json:"changed"`
	Removed int `json:"removed"`
}

// ClusterResult is a cluster branch that moved.
type ClusterResult struct {
	Cluster string `json:"cluster"`
	Branch  string `json:"branch"`
	Old     string `json:"old,omitempty"`
	New     string `json:"new,omitempty"` // "" if it was deleted
}

// OK says that every environment is what the commit says.
func (r *Result) OK() bool {
	return !slices.ContainsFunc(r.Environments, func(e EnvironmentResult) bool { return !e.Status.OK() })
}

// Hydrate renders a commit and writes its branches. An environment that fails keeps no other from being written; what
// went wrong is in the result. An error is what keeps all of them: a fleet that cannot be read (fleet.Problems), branches
// that cannot be listed.
func (h *Hydrator) Hydrate(ctx context.Context, r Request) (*Result, error) {
	h.Progress("read the fleet", 0, 0)
	v, err := h.open(ctx, r.Commit.Tree)
	if err != nil {
		return nil, err
	}
	wanted, err := wantedEnvironments(v.fleet, r.Environments)
	if err != nil {
		return nil, err
	}
	run := &run{h: h, request: r, view: v, result: &Result{Source: r.Commit.Hash.String(), Warnings: v.problems.Warnings()}}
	defer run.close()
	for _, e := range v.fleet.Spec.Environments {
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
	view    *view
	result  *Result
	writers []*gitstore.Writer
	refs    map[string]gitstore.Hash
}

func (r *run) close() {
	for _, w := range r.writers {
		_ = w.Close()
	}
}

// environment hydrates one environment, once more from a fresh plan if somebody else moved a branch meanwhile.
func (r *run) environment(ctx context.Context, name string, write bool) (*EnvironmentResult, error) {
	for try := 1; ; try++ {
		if r.refs == nil {
			r.h.Progress("list branches", 0, 0)
			refs, err := r.h.Branches.List(ctx, r.view.fleet.BranchPrefixes()...)
			if err != nil {
				return nil, err
			}
			r.refs = refs
		}
		result, err := r.attempt(ctx, name, write)
		if err != nil || result.Status != StatusConflict || try > 1 {
			return result, err
		}
		r.refs = nil
	}
}

func (r *run) attempt(ctx context.Context, name string, write bool) (*EnvironmentResult, error) {
	branch := r.view.fleet.EnvironmentBranch(name)
	tip := r.refs[branch]
	out := &EnvironmentResult{Name: name, Branch: branch, Old: hashText(tip)}
	st, err := r.state(ctx, name, branch, tip)
	if err != nil {
		return nil, err
	}
	if write {
		if status, reason, err := r.mayWrite(ctx, st); err != nil || status != "" {
			out.Status, out.Reason = status, reason
			return out, err
		}
	}
	plan, err := r.plan(ctx, name, st)
	if err != nil {
		return nil, err
	}
	w, err := r.h.store.NewWriter()
	if err != nil {
		return nil, err
	}
	r.writers = append(r.writers, w)
	unplanned := len(plan.failures)
	tree, rendered, err := r.h.render(ctx, plan, r.request.Commit.Hash.String(), w)
	if err != nil {
		return nil, err
	}
	out.Targets, out.Rendered, out.Failures = plan.total, rendered, plan.failures
	out.Reused = plan.total - rendered - unplanned
	out.Warnings = plan.unknownKinds()
	if tree == nil {
		out.Status = StatusFailed
		out.Reason = fmt.Sprintf("%d of %d targets failed", len(plan.failures), out.Targets)
		return out, nil
	}
	out.Tree = tree.tree.String()
	out.Objects = ObjectCounts{Total: tree.objects, Added: tree.added, Changed: tree.changed, Removed: tree.removed}
	if !write {
		out.Status = StatusChecked
		return out, nil
	}
	if reason := r.tooManyDeletions(st, tree); reason != "" {
		out.Status, out.Reason = StatusRefused, reason
		return out, nil
	}
	return out, r.commit(ctx, out, plan, tree, w)
}

func hashText(h gitstore.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}

// state fetches and reads what the branches of an environment hold.
func (r *run) state(ctx context.Context, name, ref string, tip gitstore.Hash) (*branch.State, error) {
	fetch := []gitstore.Hash{}
	if !tip.IsZero() {
		fetch = append(fetch, tip)
	}
	for _, c := range r.view.fleet.ClustersOf(name) {
		if h := r.refs[r.view.fleet.ClusterBranch(c)]; !h.IsZero() {
			fetch = append(fetch, h)
		}
	}
	if err := r.h.Branches.Fetch(ctx, fetch...); err != nil {
		return nil, err
	}
	return branch.ReadState(ctx, r.h.store, ref, tip)
}

// mayWrite holds the branch against the promises: no older state over a newer one, no foreign commit buried, no deleted
// branch brought back.
func (r *run) mayWrite(ctx context.Context, st *branch.State) (Status, string, error) {
	if !st.Exists() {
		return r.mayCreate(ctx, st)
	}
	if st.Foreign != "" {
		if r.request.Overwrite {
			return "", "", nil
		}
		return StatusRefused, fmt.Sprintf("%s: %s: `sluice verify` names what differs; bring it into the source, or run with --overwrite-foreign", st.Branch, st.Foreign), nil
	}
	from, err := gitstore.ParseHash(st.Record.Source)
	if err != nil {
		return "", "", err
	}
	head := r.request.Commit.Hash
	newer, err := r.h.store.IsAncestor(ctx, from, head)
	if err == nil && newer {
		return "", "", nil
	}
	shallow := errors.Is(err, gitstore.ErrShallow)
	if err != nil && !shallow {
		return "", "", err
	}
	older, oerr := r.h.store.IsAncestor(ctx, head, from)
	switch {
	case oerr == nil && older:
		return StatusSuperseded, fmt.Sprintf("%s was rendered from the newer commit %s", st.Branch, from.Short()), nil
	case r.request.Overwrite:
		return "", "", nil
	case shallow:
		return StatusRefused, fmt.Sprintf("%s was rendered from %s, and this clone cannot tell whether that is older: run `git fetch --unshallow`", st.Branch, from.Short()), nil
	default: // both answers are no
		return StatusRefused, fmt.Sprintf("%s was rendered from %s, which is no ancestor of %s: the trunk was rewritten; run with --overwrite-foreign if that is right",
			st.Branch, from.Short(), head.Short()), nil
	}
}

// mayCreate tells a new environment from one whose branch somebody deleted: then its clusters' branches have a history.
// Those of a first run that was interrupted have none.
func (r *run) mayCreate(ctx context.Context, st *branch.State) (Status, string, error) {
	if r.request.Recreate {
		return "", "", nil
	}
	for _, c := range r.view.fleet.Clusters {
		if r.view.fleet.EnvironmentBranch(c.Environment) != st.Branch {
			continue
		}
		h, ok := r.refs[r.view.fleet.ClusterBranch(c)]
		if !ok {
			continue
		}
		tip, err := r.h.store.Commit(ctx, h)
		if err != nil {
			return "", "", err
		}
		if len(tip.Parents) > 0 && branch.Trailer(tip.Message, branch.TrailerEnvironment) == c.Environment {
			return StatusRefused, fmt.Sprintf("somebody deleted %s (%s is still there): run with --recreate to make it again", st.Branch, r.view.fleet.ClusterBranch(c)), nil
		}
	}
	return "", "", nil
}

func (r *run) plan(ctx context.Context, name string, st *branch.State) (*environmentPlan, error) {
	all := r.request.NoCache || st.Foreign != ""
	var base *diffBase
	if !all && st.Record.Renderer == Epoch {
		var err error
		if base, err = r.h.changesSince(ctx, st.Record.Source, r.request.Commit, r.view); err != nil {
			return nil, err
		}
	}
	r.h.Progress("plan "+name, 0, 0)
	return r.h.plan(ctx, r.view, name, st, base, all)
}

func (r *run) tooManyDeletions(st *branch.State, tree *written) string {
	most := r.request.MaxDeletions
	if most == 0 {
		most = r.view.fleet.MaxDeletions(st.Record.Objects)
	}
	if tree.removed <= most || !st.Exists() {
		return ""
	}
	return fmt.Sprintf("%d of %d objects would go, more than the %d that spec.safety.maxDeletions allows: if that is right, run with --max-deletions %d",
		tree.removed, st.Record.Objects, most, tree.removed)
}

// unknownKinds warns of custom kinds whose scope nothing in the fleet tells.
func (p *environmentPlan) unknownKinds() []string { return slices.Sorted(maps.Keys(p.unknown)) }

// Summary is the result in one line.
func (e *EnvironmentResult) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %d targets, %d rendered, %d taken from the branch", e.Name, e.Status, e.Targets, e.Rendered, e.Reused)
	if e.Status.OK() {
		fmt.Fprintf(&b, "; objects +%d ~%d -%d; %d cluster branches moved", e.Objects.Added, e.Objects.Changed, e.Objects.Removed, len(e.Clusters))
	}
	if e.Reason != "" {
		b.WriteString("; " + e.Reason)
	}
	return b.String()
}
