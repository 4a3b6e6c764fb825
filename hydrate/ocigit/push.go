package ocigit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

const (
	manyLayers = 32 // from here on, the newest layers become one
	fewest     = 16 // of them
	// annotationJoins lists the layers that one replaces.
	annotationJoins = "sluice.dev/joins"
)

func joinsOf(l ocispec.Descriptor) []string { return strings.Fields(l.Annotations[annotationJoins]) }

// Push implements gitstore.Branches. All branches move together, so it ignores PerPush, and Unmoved are compared
// together with the moves.
func (r *Repository) Push(ctx context.Context, _ *gitstore.Writer, moves []gitstore.Move, o gitstore.PushOptions) ([]gitstore.MoveResult,
	error,
) {
	if err := gitstore.CheckMoves(moves); err != nil || len(moves) == 0 {
		return nil, err
	}
	r.pushing.Lock()
	defer r.pushing.Unlock()
	now, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	if bad := gitstore.Conflicts(now.branches, moves, o.Unmoved); len(bad) > 0 {
		return bad, nil
	}
	p := push{Repository: r, moves: moves, unmoved: o.Unmoved}
	if err := p.prepare(ctx, now); err != nil { // before the lease, because it can take long
		return nil, err
	}
	held, err := r.take(ctx)
	if err != nil {
		return nil, within(r.Name, "the lease", err)
	}
	defer func() { r.idle = time.AfterFunc(2*r.Timing.Settle, r.Close) }()
	return p.swap(ctx, held)
}

// push is one call of Push.
type push struct {
	*Repository
	moves   []gitstore.Move
	unmoved map[string]gitstore.Hash

	basis  version              // that layers continues
	layers []ocispec.Descriptor // after the push
	pack   []byte               // what it adds; nil: nothing
}

// prepare uploads the objects that a version lacks.
func (p *push) prepare(ctx context.Context, basis version) error {
	if err := p.load(ctx, basis); err != nil {
		return err
	}
	var tips []gitstore.Hash
	for _, m := range p.moves {
		if !m.New.IsZero() {
			tips = append(tips, m.New)
		}
	}
	pack := bounded{limit: p.maxPack}
	n, err := p.Store.WriteMissing(ctx, &pack, p.cache.objects().Has, tips...)
	if errors.Is(err, errTooLarge) {
		return fmt.Errorf("%s: the push has more than the %d MiB that a layer may have: hydrate one environment after the other, with --env",
			p.Name, p.maxPack>>20)
	}
	if err != nil {
		return err
	}
	p.basis, p.layers, p.pack = basis, basis.layers, nil
	if n == 0 {
		return nil
	}
	p.pack = pack.Bytes()
	if p.layers, err = p.join(ctx, basis.layers); err != nil {
		return within(p.Name, "the objects", err)
	}
	added := newBlob(packType, p.pack)
	p.layers = append(p.layers, added.Descriptor)
	return within(p.Name, "the objects", p.Registry.Upload(ctx, added.Descriptor, added.data))
}

var errTooLarge = errors.New("too large")

// bounded is a buffer that takes so many bytes, and then returns errTooLarge.
type bounded struct {
	bytes.Buffer
	limit int
}

// Write implements io.Writer.
func (b *bounded) Write(data []byte) (int, error) {
	if b.Len()+len(data) > b.limit {
		return 0, errTooLarge
	}
	return b.Buffer.Write(data)
}

// join returns the layers, of which one replaces the newest if there are many.
func (p *push) join(ctx context.Context, layers []ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	kept, total := len(layers), int64(0)
	for kept > 0 && len(layers) >= manyLayers && total+layers[kept-1].Size <= maxPack/2 &&
		(len(layers)-kept < fewest || layers[kept-1].Size <= 2*total) {
		kept--
		total += layers[kept].Size
	}
	if len(layers)-kept < 2 {
		return slices.Clone(layers), nil
	}
	var packs [][]byte
	for _, l := range layers[kept:] {
		one, err := p.Registry.Blob(ctx, l, maxPack)
		if err != nil {
			return nil, err
		}
		packs = append(packs, one)
	}
	data, err := gitstore.JoinThin(packs...)
	if err != nil {
		return nil, err
	}
	joined := newBlob(packType, data)
	joined.Annotations = map[string]string{annotationJoins: strings.Join(namesOf(layers[kept:]), " ")}
	return append(slices.Clone(layers[:kept]), joined.Descriptor), p.Registry.Upload(ctx, joined.Descriptor, joined.data)
}

