package renderer

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// BenchmarkWorkers compares rendering in this process with rendering in confined children. The ratio is the price of
// the isolation; `go test -run - -bench Workers ./renderer` prints it as x-in-process.
func BenchmarkWorkers(b *testing.B) {
	name := corpus + "/charts/ingress-nginx-4.15.1.tgz"
	archive, err := os.ReadFile(name)
	if err != nil {
		b.Skipf("the corpus is not on this machine: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	bundle := func(i int) *Bundle {
		return &Bundle{Namespace: "ns", KubeVersion: "1.33.2", Sources: []Source{{Helm: &HelmSource{
			Release: "r", Chart: Content{Name: "ingress-nginx", Digest: "sha256:ingress-nginx", Archive: archive},
			Values: fmt.Appendf(nil, `{"controller": {"replicaCount": %d}}`, i),
		}}}}
	}
	measure := func(b *testing.B, r Renderer) time.Duration {
		b.Helper()
		for i := range 3 { // fills caches
			if _, err := r.Render(b.Context(), bundle(i)); err != nil {
				b.Fatal(err)
			}
		}
		b.ResetTimer()
		for i := 0; b.Loop(); i++ {
			if _, err := r.Render(b.Context(), bundle(i)); err != nil {
				b.Fatal(err)
			}
		}
		return b.Elapsed() / time.Duration(b.N)
	}
	var floor time.Duration
	b.Run("in-process", func(b *testing.B) { floor = measure(b, NewEngine(DefaultLimits())) })
	for _, mode := range []worker.Mode{worker.Off, worker.Degraded} {
		b.Run(string(mode), func(b *testing.B) {
			p := NewPool(PoolOptions{Command: []string{self, "render-child"}, Size: 1, Mode: mode})
			defer p.Close()
			took := measure(b, p)
			b.ReportMetric(float64(took)/float64(max(floor, 1)), "x-in-process")
		})
	}
	b.Run("start", func(b *testing.B) { // a new child for each bundle: what a warm pool saves
		for b.Loop() {
			p := NewPool(PoolOptions{Command: []string{self, "render-child"}, Size: 1})
			if _, err := p.Render(b.Context(), helmBundle(`{}`, map[string]string{"a.yaml": strings.Repeat("# x\n",
				10)})); err != nil {
				b.Fatal(err)
			}
			p.Close()
		}
	})
}

// BenchmarkTarget renders charts in this process, each time with values of another cluster. It reports processor
// time, which is comparable on a busy machine; wall time is not.
func BenchmarkTarget(b *testing.B) {
	contents := map[string]Content{}
	for _, name := range []string{
		"podinfo-6.14.1", "argo-cd-10.1.1", "prometheus-29.27.0", "cert-manager-v1.21.1",
		"traefik-41.3.0", "ingress-nginx-4.15.1",
	} {
		archive, err := os.ReadFile(corpus + "/charts/" + name + ".tgz")
		if err != nil {
			b.Skipf("the corpus is not on this machine: %v", err)
		}
		contents[name] = Content{Name: name, Digest: name, Archive: archive}
	}
	for name, c := range contents {
		b.Run(name, func(b *testing.B) {
			e := NewEngine(DefaultLimits())
			before := processorTime(b)
			for i := 0; b.Loop(); i++ {
				source := &HelmSource{Release: "r", Chart: c, Values: fmt.Appendf(nil, `{"fullnameOverride": "c-%04d"}`,
					i%200), IncludeCRDs: true}
				if _, err := e.Render(b.Context(), &Bundle{
					Namespace: "ns", KubeVersion: "1.33.2",
					Sources: []Source{{Helm: source}},
				}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
