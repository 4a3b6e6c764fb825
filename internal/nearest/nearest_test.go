package nearest_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

func TestName(t *testing.T) {
	t.Parallel()
	environments, flags := []string{"dev", "staging", "prod"}, []string{"--to", "--now", "--cluster"}
	for _, c := range []struct {
		wrong string
		known []string
		want  string
	}{
		{"prdo", environments, "prod"},
		{"PROD", environments, "prod"},
		{"dve", environments, "dev"},
		{"stagnig", environments, "staging"},
		{"test", environments, ""},
		{"", environments, ""},
		{"x", []string{"a", "b"}, ""},            // nothing is left of it
		{"al", []string{"all", "canary"}, "all"}, // one edit of two characters
		{"prod-3", []string{"prod-1", "prod-2"}, "prod-1"},
		{"--clutser", flags, "--cluster"},
		{"--xy", flags, ""}, // the dashes are not what makes it similar
		{"destroy", []string{"retry"}, ""},
		{"kustomiztaion.yaml", []string{"values.yaml", "kustomization.yaml"}, "kustomization.yaml"},
		{"prod", nil, ""},
	} {
		if got := nearest.Name(c.wrong, c.known); got != c.want {
			t.Errorf("%q: the result of Name is %q, want %q", c.wrong, got, c.want)
		}
	}
	if got := nearest.DidYouMean("prdo", environments); got != ", did you mean prod?" {
		t.Error(got)
	}
	if got := nearest.DidYouMean("moon", environments); got != "" {
		t.Error(got)
	}
}

// TestLongNames: comparing two names of a megabyte would take minutes.
func TestLongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1<<20)
	if got := nearest.Name(long+"b", []string{long}) + nearest.Name("prod", []string{long}); got != "" {
		t.Errorf("the result is %.20s", got)
	}
}
