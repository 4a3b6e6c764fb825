package config_test

import (
	"os"
	"testing"

	"github.com/sluice-gitops/sluice/internal/mistakes"
)

// No mistake in the service's configuration is reported with a word of Go.
func TestMistakesAreNamedInPlainWords(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../../deploy/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tried, refused := 0, 0
	for _, text := range []string{good, string(example)} {
		for what, wrong := range mistakes.Of(t, text) {
			tried++
			_, err := parse(wrong)
			if err == nil {
				continue
			}
			refused++
			if word := mistakes.WordOfGo(err.Error()); word != "" {
				t.Errorf("%s: %q is in the message:\n%v", what, word, err)
			}
		}
	}
	if tried < 500 || refused < tried/2 {
		t.Errorf("%d mistakes were tried and %d refused, want at least 500 and half of them", tried, refused)
	}
}
