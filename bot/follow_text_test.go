package bot

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// editedForge keeps the texts of merge requests as a forge does, with its line ends and without a last one.
type editedForge struct {
	talkingForge
	title, body string
	edits       int
	shut        bool
}

func (f *editedForge) EditMergeRequest(_ context.Context, _ forge.Repository, _ int, title, body string,
	shut bool,
) error {
	f.title, f.body, f.shut = title, strings.ReplaceAll(strings.TrimSpace(body), "\n", "\r\n"), shut
	f.edits++
	return nil
}

// describing returns a task on a forge with a description.
func describing(body string) (*task, *editedForge) {
	f := &editedForge{body: body}
	b := New(Config{Clock: time.Now, Log: slog.New(slog.DiscardHandler)})
	return &task{
		Bot: b, forge: statusForge{f, "hub:acme/fleet", newStatuses(time.Now)}, place: "hub:acme/fleet",
		log: b.Log,
	}, f
}

func pinned(from, to string) *Followed {
	return &Followed{
		Name: "components", URL: "https://hub/acme/components", From: from, To: to,
		Commit: strings.Repeat("1", 40),
	}
}

// The description of a merge request changes only with what it says, and keeps what people add below it.
func TestDescriptionOfAMove(t *testing.T) {
	t.Parallel()
	own := ownPart(pinned("v1", "v2"), followKeeps)
	if title := requestTitle(pinned("v1", "v2")); title != "components: v1 → v2" ||
		!strings.Contains(own, strings.Repeat("1", 40)) {
		t.Errorf("%s\nthe own is\n%s", title, own)
	}
	if part := ownPart(pinned("", "v2"), followKeeps); !strings.Contains(part, "not pinned") ||
		requestTitle(pinned("", "v2")) != "components: v2" {
		t.Errorf("the first pin: %s", part)
	}
	j, f := describing(strings.ReplaceAll(own, "\n", "\r\n") +
		"\r\n    code\r\nDepends-On: https://hub/acme/one/pull/3\r\n")
	write := func(to, login string) {
		t.Helper()
		if err := (&follower{trunkTask: trunkTask{task: j}}).describe(t.Context(), pinned("v1", to),
			&forge.MergeRequest{Title: "Mine", Body: f.body, Author: forge.User{Login: login}}); err != nil {
			t.Fatal(err)
		}
	}
	if write("v2", "sluice"); f.edits > 0 {
		t.Error("the text of a person makes the description look changed")
	}
	const people = "\r\n\r\n    code\r\nDepends-On: https://hub/acme/one/pull/3"
	for range 2 {
		write("v3", "sluice")
		if f.edits != 1 || f.title != "components: v1 → v3" || !strings.HasSuffix(f.body,
			strings.TrimSpace(followMarker)+people) || strings.Contains(f.body, "v2") {
			t.Fatalf("after %d updates: %s\n%s", f.edits, f.title, f.body)
		}
	}
	write("v4", "ada")
	if f.title != "Mine" {
		t.Errorf("the title of a person becomes %s", f.title)
	}
}

// A merge request that Sluice closes keeps its title and its pin, also if the description has no part of Sluice.
func TestDescriptionAtTheEnd(t *testing.T) {
	t.Parallel()
	j, f := describing(ownPart(pinned("v1", "v4"), followKeeps) + "\nmine\n")
	current := pinned("v4", "v4") // the trunk has the pin now
	if err := (&follower{trunkTask: trunkTask{task: j}}).endRequest(t.Context(), current,
		&forge.MergeRequest{Title: "components: v1 → v4", Body: f.body}); err != nil {
		t.Fatal(err)
	}
	if !f.shut || f.title != "components: v1 → v4" || !strings.Contains(f.body, "from:       v1\r\n") ||
		!strings.Contains(f.body, "pins this commit already") || !strings.HasSuffix(f.body, "\nmine") ||
		strings.Contains(f.body, "Sluice keeps") {
		t.Errorf("closed: %s\n%s", f.title, f.body)
	}
	f.body = "Mine"
	for range 2 { // somebody opens it again
		if err := (&follower{trunkTask: trunkTask{task: j}}).endRequest(t.Context(), current,
			&forge.MergeRequest{Title: "Mine", Body: f.body}); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(f.body, "\r",
			""); got != "Closed: `sluice.lock` pins this commit already.\n\nMine" {
			t.Errorf("a description without Sluice's part becomes\n%s", f.body)
		}
	}
}

