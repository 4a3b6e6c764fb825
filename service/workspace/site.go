package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site"
)

// Site reads the fleet of the trunk for its pages. It evaluates promotions and changes nothing. earlier is the
// previous result, or nil; Site updates its index and continues what it counted.
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
		r.Index, r.Touched = earlier.Index, earlier.Touched
	}
	if w.repo.Forge != nil {
		r.Posted = w.config.Statuses.of(w.repo.Place)
		if err := refreshStatuses(ctx, w, s, trunk.Tree, r.Posted); ctx.Err() != nil {
			return nil, ctx.Err()
		} else if err != nil {
			r.Problems = append(r.Problems, "the health of some clusters is out of date: cannot read commit statuses: "+err.Error())
		}
	}
	dry := promote.Request{Trunk: trunk, DryRun: true, Changes: site.Differ(s.Hydrator, w.FingerprintKey(), planPairs), CommandPrefix: "sluice"}
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
func refreshStatuses(ctx context.Context, w *Workspace, s *Session, trunk gitstore.Hash, into *site.Statuses) error {
	output, err := w.outputOf(ctx, trunk)
	if err != nil {
		return err
	}
	return PostedStatuses(ctx, s, trunk, w.repo.Forge, output, into)
}

// PostedStatuses reads the commit statuses of the rendered branches from a forge. output is the repository of these branches.
func PostedStatuses(ctx context.Context, s *Session, trunk gitstore.Hash, f forge.Forge, output forge.Repository, into *site.Statuses) error {
	return into.Refresh(ctx, s.Hydrator, trunk, &outside{forge: f, output: output}, s.runtime.Clock())
}

// MostBulk implements site.BulkReader.
func (o *outside) MostBulk() int {
	many, ok := o.forge.(forge.BulkStatuses)
	if !ok {
		return 0
	}
	return many.BulkSize()
}

// Bulk implements site.BulkReader.
func (o *outside) Bulk(ctx context.Context, commits []string) (map[string][]rollout.Status, error) {
	many, ok := o.forge.(forge.BulkStatuses)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	lists, err := many.StatusesOf(ctx, o.output, commits)
	switch _, limited := errors.AsType[*forge.RateLimitError](err); {
	case err == nil:
	case ctx.Err() != nil:
		return nil, err
	case limited || !errors.Is(err, forge.ErrUnavailable):
		// The forge has another limit for single commits, and what refuses this request, such as a proxy, may let those pass.
		return nil, errors.Join(errors.ErrUnsupported, err)
	default:
		return nil, unavailable(err)
	}
	out := make(map[string][]rollout.Status, len(lists))
	for commit, list := range lists {
		out[commit] = plainStatuses(list)
	}
	return out, nil
}

// Stretch implements site.Thrifty.
func (o *outside) Stretch(bulk bool) int {
	if many, ok := o.forge.(forge.BulkStatuses); ok && bulk {
		q, _ := many.BulkQuota()
		return q.Stretch()
	}
	if b, ok := o.forge.(forge.Budget); ok && !bulk {
		q, _ := b.Quota()
		return q.Stretch()
	}
	return 1
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
func Changes(ctx context.Context, w *Workspace, c site.Change) (*report.Review, error) {
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

// Tips returns a text that changes whenever a branch of the repository, or of its output repository, moves. The fleet names the output
// repository. If the output is in the repository itself, Tips reads the fleet only after a branch has moved; otherwise in every call.
func (w *Workspace) Tips(ctx context.Context) (string, error) {
	source, err := w.sourceRemote("")
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

// Outputs caches a digest of all branches of each repository that contains its own rendered branches. It is safe for concurrent use.
type Outputs struct{ known sync.Map } // hint.Place → digest of all branches

func digest(refs map[string]gitstore.Hash) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		fmt.Fprintf(sum, "%s %s\n", refs[name], name)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
