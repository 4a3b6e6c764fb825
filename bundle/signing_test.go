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
	// Somebody pushes another tree that says that it is bundle 3.
	g.Git("--git-dir", g.site, "update-ref", "refs/heads/sluice/incoming/dev", g.Git("--git-dir", g.site, "-c", "user.name=x", "-c",
		"user.email=x@y", "commit-tree", unsigned.String()+"^{tree}", "-p", signed.String(), "-p", signed.String()+"^2", "-m",
		g.Git("--git-dir", g.site, "log", "-1", "--format=%B", signed.String())))
	if _, err := take(three, allowed, signer); err == nil || !strings.Contains(err.Error(), "has other content") {
		t.Errorf("other content: %v", err)
	}
}