// What people write has the meaning that it had when they wrote it: the service, which writes it again, gives it no
// other.
func TestDescriptionsOfPeople(t *testing.T) {
	t.Parallel()
	own := ownPart(pinned("v1", "v2"), followKeeps)
	intro, rest := own[:strings.Index(own, followMarker)], own[strings.Index(own, followMarker):]
	foreign := pinned("v1", "v2")
	foreign.By = "```\\ /merge"
	for name, c := range map[string]struct{ body, kept string }{
		"a person's own request": {
			"Why\n\nDepends-On: https://hub/acme/one/pull/3",
			"Why\n\nDepends-On: https://hub/acme/one/pull/3",
		},
		"a fence around the marker": {intro + "~~~\n" + rest + "\n@all\n~~~\n", intro + "~~~\n" + rest +
			"\n@all\n~~~"},
		"a fence before the part":     {"~~~\n" + own + "@all\n~~~\n", "~~~\n" + own + "@all\n~~~"},
		"a comment around the marker": {intro + "<!--\n" + rest + "@all\n", intro + "<!--\n" + rest + "@all"},
		"text behind the marker":      {strings.TrimSpace(own) + " @all\n", strings.TrimSpace(own) + " @all"},
		"another fence in the part": {
			strings.Replace(own, "```text", "~~~~\n```text", 1) + "@all",
			strings.Replace(own, "```text", "~~~~\n```text", 1) + "@all",
		},
		"only a marker":                  {"~~~\n" + followMarker + "@all\n~~~", "~~~\n" + followMarker + "@all\n~~~"},
		"code":                           {own + "\n\n    @all\n", "    @all"},
		"the part for a person's commit": {ownPart(foreign, followKeeps) + "\nmine", "mine"},
		"the part of a closed request":   {ownPart(pinned("v1", "v2"), followDone) + "\nmine", "mine"},
		"nothing":                        {own, ""},
		"front matter":                   {"\n---\n@all\n---\nmine", "```text\n> ---\n> @all\n> ---\n> mine\n```"},
		"front matter with an encoding": {
			"# coding: utf-8\n\n;;;\n@all\n;;;",
			"```text\n> # coding: utf-8\n> \n> ;;;\n> @all\n> ;;;\n```",
		},
	} {
		j, f := describing(c.body)
		for i, to := range []string{"v3", "v4"} {
			if err := (&follower{trunkTask: trunkTask{task: j}}).describe(t.Context(), pinned("v1", to),
				&forge.MergeRequest{Body: f.body}); err != nil {
				t.Fatal(err)
			}
			want := ownPart(pinned("v1", to), followKeeps)
			if c.kept != "" {
				want += "\n" + c.kept
			}
			if got := strings.ReplaceAll(f.body, "\r\n", "\n"); f.edits != i+1 || got != strings.TrimSpace(want) {
				t.Errorf("the name is %s, the to is %s:\nthe body is\n%s\nwant\n%s", name, to, got, want)
			}
		}
	}
}

// A description has at most what the forge accepts.
func TestLongDescription(t *testing.T) {
	t.Parallel()
	if got := len([]rune(description(ownPart(pinned("v1", "v2"), followKeeps), strings.Repeat("x", 70_000),
		65_536))); got > 65_536 || got < 60_000 {
		t.Errorf("%d characters", got)
	}
}

// endedForge has one merge request with its text.
type endedForge struct {
	*editedForge
	mr forge.MergeRequest
}

func (f *endedForge) MergeRequest(context.Context, forge.Repository, int) (*forge.MergeRequest, error) {
	mr := f.mr
	mr.Body = f.body
	return &mr, nil
}

