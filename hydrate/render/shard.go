package render

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer"
)

// A shard travels as CBOR. Whoever renders it also writes the trees of its targets and compresses their files, so the result is a packfile,
// which the sender adds to its own as it is.

const (
	shardBytes  = 8 << 20  // bytes of a shard's bundles and contents; the shard is sent when it reaches them
	resultBytes = 32 << 20 // bytes of a result; the sender renders what is above it
	noteChars   = 1600     // of one line of a note
)

// shardJob asks for the trees of bundles. Equal jobs have equal trees, because it has everything that these depend on.
type shardJob struct {
	Version string
	Owner   string // the repository: workers and strikes are never shared between repositories
	Load    renderer.Load
	Places  []place // of the bundles
}

// shardResult has an answer for each bundle. The packfile has the trees of the answers and their files.
type shardResult struct {
	Pack    []byte
	Answers []shardAnswer
	Took    time.Duration
}

// shardAnswer has exactly one of Tree, Objects and Again.
type shardAnswer struct {
	Tree    *shardTree
	Objects *renderer.Answer // no tree: the sender has to write the objects, because it knows the branch, or there is an error
	Again   bool             // the sender has to render the bundle
}

// shardTree is a target's tree.
type shardTree struct {
	Hash    gitstore.Hash
	Defines []renderer.Definition
	Assumes []string
	Notes   []string // of the renderer
	Merged  []string // of writing it
}

// Machine renders shards of Farms on other machines. It is safe for concurrent use.
type Machine struct {
	options MachineOptions
	heavy   chan struct{} // places of targets that are not light, of all shards
	places  chan struct{} // of shards: one for each process, because shards that are rendered together also end and travel together
}

// MachineOptions are what the shards of a Machine depend on.
type MachineOptions struct {
	Renderers func(owner string) renderer.Renderer
	Version   string // everything that a tree depends on apart from its bundle and its place
	Parallel  int    // processes that a renderer may use
	Clock     func() time.Time
}

// NewMachine returns a Machine that renders nothing yet.
func NewMachine(o MachineOptions) *Machine {
	return &Machine{options: o, heavy: make(chan struct{}, o.Parallel+1), places: make(chan struct{}, o.Parallel)}
}

// Shard renders a shard of a Farm of the same version with this machine's renderer for the Farm's owner. Of several calls, as many render at
// once as there are processes; call it more often, so that a process has work while results travel. If one bundle fails, the others
// still have trees. An error means that there is no result: the shard has another version or cannot be read, or ctx ended.
func (m *Machine) Shard(ctx context.Context, data []byte) ([]byte, error) {
	var job shardJob
	if err := renderer.Decode(data, &job); err != nil {
		return nil, fmt.Errorf("read a shard: %w", err)
	}
	if job.Version != m.options.Version {
		return nil, fmt.Errorf("the shard is for the version %s, this is %s", job.Version, m.options.Version)
	}
	bundles, err := job.Load.Unpack()
	if err == nil && len(bundles) != len(job.Places) {
		err = fmt.Errorf("it has %d bundles and %d places", len(bundles), len(job.Places))
	}
	if err != nil {
		return nil, fmt.Errorf("read a shard: %w", err)
	}
	w, err := gitstore.OpenEmpty().NewWriter()
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }() // it is in memory
	result, err := m.render(ctx, &job, bundles, w)
	if err != nil {
		return nil, err
	}
	if result.Pack, err = w.Pack(); err != nil {
		return nil, err
	}
	return renderer.Encode(result)
}

// render renders the bundles of a shard when the shard has a place.
func (m *Machine) render(ctx context.Context, job *shardJob, bundles []renderer.Bundle, w *gitstore.Writer) (shardResult, error) {
	select {
	case m.places <- struct{}{}:
		defer func() { <-m.places }() // after a panic too: the queue delivers the shard again
	case <-ctx.Done():
		return shardResult{}, ctx.Err()
	}
	began := m.options.Clock()
	s := &shard{renderer: m.options.Renderers(job.Owner), w: w, heavy: m.heavy}
	result := shardResult{Answers: make([]shardAnswer, len(bundles))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight(m.options.Parallel))
	for i := range bundles {
		group.Go(func() error {
			result.Answers[i] = s.answer(ctx, &bundles[i], job.Places[i])
			return ctx.Err()
		})
	}
	err := group.Wait()
	result.Took = m.options.Clock().Sub(began)
	return result, err
}

// shard is one call of Machine.Shard.
type shard struct {
	renderer renderer.Renderer
	w        *gitstore.Writer
	heavy    chan struct{} // of the Machine
	kept     counter       // bytes of objects in answers
}

// answer renders a bundle and writes its tree.
func (s *shard) answer(ctx context.Context, b *renderer.Bundle, p place) shardAnswer {
	again := shardAnswer{Again: true}
	if !b.Light {
		select {
		case s.heavy <- struct{}{}:
			defer func() { <-s.heavy }()
		case <-ctx.Done():
			return again
		}
	}
	if s.full(0) {
		return again
	}
	r, err := s.renderer.Render(ctx, b)
	if err != nil {
		answer, ok := renderer.AnswerOf(err)
		if !ok {
			return again
		}
		return shardAnswer{Objects: &answer}
	}
	size := r.Size()
	if s.full(size) {
		return again
	}
	if len(r.Unstable) > 0 || p.waits(r.Objects) {
		s.kept.add(size)
		return shardAnswer{Objects: &renderer.Answer{Rendering: r}}
	}
	tree, err := writeObjects(s.w, r.Objects, p, nil)
	if err != nil { // rare, and the sender then has the same error
		return again
	}
	out := &shardTree{Hash: tree.hash, Assumes: tree.assumes, Notes: r.Notes, Merged: tree.notes}
	for kind, scope := range tree.defines {
		out.Defines = append(out.Defines, renderer.Definition{Kind: kind, Scope: scope})
	}
	return shardAnswer{Tree: out}
}

// full reports whether the result may become too large with so many bytes more.
func (s *shard) full(more int) bool { return s.w.Size()+int64(s.kept.sum())+int64(more) > resultBytes }

var errShardResult = errors.New("the result of a shard is not valid")

// read reads the result of a shard of n bundles, and adds its packfile to w.
func (r *shardResult) read(data []byte, n int, w *gitstore.Writer) (map[gitstore.Hash]int, error) {
	if err := renderer.Decode(data, r); err != nil {
		return nil, fmt.Errorf("read the result of a shard: %w", err)
	}
	if len(r.Answers) != n {
		return nil, fmt.Errorf("%w: %d answers to %d bundles", errShardResult, len(r.Answers), n)
	}
	return w.AddPack(r.Pack)
}

// written returns the tree, if it is one of a packfile's trees.
func (t *shardTree) written(trees map[gitstore.Hash]int) (rendered, bool) {
	files, ok := trees[t.Hash]
	if !ok {
		return rendered{}, false
	}
	out := &written{hash: t.Hash, files: files, assumes: t.Assumes, notes: safeNotes(t.Merged), defines: branch.Kinds{}}
	for _, d := range t.Defines {
		out.defines[d.Kind] = d.Scope
	}
	return rendered{result: out, notes: safeNotes(t.Notes)}, true
}

func safeNotes(notes []string) []string {
	for i, n := range notes {
		notes[i] = safetext.Message(n, 1, noteChars)
	}
	return notes
}
