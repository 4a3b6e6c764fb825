package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate/promotion"
	"github.com/sluice-gitops/sluice/site"
)

// Site reads the fleet of the trunk for its pages. It evaluates promotions and changes nothing. earlier is the
// previous result, or nil; Site updates its index.
func (w *Workspace) Site(ctx context.Context, earlier *site.Fleet) (*site.Fleet, error) {
	trunk, _, err := w.TrunkTip(ctx)
	if err != nil {
		return nil, err
	}
	s, err := w.pushing(ctx, trunk.Tree)
	if err != nil {
		return nil, err
	}
	r := site.Request{Trunk: trunk, Now: w.now(), Version: w.config.Runtime.Version, Key: w.FingerprintKey()}
	if earlier != nil {
		r.Index = earlier.Index
	}
	if r.Statuses, err = w.promote(ctx, promotion.Request{Trunk: trunk, DryRun: true, CommandPrefix: "sluice"}); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		r.Problems = append(r.Problems, err.Error())
	}
	return site.Read(ctx, s.Hydrator, r)
}

// Tips returns a text that changes whenever a branch of the repository, or of its output repository, moves.
func (w *Workspace) Tips(ctx context.Context) (string, error) {
	source, err := w.sourceRemote("")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	refs, err := source.List(ctx, "")
	if err != nil {
		return "", err
	}
	s, err := w.pushingTrunk(ctx)
	if err != nil {
		return "", err
	}
	if s.Branches.String() != source.String() {
		output, err := s.Branches.List(ctx, "")
		if err != nil {
			return "", err
		}
		for name, tip := range output {
			refs["output "+name] = tip
		}
	}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		fmt.Fprintf(sum, "%s %s\n", refs[name], name)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
