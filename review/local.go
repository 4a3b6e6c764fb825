package review

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review/upgrade"
)

// Local reviews in this process, with what a session may read.
type Local struct{ Session *session.Session }

// Review implements Reviewer.
func (l Local) Review(ctx context.Context, r Request) (*Result, error) {
	out := &report.Review{Base: hashText(r.Base.Hash), Head: hashText(r.Head.Hash), Version: l.Session.Runtime.Version}
	result := &Result{Review: out}
	if err := l.pin(ctx, &r); err != nil {
		return nil, err
	}
	if f, _, err := l.Session.Fleet(ctx, r.Head.Tree); err == nil { // the comparison reports the error
		out.Fleet = f.Name
	}
	judge, mistakes, err := l.judge(ctx, &r)
	if err != nil {
		return nil, err
	}
	var images session.Images
	if r.Images && !l.Session.Runtime.Offline && judge != nil && !r.BoundsOnly {
		images = l.Session.Images()
	}
	if err := addComparison(ctx, result, l.Session.Hydrator, r.Request, judge, images); err != nil {
		return nil, err
	}
	if r.Against == compare.AgainstCommit {
		if out.Pins, err = l.movedPins(ctx, &r); err != nil {
			return nil, err
		}
	}
	out.Errors = append(out.Errors, mistakes...)
	out.Verdict = verdict(out)
	confirm(out, judge != nil && !r.BoundsOnly && len(r.Pins) == 0)
	return result, nil
}

// addComparison compares, and adds to a result what differs, what the judge finds in it, and the preview. A nil judge
// finds nothing, and nil images are not looked for. If a fleet cannot be read, it adds the problems instead.
func addComparison(ctx context.Context, result *Result, h *hydrate.Hydrator, r compare.Request, judge Judge,
	images session.Images,
) error {
	out := result.Review
	c, err := compare.Run(ctx, h, r)
	if problems, invalid := errors.AsType[fleet.Problems](err); invalid {
		for _, p := range problems {
			if p.Severity == fleet.SeverityError {
				out.Errors = append(out.Errors, p.String())
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	out.Changes, result.Preview = c.Changes, c.Preview
	if !r.TargetsOnly { // a caller that asks for findings only would hold the targets of entire environments in memory
		out.Scope = c.Scope()
	}
	for _, p := range c.Errors {
		out.Errors = append(out.Errors, p.String())
	}
	for _, p := range c.Warnings {
		out.Warnings = append(out.Warnings, p.String())
	}
	if judge != nil {
		if out.Findings, err = judge.Judge(ctx, c); err != nil {
			return fmt.Errorf("policy: %w", err)
		}
	}
	for _, ref := range c.NewlyUnlocked() {
		out.Findings.Advisory = false
		out.Findings.Introduced = append(out.Findings.Introduced, report.Finding{
			Rule: "sluice.lock", Severity: report.SeverityError,
			Message: fmt.Sprintf("chart %s is not in %s, so no hydration can render it", ref, fetch.LockFile),
			Hint:    "run `sluice deps lock` and commit the file", File: fetch.LockFile,
		})
	}
	if !r.TargetsOnly {
		if out.Upgrade, err = upgrade.Of(ctx, c); err != nil {
			return fmt.Errorf("upgrade: %w", err)
		}
		if out.Upgrade != nil {
			out.Findings.Notes = append(out.Findings.Notes, out.Upgrade.Notes...)
		}
	}
	if images != nil {
		if err := missingImages(ctx, images, c, &out.Findings); err != nil {
			return fmt.Errorf("images: %w", err)
		}
	}
	if out.Routine, err = routine(ctx, c); err != nil {
		return fmt.Errorf("routine: %w", err)
	}
	notes := c.Notes()
	if c.Frozen > 0 {
		notes = append(notes, frozenNote(c.Frozen))
	}
	if c.Detached > 0 {
		notes = append(notes, hydrate.Count(c.Detached, "target")+" of detached clusters: they keep what they run, and Sluice does not write their branches any more")
	}
	out.Findings.Notes = append(notes, out.Findings.Notes...)
	return nil
}

func frozenNote(n int) string {
	if n == 1 {
		return "1 target on a frozen cluster does not change"
	}
	return fmt.Sprintf("%d targets on frozen clusters do not change", n)
}

// hashText returns "" for the zero hash, which a working tree has.
func hashText(h gitstore.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}

// judge returns the judge that a request asks for; nil if nothing is judged, or if the policy that applies cannot be
// read. It also returns the mistakes of that policy and of those that would apply after the merge.
func (l Local) judge(ctx context.Context, r *Request) (judge Judge, mistakes []string, err error) {
	if r.Policy.IsZero() {
		return nil, nil, nil
	}
	if r.BoundsOnly {
		engine, err := l.Session.BoundsPolicy(ctx, r.Policy)
		if err != nil || engine == nil {
			return nil, nil, err
		}
		return Policy{Engine: boundsOnly{engine}, Entire: r.Entire}, nil, nil
	}
	rules, err := policyTree(ctx, l.Session.Store, r.Policy)
	if err != nil {
		return nil, nil, err
	}
	engine, err := l.Session.Policy(ctx, r.Policy, r.Offline)
	switch problems, invalid := errors.AsType[policy.Problems](err); {
	case invalid:
		mistakes = problems.Strings()
	case err != nil:
		return nil, nil, err
	default:
		judge = Policy{Engine: engine, Rules: !rules.IsZero(), Entire: r.Entire}
	}
	proposed, err := l.proposedPolicy(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	mistakes = append(mistakes, proposed.Strings()...)
	if r.Against == compare.AgainstCommit { // a promotion brings an older commit, and the policies of the trunk stay
		own, err := l.Session.OwnPolicies().Proposed(ctx, r.Policy, r.Head.Tree)
		if err != nil {
			return nil, nil, err
		}
		mistakes = append(mistakes, own...)
	}
	return judge, mistakes, nil
}

// boundsOnly is an engine that judges only the bounds of workspaces.
type boundsOnly struct{ *policy.Engine }

// Check implements Engine.
func (e boundsOnly) Check(ctx context.Context, in policy.Input) (*policy.Result, error) {
	return e.Confine(ctx, in)
}

// proposedPolicy returns the mistakes in the head's policy, if it differs from the policy of the review. The head's
// policy applies after the merge, and a broken policy would then stop every hydration.
func (l Local) proposedPolicy(ctx context.Context, r *Request) (policy.Problems, error) {
	judging, err := policyTree(ctx, l.Session.Store, r.Policy)
	if err != nil {
		return nil, err
	}
	proposed, err := policyTree(ctx, l.Session.Store, r.Head.Tree)
	if errors.Is(err, gitstore.ErrMalformed) {
		return nil, nil // reading the fleet of that tree fails too, and the report says so
	}
	if err != nil || proposed.IsZero() || proposed == judging {
		return nil, err
	}
	_, err = l.Session.EnforcedPolicy(ctx, r.Head.Tree, false)
	if mistakes, invalid := errors.AsType[policy.Problems](err); invalid {
		return mistakes, nil
	}
	return nil, err
}

// policyTree returns the hash of the policy folder of a source commit's tree, zero if there is none.
func policyTree(ctx context.Context, store *gitstore.Store, tree gitstore.Hash) (gitstore.Hash, error) {
	entries, err := store.Tree(ctx, tree)
	if err != nil {
		return gitstore.Hash{}, err
	}
	for _, e := range entries {
		if e.Name == policy.Dir {
			return e.Hash, nil
		}
	}
	return gitstore.Hash{}, nil
}
