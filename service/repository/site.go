package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/service/promotions"
	"github.com/sluice-gitops/sluice/site"
)

// Site reads the fleet of the trunk for its pages. It evaluates promotions and changes nothing. earlier is the
// previous result, or nil; Site updates its index and continues what it counted.
func (w *Session) Site(ctx context.Context, earlier *site.Fleet) (*site.Fleet, error) {
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
		r.Index, r.Touched, r.Images, r.Sources = earlier.Index, earlier.Touched, earlier.Images, earlier.Sources
		if earlier.Versions != nil {
			r.Versions = earlier.Versions.Known
		}
	}
	if w.repo.Forge != nil {
		r.Posted = w.config.Statuses.of(w.repo.Place)
		if err := w.refreshStatuses(ctx, s, trunk.Tree, r.Posted); ctx.Err() != nil {
			return nil, ctx.Err()
		} else if err != nil {
			r.Problems = append(r.Problems, "the health of some clusters is out of date: cannot read commit statuses: "+
				err.Error())
		}
	}
	dry := promote.Request{
		Trunk: trunk, DryRun: true, Changes: compare.Differ(s.Hydrator, w.FingerprintKey(), planPairs),
		CommandPrefix: "sluice",
	}
	if r.Posted != nil {
		dry.Adapters.Statuses = r.Posted.Reader(w.now())
	}
	if r.Statuses, err = w.promote(ctx, dry); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		r.Problems = append(r.Problems, err.Error())
	}
	return site.Read(ctx, s.Hydrator, r)
}

// refreshStatuses reads the commit statuses of the rendered branches that are due.
func (w *Session) refreshStatuses(ctx context.Context, s *session.Session, trunk gitstore.Hash,
	into *site.Statuses,
) error {
	output, err := w.outputOf(ctx, trunk)
	if err != nil {
		return err
	}
	return into.Refresh(ctx, s.Hydrator, trunk, promotions.Statuses{Forge: w.repo.Forge, Repository: output}, w.now())
}

// Statuses caches the commit statuses that the pages of each repository show. It is safe for concurrent use.
type Statuses struct{ known sync.Map } // hint.Place → *site.Statuses

func (s *Statuses) of(p hint.Place) *site.Statuses {
	have, _ := s.known.LoadOrStore(p, site.NewStatuses(site.StatusReads, site.BulkReads))
	return have.(*site.Statuses) //nolint:forcetypeassert // nothing else is stored
}

// planPairs limits the pairs of renderings that one call of Site compares to show the effect of the next promotions.
const planPairs = 500

// Changes makes the report of a change of an environment.
func (w *Session) Changes(ctx context.Context, c site.Change) (*report.Review, error) {
	trunk, _, err := w.TrunkTip(ctx)
	if err != nil {
		return nil, err
	}
	s, err := w.pushing(ctx, trunk.Tree)
	if err != nil {
		return nil, err
	}
	return c.Report(ctx, s.Hydrator, trunk.Tree, w.config.Runtime.Version, w.FingerprintKey())
}

// Tips returns a text that changes whenever a branch of the repository, or of its output repository, moves. The fleet
// names the output repository. If the output is in the repository itself, Tips reads the fleet only after a branch has
// moved; otherwise in every call.
func (w *Session) Tips(ctx context.Context) (string, error) {
	source, err := w.SourceRemote("")
	if err != nil {
		return "", err
	}
	refs, err := source.List(ctx, "")
	if err != nil {
		return "", err
	}
	own := digest(refs)
	if have, ok := w.config.Outputs.known.Load(w.repo.Place); ok && have == own {
		return own, nil
	}
	s, err := w.pushingTrunk(ctx)
	if err != nil {
		return "", err
	}
	if s.Branches.String() == source.String() {
		w.config.Outputs.known.Store(w.repo.Place, own)
		return own, nil
	}
	output, err := s.Branches.List(ctx, "")
	if err != nil {
		return "", err
	}
	return own + digest(output), nil
}

// Outputs caches a digest of all branches of each repository that contains its own rendered branches. It is safe for
// concurrent use.
type Outputs struct{ known sync.Map } // hint.Place → digest of all branches

func digest(refs map[string]gitstore.Hash) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		fmt.Fprintf(sum, "%s %s\n", refs[name], name)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
