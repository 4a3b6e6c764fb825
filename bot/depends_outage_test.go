package bot

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
)

// A fleet that declares one repository with several names starts one sweep of it, and gets a change with each name that
// takes its branch.
func TestRepositoryWithSeveralNames(t *testing.T) {
	t.Parallel()
	at := func(name, wanted string) *fleet.Repository {
		return &fleet.Repository{Name: name, URL: "https://hub/acme/one", Wanted: wanted, Reviews: true}
	}
	list := []*fleet.Repository{
		at("main-1", "refs/heads/main"), at("main-2", "refs/heads/main"),
		at("old", "refs/heads/v1"), at("released", "refs/tags/v*"),
	}
	p := newPair(t, nil)
	b := p.replicas[0]
	j := &task{Bot: b, place: "hub:acme/fleet", log: b.Log}
	for range 2 { // the same declarations start no second sweep
		if err := j.learnUses(t.Context(), &fleet.Fleet{Repositories: list}, [20]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.enqueued) != 1 {
		t.Errorf("swept %v, want one sweep", p.enqueued)
	}
	for branch, want := range map[string][]string{
		"main": {"main-1", "main-2", "released"}, "v1": {"old", "released"},
		"other": {"released"},
	} {
		uses := b.uses.Of("hub:acme/one")
		if own := uses[0].Names(branch); !slices.Equal(own, want) {
			t.Errorf("%s: its own review renders it as %q, want %q", branch, own, want)
		}
	}
}

// A new line does not leave a green status while what it names cannot be read, and an outage does not turn a merge
// request pending whose lines were followed before.
func TestDependenciesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	down := func(body string) {
		t.Helper()
		p.forge.fails = errors.New("the other forge is down")
		p.now = p.now.Add(time.Minute)
		p.fleet.Body, p.fleet.Updated = body, p.now
		if err := p.replicas[0].Do(t.Context(), hint.Hint{
			Place: "hub:acme/fleet", Kind: hint.Review, Number: 7,
			Force: true,
		}); err == nil {
			t.Error("the review does not fail")
		}
		p.forge.fails = nil
	}
	p.describe(0, "")
	p.is(p.fleet.Head, "sluice", "success", "without lines")
	down(dependsOnOne)
	p.is(p.fleet.Head, "sluice", "pending cannot read what this merge request depends on",
		"with a line that cannot be followed")
	p.one.State, p.one.Updated = forge.Merged, p.now
	p.describe(0, dependsOnOne)
	p.is(p.fleet.Head, "sluice", "success", "after the merge of the other one")
	down(dependsOnOne)
	p.is(p.fleet.Head, "sluice", "success", "in a later outage")
}

// /sluice depends answers also if a companion's forge does not. The answer has the kind of the error without its text,
// which can contain internal addresses.
func TestDependsAnswersInAnOutage(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.describe(0, dependsOnOne)
	p.forge.fails = fmt.Errorf("GET http://forge.internal:8080/x: %w", forge.ErrForbidden)
	b := p.replicas[0]
	j := &task{
		Bot: b, forge: statusForge{p.forge, "hub:acme/fleet", b.statuses}, place: "hub:acme/fleet",
		settings: b.Settings("hub:acme/fleet"), log: b.Log,
	}
	defer j.close()
	if _, err := (&commandTask{task: j}).answerDepends(t.Context(), p.fleet, Order{ID: "1"}); err != nil {
		t.Fatalf("the comment is retried: %v", err)
	}
	if said := strings.Join(p.forge.comments, "\n"); !strings.Contains(said, "cannot be read") ||
		!strings.Contains(said, "lacks a permission on the forge") || strings.Contains(said, "internal:8080") {
		t.Errorf("the answer is %q", said)
	}
}

// A bot's lines count in the fleet, because bots open pairs of merge requests, but not what it copies from others.
// Elsewhere a bot names nothing, because nobody knows what it may read.
func TestLinesOfBots(t *testing.T) {
	t.Parallel()
	const body = "Depends-On: https://hub/acme/one/pull/3\n\n<details>\n<summary>Release notes</summary>\n\nDepends-On: https://hub/acme/two/pull/4\n\n</details>\n"
	for place, want := range map[hint.Place]string{"hub:acme/fleet": "acme/one#3", "hub:acme/two": ""} {
		f, b := companionWorld(map[string]string{"hub/acme/one 3": "ada: ", "hub/acme/two 4": "ada: "})
		j := &task{Bot: b, forge: statusForge{f, place, b.statuses}, place: place, log: b.Log}
		b.uses.Set("hub:acme/fleet", map[hint.Place]companions.Use{"hub:acme/two": {
			Fleet: "hub:acme/fleet",
			Name:  "acme-two",
		}})
		got, err := j.dependenciesOf(t.Context(), &forge.MergeRequest{
			Number: 99, Body: body,
			Author: forge.User{Login: "renovate[bot]", Bot: true}, State: forge.Open,
		}, true)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, one := range got.List {
			names = append(names, one.String())
		}
		if strings.Join(names, " ") != want || (want == "") != (len(got.Failures) == 1) {
			t.Errorf("%s: %q, failures %q", place, names, got.Failures)
		}
	}
}