// swap moves the branches, with the lease.
func (p *push) swap(ctx context.Context, held lease) (results []gitstore.MoveResult, err error) {
	limited, stop := context.WithDeadline(ctx, held.Until.Add(-p.Timing.Settle))
	defer stop()
	now, err := p.read(limited)
	if err != nil {
		return nil, err
	}
	if now.sequence < p.newest {
		return nil, p.setBack(now.sequence, p.newest)
	}
	p.newest = now.sequence
	if bad := gitstore.Conflicts(now.branches, p.moves, p.unmoved); len(bad) > 0 {
		return bad, nil
	}
	if now.digest != p.basis.digest {
		if err := p.prepare(limited, now); err != nil {
			return nil, err
		}
	}
	after, manifest, described, err := now.next(p.moves, p.layers)
	if err != nil {
		return nil, within(p.Name, "the branches", err)
	}
	if err := p.Registry.Upload(limited, described.Descriptor, described.data); err != nil {
		return nil, within(p.Name, "the list of branches", err)
	}
	writing, stop := context.WithTimeout(ctx, p.Timing.Settle)
	defer stop()
	has, err := p.readLease(writing)
	if err != nil {
		return nil, within(p.Name, "the lease", err)
	}
	if has.digest != held.digest || limited.Err() != nil {
		p.held = lease{} // it is somebody else's, or soon
		return nil, fmt.Errorf("%s: %w: the lease went to %s, because this run took too long", p.Name, gitstore.ErrConflict, has.heldBy())
	}
	cause := p.Registry.Tag(writing, manifest.Descriptor, manifest.data, StateTag)
	results, err = p.outcome(ctx, after, cause)
	if err == nil && results[0].State == gitstore.Updated {
		p.newest = after.sequence
		_ = p.remember(ctx, after) // the branches have moved; what the cache lacks is read from the registry
	}
	return results, err
}

// outcome says what became of the moves. Only what the registry has now counts, whatever it answered.
func (p *push) outcome(ctx context.Context, after version, cause error) ([]gitstore.MoveResult, error) {
	const patience = 15 * time.Second
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer stop()
	desc, err := p.Registry.Resolve(ctx, StateTag)
	if err == nil && desc.Digest.String() == after.digest {
		return p.all(gitstore.Updated, ""), nil
	}
	if err != nil {
		if cause == nil {
			cause = err
		}
		return p.all(gitstore.Unknown, "the registry does not say where the branches are"), within(p.Name, "push", cause)
	}
	now, err := p.read(ctx)
	if err != nil {
		return p.all(gitstore.Unknown, "the registry does not say where the branches are"), err
	}
	if now.digest == p.basis.digest {
		if cause == nil {
			cause = fmt.Errorf("%w: the registry did not move the tag %s", fetch.ErrInvalid, StateTag)
		}
		return p.all(gitstore.Unknown, "the branch has not moved yet"), within(p.Name, "push", cause)
	}
	out := p.all(gitstore.Conflict, "another run wrote at the same time")
	for i, m := range p.moves {
		if now.branches[m.Branch] == m.New {
			out[i].State, out[i].Reason = gitstore.Updated, ""
		}
	}
	return out, nil
}

func (p *push) all(s gitstore.State, reason string) []gitstore.MoveResult {
	out := make([]gitstore.MoveResult, len(p.moves))
	for i, m := range p.moves {
		out[i] = gitstore.MoveResult{Move: m, State: s, Reason: reason}
	}
	return out
}

// remember keeps what the registry has now in the cache.
func (p *push) remember(ctx context.Context, after version) error {
	p.mu.Lock()
	p.last = after
	p.mu.Unlock()
	if p.pack != nil {
		added := after.layers[len(after.layers)-1]
		if err := p.cache.add(context.WithoutCancel(ctx), added, p.pack); err != nil {
			return err
		}
	}
	return p.cache.note(after)
}
