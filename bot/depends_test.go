package bot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// companionForge has merge requests by repository and number, and people who may read or write repositories.
type companionForge struct {
	sharedHead
	mrs     map[string]*forge.MergeRequest
	access  map[string]forge.Access // by login and repository
	trusted []string                // heads
}

func (f *companionForge) MergeRequest(_ context.Context, repo forge.Repository, number int) (*forge.MergeRequest,
	error,
) {
	if mr := f.mrs[fmt.Sprintf("%s %d", repo.Path, number)]; mr != nil {
		return mr, nil
	}
	return nil, forge.ErrNotFound
}

func (f *companionForge) Access(_ context.Context, repo forge.Repository, login string) (forge.Access, error) {
	return f.access[login+" "+repo.Path], nil
}

func (f *companionForge) Self(context.Context) (forge.User, error) {
	return forge.User{Login: "sluice-bot"}, nil
}

func (f *companionForge) CommitStatuses(_ context.Context, _ forge.Repository, commit string) ([]forge.Status, error) {
	if slices.Contains(f.trusted, commit) {
		return []forge.Status{{
			Context: trustContext, State: forge.Success, Description: "trusted by ada",
			Author: forge.User{Login: "sluice-bot"},
		}}, nil
	}
	return nil, nil
}

// declaring is the fleet acme/fleet on the forge hub. Other repositories have no fleet.
type declaring struct {
	bombSpace
	fleet *fleet.Fleet
}

func (d *declaring) Fleet(context.Context, gitstore.Hash) (*fleet.Fleet, fleet.Problems, error) {
	if d.fleet == nil {
		return nil, nil, fleet.Problems{{Message: "no fleet"}}
	}
	return d.fleet, nil, nil
}

func (d *declaring) Readable(ctx context.Context, _ gitstore.Commit) (gitstore.Commit, *fleet.Fleet, error) {
	f, _, err := d.Fleet(ctx, gitstore.Hash{})
	return gitstore.Commit{}, f, err
}

// companionWorld returns a Bot for a fleet that declares all repositories of the forge, and the forge.
func companionWorld(mrs map[string]string) (*companionForge, *Bot) {
	f := &companionForge{mrs: map[string]*forge.MergeRequest{}, access: map[string]forge.Access{}}
	fleetOfAll := &fleet.Fleet{Repositories: []*fleet.Repository{{Name: "other-owner", URL: "https://hub/evil/repo"}}}
	declared := map[string]bool{"hub/acme/fleet": true}
	for name, what := range mrs { // `hub/acme/one 3` → `author: body`
		place, number, _ := strings.Cut(name, " ")
		author, body, _ := strings.Cut(what, ": ")
		_, path, _ := strings.Cut(place, "/")
		mr := &forge.MergeRequest{
			State: forge.Open, Head: "head of " + name, Body: body,
			Author: forge.User{Login: author}, TargetBranch: "main",
		}
		if _, err := fmt.Sscan(number, &mr.Number); err != nil {
			panic(err)
		}
		f.mrs[path+" "+number] = mr
		f.access["ada "+path] = forge.AccessWrite
		if !declared[place] {
			declared[place] = true
			fleetOfAll.Repositories = append(fleetOfAll.Repositories,
				&fleet.Repository{Name: strings.ReplaceAll(path, "/", "-"), URL: "https://" + place})
		}
	}
	b := New(Config{
		Clock: func() time.Time { return time.Unix(0, 0) }, Log: slog.New(slog.DiscardHandler),
		Forges:   func(string) (Forge, bool) { return f, true },
		Settings: func(hint.Place) Settings { return Settings{} },
		PlaceOf: func(address string) (hint.Place, bool) {
			host, path, ok := strings.Cut(strings.TrimPrefix(address, "https://"), "/")
			return hint.NewPlace(host, path), ok
		},
		Open: func(_ context.Context, p hint.Place) (*Workspace, error) {
			d := &declaring{}
			if p == "hub:acme/fleet" {
				d.fleet = fleetOfAll
			}
			return &Workspace{Commits: d, Fleets: d, Close: func() {}}, nil
		},
	})
	b.uses.Set("hub:acme/fleet", map[hint.Place]companions.Use{"hub:acme/one": {
		Fleet: "hub:acme/fleet",
		Name:  "acme-one",
	}})
	return f, b
}

