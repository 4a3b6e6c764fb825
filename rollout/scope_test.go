package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/rollout"
)

// The advice that ends a hold names all of its scope, and no more than it.
func TestResumeNamesTheHold(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]rollout.Hold{
		"resume prod --hold all`":             {Apps: []string{"a", "b", "c", "d"}},
		"resume prod --hold shop --hold web`": {Apps: []string{"shop", "web"}},
		"resume prod --hold team-a`": {Apps: []string{
			"team-a/a", "team-a/b", "team-a/c",
			"team-a/d",
		}, Workspaces: []string{"team-a"}},
		"resume prod --hold team-a --hold team-b/shop`": {
			Apps:       []string{"team-a/shop", "team-b/shop"},
			Workspaces: []string{"team-a"},
		},
		"resume prod --hold team-b`": {
			Apps:       []string{"team-b/shop"},
			Workspaces: []string{"team-a", "team-b"},
		},
		"resume prod --wave canary`": {
			Whole: true, Wave: "canary",
			Clusters: []string{"eu-1"}, Apps: []string{"shop"},
		},
		"resume prod --wave canary --workspace team-a`": {
			Wave: "canary", Clusters: []string{"eu-1"},
			Apps: []string{"team-a/shop"}, Workspaces: []string{"team-a"},
		},
		"resume prod --cluster eu-1 --app shop`": {Clusters: []string{"eu-1"}, Apps: []string{"shop"}},
		"resume prod --cluster eu-1 --cluster us-1 --app shop": {
			Clusters: []string{"eu-1", "us-1"},
			Apps:     []string{"shop"},
		},
	} {
		if got := h.Ends("prod", "sluice"); !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}

// A hold of several workspaces names those that remain when one is resumed.
func TestResumeOfOneWorkspace(t *testing.T) {
	t.Parallel()
	r := rollout.NewRecord("prod")
	r.Holds = []rollout.Hold{{
		Cause: rollout.CauseRolledBack, Source: rollout.Source{Commit: "c2"}, Tree: "t2", By: "ann", Since: at(),
		Apps: []string{"team-a/shop", "team-b/shop", "team-b/web", "web"}, Workspaces: []string{"team-a", "team-b"},
	}}
	r, err := rollout.Apply(r, rollout.Event{
		Kind: rollout.EventResume, By: "ann", At: at(), Apps: []string{"team-a/shop", "web"},
		Workspaces: []string{"team-a"}, Members: []string{"eu-1"},
	})
	if err != nil || len(r.Holds) != 1 || !strings.HasPrefix(r.Holds[0].String(), "workspace team-b (2 apps) of c2") {
		t.Fatalf("the holds are %+v, the error is %v", r.Holds, err)
	}
	if c := r.Commands; len(c) != 1 || c[0].Scope != "workspace team-a, web" {
		t.Errorf("the history says %+v", c)
	}
}

// A workspace is elsewhere if none of its apps is taken from the entry's own commit.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	entry := rollout.ClusterSource{Commit: "new", Apps: map[string]string{
		"team-a/shop": "old", "team-a/web": "older",
		"team-b/shop": "new", "web": "old",
	}}
	for _, c := range []struct {
		workspace string
		has       []string
		want      bool
	}{
		{"team-a", nil, true},
		{"team-a", []string{"team-a/shop"}, true},
		{"team-a", []string{"team-a/shop", "team-a/cart"}, false},
		{"team-b", nil, false},
		{"team-c", nil, false},
	} {
		if got := entry.Elsewhere(c.workspace, c.has); got != c.want {
			t.Errorf("%s with %q: %v", c.workspace, c.has, got)
		}
	}
	if got := (rollout.Scope{Workspaces: []string{"team-a", "team-b"}}).Taken(entry); !slices.Equal(got,
		[]string{"team-a/shop", "team-a/web"}) {
		t.Errorf("taken: %q", got)
	}
}

func TestScopeText(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]rollout.Scope{
		"workspace team-a":             {Workspaces: []string{"team-a"}, Apps: []string{"team-a/shop"}},
		"workspaces team-a, team-b":    {Workspaces: []string{"team-a", "team-b"}},
		"workspace team-a, team-b/web": {Workspaces: []string{"team-a"}, Apps: []string{"team-a/shop", "team-b/web"}},
		"web":                          {Apps: []string{"web"}},
	} {
		if got := s.String(); got != want || s.Plural() != strings.Contains(want, ", ") {
			t.Errorf("%q, plural %v, want %q", got, s.Plural(), want)
		}
	}
}
