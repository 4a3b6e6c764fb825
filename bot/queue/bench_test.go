package queue

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkPut puts hints from 50 goroutines, each synced to disk, and reports puts per second and the 99th
// percentile.
func BenchmarkPut(b *testing.B) {
	q, err := Open(b.Context(), testConfig(func(c *Config) { c.Dir = b.TempDir(); c.MaxBytes = 4 << 30 }))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			b.Error(err)
		}
	}()
	const goroutines = 50
	took := make([][]time.Duration, goroutines)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for g := range goroutines {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				start := time.Now()
				if err := q.Put(b.Context(), review(fmt.Sprintf("o/%d", i%200), int(i), "")); err != nil {
					b.Error(err)
					return
				}
				took[g] = append(took[g], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "puts/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}
