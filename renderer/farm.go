package renderer

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

const (
	shardBundles = 32       // bundles per shard: enough that sending it costs little compared with rendering it
	shardBytes   = 16 << 20 // bytes of a shard's bundles and contents; the shard is sent when it reaches them
	shardTimeout = 5 * time.Minute
)

// FarmInFlight is the number of concurrent calls of Render from which a Farm benefits, because it forms shards of
// waiting calls.
const FarmInFlight = 1024

// Fan distributes jobs over free machines and returns their results in the order of the jobs. The result of a job
// depends only on the job's bytes.
type Fan interface {
	Fan(ctx context.Context, jobs [][]byte) ([][]byte, error)
}

// Farm renders locally while a slot is free, and sends bundles that would have to wait to other machines, in shards.
// If a shard fails for any reason, the Farm renders its bundles locally, so correctness does not depend on other
// machines.
type Farm struct {
	local   Renderer
	fan     Fan
	version string
	owner   string
	slots   chan struct{} // local renderings

	mu   sync.Mutex
	open *shard
}

// shard is a group of bundles that one job renders.
type shard struct {
	waiting  []*waiting
	contents map[string]int // bytes by digest
	bytes    int
	closed   bool
	done     chan struct{}
}

// waiting is one call of Render.
type waiting struct {
	bundle *Bundle
	shard  *shard
	answer *shardAnswer // nil: render it locally
}

// Jobs and results are encoded with gob. A job contains each content once.
type shardJob struct {
	Version  string
	Owner    string // the repository: workers and strikes are never shared between repositories
	Contents []Content
	Bundles  []Bundle // stripped
}

type shardAnswer struct {
	Rendering *Rendering
	Err       *InputError
	Heavy     bool   // ErrHeavy
	Failed    string // an error of another kind
	Again     bool   // the machine may have caused the error: time, memory, a crash, a process that does not start
}

// NewFarm returns a Farm. local renders up to slots bundles at once. version identifies everything that a rendering
// depends on apart from its bundle: machines with another version refuse the Farm's shards. owner is the repository
// of the bundles.
func NewFarm(local Renderer, slots int, fan Fan, version, owner string) *Farm {
	return &Farm{local: local, fan: fan, version: version, owner: owner, slots: make(chan struct{}, max(slots, 1))}
}

// ErrNoWorkers means that the local renderer of a Farm has no worker processes for Call.
var ErrNoWorkers = errors.New("the renderer has no worker processes")

// Call implements Caller with the workers of this machine.
func (f *Farm) Call(ctx context.Context, c worker.Call) ([]byte, error) {
	local, ok := CallerOf(f.local)
	if !ok {
		return nil, ErrNoWorkers
	}
	return local.Call(ctx, c)
}

// Render implements Renderer.
func (f *Farm) Render(ctx context.Context, b *Bundle) (*Rendering, error) {
	select {
	case f.slots <- struct{}{}:
		return f.renderLocally(ctx, b)
	default:
	}
	w, full := f.join(b)
	if full != nil {
		f.send(ctx, full)
	}
	select {
	case <-w.shard.done:
	case f.slots <- struct{}{}:
		if f.leave(w) {
			return f.renderLocally(ctx, b)
		}
		<-f.slots
		select {
		case <-w.shard.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case <-ctx.Done():
		f.leave(w)
		return nil, ctx.Err()
	}
	switch a := w.answer; {
	case a == nil || a.Again:
		select {
		case f.slots <- struct{}{}:
			return f.renderLocally(ctx, b)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case a.Heavy:
		return nil, ErrHeavy
	case a.Err != nil:
		return nil, a.Err.safe()
	case a.Failed != "":
		return nil, (&InputError{Message: a.Failed}).safe()
	default:
		return a.Rendering, nil
	}
}

// renderLocally renders in a slot that the caller holds, and releases the slot.
func (f *Farm) renderLocally(ctx context.Context, b *Bundle) (*Rendering, error) {
	defer func() { <-f.slots }()
	return f.local.Render(ctx, b)
}

// join adds a call to the open shard, and returns that shard if it is full now.
func (f *Farm) join(b *Bundle) (*waiting, *shard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = &shard{contents: map[string]int{}, done: make(chan struct{})}
	}
	s := f.open
	w := &waiting{bundle: b, shard: s}
	s.waiting = append(s.waiting, w)
	s.count(b)
	if len(s.waiting) < shardBundles && s.bytes < shardBytes {
		return w, nil
	}
	s.closed, f.open = true, nil
	return w, s
}

// count adds the bytes of a bundle. Contents that another bundle of the shard has count once.
func (s *shard) count(b *Bundle) {
	s.bytes += b.inputSize()
	b.contents(func(c *Content) {
		if _, ok := s.contents[c.Digest]; !ok {
			s.contents[c.Digest] = c.size()
			s.bytes += c.size()
		}
	})
}

// leave removes a call from its shard. It returns false if the shard has been sent.
func (f *Farm) leave(w *waiting) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.shard.closed {
		return false
	}
	s := w.shard
	s.waiting = slices.DeleteFunc(s.waiting, func(other *waiting) bool { return other == w })
	s.bytes, s.contents = 0, map[string]int{} // contents are shared: only the remaining bundles tell which are left
	for _, other := range s.waiting {
		s.count(other.bundle)
	}
	return true
}

