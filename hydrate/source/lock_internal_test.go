package source

import (
	"testing"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// An unreadable lock file is a problem of the change, reported with its line. Any other kind of error would be
// retried for ever without a report.
func TestLockProblems(t *testing.T) {
	for text, lines := range map[string][]int{
		"b0: x\nb1: y\n":       {1, 2},
		"a: [":                 {1},
		"# nothing\n":          {1},
		"apiVersion: x\n---\n": {0},
	} {
		_, err := fetch.ParseLock([]byte(text))
		if err == nil {
			t.Fatalf("%q is read", text)
		}
		problems := lockProblems(err)
		if len(problems) != len(lines) || problems.Err() == nil {
			t.Errorf("%q: the problems are %v", text, problems)
			continue
		}
		for i, p := range problems {
			if p.File != fetch.LockFile || p.Line != lines[i] || p.Message == "" {
				t.Errorf("%q: the problem is %+v", text, p)
			}
		}
	}
}
