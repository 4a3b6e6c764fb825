package fetch

import (
	"testing"

	"github.com/sluice-gitops/sluice/internal/mistakes"
)

// No mistake in sluice.lock is reported with a word of Go, and hardly one passes.
func TestMistakesInTheLock(t *testing.T) {
	t.Parallel()
	tried, refused := 0, 0
	for what, wrong := range mistakes.Of(t, sampleText) {
		tried++
		if _, err := ParseLock([]byte(wrong)); err != nil {
			refused++
			if word := mistakes.WordOfGo(err.Error()); word != "" {
				t.Errorf("%s: %q is in the message:\n%v", what, word, err)
			}
		}
	}
	if tried < 100 || refused < tried*3/4 {
		t.Errorf("%d mistakes were tried and %d refused, want at least 100 and three quarters of them", tried, refused)
	}
}
