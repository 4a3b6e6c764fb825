package renderer

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// BenchmarkWorkers compares rendering in this process with rendering in confined children. The ratio is the price of the
// isolation; `go test -run - -bench Workers ./renderer` prints it as x-in-process.
func BenchmarkWorkers(b *testing.B) {
	const name = corpus + "/charts/ingress-nginx-4.15.1.tgz"
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
			Release: "r", Chart: Content{Name: "ingress-nginx", Digest: "sha256:ingress-nginx", Archive: archive}, Values: fmt.Appendf(nil, `{"controller": {"replicaCount": %d}}`, i),
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
			if _, err := p.Render(b.Context(), helmBundle(`{}`, map[string]string{"a.yaml": strings.Repeat("# x\n", 10)})); err != nil {
				b.Fatal(err)
			}
			p.Close()
		}
	})
}
