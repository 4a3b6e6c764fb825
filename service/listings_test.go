package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/service/config"
)

// lister is a forge that lists repositories, or fails.
type lister struct {
	forge.Forge
	asked int
	paths []string
	err   error
}

func (l *lister) Repositories(context.Context) ([]forge.Repository, error) {
	l.asked++
	var out []forge.Repository
	for _, p := range l.paths {
		out = append(out, forge.Repository{Path: p})
	}
	return out, l.err
}

// A forge that fails keeps its previous listing and is asked again soon. It does not affect other forges.
func TestListings(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	l := newListings(slog.New(slog.DiscardHandler), func() time.Time { return now })
	hub, lab, named := &lister{paths: []string{"acme/a"}}, &lister{paths: []string{"acme/b"}},
		&lister{paths: []string{"acme/c"}}
	forges := map[string]*connected{
		"hub":   {Forge: config.Forge{Repositories: []string{"acme/*"}}, Adapter: Adapter{Forge: hub}},
		"lab":   {Forge: config.Forge{Repositories: []string{"acme/*"}}, Adapter: Adapter{Forge: lab}},
		"named": {Forge: config.Forge{Repositories: []string{"acme/c"}}, Adapter: Adapter{Forge: named}},
	}
	refresh := func(want string) {
		t.Helper()
		l.refresh(t.Context(), forges)
		var got []string
		for _, p := range l.places() {
			got = append(got, p.String())
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("listed %v, want %s", got, want)
		}
	}
	if err := l.complete(forges); err == nil {
		t.Error("the list is complete before any forge has listed its repositories")
	}
	lab.err = errors.New("down")
	refresh("hub:acme/a")
	if err := l.complete(forges); err == nil || !strings.Contains(err.Error(), "lab has not listed") {
		t.Errorf("while a forge does not answer: %v", err)
	}
	lab.err = nil
	refresh("hub:acme/a lab:acme/b")
	if err := l.complete(forges); err != nil {
		t.Error(err)
	}
	lab.asked = 1
	now = now.Add(time.Minute)
	refresh("hub:acme/a lab:acme/b")
	if hub.asked != 1 || lab.asked != 1 || named.asked != 0 {
		t.Errorf("asked %d, %d and %d times, want 1, 1 and, without a pattern, 0", hub.asked, lab.asked, named.asked)
	}
	now, hub.err, hub.paths, lab.paths = now.Add(time.Hour), errors.New("down"), nil, []string{"acme/b", "acme/d"}
	refresh("hub:acme/a lab:acme/b lab:acme/d")
	now, hub.err, hub.paths = now.Add(time.Minute), nil, []string{"acme/e"}
	refresh("hub:acme/e lab:acme/b lab:acme/d")
	if hub.asked != 3 || lab.asked != 2 {
		t.Errorf("asked %d and %d times, want 3 and 2", hub.asked, lab.asked)
	}
}
