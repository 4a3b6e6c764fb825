package faults_test

import (
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/faults"
)

func TestTake(t *testing.T) {
	t.Parallel()
	var l faults.List[string]
	l.Add(faults.Fault[string]{Kind: "two writes", Method: "!GET", Path: "/comments", Times: 2})
	l.Add(faults.Fault[string]{Kind: "one read", Method: "GET"})
	l.Add(faults.Fault[string]{Kind: "any"})
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/comments", "one read"},
		{"GET", "/comments", "any"},
		{"GET", "/comments", ""},
		{"POST", "/statuses", ""},
		{"POST", "/a/comments", "two writes"},
		{"PATCH", "/comments/1", "two writes"},
		{"POST", "/comments", ""},
	} {
		got := ""
		if f := l.Take(c.method, c.path); f != nil {
			got = f.Kind
		}
		if got != c.want {
			t.Errorf("the method is %s, the path is %s: the kind is %q, want %q", c.method, c.path, got, c.want)
		}
	}
}
