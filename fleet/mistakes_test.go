package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
	"github.com/sluice-gitops/sluice/internal/mistakes"
)

// No mistake in a file of the fleet is reported with a word of Go, and each one is reported.
func TestMistakesAreNamedInPlainWords(t *testing.T) {
	t.Parallel()
	sources := []map[string]string{fleettest.Small(), fleettest.Everyday(), fleettest.Foreign(), tenants(nil)}
	tried, cache := 0, NewCache()
	for i, files := range sources {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if !strings.HasSuffix(name, ".yaml") || strings.HasPrefix(files[name], fleettest.LinkTo) {
				continue
			}
			for what, text := range mistakes.Of(t, files[name]) {
				changed := maps.Clone(files)
				changed[name] = text
				tried++
				f, problems := Load(t.Context(), fleettest.NewTree(changed), cache)
				found := fmt.Sprint([]Problem(problems))
				if f != nil {
					for _, target := range f.Targets() {
						if _, err := f.Values(target, ""); err != nil {
							found += "\n" + err.Error()
						}
					}
				}
				if word := mistakes.WordOfGo(found); word != "" {
					t.Errorf("fleet %d, %s, %s: %q is in the message:\n%s", i, name, what, word, found)
				}
			}
		}
	}
	if tried < 1000 {
		t.Errorf("%d mistakes were tried, want at least 1000", tried)
	}
}
