package command_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/command"
)

func TestDependsOn(t *testing.T) {
	t.Parallel()
	const a, b = "https://hub.example.com/acme/components/pull/3",
		"https://lab.example.com/acme/sub/shop/-/merge_requests/7"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"none": {"A change.\n\nIt depends on " + a, nil},
		"one":  {"Depends-On: " + a, []string{a}},
		"among others": {"A change.\r\n\r\ndepends-on:" + a + " (first)\r\nDEPENDS-ON: <" + b +
			">\r\nCloses #4\r\n", []string{a, b}},
		"twice":             {"Depends-On: " + a + "\n\nDepends-On: " + a, []string{a}},
		"empty":             {"Depends-On:\n", []string{""}},
		"not at column 0":   {" Depends-On: " + a + "\n- Depends-On: " + b, nil},
		"code":              {"```\nDepends-On: " + a + "\n```\n", nil},
		"code not closed":   {"```\nDepends-On: " + a, nil},
		"a comment of HTML": {"<!--\nDepends-On: " + a + "\n-->\n\nDepends-On: " + b, []string{b}},
		"GitLab quotation":  {">>>\nDepends-On: " + a + "\n>>>\n", nil},
		"quotation":         {"> Depends-On: " + a, nil},
		"folded":            {"<details>\n\nDepends-On: " + a + "\n\n</details>\n\nDepends-On: " + b, []string{b}},
		"folded twice": {"<details>\n<Details>\n\n</details>\n\nDepends-On: " + a +
			"\n\n</details>\nDepends-On: " + b, []string{b}},
		"folded for ever": {"<details>\n\nDepends-On: " + a, nil},
		"code of a fold":  {"Use `<details>`.\n\nDepends-On: " + a, []string{a}},
	} {
		if got := command.DependsOn(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
	if got := command.DependsOn(strings.Repeat("Depends-On: x\n", 10) + "Depends-On: " +
		strings.Repeat("y", 2<<20)); got != nil {
		t.Errorf("a description beyond the limit of every forge: %d lines", len(got))
	}
}

// BenchmarkHostileDescription is a description of GitLab's largest size in which each line has to be compared with each
// HTML comment, formula or block. Its time must grow with the size, not with the square of it.
func BenchmarkHostileDescription(b *testing.B) {
	for name, piece := range map[string]string{
		"comments": "a<!---->\ndepends-on: a\n",
		"formulas": "$$ x $$\ndepends-on: a\n", "blocks": "<pre>\n</pre>\n\ndepends-on: a\n\n",
	} {
		b.Run(name, func(b *testing.B) {
			description := strings.Repeat(piece, 1<<20/len(piece))
			for b.Loop() {
				command.DependsOn(description)
			}
		})
	}
}

// Reads descriptions of merge requests. The number of addresses is bounded, each occurs once, and none holds white
// space.
func FuzzDependsOn(f *testing.F) {
	f.Add("Depends-On: https://hub.example.com/acme/components/pull/3\r\ndepends-on:<x>\r\rDEPENDS-ON:\n")
	f.Add("<details>\nDepends-On: a\n</details>\n```\nDepends-On: b\n```\n<!--\nDepends-On: c\n-->\n> Depends-On: d\n")
	f.Add(">>>\nDepends-On: a\n>>>\n\nDepends-On: \u00a0\u2028b $x$\n")
	f.Fuzz(func(t *testing.T, description string) {
		got := command.DependsOn(description)
		seen := map[string]bool{}
		for _, address := range got {
			if seen[address] || strings.ContainsAny(address, " \t\r\n\u00a0") {
				t.Fatalf("%q gives %q", description, got)
			}
			seen[address] = true
		}
		if len(got) > 100 {
			t.Fatalf("%d addresses", len(got))
		}
		quoted := "> " + strings.NewReplacer("\r\n", "\n> ", "\r", "\n> ", "\n", "\n> ").Replace(description)
		if got := command.DependsOn(quoted); len(got) > 0 {
			t.Fatalf("a quotation of %q gives %q", description, got)
		}
	})
}
