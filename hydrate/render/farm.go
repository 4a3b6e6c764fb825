package render

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-gitops/sluice/renderer"
)

// Sizes of a chunk of targets. A shard costs about 5 ms beside its rendering, and when the last one is lost or late, its sender renders it
// again: chunks get the size that takes about chunkTime, and the last ones are smaller.
const (
	firstChunk   = 32
	leastChunk   = 4
	mostChunk    = 256
	chunkTime    = 300 * time.Millisecond
	minShared    = 128 // targets from which other machines are asked
	shardTimeout = 5 * time.Minute
	feedTime     = time.Second // for which this machine waits for a shard to be made or sent or a result to be read
	atOnce       = 16          // shards that wait or are rendered elsewhere: twice as many as three machines with two processors render
)

// Fan has jobs done by other machines and returns their results in the order of the jobs. A result depends only on the job's bytes. When ctx
// ends, Fan takes back the jobs that nobody has begun. It calls idle with true when it has put all jobs and only others have something to do,
// and with false when it reads a result: in turn, and not after it has returned.
type Fan interface {
	Fan(ctx context.Context, jobs [][]byte, idle func(bool)) ([][]byte, error)
}

// Farm is a Renderer with other machines. Targets gives them a part of a large number of targets, in shards. If a shard fails for any
// reason or is late, this machine renders its targets, so correctness does not depend on other machines. A Farm is safe for concurrent use.
type Farm struct {
	renderer.Renderer // of this machine

	fan     Fan
	version string
	owner   string
	clock   func() time.Time
	chunk   atomic.Int64  // targets of the next shard
	timed   atomic.Bool   // chunk follows the time of a shard
	busy    atomic.Int64  // calls that have targets for other machines
	away    chan struct{} // places of shards, of all calls
}

// NewFarm returns a Farm. version identifies everything that a tree depends on apart from its bundle and its place: machines with another
// version refuse the Farm's shards. owner is the repository of the bundles.
func NewFarm(local renderer.Renderer, fan Fan, version, owner string, clock func() time.Time) *Farm {
	f := &Farm{Renderer: local, fan: fan, version: version, owner: owner, clock: clock, away: make(chan struct{}, atOnce)}
	f.chunk.Store(firstChunk)
	return f
}

// Unwrap implements renderer.Wrapper.
func (f *Farm) Unwrap() renderer.Renderer { return f.Renderer }

// Busy reports whether the Farm has targets for other machines. This machine then does better than to render shards itself.
func (f *Farm) Busy() bool { return f.busy.Load() > 0 }

// took adapts the size of chunks to the time that n targets of a shard took.
func (f *Farm) took(n int, d time.Duration) {
	if f.resize(n, d) {
		f.timed.Store(true)
	}
}

// tookHere does the same for targets that this machine rendered, until there is a shard: this machine has other work beside, so its times
// say less about others.
func (f *Farm) tookHere(n int, d time.Duration) {
	if !f.timed.Load() {
		f.resize(n, d)
	}
}

// resize reports whether n and d say anything.
func (f *Farm) resize(n int, d time.Duration) bool {
	if n == 0 || d <= 0 {
		return false
	}
	size := f.chunk.Load()
	want := int64(float64(n) * chunkTime.Seconds() / d.Seconds())
	f.chunk.Store(max(leastChunk, min(want, 2*size, mostChunk))) // a single chunk that was easy says little about the next one
	return true
}

// counter is a number that goroutines add to.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int) { c.n.Add(int64(n)) }
func (c *counter) sum() int  { return int(c.n.Load()) }