// The merge request of a repository that the fleet no longer follows says so, once. Others stay as they are.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	foreign := pinned("v1", "v2")
	foreign.By = "Ada"
	part := ownPart(pinned("v1", "v2"), followKeeps) + "\nDepends-On: https://hub/acme/one/pull/3"
	for name, c := range map[string]struct {
		body   string
		follow bool
		change func(mr *forge.MergeRequest)
		edits  int
	}{
		"ended":                       {part, false, nil, 1},
		"ended, with a commit of Ada": {ownPart(foreign, followKeeps), false, nil, 1},
		"followed":                    {part, true, nil, 0},
		"declared under another name": {part, true, func(mr *forge.MergeRequest) {
			mr.SourceBranch = FollowPrefix +
				"old"
		}, 1},
		"a person's own":    {"Mine", false, nil, 0},
		"of a fork":         {part, false, func(mr *forge.MergeRequest) { mr.Fork = true }, 0},
		"to another branch": {part, false, func(mr *forge.MergeRequest) { mr.TargetBranch = "release" }, 0},
		"of another branch": {part, false, func(mr *forge.MergeRequest) { mr.SourceBranch = "work" }, 0},
	} {
		j, f := describing(c.body)
		mr := forge.MergeRequest{
			Number: 1, Title: "components: v1.4.0 → v1.3.0 (lower)", State: forge.Open,
			SourceBranch: FollowPrefix + "components", TargetBranch: "main", Author: forge.User{Login: "sluice"},
		}
		if c.change != nil {
			c.change(&mr)
		}
		j.forge.Forge = &endedForge{f, mr}
		j.listings.replace(j.place, time.Now(), []*forge.MergeRequest{&mr})
		one := &fleet.Fleet{Repositories: []*fleet.Repository{{
			Name:   "components",
			Follow: fleet.Follow{MergeRequest: c.follow},
		}}}
		one.Spec.Trunk = "main"
		for range 2 {
			if err := (&follower{trunkTask: trunkTask{task: j}, fleet: one}).announceEnded(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		says := strings.Contains(f.body, "no longer follows this repository") &&
			!strings.Contains(f.body, "Sluice keeps") && strings.Contains(f.body, "v1")
		if f.edits != c.edits || says != (c.edits > 0) || strings.Contains(c.body,
			"Depends-On") != strings.Contains(f.body, "Depends-On") || f.shut || f.edits > 0 && f.title != mr.Title {
			t.Errorf("%s: %d edits, now %s\n%s", name, f.edits, f.title, f.body)
		}
	}
}

// The commit that ends it starts the task that says so.
func TestFollowEndsWithTheTrunk(t *testing.T) {
	t.Parallel()
	var got []hint.Hint
	b := New(Config{
		Clock: time.Now, Log: slog.New(slog.DiscardHandler), Enqueue: func(_ context.Context, h hint.Hint) error {
			got = append(got, h)
			return nil
		},
		PlaceOf: func(string) (hint.Place, bool) { return "hub:acme/components", true },
	})
	j := &task{Bot: b, place: "hub:acme/fleet", log: b.Log}
	one := &fleet.Fleet{Repositories: []*fleet.Repository{{
		Name:   "components",
		Follow: fleet.Follow{MergeRequest: true},
	}}}
	one.Spec.Trunk = "main"
	learn := func(want int) {
		t.Helper()
		if err := (&follower{
			trunkTask: trunkTask{task: j}, tip: gitstore.Commit{Hash: gitstore.Hash{byte(want)}},
			fleet: one,
		}).enqueue(t.Context()); err != nil || len(got) != want {
			t.Errorf("%d tasks, want %d, %v", len(got), want, err)
		}
	}
	learn(1)
	one.Repositories[0].Follow = fleet.Follow{}
	learn(2)
	if (&follower{
		trunkTask: trunkTask{task: j}, tip: gitstore.Commit{Hash: gitstore.Hash{9}},
		fleet: one,
	}).enqueue(t.Context()) != nil || len(got) != 2 {
		t.Error("a fleet that follows nothing starts a task")
	}
	j.hint.Force = true
	j.listings.replace(j.place, time.Now(), []*forge.MergeRequest{{
		Number: 1, State: forge.Open,
		SourceBranch: FollowPrefix + "components", TargetBranch: "main",
	}})
	learn(3)
}
