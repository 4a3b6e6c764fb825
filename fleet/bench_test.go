package fleet

import (
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func BenchmarkLoadCold(b *testing.B) {
	tree := fleettest.NewTree(fleettest.Big())
	for b.Loop() {
		if f, problems := Load(b.Context(), tree, NewCache()); f == nil {
			b.Fatal(problems)
		}
	}
}

func BenchmarkLoadWarm(b *testing.B) {
	tree, cache := fleettest.NewTree(fleettest.Big()), NewCache()
	if f, problems := Load(b.Context(), tree, cache); f == nil {
		b.Fatal(problems)
	}
	for b.Loop() {
		if f, problems := Load(b.Context(), tree, cache); f == nil {
			b.Fatal(problems)
		}
	}
}

func BenchmarkTargets(b *testing.B) {
	f := mustLoad(b, fleettest.Big(), NewCache())
	for b.Loop() {
		if n := len(f.Targets()); n != 20000 {
			b.Fatal(n)
		}
	}
}

func BenchmarkValues20000(b *testing.B) {
	f := mustLoad(b, fleettest.Big(), NewCache())
	targets := f.Targets()
	for b.Loop() {
		for _, t := range targets {
			if _, err := f.Values(t, ""); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkAppendKey20000(b *testing.B) {
	f := mustLoad(b, fleettest.Big(), NewCache())
	targets := f.Targets()
	var key []byte
	for b.Loop() {
		for _, t := range targets {
			var err error
			if key, err = f.AppendKey(key[:0], t); err != nil {
				b.Fatal(err)
			}
		}
	}
}
