package argocd

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/importer/internal/templates"
)

// Equal templates of an ApplicationSet give equal Applications, at any time and on any machine.
func TestTemplatesAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	params := map[string]any{"m": map[string]any{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8}}
	for range 30 { // the order of so many keys is random
		r := replacer{goTemplate: true, rounds: templates.NewRounds(functions())}
		got, err := r.text(`{{ keys .m | join "" }} {{ values .m | join "" }} {{ keys .m (dict "a" 1) | len }}`, params)
		if want := "abcdefgh 12345678 9"; err != nil || got != want {
			t.Fatalf("the result of text is %q, the error is %v, want %q", got, err, want)
		}
	}
	for _, call := range []string{
		`now`, `uuidv4`, `randAlphaNum 5`, `randInt 0 9`, `shuffle "abc"`, `date "2006" 0`, `htmlDate 0`,
		`dateInZone "2006" 0 "UTC"`, `toDate "2006" "2020"`,
		`ago 0`, `genPrivateKey "ed25519"`, `genCA "x" 1`, `bcrypt "x"`, `htpasswd "a" "b"`,
		`encryptAES "0123456789012345" "x"`, `durationRound "1h"`,
	} {
		r := replacer{goTemplate: true, rounds: templates.NewRounds(functions())}
		name, _, _ := strings.Cut(call, " ")
		if got, err := r.text("{{ "+call+" }}", params); err == nil ||
			!strings.Contains(err.Error(), "the function "+name+" is not supported") {
			t.Errorf("%s: the result of text is %q, the error is %v", call, got, err)
		}
	}
}
