package verify

import (
	"context"
	"errors"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// Signature is the signature of a branch's tip.
type Signature struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	Signer string `json:"signer,omitempty"` // "" if spec.signers does not allow the signature
	Reason string `json:"reason,omitempty"` // why the signature is not allowed
}

func unsigned(ref string, e *gitstore.SignatureError) Signature {
	return Signature{Branch: ref, Commit: e.Commit.String(), Reason: e.Reason}
}

// ErrNoSigners means that spec.signers of the trunk is empty, so that no signature can be checked.
var ErrNoSigners = errors.New("spec.signers of the trunk's sluice.yaml is empty, so nothing says who may sign: list the keys in the form of Git's allowed-signers file")

// Signatures checks the signatures of the tips of environment branches, of their clusters' branches, and of the
// records, against spec.signers of the trunk. A signed tip vouches for the commits before it. The fleet of head names
// the branches; an empty list of names means all environments. It renders nothing.
func Signatures(ctx context.Context, h *hydrate.Hydrator, head gitstore.Commit, names []string) ([]Signature, error) {
	f, _, err := h.Fleet(ctx, head.Tree)
	if err != nil {
		return nil, err
	}
	t, err := readTrunk(ctx, h, f, head)
	if err != nil {
		return nil, err
	}
	if t.signers.Empty() {
		return nil, ErrNoSigners
	}
	refs, err := h.Branches.List(ctx, append(f.BranchPrefixes(), rollout.StateBranch)...)
	if err != nil {
		return nil, err
	}
	list, owners, err := signedBranches(f, names)
	if err != nil {
		return nil, err
	}
	var tips []gitstore.Hash
	for _, name := range list {
		if tip, ok := refs[name]; ok {
			tips = append(tips, tip)
		}
	}
	if err := h.Branches.Fetch(ctx, tips...); err != nil {
		return nil, err
	}
	var out []Signature
	for _, name := range list {
		tip, ok := refs[name]
		if !ok {
			continue
		}
		one, err := signatureOf(ctx, h, name, owners[name], tip, t)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// signedBranches lists the branches of environments and of their clusters, then the branch of the records, with their
// owners.
func signedBranches(f *fleet.Fleet, names []string) ([]string, map[string]branch.Owner, error) {
	environments, err := environmentsOf(f, names)
	if err != nil {
		return nil, nil, err
	}
	var out []string
	owners := map[string]branch.Owner{}
	add := func(name string, owner branch.Owner) { out, owners[name] = append(out, name), owner }
	for _, e := range environments {
		add(f.EnvironmentBranch(e), branch.Owner{Environment: e})
		for _, c := range f.ClustersOf(e) {
			add(f.ClusterBranch(c), branch.Owner{Environment: e, Cluster: c.Name})
		}
	}
	return append(out, rollout.StateBranch), owners, nil
}

func signatureOf(ctx context.Context, h *hydrate.Hydrator, name string, owner branch.Owner, tip gitstore.Hash,
	t *trunk,
) (Signature, error) {
	out := Signature{Branch: name, Commit: tip.String()}
	commit, err := h.Store.Commit(ctx, tip)
	if err != nil {
		return out, err
	}
	if name == rollout.StateBranch {
		out.Signer, err = h.Store.VerifySignature(ctx, tip, t.signers)
		if refused, ok := errors.AsType[*gitstore.SignatureError](err); ok {
			return unsigned(name, refused), nil
		}
		return out, err
	}
	origin, err := branch.Inspect(ctx, h.Store, commit, owner, t.signers)
	if origin.Unsigned != nil {
		return unsigned(name, origin.Unsigned), err
	}
	if origin.Misplaced {
		out.Reason = origin.Foreign
		return out, err
	}
	out.Signer = origin.Signer
	return out, err
}