// send renders a closed shard elsewhere and wakes the waiting calls. A call without an answer renders its own bundle.
func (f *Farm) send(ctx context.Context, s *shard) {
	defer close(s.done)
	job := shardJob{Version: f.version, Owner: f.owner}
	for _, w := range s.waiting {
		job.Bundles = append(job.Bundles, w.bundle.stripped())
		w.bundle.contents(func(c *Content) {
			if _, ok := s.contents[c.Digest]; ok {
				delete(s.contents, c.Digest)
				job.Contents = append(job.Contents, *c)
			}
		})
	}
	var data bytes.Buffer
	if err := gob.NewEncoder(&data).Encode(job); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, shardTimeout) // then the bundles are rendered locally
	defer cancel()
	results, err := f.fan.Fan(ctx, [][]byte{data.Bytes()})
	if err != nil || len(results) != 1 {
		return
	}
	var answers []shardAnswer
	if err := gob.NewDecoder(bytes.NewReader(results[0])).Decode(&answers); err != nil || len(answers) != len(s.waiting) {
		return
	}
	for i, w := range s.waiting {
		if a := &answers[i]; a.Rendering != nil || a.Err != nil || a.Failed != "" || a.Heavy {
			w.answer = a
		}
	}
}

// RenderShard renders a job of a Farm of the same version with this machine's renderer for the Farm's owner. If one
// bundle fails, the others still render. An error means that there is no result: the job has another version, or ctx
// ended.
func RenderShard(ctx context.Context, renderers func(owner string) Renderer, version string, data []byte) ([]byte, error) {
	var job shardJob
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&job); err != nil {
		return nil, fmt.Errorf("read a shard: %w", err)
	}
	if job.Version != version {
		return nil, fmt.Errorf("the shard is for the version %s, this is %s", job.Version, version)
	}
	r := renderers(job.Owner)
	have := make(map[string]Content, len(job.Contents))
	for _, c := range job.Contents {
		have[c.Digest] = c
	}
	answers := make([]shardAnswer, len(job.Bundles))
	for i := range job.Bundles {
		b := &job.Bundles[i]
		var missing string
		b.contents(func(c *Content) {
			found, ok := have[c.Digest]
			if !ok {
				missing = c.Digest
			}
			c.Files, c.Archive = found.Files, found.Archive
		})
		if missing != "" {
			return nil, fmt.Errorf("read a shard: it lacks the content %s", missing)
		}
		rendering, err := r.Render(ctx, b)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		answers[i].Rendering = rendering
		if err != nil {
			answers[i] = answerOf(err)
		}
	}
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(answers); err != nil {
		return nil, fmt.Errorf("write a shard's result: %w", err)
	}
	return out.Bytes(), nil
}

// answerOf returns the answer for a bundle that has no rendering.
func answerOf(err error) shardAnswer {
	if errors.Is(err, ErrHeavy) {
		return shardAnswer{Heavy: true}
	}
	if invalid, ok := errors.AsType[*InputError](err); ok {
		return shardAnswer{Err: invalid, Again: worker.IsLimit(err)}
	}
	return shardAnswer{Failed: err.Error(), Again: true} // only an InputError is certainly caused by the bundle
}
