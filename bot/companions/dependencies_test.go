package companions

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/report"
)

// clones are repositories whose Git URLs are on clone.example.com.
type clones struct{ Repositories }

func (clones) PlaceOf(address string) (hint.Place, bool) {
	path, ok := strings.CutPrefix(address, "https://clone.example.com/")
	return hint.NewPlace("hub", path), ok
}

// noClones knows no URL.
type noClones struct{ Repositories }

func (noClones) PlaceOf(string) (hint.Place, bool) { return "", false }

// A link from a browser names a merge request also where clones have another address. Other hosts stay unknown.
func TestAddressesOfPages(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		// as the configuration spells it
		"https://clone.example.com/acme/One/pull/3":                     "hub:acme/One 3",
		"https://Pages.example.com/git/acme/one/pull/3#discussion_r1":   "hub:acme/one 3",
		"https://pages.example.com/git/acme/one/-/merge_requests/4?a=b": "hub:acme/one 4",
		"https://pages.example.com/git/acme/one/pulls/4#issuecomment-7": "hub:acme/one 4",
		"https://pages.example.com/git/acme/fleet/pull/9/files":         "hub:Acme/Fleet 9",
		"https://pages.example.com/git/acme/unknown/pull/3":             "",
		"https://pages.example.com/acme/one/pull/3":                     "",
		"http://pages.example.com/git/acme/one/pull/3":                  "",
		"https://pages.example.com.evil.example/git/acme/one/pull/3":    "",
		"https://ada@pages.example.com/git/acme/one/pull/3":             "",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			out := &Dependencies{declared: map[hint.Place]map[hint.Place][]Declaration{"hub:acme/fleet": {
				"hub:acme/fleet": {{Place: "hub:Acme/Fleet"}}, "hub:acme/one": {{Name: "one", Place: "hub:acme/one"}},
			}}}
			mr := &forge.MergeRequest{URL: "https://pages.example.com/git/Acme/Fleet/pull/7"}
			r := &resolver{Request: Request{Place: "hub:Acme/Fleet", MR: mr, Repositories: clones{}}, out: out}
			got := ""
			if ref, ok := r.reference(address); ok {
				got = fmt.Sprintf("%s %d", ref.Place, ref.Number)
			}
			if got != want {
				t.Errorf("the value is %q, want %q", got, want)
			}
		})
	}
	r := &resolver{
		Request: Request{Place: "hub:acme/fleet", MR: &forge.MergeRequest{}, Repositories: noClones{}},
		out:     &Dependencies{},
	}
	if _, ok := r.reference("https://pages.example.com/acme/one/pull/3"); ok {
		t.Error("an address without a known host names a repository")
	}
}

