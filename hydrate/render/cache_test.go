package render

import (
	"fmt"
	"testing"

	"github.com/sluice-gitops/sluice/renderer"
)

// A service renders for months, so the objects that wait for the scope of a custom kind must stay within the limit.
func TestKeptRenderingsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRenderings(nil)
	shared := make([]byte, maxObjectBytes/4)
	for i := range 20 {
		r.do(t.Context(), fmt.Sprint(i), func() rendered {
			return rendered{objects: []renderer.Object{{YAML: shared}}}
		})
	}
	if n := r.byBundle.Len(); n != 4 || r.bytes != maxObjectBytes {
		t.Errorf("%d renderings with %d bytes are kept", n, r.bytes)
	}
	again := false
	r.do(t.Context(), "19", func() rendered { again = true; return rendered{} })
	if again {
		t.Error("the newest rendering was forgotten")
	}
	for i := range 2 * maxRenderings {
		r.do(t.Context(), fmt.Sprint("small ", i), func() rendered { return rendered{} })
	}
	if n := r.byBundle.Len(); n > maxRenderings || r.bytes != 0 {
		t.Errorf("%d renderings with %d bytes are kept", n, r.bytes)
	}
}
