package fleet

import (
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func mustLoad(tb testing.TB, files map[string]string, cache *Cache) *Fleet {
	tb.Helper()
	f, problems := Load(tb.Context(), fleettest.NewTree(files), cache)
	if f == nil {
		tb.Fatalf("the fleet does not load:\n%v", problems)
	}
	return f
}