// A fleet that declares one repository with several names gets a change with each name that takes the branch of the
// change.
func TestRepositoryWithSeveralNames(t *testing.T) {
	t.Parallel()
	at := func(name, wanted string) *fleet.Repository { return &fleet.Repository{Name: name, Wanted: wanted} }
	list := []*fleet.Repository{
		at("main-1", "refs/heads/main"), at("main-2", "refs/heads/main"),
		at("old", "refs/heads/v1"), at("released", "refs/tags/v*"),
	}
	declared := map[hint.Place][]Declaration{"hub:acme/fleet": {{Place: "hub:acme/fleet"}}}
	for _, r := range list {
		declared["hub:acme/one"] = append(declared["hub:acme/one"], DeclarationOf("hub:acme/one", r))
	}
	for branch, want := range map[string][]string{
		"main": {"main-1", "main-2", "released"}, "v1": {"old", "released"},
		"other": {"released"},
	} {
		one := &Dependency{
			Reference: Reference{"hub:acme/one", 3, "#"},
			MR:        &forge.MergeRequest{State: forge.Open, TargetBranch: branch}, Own: true, Change: &Change{},
		}
		d := &Dependencies{
			Place: "hub:acme/fleet", List: []*Dependency{one},
			declared: map[hint.Place]map[hint.Place][]Declaration{"hub:acme/fleet": declared},
		}
		pins := d.In("hub:acme/fleet").Pins
		var got []string
		for _, pin := range pins {
			got = append(got, pin.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: a companion is rendered as %q, want %q", branch, got, want)
		}
	}
	d := &Dependencies{
		Place:    "hub:acme/fleet",
		declared: map[hint.Place]map[hint.Place][]Declaration{"hub:acme/fleet": {"hub:acme/one": {DeclarationOf("hub:acme/one", list[2])}}},
	}
	if why := d.whyHidden("hub:acme/fleet", &Dependency{
		Reference: Reference{"hub:acme/one", 3, "#"},
		MR:        &forge.MergeRequest{TargetBranch: "main"},
	}); !strings.Contains(why, "takes v1") {
		t.Errorf("a change of a branch that the fleet does not take is hidden because %q", why)
	}
}

// A companion that one fleet takes in and another does not is shown as such.
func TestCompanionsOfSeveralFleets(t *testing.T) {
	t.Parallel()
	open := &forge.MergeRequest{State: forge.Open, Head: "head"}
	d := &Dependencies{
		Place: "hub:acme/fleet",
		List:  []*Dependency{{Reference: Reference{"hub:acme/two", 4, "#"}, MR: open}},
		declared: map[hint.Place]map[hint.Place][]Declaration{
			"hub:acme/fleet": {"hub:acme/two": {{Name: "two"}}},
			"hub:acme/other": {},
		},
	}
	for fleet, want := range map[hint.Place]string{
		"hub:acme/Fleet": "open, rendered here",
		"hub:acme/other": "does not take content",
	} {
		var r report.Review
		d.Show(&r, fleet)
		if len(r.Companions) != 1 || !strings.Contains(r.Companions[0].Part, want) ||
			r.Waits != "waits for acme/two#4" {
			t.Errorf("%s: the companions are %+v, the waits are %q", fleet, r.Companions, r.Waits)
		}
	}
}

// A companion of a third repository is shown in another repository only if the fleet's trunk says so, whoever wrote the
// line.
func TestWhereCompanionsAreShown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		place   hint.Place // of the comment
		fleet   hint.Place // that is rendered
		of      hint.Place // the companion's
		shownIn []string   // of the Repository two
		shown   bool
	}{
		"in the fleet":             {"hub:acme/fleet", "hub:acme/fleet", "hub:acme/two", nil, true},
		"the fleet elsewhere":      {"hub:acme/one", "hub:acme/fleet", "hub:acme/Fleet", nil, true},
		"not declared":             {"hub:acme/one", "hub:acme/fleet", "hub:acme/two", nil, false},
		"declared":                 {"hub:acme/One", "hub:acme/fleet", "hub:acme/two", []string{"one"}, true},
		"declared for another":     {"hub:acme/one", "hub:acme/fleet", "hub:acme/two", []string{"three"}, false},
		"declared for all":         {"hub:acme/one", "hub:acme/fleet", "hub:acme/two", []string{"*"}, true},
		"of another fleet":         {"hub:acme/fleet", "hub:acme/other", "hub:acme/two", nil, false},
		"a place nobody declares":  {"hub:acme/nine", "hub:acme/fleet", "hub:acme/two", []string{"*"}, false},
		"a fleet without the repo": {"hub:acme/one", "hub:acme/third", "hub:acme/two", []string{"*"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			as := func(name string, shownIn ...string) []Declaration {
				return []Declaration{{Name: name, Branch: "main", ShownIn: shownIn}}
			}
			names := map[hint.Place][]Declaration{
				"hub:acme/fleet": as(""), "hub:acme/one": as("one"),
				"hub:acme/two": as("two", c.shownIn...), "hub:acme/three": as("three"),
			}
			other := map[hint.Place][]Declaration{
				"hub:acme/other": as(""), "hub:acme/fleet": as("fleet"),
				"hub:acme/two": as("two"),
			}
			one := &Dependency{
				Reference: Reference{c.of, 4, "#"},
				MR:        &forge.MergeRequest{State: forge.Open, Head: "head", TargetBranch: "main"}, Own: true,
				Change: &Change{},
			}
			d := &Dependencies{
				Place: c.place, List: []*Dependency{one},
				declared: map[hint.Place]map[hint.Place][]Declaration{
					"hub:acme/fleet": names, "hub:acme/other": other,
					"hub:acme/third": {},
				},
			}
			rendered := d.In(c.fleet)
			var r report.Review
			d.Show(&r, c.fleet)
			if got := len(rendered.Pins) > 0 || rendered.Change != nil; got != c.shown ||
				strings.Contains(r.Companions[0].Part, "open, rendered here") != c.shown {
				t.Errorf("rendered %t, and it says %q", got, r.Companions[0].Part)
			}
			if r.Waits == "" {
				t.Error("the status does not wait")
			}
		})
	}
}
