package forge_test

import (
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
)

func TestInert(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                  "",
		"/merge":                            `\/merge`,
		"a\n/merge\n":                       "a\n\\/merge\n",
		"a\r/merge\v/a\u2028/b":             "a\r\\/merge\v\\/a\u2028\\/b",
		" \t\u00a0/merge":                   " \t\u00a0\\/merge",
		"\ufeff/merge":                      "\ufeff\\/merge",
		" \n /merge":                        " \n \\/merge",
		"```diff\n-x\n   /bin/x\n+ /y\n```": "```diff\n-x\n   /bin/x\n+ /y\n```",
		"```\n/merge\n```":                  "```\n\\/merge\n```",
		"/Approve":                          `\/Approve`,
		`\/merge`:                           `\/merge`,
		"see /merge, 1/2\n//x\n/ 2\n/1\n":   "see /merge, 1/2\n//x\n/ 2\n/1\n",
		"\xff/a\n\xfe\n/a":                  "\xff/a\n\xfe\n\\/a",
	} {
		got := forge.Inert(in)
		if got != want || forge.Inert(got) != want {
			t.Errorf("%q becomes %q and %q, want %q", in, got, forge.Inert(got), want)
		}
	}
}
