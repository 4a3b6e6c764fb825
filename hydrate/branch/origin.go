package branch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/signers"
)

// Origin says who made the tip of an environment or cluster branch.
type Origin struct {
	// Rendered is the commit that Sluice made: the tip itself, the promotion that the tip merges, or the commit that
	// an empty signed tip accepts. If Foreign is not empty, it is the tip.
	Rendered gitstore.Commit
	Signer   string // the allowed signer of the tip, or of the promotion that it merges; "" without a list of signers
	Foreign  string // reason why Sluice did not make the tip; "" if it did
	// Unsigned is the cause of Foreign if spec.signers does not allow the tip's signature.
	Unsigned *gitstore.SignatureError
	// Misplaced means that the tip is foreign because Sluice made it for another branch.
	Misplaced bool
}

// Owner is the environment, or the cluster of one, that a branch belongs to.
type Owner struct{ Environment, Cluster string }

// Inspect determines who made the tip of a branch. If allowed is not empty, one of its signers must have signed the
// tip, because anybody can write trailers. A signed tip vouches for the commits before it, since Sluice adds no
// commit to a tip that it refuses. A commit that Sluice made for another environment or cluster is foreign, because a
// signature does not name the branch.
func Inspect(ctx context.Context, store *gitstore.Store, tip gitstore.Commit, owner Owner,
	allowed signers.List,
) (Origin, error) {
	out, err := inspect(ctx, store, tip, allowed)
	if err != nil || out.Foreign != "" {
		return out, err
	}
	environment, cluster := Trailer(out.Rendered.Message, TrailerEnvironment),
		Trailer(out.Rendered.Message, TrailerCluster)
	switch {
	case environment == "":
		out.Foreign = notMade(tip)
	case cluster != "" && owner.Cluster != "":
		if cluster != owner.Cluster {
			out.misplace(tip, "cluster "+cluster)
		}
		return out, nil // even if it names another environment, where the cluster may have been before
	case environment != owner.Environment:
		out.misplace(tip, "environment "+environment)
	case owner.Cluster != "": // older versions of Sluice do not write the cluster
		root, err := store.Tree(ctx, out.Rendered.Tree)
		if err != nil {
			return out, err
		}
		if slices.ContainsFunc(root, func(e gitstore.Entry) bool { return e.Name == Dir }) {
			out.misplace(tip, "environment "+environment)
		}
	}
	return out, nil
}

func (o *Origin) misplace(tip gitstore.Commit, owner string) {
	o.Misplaced, o.Foreign = true, fmt.Sprintf("its commit %s was made for the %s, not for this branch", tip.Hash,
		owner)
}

func notMade(tip gitstore.Commit) string {
	return fmt.Sprintf("its commit %s by %s was not made by Sluice", tip.Hash.Short(), tip.Author.Name)
}

// inspect checks everything except that the trailers match the owner.
func inspect(ctx context.Context, store *gitstore.Store, tip gitstore.Commit, allowed signers.List) (Origin, error) {
	out := Origin{Rendered: tip}
	merged, err := MergedPromotion(ctx, store, tip)
	if err != nil {
		return out, err
	}
	if merged != nil {
		out.Rendered = *merged
	}
	if allowed.Empty() {
		return out, nil
	}
	out.Signer, err = store.VerifySignature(ctx, tip.Hash, allowed)
	if merged != nil && errors.Is(err, gitstore.ErrUnverified) {
		out.Signer, err = store.VerifySignature(ctx, merged.Hash, allowed)
	}
	if unsigned, ok := errors.AsType[*gitstore.SignatureError](err); ok {
		out.Rendered, out.Unsigned = tip, unsigned
		out.Foreign = fmt.Sprintf("its commit %s by %s does not have a signature that spec.signers allows: %s",
			tip.Hash, tip.Author.Name, unsigned.Reason)
		return out, nil
	}
	if err != nil || merged != nil {
		return out, err
	}
	out.Rendered, err = accepted(ctx, store, tip)
	return out, err
}

// MergedPromotion returns the commit of Sluice that the tip merges, if the tip is the forge's merge of a promotion's
// merge request: a merge of one commit of Sluice onto its parent, with an unchanged tree. It returns nil for any other
// tip.
func MergedPromotion(ctx context.Context, store *gitstore.Store, tip gitstore.Commit) (*gitstore.Commit, error) {
	if len(tip.Parents) != 2 {
		return nil, nil //nolint:nilnil // the tip merges nothing
	}
	merged, err := store.Commit(ctx, tip.Parents[1])
	if errors.Is(err, gitstore.ErrNotFound) || errors.Is(err, gitstore.ErrShallow) {
		return nil, nil //nolint:nilnil // not a commit of Sluice: the store would have it
	}
	if err != nil {
		return nil, err
	}
	if merged.Tree != tip.Tree || Trailer(merged.Message, TrailerSource) == "" || len(merged.Parents) != 1 ||
		merged.Parents[0] != tip.Parents[0] {
		return nil, nil //nolint:nilnil // the merge of something else
	}
	return &merged, nil
}

// accepted returns the rendered commit below empty commits without trailers. An allowed signer accepts a branch with
// such a commit (`git commit --allow-empty -S`). It returns the tip if there is none.
func accepted(ctx context.Context, store *gitstore.Store, tip gitstore.Commit) (gitstore.Commit, error) {
	const limit = 20 // empty commits
	at := tip
	for range limit {
		if Trailer(at.Message, TrailerSource) != "" {
			return at, nil
		}
		if len(at.Parents) != 1 {
			break
		}
		parent, err := store.Commit(ctx, at.Parents[0])
		if errors.Is(err, gitstore.ErrNotFound) || errors.Is(err, gitstore.ErrShallow) {
			break // end of the available history
		}
		if err != nil {
			return tip, err
		}
		if parent.Tree != tip.Tree {
			break
		}
		at = parent
	}
	return tip, nil
}
