package bot

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// Fleets that follow each other are found through others, in any spelling.
func TestReaches(t *testing.T) {
	t.Parallel()
	f := newFollowers()
	f.set("hub:Acme/One", map[hint.Place]bool{"hub:acme/two": true})
	f.set("hub:acme/two", map[hint.Place]bool{"hub:acme/three": true, "hub:acme/two": true})
	f.set("hub:acme/three", map[hint.Place]bool{"hub:acme/one": true})
	for pair, want := range map[[2]hint.Place]bool{
		{"hub:acme/two", "hub:acme/One"}: true, {"hub:acme/one", "hub:acme/ONE"}: true, {"hub:acme/four", "hub:acme/one"}: false, {"hub:acme/one", "hub:acme/four"}: false,
	} {
		if got := f.reaches(pair[0], pair[1]); got != want {
			t.Errorf("%v: %t", pair, got)
		}
	}
	b := New(Config{Clock: time.Now})
	b.followers = f
	if got := b.Followers("hub:ACME/two"); len(got) != 2 || got[0] != "hub:Acme/One" {
		t.Errorf("followers %v", got)
	}
	f.set("hub:Acme/One", nil)
	if f.reaches("hub:acme/two", "hub:acme/one") != true || f.reaches("hub:acme/one", "hub:acme/two") {
		t.Error("a fleet that follows nothing any more still does")
	}
}

// The description of a merge request changes only with what it says, and keeps what people add.
func TestDescriptionOfAMove(t *testing.T) {
	t.Parallel()
	f := &Followed{Name: "components", URL: "https://hub/acme/components", From: "v1", To: "v2", Commit: strings.Repeat("1", 40)}
	title, body := requestText(f)
	if title != "components: v1 → v2" || !strings.Contains(body, f.Commit) {
		t.Errorf("%s\n%s", title, body)
	}
	edited := strings.ReplaceAll(body, "\n", "\r\n") + "\r\nDepends-On: https://hub/acme/one/pull/3\r\n"
	if !strings.Contains(edited, marker(body)) {
		t.Error("the text of a person makes the description look changed")
	}
	f.To = "v3"
	_, next := requestText(f)
	if marker(next) == marker(body) {
		t.Error("a new version does not change the description")
	}
	whole := next + additions(edited)
	if !strings.Contains(whole, "\nDepends-On: https://hub/acme/one/pull/3\n") || strings.Contains(whole, "→ v2") || strings.Count(whole, markerStart) != 1 {
		t.Errorf("after an update:\n%s", whole)
	}
	if additions(body) != "" || additions("Merge me") != "" {
		t.Error("additions where nobody added anything")
	}
	f.From = ""
	if title, body := requestText(f); title != "components: v3" || !strings.Contains(body, "not pinned") {
		t.Errorf("%s\n%s", title, body)
	}
}
