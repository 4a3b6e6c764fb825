package signature

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Archives are the charts of a Fetcher, with a check of who signed them.
type Archives struct{ *fetch.Fetcher }

// Verify requires that one of the signers signed the locked archive. It asks the repository or registry for signatures
// and keeps them in the cache, as they are: every call checks them. An error wraps ErrUnsigned if no signer signed the
// archive.
func (a Archives) Verify(ctx context.Context, r fetch.Ref, l fetch.Locked, signers []Signer) error {
	archive, err := a.Archive(ctx, r, l)
	if err != nil {
		return err
	}
	if known := fetch.KnownEvidence(a.Fetcher, l); known != nil {
		if _, err := Verify(archive, *known, signers); err == nil {
			return nil
		}
	}
	var provenance, cosign bool
	for _, s := range signers {
		provenance, cosign = provenance || s.Provenance(), cosign || !s.Provenance()
	}
	e, missing := a.Evidence(ctx, r, l, provenance, cosign)
	if _, err := Verify(archive, e, signers); err != nil {
		if missing != nil { // the signature can be in what could not be read
			return missing
		}
		return fmt.Errorf("chart %s, locked to %s: %w", r, safetext.Brief(l.Version, 60), err)
	}
	fetch.KeepEvidence(a.Fetcher, l, e)
	return nil
}
