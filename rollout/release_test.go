package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
)

// What a newer commit changes in a hold of several workspaces or apps. A workspace comes as a whole, and never because
// another one changed. The old and the new names of what was renamed come together, so that no object is deleted or
// gets two owners.
func TestReleasesOfAHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		workspaces          string
		held, now, promoted string // app=digest
		want                string
	}{
		"one of two workspaces": {"a b", "a/x=2 b/y=2", "a/x=1 b/y=1", "a/x=3 b/y=2", "a/x"},
		"one of two, and the other renamed": {
			"a b", "a/x=2 b/new=2", "a/x=1 b/old=1", "a/x=3 b/new=2",
			"a/x",
		},
		"both renamed": {
			"a b", "a/new=2 b/new=2", "a/old=1 b/old=1", "a/new=3 b/new=2",
			"a/new a/old",
		},
		"both renamed, and both changed": {
			"a b", "a/new=2 b/new=2", "a/old=1 b/old=1", "a/new=3 b/new=3",
			"a/new a/old b/new b/old",
		},
		"a workspace renamed":                         {"a c", "c/x=2", "a/x=1", "c/x=3", "a/x c/x"},
		"a workspace renamed, and another changed":    {"a b c", "b/y=2 c/x=2", "a/x=1 b/y=1", "b/y=3 c/x=2", "b/y"},
		"a workspace renamed, and another app is new": {"a c d", "c/x=2 d/z=2", "a/x=1", "c/x=3 d/z=2", ""},
		"the new app of another changed":              {"a c d", "c/x=2 d/z=2", "a/x=1", "c/x=2 d/z=3", ""},
		"an app of a workspace went": {
			"a b", "a/x=2 b/y=2", "a/gone=1 a/x=1 b/y=1", "a/x=2 b/y=3",
			"b/y",
		},
		"and its workspace changed": {
			"a b", "a/x=2 b/y=2", "a/gone=1 a/x=1 b/y=1", "a/x=3 b/y=2",
			"a/gone a/x",
		},
		"apps of the fleet":                   {"", "x=2 y=2", "x=1 y=1", "x=3 y=2", "x"},
		"an app renamed":                      {"", "new=2", "old=1", "new=3", "new old"},
		"an app renamed, and another changed": {"", "new=2 x=2", "old=1 x=1", "new=2 x=3", "x"},
		"two apps renamed, and one changed":   {"", "new1=2 new2=2", "old1=1 old2=1", "new1=3 new2=2", ""},
		"two apps renamed, and another changed": {
			"", "new1=2 new2=2 x=2", "old1=1 old2=1 x=1",
			"new1=3 new2=2 x=3", "x",
		},
		"an app went, and another changed":         {"", "x=2", "gone=1 x=1", "x=3", "gone x"},
		"an app of the fleet became a workspace's": {"c", "c/x=2", "x=1", "c/x=3", "c/x x"},
		"an app named alone": {
			"", "a/new=2 b/y=2", "a/old=1 b/y=1", "a/new=3 b/y=2",
			"a/new a/old",
		},
		"named apps of two workspaces": {
			"", "a/new=2 b/new=2", "a/old=1 b/old=1", "a/new=3 b/new=2",
			"a/new a/old",
		},
		"nothing changed": {"a", "a/new=2", "a/old=1", "a/new=2", ""},
	} {
		trees := map[string]map[string]string{}
		all := map[string]bool{}
		for tree, text := range map[string]string{"held": c.held, "now": c.now, "promoted": c.promoted} {
			trees[tree] = map[string]string{}
			for pair := range strings.FieldsSeq(text) {
				app, digest, _ := strings.Cut(pair, "=")
				trees[tree][app], all[app] = digest, true
			}
		}
		h := rollout.Hold{
			Cause: rollout.CauseFailed, Source: rollout.Source{Commit: "c2"}, Tree: "held",
			Workspaces: strings.Fields(c.workspaces), Since: time.Unix(1, 0),
		}
		for app := range all {
			h.Apps = append(h.Apps, app)
		}
		r := rollout.NewRecord("prod")
		r.Holds = []rollout.Hold{h}
		got, err := rollout.ChangesOf(r, rollout.Source{Commit: "c3"}, "promoted", "now", []string{"one"},
			func(tree, _ string) (map[string]string, error) { return trees[tree], nil })
		if err != nil {
			t.Fatal(err)
		}
		if h.Whole = c.workspaces == ""; h.Whole { // a hold of everything has the same renames
			r.Holds[0] = h
			whole, err := rollout.ChangesOf(r, rollout.Source{Commit: "c3"}, "promoted", "now", []string{"one"},
				func(tree, _ string) (map[string]string, error) { return trees[tree], nil })
			if apps := fmt.Sprint(whole.Holds[0].Apps); err != nil ||
				apps != strings.Replace("["+c.want+"]", "gone ", "", 1) {
				t.Errorf("%s, of everything: %s come, %v", name, apps, err)
			}
		}
		if apps := fmt.Sprint(got.Holds[0].Apps); apps != "["+c.want+"]" {
			t.Errorf("%s: %s come, want [%s]", name, apps, c.want)
		}
	}
}
