package bundle_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bundle"
	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/internal/signers"
)

// TestSigningAnImportLater holds that importing the newest bundle again signs it, that nothing before it counts then, and
// that this gets nothing past the order of bundles.
func TestSigningAnImportLater(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many imports: run make test-e2e")
	}
	g := newGap(t)
	signer, line := hydratetest.NewKey(t)
	allowed, err := signers.Parse([]string{line})
	if err != nil {
		t.Fatal(err)
	}
	store, err := gitstore.Open(t.Context(), gitstore.Options{Dir: g.site})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	take := func(file string, list signers.List, by gitstore.Signer) (incoming.Import, error) {
		t.Helper()
		s := bundle.Site{Store: store, Branches: store.Local(), Allowed: list, Signer: by, Version: "test", Now: time.Now()}
		o, err := bundle.Open(t.Context(), s, g.open(file))
		if err != nil {
			return incoming.Import{}, err
		}
		defer o.Close()
		return bundle.Import(t.Context(), s, o)
	}
	must := func(got incoming.Import, err error) incoming.Import {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	tip := func() gitstore.Hash {
		t.Helper()
		h, err := gitstore.ParseHash(g.Git("--git-dir", g.site, "rev-parse", "sluice/incoming/dev"))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	history := func() []incoming.Import {
		t.Helper()
		list, err := incoming.History(t.Context(), store, "dev", tip(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	one := g.export(full).File
	g.release("second")
	two := g.export(nil).File
	g.release("third")
	three := g.export(nil).File
	must(take(one, signers.List{}, nil))
	must(take(two, signers.List{}, nil))
	unsigned := tip()

	// The site lists signers now.
	if _, err := take(three, allowed, signer); !errors.Is(err, gitstore.ErrUnverified) || !strings.Contains(err.Error(), "sign it first") {
		t.Errorf("on top of an unsigned import: %v", err)
	}
	if _, err := take(two, allowed, nil); !errors.Is(err, gitstore.ErrUnverified) || !strings.Contains(err.Error(), "--sign-key") {
		t.Errorf("again without a key: %v", err)
	}
	if _, err := take(one, allowed, signer); !errors.Is(err, gitstore.ErrUnverified) {
		t.Errorf("an older one: %v", err)
	}
	if got := must(take(two, allowed, signer)); !got.First || got.Sequence != 2 {
		t.Errorf("the import is %+v", got)
	}
	if list := history(); len(list) != 1 || list[0].Sequence != 2 || !list[0].First {
		t.Errorf("the history is %+v", list)
	}
	g.Git("--git-dir", g.site, "merge-base", "--is-ancestor", unsigned.String(), "sluice/incoming/dev") // nothing was rewritten
	_, err = take(two, allowed, signer)
	if known, ok := errors.AsType[*bundle.KnownError](err); !ok || !known.Newest {
		t.Errorf("once more: %v", err)
	}
	must(take(three, allowed, signer))

	// Somebody pushes an import of bundle 2 again, and asks for a signature.
	signed := tip()
	g.Git("--git-dir", g.site, "update-ref", "refs/heads/sluice/incoming/dev", g.Git("--git-dir", g.site, "-c", "user.name=x", "-c",
		"user.email=x@y", "commit-tree", unsigned.String()+"^{tree}", "-p", signed.String(), "-p", unsigned.String()+"^2", "-m",
		g.Git("--git-dir", g.site, "log", "-1", "--format=%B", unsigned.String())))
	if _, err := take(two, allowed, signer); !errors.Is(err, bundle.ErrOrder) || !strings.Contains(err.Error(), "has a signed import of bundle 3") {
		t.Errorf("a replay: %v", err)
	}
	// The same, with what hides the imports before it: a commit that claims that no import before it counts, one more parent, and
	// one between that claims to be the first.
	push := func(subject string, parents ...string) string {
		args := []string{"--git-dir", g.site, "-c", "user.name=x", "-c", "user.email=x@y", "commit-tree", unsigned.String() + "^{tree}", "-m", subject}
		for _, p := range parents {
			args = append(args, "-p", p)
		}
		return g.Git(args...)
	}
	replay := g.Git("--git-dir", g.site, "log", "-1", "--format=%B", unsigned.String())
	home := g.Git("--git-dir", g.site, "rev-parse", unsigned.String()+"^2")
	hides := push("not home's", signed.String())
	between := push(strings.ReplaceAll(replay, home, hides), hides)
	for name, at := range map[string]string{
		"claims to be the first":     push(strings.TrimSpace(replay)+"\nSluice-Bundle-First: true", signed.String(), home),
		"has three parents":          push(replay, between, signed.String(), home),
		"has a first import between": push(replay, between, home),
	} {
		g.Git("--git-dir", g.site, "merge-base", "--is-ancestor", signed.String(), at) // the server takes it without force
		g.Git("--git-dir", g.site, "update-ref", "refs/heads/sluice/incoming/dev", at)
		if got, err := take(two, allowed, signer); err == nil {
			t.Errorf("a replay that %s: it is signed now: %+v", name, got)
		}
	}
	// Somebody pushes another tree that says that it is bundle 3.
	g.Git("--git-dir", g.site, "update-ref", "refs/heads/sluice/incoming/dev", g.Git("--git-dir", g.site, "-c", "user.name=x", "-c",
		"user.email=x@y", "commit-tree", unsigned.String()+"^{tree}", "-p", signed.String(), "-p", signed.String()+"^2", "-m",
		g.Git("--git-dir", g.site, "log", "-1", "--format=%B", signed.String())))
	if _, err := take(three, allowed, signer); err == nil || !strings.Contains(err.Error(), "has other content") {
		t.Errorf("other content: %v", err)
	}
}

// TestSigningWhereTheTrunkIsTheSites holds that the first bundle, which brought the trunk, is signed later also at a site that
// takes no further trunk from bundles.
func TestSigningWhereTheTrunkIsTheSites(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	signer, line := hydratetest.NewKey(t)
	allowed, err := signers.Parse([]string{line})
	if err != nil {
		t.Fatal(err)
	}
	store, err := gitstore.Open(t.Context(), gitstore.Options{Dir: g.site})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	take := func(file string, s bundle.Site) (incoming.Import, error) {
		t.Helper()
		s.Store, s.Branches, s.OwnTrunk, s.Version, s.Now = store, store.Local(), true, "test", time.Now()
		o, err := bundle.Open(t.Context(), s, g.open(file))
		if err != nil {
			return incoming.Import{}, err
		}
		defer o.Close()
		return bundle.Import(t.Context(), s, o)
	}
	one := g.export(withSource).File
	g.release("second")
	two := g.export(func(r *bundle.ExportRequest) { r.Source = true }).File
	if _, err := take(one, bundle.Site{}); err != nil {
		t.Fatal(err)
	}
	site := bundle.Site{Trunk: "main", Allowed: allowed, Signer: signer}
	if got, err := take(one, site); err != nil || !got.First {
		t.Errorf("the first import is not signed later: %+v, %v", got, err)
	}
	if _, err := take(two, site); err == nil || !strings.Contains(err.Error(), "trunk: true") {
		t.Errorf("another trunk: %v", err)
	}
}