// What a merge request names is taken in within the bounds of its author's rights, of the fleet's trunk, and of its own
// trust.
func TestWhichCompanionsAreTakenIn(t *testing.T) {
	t.Parallel()
	on := func(names ...string) string {
		var lines []string
		for _, name := range names {
			lines = append(lines, "Depends-On: https://"+strings.Replace(name, " ", "/pull/", 1))
		}
		return strings.Join(lines, "\n")
	}
	var nine []string
	many := map[string]string{}
	for i := range 9 {
		nine = append(nine, fmt.Sprintf("hub/acme/r%d 1", i))
		many[nine[i]] = "ada: "
	}
	for name, c := range map[string]struct {
		mrs      map[string]string
		from     string // repository of the merge request; "" is the fleet
		own      bool
		body     string
		change   func(f *companionForge)
		rendered []string
		alone    []string // parts of the reasons
		failures []string
	}{
		"one": {
			map[string]string{"hub/acme/one 3": "ada: "},
			"", true, on("hub/acme/one 3"), nil,
			[]string{"acme/one#3"},
			nil, nil,
		},
		"indirectly": {
			map[string]string{
				"hub/acme/one 3": "ada: " + on("hub/acme/two 4"),
				"hub/acme/two 4": "ada: ",
			},
			"", true, on("hub/acme/one 3"), nil,
			[]string{"acme/one#3", "acme/two#4"},
			nil,
			nil,
		},
		"another forge": {
			map[string]string{"lab/acme/one 3": "ada: "},
			"", true, on("lab/acme/one 3"), nil,
			[]string{"acme/one#3"},
			nil, nil,
		},
		"too many": {
			many, "", true, on(nine...), nil,
			[]string{
				"acme/r0#1", "acme/r1#1", "acme/r2#1", "acme/r3#1", "acme/r4#1", "acme/r5#1", "acme/r6#1",
				"acme/r7#1",
			},
			nil,
			[]string{"more than 8"},
		},
		"another owner": {nil, "", true, on("hub/evil/repo 1"), nil, nil, nil, []string{"does not declare"}},
		"no write access": {
			map[string]string{"hub/acme/one 3": "ada: "},
			"", false, on("hub/acme/one 3"),
			func(f *companionForge) { f.access["bob acme/one"] = forge.AccessRead }, nil,
			[]string{"the head of this merge request is in a fork, or its author has no write access"},
			nil,
		},
		"no access at all": {
			map[string]string{"hub/acme/one 3": "ada: "},
			"", false, on("hub/acme/one 3"), nil, nil,
			nil,
			[]string{"bob cannot read it"},
		},
		"stranger's": {map[string]string{
			"hub/acme/one 3": "eve: " + on("hub/acme/two 4"),
			"hub/acme/two 4": "ada: ",
		}, "", true, on("hub/acme/one 3"), nil, nil, []string{"waits for trust"}, nil},
		"trusted stranger's": {map[string]string{
			"hub/acme/one 3": "eve: " + on("hub/acme/two 4"),
			"hub/acme/two 4": "ada: ",
		}, "", true, on("hub/acme/one 3"), trustOne, []string{"acme/one#3"}, nil, nil},
		"stranger and others": {
			map[string]string{"hub/acme/one 3": "eve: ", "hub/acme/two 4": "ada: "},
			"", true,
			on("hub/acme/one 3", "hub/acme/two 4"), trustOne,
			[]string{"acme/two#4"},
			[]string{"its author has no write access, and this merge request depends on others too"},
			nil,
		},
		"of one repository": {
			map[string]string{"hub/acme/one 3": "ada: ", "hub/acme/one 4": "ada: "},
			"", true,
			on("hub/acme/one 3", "hub/acme/one 4"), nil,
			[]string{"acme/one#3"},
			[]string{"another merge request of its repository"},
			nil,
		},
		"of its repository": {
			map[string]string{"hub/acme/fleet 3": "ada: "},
			"", true, on("hub/acme/fleet 3"), nil,
			nil,
			[]string{"rebase onto it"},
			nil,
		},
		"elsewhere, the fleet": {
			map[string]string{"hub/acme/fleet 3": "ada: ", "hub/acme/one 1": "ada: "},
			"hub:acme/one", true, on("hub/acme/fleet 3"),
			func(f *companionForge) { f.access["bob acme/fleet"] = forge.AccessRead },
			[]string{"acme/fleet#3"},
			nil, nil,
		},
		"elsewhere, not readable": {
			map[string]string{"hub/acme/two 3": "ada: "},
			"hub:acme/one", true,
			on("hub/acme/two 3"), nil, nil, nil,
			[]string{"bob cannot read it"},
		},
		"elsewhere, another forge": {
			map[string]string{"lab/acme/two 3": "ada: "},
			"hub:acme/one", true,
			on("lab/acme/two 3"), func(f *companionForge) { f.access["bob acme/two"] = forge.AccessWrite }, nil, nil,
			[]string{"bob cannot read it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, b := companionWorld(c.mrs)
			if c.change != nil {
				c.change(f)
			}
			place := hint.Place("hub:acme/fleet")
			if c.from != "" {
				place = hint.Place(c.from)
			}
			j := &task{
				Bot: b, forge: statusForge{f, place, b.statuses}, place: place,
				log: slog.New(slog.DiscardHandler),
			}
			got, err := j.dependenciesOf(t.Context(), &forge.MergeRequest{
				Number: 99, Body: c.body,
				Author: forge.User{Login: "bob"}, State: forge.Open,
			}, c.own)
			if err != nil {
				t.Fatal(err)
			}
			var rendered, alone []string
			for _, one := range got.List {
				if one.NotRendered == "" {
					rendered = append(rendered, one.String())
				} else {
					alone = append(alone, one.NotRendered)
				}
			}
			if !slices.Equal(rendered, c.rendered) || !partsOf(alone, c.alone) || !partsOf(got.Failures, c.failures) {
				t.Errorf("rendered %q\nnot rendered %q\nfailures %q", rendered, alone, got.Failures)
			}
		})
	}
}

