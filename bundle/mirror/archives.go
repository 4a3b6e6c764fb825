package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
)

// Archives are the charts of the fetcher's cache, of a mirror, and then of the network. It implements source.Archives.
type Archives struct {
	signature.Archives // nil: of the mirror alone
	Mirror             *Mirror
}

// errAlone is a chart that is neither here nor asked for elsewhere.
var errAlone = errors.New("neither the bundle nor the mirror of this site has it, and no network is asked")

// Archive returns the locked archive.
func (a Archives) Archive(ctx context.Context, r fetch.Ref, l fetch.Locked) ([]byte, error) {
	if a.Fetcher != nil {
		if data := a.Cached(l); data != nil {
			return data, nil
		}
	}
	data, err := a.Mirror.Chart(ctx, l.Digest)
	if data != nil {
		return data, nil
	}
	if a.Fetcher == nil {
		return nil, fmt.Errorf("chart %s: %w", r, errors.Join(errAlone, err))
	}
	return a.Archives.Archive(ctx, r, l) // if the mirror cannot be read, this says what is missing
}

// Verify requires that one of the signers signed the locked archive.
func (a Archives) Verify(ctx context.Context, r fetch.Ref, l fetch.Locked, signers []signature.Signer) error {
	data, err := a.Archive(ctx, r, l)
	if err != nil {
		return err
	}
	var failed error
	if known := a.known(l); known != nil {
		if _, failed = signature.Verify(data, *known, signers); failed == nil {
			return nil
		}
	}
	brought, err := a.Mirror.Evidence(ctx, l.Digest)
	if brought != nil {
		if _, failed = signature.Verify(data, *brought, signers); failed == nil {
			return nil
		}
	}
	switch {
	case a.Fetcher != nil:
		return a.Archives.Verify(ctx, r, l, signers)
	case failed != nil:
		return fmt.Errorf("chart %s: %w", r, failed)
	}
	return fmt.Errorf("the signatures of chart %s: %w", r, errors.Join(errAlone, err))
}

// known returns the signatures in the cache; nil if it has none.
func (a Archives) known(l fetch.Locked) *fetch.Evidence {
	if a.Fetcher == nil {
		return nil
	}
	return fetch.KnownEvidence(a.Fetcher, l)
}

// Commits are the commits of a mirror, and no others. It implements source.Commits.
type Commits struct{ Mirror *Mirror }

// FetchCommit returns without an error if the mirror has the commit.
func (c Commits) FetchCommit(ctx context.Context, at fleet.GitCommit) error {
	hash, err := gitstore.ParseHash(at.Commit)
	if err != nil {
		return err
	}
	ok, err := c.Mirror.Commit(ctx, hash, at.Nested)
	if err == nil && !ok {
		err = errAlone
	}
	return err
}
