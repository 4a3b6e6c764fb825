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
)

// Gate judges the change of an environment before it is written. hydrate/enforce implements it with the fleet's
// policy.
type Gate interface {
	// Judge returns the violations that forbid the change. An *admit.RefusedError refuses the whole environment, for
	// example because the policy cannot be loaded; any other error ends the run.
	Judge(ctx context.Context, c Change) ([]Violation, error)
}

// Change is the new content of an environment.
type Change struct {
	Environment string
	Fleet       *fleet.Fleet    // the fleet of Policy; says whether policy is enforced
	Policy      gitstore.Commit // the source commit whose policy applies
	Targets     []ChangedTarget // targets whose trees differ from the branch
	// rendered targets of workspaces, also unchanged ones: their bounds may have changed
	Confined []ChangedTarget
	Clusters map[string]gitstore.Hash // cluster → its tree after the change
	Before   map[string]gitstore.Hash // cluster → its tree on the branch
}

// ChangedTarget is a target with its trees. The old one is zero if the branch does not have the target.
type ChangedTarget struct {
	Target   *source.Target
	Old, New gitstore.Hash
}

// Violation is a finding that forbids a change, with its clusters.
type Violation struct {
	Rule     string   `json:"rule"`
	App      string   `json:"app"`
	Object   string   `json:"object"`
	Path     string   `json:"path,omitempty"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
	Clusters []string `json:"clusters"`
}

// judge returns an *admit.RefusedError for a change that violates the policy, and adds a workspace whose targets
// violate it to held. The commits record the rules that the request allows.
func (r *run) judge(ctx context.Context, out *EnvironmentResult, st *branch.State, tree *written, held holds) error {
	if r.h.Gate == nil || len(tree.changed)+len(tree.confined) == 0 {
		return nil
	}
	change := Change{
		Environment: out.Name, Fleet: r.view.Fleet, Policy: r.request.Commit, Targets: tree.changed,
		Confined: tree.confined, Clusters: tree.clusters, Before: st.Clusters,
	}
	if !out.unmergedAt.IsZero() { // the trunk's policy applies, and the trunk says whether it is enforced
		trunk, err := r.h.Store.Commit(ctx, out.unmergedAt)
		if err != nil {
			return err
		}
		change.Policy = trunk
		if change.Fleet, _, err = r.h.Fleet(ctx, trunk.Tree); err != nil {
			if _, invalid := errors.AsType[fleet.Problems](err); invalid {
				return admit.Refusef("the fleet of the trunk, which says whether policy is enforced, cannot be read: %v", err)
			}
			return err
		}
	}
	r.h.Progress("check policy of "+out.Name, 0, 0)
	found, err := r.h.Gate.Judge(ctx, change)
	if err != nil {
		return err
	}
	excepted, remaining := map[string]int{}, []Violation{}
	for _, v := range found {
		if slices.Contains(r.request.AllowPolicy, v.Rule) {
			excepted[v.Rule]++
			continue
		}
		remaining = append(remaining, v)
	}
	for _, rule := range r.request.AllowPolicy {
		if n := excepted[rule]; n > 0 {
			out.policyExceptions = append(out.policyExceptions, rule+": "+r.request.Reason)
			out.Exceptions = append(out.Exceptions, fmt.Sprintf("%s of policy rule %s allowed: %s",
				Count(n, "violation"), rule, r.request.Reason))
		}
	}
	if out.Violations = held.violated(remaining); len(out.Violations) > 0 {
		rules := rulesOf(out.Violations)
		return admit.Refusef("%s of the policy (%s): fix the source, add an Exemption under policy/, or run with --allow-policy %s --reason TEXT as a recorded exception",
			Count(len(out.Violations), "violation"), strings.Join(rules, ", "), strings.Join(rules, ","))
	}
	return nil
}

func rulesOf(list []Violation) []string {
	var out []string
	for _, v := range list {
		out = append(out, v.Rule)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
