package hydrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/signers"
)

// creatingPrefix begins the name of a marker branch. It exists while the first run of an environment pushes its
// branches in several steps. If such a run is interrupted, the marker tells the next run that nobody deleted the
// environment branch.
const creatingPrefix = "sluice/creating/"

// listBranches reads the branches of the fleet's outputs into r.refs, and Sluice's own branches into r.own.
func (r *run) listBranches(ctx context.Context) error {
	r.h.Progress("list branches", 0, 0)
	refs, err := r.h.Branches.List(ctx, append(r.view.Fleet.BranchPrefixes(), creatingPrefix, promote.StateBranch)...)
	if err != nil {
		return err
	}
	r.refs, r.own = refs, map[string]gitstore.Hash{}
	for name, tip := range refs {
		if name == promote.StateBranch || strings.HasPrefix(name, creatingPrefix) {
			r.own[name] = tip
			delete(refs, name)
		}
	}
	return nil
}

// admitNew refuses to create an environment branch that existed before. Git shows that: a cluster branch of the
// environment, a record of its promotions, or a branch that was promoted from it.
func (r *run) admitNew(ctx context.Context, out *EnvironmentResult, st *branch.State) error {
	if r.request.Recreate {
		return nil
	}
	marked, err := r.marked(ctx, out.Name)
	if err := out.refusal(err); err != nil || out.Status != "" || marked {
		return err
	}
	for _, evidence := range []func(context.Context, string) (string, error){r.clusterBranch, r.promotionRecord, r.promotedFrom} {
		found, err := evidence(ctx, out.Name)
		if err := out.refusal(err); err != nil || out.Status != "" {
			return err
		}
		if found != "" {
			out.refuse("somebody deleted %s (%s): run with --recreate to create it again", st.Branch, found)
			return nil
		}
	}
	return nil
}

// marked reports whether the marker branch says that an interrupted run began to create the environment. Where spec.signers lists keys,
// the marker must be at a commit of the environment's branch that one of them signed.
func (r *run) marked(ctx context.Context, environment string) (bool, error) {
	marker := creatingPrefix + environment
	tip := r.own[marker]
	if tip.IsZero() || r.signers.Empty() {
		return !tip.IsZero(), nil
	}
	if err := r.h.Branches.Fetch(ctx, tip); err != nil {
		return false, err
	}
	commit, err := evidence(ctx, r.h.Store, r.signers, marker, tip)
	if err != nil {
		return false, err
	}
	return branch.Trailer(commit.Message, branch.TrailerEnvironment) == environment && branch.Trailer(commit.Message, branch.TrailerCluster) == "", nil
}

// clusterBranch returns a branch of one of the environment's clusters. If a cluster moved here from another
// environment, its branch has the trailer of that environment and does not count.
func (r *run) clusterBranch(ctx context.Context, environment string) (string, error) {
	for _, c := range r.view.Fleet.ClustersOf(environment) {
		name := r.view.Fleet.ClusterBranch(c)
		tip, ok := r.refs[name]
		if !ok {
			continue
		}
		commit, err := evidence(ctx, r.h.Store, r.signers, name, tip)
		if err != nil {
			return "", err
		}
		if branch.Trailer(commit.Message, branch.TrailerEnvironment) == environment {
			return name + " exists", nil
		}
	}
	return "", nil
}

// evidence returns the tip of a branch that may tell whether somebody deleted the environment's. Where spec.signers lists keys, a tip
// that none of them signed tells nothing, in either direction: everybody who may push can write its trailers, or leave them out.
func evidence(ctx context.Context, store *gitstore.Store, allowed signers.List, name string, tip gitstore.Hash) (gitstore.Commit, error) {
	if !allowed.Empty() {
		_, err := store.VerifySignature(ctx, tip, allowed)
		if unsigned, ok := errors.AsType[*gitstore.SignatureError](err); ok {
			return gitstore.Commit{}, &RefusedError{Reason: fmt.Sprintf("the tip of %s does not have a signature that spec.signers allows, so it does not tell whether somebody deleted "+
				"the environment's branch: %v: look at the history of %[1]s, or run with --recreate", name, unsigned)}
		}
		if err != nil {
			return gitstore.Commit{}, err
		}
	}
	return store.Commit(ctx, tip)
}

// promotionRecord looks for states of the environment in the record of its promotions.
func (r *run) promotionRecord(ctx context.Context, environment string) (string, error) {
	tip := r.own[promote.StateBranch]
	if tip.IsZero() {
		return "", nil
	}
	if err := r.h.Branches.Fetch(ctx, tip); err != nil {
		return "", err
	}
	commit, err := evidence(ctx, r.h.Store, r.signers, promote.StateBranch, tip)
	if err != nil {
		return "", err
	}
	data, err := r.h.Store.Snapshot(ctx, commit.Tree).ReadFile(promote.RecordPath(environment))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	record, err := promote.DecodeRecord(environment, data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", promote.StateBranch, err)
	}
	if len(record.Ran) == 0 {
		return "", nil
	}
	return promote.StateBranch + " records what it ran", nil
}

// promotedFrom looks for a branch that was promoted from the environment.
func (r *run) promotedFrom(ctx context.Context, environment string) (string, error) {
	for _, e := range r.view.Fleet.Spec.Environments {
		name := r.view.Fleet.EnvironmentBranch(e.Name)
		tip := r.refs[name]
		if tip.IsZero() || !slices.Contains(e.After, environment) {
			continue
		}
		if err := r.h.Branches.Fetch(ctx, tip); err != nil {
			return "", err
		}
		commit, err := evidence(ctx, r.h.Store, r.signers, name, tip)
		if err != nil {
			return "", err
		}
		if slices.Contains(strings.Split(branch.Trailer(commit.Message, branch.TrailerFrom), ", "), environment) {
			return name + " was promoted from it", nil
		}
	}
	return "", nil
}

// push moves the branches of an environment. If the first run of an environment needs several pushes, it creates the
// marker branch before them and deletes it afterwards.
func (r *run) push(ctx context.Context, out *EnvironmentResult, created bool, moves []gitstore.Move, w *gitstore.Writer) (Status, string, error) {
	options := gitstore.PushOptions{PerPush: r.request.PerPush}
	marker := creatingPrefix + out.Name
	mark := r.own[marker]
	if target, err := gitstore.ParseHash(out.New); created && err == nil && r.request.PerPush > 0 && len(moves) > r.request.PerPush && mark.IsZero() {
		results, err := r.h.Branches.Push(ctx, w, []gitstore.Move{{Branch: marker, New: target}}, options)
		if err != nil {
			return "", "", err
		}
		if status, reason := PushStatus(results); status != StatusUpdated {
			return status, reason, nil
		}
		mark = target
	}
	results, err := r.h.Branches.Push(ctx, w, moves, options)
	if err != nil {
		return "", "", err
	}
	status, reason := PushStatus(results)
	if status == StatusUpdated && !mark.IsZero() {
		results, err := r.h.Branches.Push(ctx, nil, []gitstore.Move{{Branch: marker, Old: mark}}, options)
		if err != nil {
			return "", "", err
		}
		status, reason = PushStatus(results)
	}
	return status, reason, nil
}
