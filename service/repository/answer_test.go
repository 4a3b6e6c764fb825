package repository

import (
	"slices"
	"strings"
	"testing"
)

func TestFitLines(t *testing.T) {
	lines := []string{strings.Repeat("x", 2*maxExplainer), "a", "b"}
	if got := fitLines(slices.Clone(lines), 10_000); len(got) != 3 || len([]rune(got[0])) > maxExplainer {
		t.Errorf("%d lines, %d characters", len(got), len([]rune(got[0])))
	}
	got := fitLines(slices.Clone(lines), maxExplainer+5)
	if len(got) != 3 || got[2] != "… and 1 more lines: name a path" {
		t.Errorf("the result of fitLines is %q", got)
	}
}
