package admit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// requireNew refuses to create an environment branch that existed before. The evidence is in Git: a cluster branch of
// the environment, a record of its promotions, or a branch that was promoted from it.
func (c *Checker) requireNew(ctx context.Context, environment string, refs *Refs, name string) error {
	if c.Request.Recreate {
		return nil
	}
	d := deletion{Checker: c, refs: refs, environment: environment}
	if marked, err := d.marked(ctx); err != nil || marked {
		return err
	}
	for _, evidence := range []func(context.Context) (string, error){
		d.clusterBranch, d.promotionRecord,
		d.promotedFrom,
	} {
		found, err := evidence(ctx)
		if err != nil {
			return err
		}
		if found != "" {
			return Refusef("somebody deleted %s (%s): run with --recreate to create it again", name, found)
		}
	}
	return nil
}

// deletion looks for evidence that somebody deleted the branch of an environment.
type deletion struct {
	*Checker
	refs        *Refs
	environment string
}

// marked reports whether the marker branch says that an interrupted run began to create the environment. Where
// spec.signers lists keys, the marker must be at a commit of the environment's branch that one of them signed.
func (d *deletion) marked(ctx context.Context) (bool, error) {
	marker, tip := d.refs.Marker(d.environment)
	if tip.IsZero() || d.Signers.Empty() {
		return !tip.IsZero(), nil
	}
	commit, err := d.tip(ctx, marker, tip)
	if err != nil {
		return false, err
	}
	return branch.Trailer(commit.Message, branch.TrailerEnvironment) == d.environment &&
		branch.Trailer(commit.Message, branch.TrailerCluster) == "", nil
}

// clusterBranch returns a branch of one of the environment's clusters. If a cluster moved here from another
// environment, its branch has the trailer of that environment and does not count.
func (d *deletion) clusterBranch(ctx context.Context) (string, error) {
	for _, c := range d.Request.Fleet.ClustersOf(d.environment) {
		name := d.Request.Fleet.ClusterBranch(c)
		tip, ok := d.refs.Output[name]
		if !ok {
			continue
		}
		commit, err := d.tip(ctx, name, tip)
		if err != nil {
			return "", err
		}
		if branch.Trailer(commit.Message, branch.TrailerEnvironment) == d.environment {
			return name + " exists", nil
		}
	}
	return "", nil
}

// tip fetches the commit at the tip of a branch, which may tell whether somebody deleted the environment's. Where
// spec.signers lists keys, it refuses a commit that none of them signed: everybody who may push can write its trailers,
// or leave them out.
func (d *deletion) tip(ctx context.Context, name string, hash gitstore.Hash) (gitstore.Commit, error) {
	if err := d.Branches.Fetch(ctx, hash); err != nil {
		return gitstore.Commit{}, fmt.Errorf("tip of %s: %w", name, err)
	}
	if !d.Signers.Empty() {
		_, err := d.Store.VerifySignature(ctx, hash, d.Signers)
		if unsigned, ok := errors.AsType[*gitstore.SignatureError](err); ok {
			return gitstore.Commit{},
				Refusef("the tip of %s does not have a signature that spec.signers allows, so it does not tell whether somebody deleted "+
					"the environment's branch: %v: look at the history of %[1]s, or run with --recreate", name, unsigned)
		}
		if err != nil {
			return gitstore.Commit{}, err
		}
	}
	return d.Store.Commit(ctx, hash)
}

// promotionRecord looks for states of the environment in the record of its promotions.
func (d *deletion) promotionRecord(ctx context.Context) (string, error) {
	tip := d.refs.Own[rollout.StateBranch]
	if tip.IsZero() {
		return "", nil
	}
	commit, err := d.tip(ctx, rollout.StateBranch, tip)
	if err != nil {
		return "", err
	}
	data, err := d.Store.Snapshot(ctx, commit.Tree).ReadFile(rollout.RecordPath(d.environment))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	record, err := rollout.DecodeRecord(d.environment, data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", rollout.StateBranch, err)
	}
	if len(record.Ran) == 0 {
		return "", nil
	}
	return rollout.StateBranch + " records what it ran", nil
}

// promotedFrom looks for a branch that was promoted from the environment.
func (d *deletion) promotedFrom(ctx context.Context) (string, error) {
	for _, e := range d.Request.Fleet.Spec.Environments {
		name := d.Request.Fleet.EnvironmentBranch(e.Name)
		tip := d.refs.Output[name]
		if tip.IsZero() || !slices.Contains(e.After, d.environment) {
			continue
		}
		commit, err := d.tip(ctx, name, tip)
		if err != nil {
			return "", err
		}
		if slices.Contains(strings.Split(branch.Trailer(commit.Message, branch.TrailerFrom), ", "), d.environment) {
			return name + " was promoted from it", nil
		}
	}
	return "", nil
}