func trustOne(f *companionForge) { f.trusted = []string{"head of hub/acme/one 3"} }

// partsOf reports whether each text contains the part at the same index.
func partsOf(texts, parts []string) bool {
	return slices.EqualFunc(texts, parts, strings.Contains)
}

// A merge request starts the reviews that show it once for each of its states.
func TestAnnouncedToDependents(t *testing.T) {
	t.Parallel()
	var enqueued []string
	b := New(Config{
		Clock: func() time.Time { return time.Unix(0, 0) },
		Enqueue: func(_ context.Context, h hint.Hint) error {
			enqueued = append(enqueued, fmt.Sprintf("%s %s %d", h.Kind, h.Place, h.Number))
			return nil
		},
	})
	j := &task{Bot: b, place: "hub:acme/one"}
	mr := &forge.MergeRequest{Number: 3, State: forge.Open, Head: "a"}
	depend := func() {
		b.dependents.Add(companions.Reference{Place: "hub:Acme/One", Number: 3},
			hint.Hint{Place: "hub:acme/fleet", Kind: hint.Review, Number: 9})
	}
	for step, c := range []struct {
		change   func()
		expected int
	}{
		{func() {}, 0},
		{depend, 0}, // the review that depends has read this state
		{func() { mr.Head = "b" }, 1},
		{func() { mr.Head = "c" }, 1}, // it has not run yet
		{func() { depend(); mr.State = forge.Merged }, 2},
		{func() { depend(); j.hint.Force = true }, 3},
	} {
		c.change()
		if err := j.announce(t.Context(), mr); err != nil {
			t.Fatal(err)
		}
		if len(enqueued) != c.expected {
			t.Fatalf("step %d: %q", step, enqueued)
		}
	}
	if enqueued[0] != "review hub:acme/fleet 9" {
		t.Errorf("enqueued %q", enqueued)
	}
}

// Git can be behind the forge: the review waits for the head of a companion, but not forever.
func TestCompanionThatGitDoesNotHaveYet(t *testing.T) {
	t.Parallel()
	for name, arrives := range map[string]bool{"arrives": true, "never arrives": false} {
		p := newPair(t, nil)
		p.other.lags = true
		p.fleet.Body = dependsOnOne
		review := func() error {
			return p.replicas[0].Do(t.Context(), hint.Hint{Place: "hub:acme/fleet", Kind: hint.Review, Number: 7})
		}
		waited := time.Duration(0)
		for attempt := range maxLagging {
			if arrives && attempt == 3 {
				p.other.lags = false
				break
			}
			later, ok := errors.AsType[*Later](review())
			if !ok || !later.Until.After(p.now) {
				t.Fatalf("%s: attempt %d does not ask for a retry", name, attempt)
			}
			waited += later.Until.Sub(p.now)
			p.now = later.Until
		}
		if p.space.reviews != 0 {
			t.Errorf("%s: %d reviews without the companion", name, p.space.reviews)
		}
		if err := review(); err != nil || p.space.reviews != 1 {
			t.Errorf("%s: %d reviews in the end: %v", name, p.space.reviews, err)
		}
		if want := map[bool]time.Duration{true: 7 * time.Second, false: 255 * time.Second}[arrives]; waited != want {
			t.Errorf("%s: waited %s, not %s", name, waited, want)
		}
		if body := strings.Join(p.forge.comments, "\n"); strings.Contains(body,
			"Git does not have its head") == arrives {
			t.Errorf("%s: the comment says:\n%s", name, body)
		}
		p.one.Head, p.one.Updated = gitstore.Hash{5}.String(), p.now // a newer head waits again
		p.other.lags, p.fleet.Updated = true, p.now
		if _, ok := errors.AsType[*Later](review()); !ok {
			t.Errorf("%s: the review does not wait for a newer head", name)
		}
	}
}
