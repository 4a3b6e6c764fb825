package render

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-gitops/sluice/gitstore"
)

// Begun are jobs that other machines render while their caller finds more jobs. A nil *Begun has none.
type Begun struct {
	round
	cancel context.CancelFunc
	want   func()
	done   chan struct{} // nil if the jobs are too few for other machines: then they have not begun
	err    error
	count  atomic.Int64 // jobs that are done
}

// firstShare is the part of all jobs that the caller finds first. Finding them takes milliseconds, and rendering them takes other machines
// longer than finding the rest takes this one.
const firstShare = 8

// First returns how many of a number of clusters with so many jobs together to begin with; 0 if there are too few jobs for other machines.
func (t *Targets) First(clusters, jobs int) int {
	enough := func(n int) bool { return t.farm != nil && jobs*n/clusters >= minShared }
	n := clusters / firstShare
	for n > 0 && n < clusters/2 && !enough(n) {
		n++
	}
	if n == 0 || !enough(n) {
		return 0
	}
	return n
}

// Begin has other machines render jobs into w. This machine does not, because the caller needs it to find more jobs. Finish or Stop must follow.
func (t *Targets) Begin(ctx context.Context, jobs []Job, w *gitstore.Writer, progress func(done, total int)) *Begun {
	wanted := make(chan struct{})
	b := &Begun{want: sync.OnceFunc(func() { close(wanted) })}
	b.round = round{t: t, jobs: jobs, w: w, out: make([]*Outcome, len(jobs)), wanted: wanted, progress: func(done int) {
		b.count.Store(int64(done))
		progress(done, 0)
	}}
	if t.farm == nil || len(jobs) < minShared {
		return b
	}
	ctx, b.cancel = context.WithCancel(ctx)
	b.done = make(chan struct{})
	go func() {
		defer close(b.done)
		b.err = b.run(ctx)
	}()
	return b
}

// Finish renders further jobs and those that have begun, and returns the outcomes of all as Render does: in the order of Sort, in which the
// jobs must be. This machine renders what is left of the first jobs when all others have begun.
func (t *Targets) Finish(ctx context.Context, b *Begun, jobs []Job, w *gitstore.Writer, progress func(done, total int)) ([]*Outcome, error) {
	if b == nil || b.done == nil {
		if b != nil {
			jobs = slices.Concat(b.jobs, jobs)
			Sort(jobs)
		}
		return t.Render(ctx, jobs, w, func(done int) { progress(done, len(jobs)) })
	}
	defer b.Stop()
	r := &round{t: t, jobs: jobs, w: w, out: make([]*Outcome, len(jobs)), begun: b.want, progress: func(done int) {
		progress(done+int(b.count.Load()), len(jobs)+len(b.jobs))
	}}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	b.want()
	<-b.done
	if b.err != nil { // some jobs have no outcome
		return nil, b.err
	}
	out := slices.Concat(b.out, r.out)
	// Both lists stay in order, because an outcome can refer to an earlier one of its list.
	slices.SortStableFunc(out, func(a, b *Outcome) int { return compare(a.Job, b.Job) })
	return out, nil
}

// Stop ends the renderings.
func (b *Begun) Stop() {
	if b == nil || b.done == nil {
		return
	}
	b.cancel()
	b.want()
	<-b.done
}

// Sort sorts jobs by apps, because those of one app share a chart, and by clusters.
func Sort(jobs []Job) { slices.SortFunc(jobs, compare) }

func compare(a, b Job) int {
	return cmp.Or(strings.Compare(a.Target.App.Name, b.Target.App.Name), strings.Compare(a.Target.Cluster.Name, b.Target.Cluster.Name))
}
