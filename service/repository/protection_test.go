package repository

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/session"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// rules is a forge.Protection whose rules name branches, or are prefixes that end in *. Branches that no rule matches
// do not exist, or are open.
type rules struct {
	protected, open []string
	err             error
	asked           []string
}

func (r *rules) Protected(_ context.Context, _ forge.Repository, branch string) (bool, error) {
	r.asked = append(r.asked, branch)
	if r.err != nil {
		return false, r.err
	}
	matches := func(list []string) bool {
		return slices.ContainsFunc(list, func(p string) bool {
			prefix, pattern := strings.CutSuffix(p, "*")
			return p == branch || pattern && strings.HasPrefix(branch, prefix)
		})
	}
	switch {
	case matches(r.protected):
		return true, nil
	case matches(r.open):
		return false, nil
	}
	return false, forge.ErrNotFound
}

func protectionFleet(clusters int) *fleet.Fleet {
	f := &fleet.Fleet{}
	f.Spec.Environments = []fleet.Environment{{Name: "dev"}, {Name: "prod", After: []string{"dev"}}}
	for i := range clusters {
		f.Clusters = append(f.Clusters, &fleet.Cluster{Name: fmt.Sprint("c", i), Environment: "prod"})
	}
	return f
}

func TestUnprotectedBranches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		protected, open []string
		clusters        int
		want            string
		mostAsked       int
	}{
		"all by patterns": {[]string{"env/*", "cluster/*", "sluice/*"}, nil, 1000, "", 3},
		"all by name": {[]string{
			"env/dev", "env/prod", "cluster/c0", "cluster/c1",
			"sluice/state",
		}, nil, 2, "", 7},
		"the records are open": {
			[]string{"env/*", "cluster/*"},
			[]string{"sluice/state"},
			2,
			"sluice/state is not protected", 9,
		},
		"one environment is open": {
			[]string{"env/dev", "cluster/*", "sluice/*"},
			[]string{"env/prod"},
			2,
			"env/prod is not protected", 9,
		},
		"a cluster is open": {
			[]string{"env/*", "cluster/c0", "sluice/*"},
			[]string{"cluster/*"},
			2,
			"cluster/c1 is not protected", 9,
		},
		"clusters are open": {
			[]string{"env/*", "sluice/*"},
			[]string{"cluster/*"},
			6,
			"cluster/c0, cluster/c1, cluster/c2 and 3 more are not protected", 9,
		},
		"many clusters without a pattern": {
			[]string{"env/*", "sluice/*"},
			nil, 1000, "cluster/* is not protected",
			4,
		},
		"branches that do not exist yet": {
			[]string{"env/dev"},
			nil, 2,
			"cluster/c0, cluster/c1, env/prod and 1 more are not protected", 9,
		},
		"the credential sees no branch at all": {nil, nil, 2, "returns no information", 9},
	} {
		r := &rules{protected: c.protected, open: c.open}
		got, err := unprotectedBranches(t.Context(), r, forge.Repository{Path: "acme/fleet"},
			protectionFleet(c.clusters))
		if err != nil || (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: the result of unprotectedBranches is %q, the error is %v, want %q", name, got, err, c.want)
		}
		if len(r.asked) > c.mostAsked {
			t.Errorf("%s: %d requests: %q", name, len(r.asked), r.asked)
		}
	}
	if _, err := unprotectedBranches(t.Context(), &rules{err: forge.ErrUnavailable}, forge.Repository{},
		protectionFleet(1)); !errors.Is(err, forge.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
}

// The forge is asked once in five minutes. While it does not answer, its last answer counts for an hour. Branches
// that the credential may not read count as unprotected.
func TestProtectionIsCached(t *testing.T) {
	t.Parallel()
	s, head := demo(t)
	now := time.Unix(1_800_000_000, 0)
	r := &rules{protected: []string{"env/*", "cluster/*", "sluice/*"}}
	c := Config{Protections: NewProtections(), Runtime: session.Runtime{Clock: func() time.Time { return now }}}
	w := &Session{
		Session: s, config: c, repo: Repository{Place: hint.NewPlace("hub", "acme/fleet"), Protection: r},
		pushers: map[gitstore.Hash]*session.Session{},
	}
	see := func(what, want string, asked bool) {
		t.Helper()
		before := len(r.asked)
		got, err := w.unprotected(t.Context(), head.Tree, w.repo.Place.Repo())
		if err != nil || (want == "") != (got == "") || !strings.Contains(got, want) ||
			asked != (len(r.asked) > before) {
			t.Errorf("%s: %q, %v, asked %t, want %q, %t", what, got, err, len(r.asked) > before, want, asked)
		}
	}
	see("first", "", true)
	see("again", "", false)
	now = now.Add(protectionLife)
	r.err = forge.ErrUnavailable
	see("while the forge is away", "", true)
	now = now.Add(protectionGrace)
	if got, err := w.unprotected(t.Context(), head.Tree, w.repo.Place.Repo()); err == nil {
		t.Errorf("an hour later: %q", got)
	}
	r.err = forge.ErrForbidden
	see("a credential without the permission", "lacks the permission", true)
	now = now.Add(protectionLife)
	r.err, r.protected, r.open = nil, nil, []string{"*"}
	see("rules were removed", "not protected", true)
	w.repo.Protection = nil
	see("the configuration does not demand it", "", false)
}

// The forge is asked even if the fleet has signers, because anybody who may push can push an old signed commit again.
func TestSignersDoNotReplaceProtection(t *testing.T) {
	t.Parallel()
	s, head := demo(t)
	snapshot := s.Store.Snapshot(t.Context(), head.Tree)
	text, err := fs.ReadFile(snapshot, fleet.File)
	if err != nil {
		t.Fatal(err)
	}
	_, line := hydratetest.NewKey(t)
	signed := strings.Replace(string(text), "\nspec:\n", "\nspec:\n  signers: [\""+line+"\"]\n", 1)
	tree, err := s.Store.Replace(t.Context(), head.Tree, fleet.File, []byte(signed))
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := s.Fleet(t.Context(), tree)
	if err != nil || f.Signers().Empty() {
		t.Fatalf("the fleet has no signers: %v", err)
	}
	c := Config{Protections: NewProtections(), Runtime: session.Runtime{Clock: time.Now}}
	w := &Session{Session: s, config: c, repo: Repository{
		Place:      hint.NewPlace("hub", "acme/fleet"),
		Protection: &rules{open: []string{"*"}},
	}, pushers: map[gitstore.Hash]*session.Session{}}
	if got, err := w.unprotected(t.Context(), tree, w.repo.Place.Repo()); err != nil ||
		!strings.Contains(got, "not protected") {
		t.Errorf("the result of unprotected is %q, the error is %v", got, err)
	}
}
