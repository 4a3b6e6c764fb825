package follow

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
)

// followedFleet is a fleet that follows components.
type followedFleet struct {
	*hydratetest.Host
	follows *Follower
}

func newFollowedFleet(t *testing.T, spec string) *followedFleet {
	t.Helper()
	return followedFleetOf(t, spec, false)
}

func followedFleetOf(t *testing.T, spec string, oneListing bool) *followedFleet {
	t.Helper()
	h := hydratetest.NewHost(t)
	one := h.Commit("components", hydratetest.ConfigMap("one"))
	declaration := strings.Replace(h.Repository("components"), "branch: main", spec, 1)
	h.Commit("fleet", map[string]string{
		"sluice.yaml":                  "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec: {trunk: main, environments: [{name: dev}]}\n",
		"repositories/components.yaml": declaration,
		"clusters/dev.yaml":            "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev, kubeVersion: 1.33.2}\n",
		"apps/web/app.yaml":            hydratetest.AppIn("components"),
		"sluice.lock":                  h.Lock(map[string]string{"components": one}),
	})
	h.Git("fleet", "config", "http.receivepack", "true")
	r := session.Runtime{
		Cache: t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
	s, err := session.Open(t.Context(), r, session.Options{
		Repo: h.URL + "/fleet/.git", Jobs: 2, OneListing: oneListing,
		Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	free := func(context.Context) (gitstore.Auth, error) { return gitstore.Auth{}, nil }
	return &followedFleet{h, New(s, nil, free)}
}

// trunk returns the tip of the fleet's trunk.
func (f *followedFleet) trunk() gitstore.Commit {
	f.T.Helper()
	c, err := f.follows.Store.FetchRevision(f.T.Context(), f.Git("fleet", "rev-parse", "main"))
	if err != nil {
		f.T.Fatal(err)
	}
	return c
}

// look returns what the service knows about components.
func (f *followedFleet) look() *bot.Followed {
	f.T.Helper()
	f.follows = New(f.follows.Session, f.follows.signer, f.follows.pushAuth) // each task has its own
	out, err := f.follows.Look(f.T.Context(), f.trunk(), "components")
	if err != nil {
		f.T.Fatal(err)
	}
	return out
}

// moved lets the service move the branch and checks out a copy of it.
func (f *followedFleet) moved() {
	f.T.Helper()
	if _, err := f.follows.Move(f.T.Context(), f.trunk(), f.look()); err != nil {
		f.T.Fatal(err)
	}
	f.Git("fleet", "checkout", "-q", "-B", "work", bot.FollowPrefix+"components")
}

// Only a commit that Sluice would make itself is Sluice's. Names, trailers and messages can be copied.
func TestOwnCommitOfAFollowedBranch(t *testing.T) {
	t.Parallel()
	f := newFollowedFleet(t, "branch: main, follow: true")
	two := f.Commit("components", hydratetest.ConfigMap("two"))
	f.moved()
	if got := f.look(); got.By != "" || !got.UpToDate || got.Commit != two {
		t.Fatalf("the commit of Sluice: %+v", got)
	}
	as := []string{"-c", "user.name=Sluice", "-c", "user.email=sluice@localhost"}
	forged := func(change func()) *bot.Followed {
		f.Git("fleet", "checkout", "-q", "-B", "work", bot.FollowPrefix+"components")
		kept := f.Git("fleet", "rev-parse", "HEAD")
		change()
		f.Git("fleet", "push", "-q", "-f", ".", "work:"+bot.FollowPrefix+"components")
		out := f.look()
		f.Git("fleet", "push", "-q", "-f", ".", kept+":"+bot.FollowPrefix+"components")
		return out
	}
	write := func(file, text string) {
		if err := os.WriteFile(f.Root+"/fleet/"+file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	amend := func() {
		f.Git("fleet", "add", "-A")
		f.Git("fleet", append(as, "commit", "-q", "--amend", "--no-edit", "--reset-author")...)
	}
	lock, err := os.ReadFile(f.Root + "/fleet/sluice.lock")
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(){
		"another file": func() {
			write("apps/web/app.yaml", strings.Replace(hydratetest.AppIn("components"), "namespace: web",
				"namespace: evil", 1))
			amend()
		},
		"another repository": func() {
			write("sluice.lock", strings.ReplaceAll(string(lock), "/components/",
				"/evil/"))
			amend()
		},
		"a lock without meaning": func() { write("sluice.lock", "{{"); amend() },
		"another parent": func() {
			f.Git("fleet", "checkout", "-q", "-B", "other", "main")
			write("evil", "")
			f.Git("fleet", "add", "-A")
			f.Git("fleet", "commit", "-qm", "not on the trunk")
			f.Git("fleet", "checkout", "-q", "work")
			f.Git("fleet", append(as, "rebase", "-q", "other")...)
		},
	} {
		if got := forged(change); got.By != "somebody who uses the name Sluice" || got.UpToDate {
			t.Errorf("%s is taken for a commit of Sluice: by %q", what, got.By)
		}
	}
	f.follows.signer = noSigner{}
	if got := f.look(); got.By == "" {
		t.Error("an unsigned commit is taken for one of a service that signs")
	}
}

type noSigner struct{ gitstore.Signer }

// A changed identity of Sluice does not make its earlier commits those of a person.
func TestOwnCommitAfterAChangeOfTheCommitter(t *testing.T) {
	t.Parallel()
	f := newFollowedFleet(t, "branch: main, follow: true")
	f.Commit("components", hydratetest.ConfigMap("two"))
	f.moved()
	f.Git("fleet", "checkout", "-q", "main")
	f.Commit("fleet", map[string]string{"sluice.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: demo}\nspec: {trunk: main, environments: [{name: dev}], output: {committer: {name: Robot, email: robot@example.com}}}\n"})
	if got := f.look(); got.By != "" || !got.UpToDate {
		t.Errorf("by %q, up to date %t", got.By, got.UpToDate)
	}
}

// The repositories that one task looks at share what it reads of the fleet, with what the task has pushed itself.
func TestOneLookAtTheFleet(t *testing.T) {
	t.Parallel()
	f := followedFleetOf(t, "branch: main, follow: true", true) // as the service opens it
	f.Commit("components", hydratetest.ConfigMap("two"))
	var trunk gitstore.Commit
	look := func() *bot.Followed {
		t.Helper()
		out, err := f.follows.Look(t.Context(), trunk, "components")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	advertised := func() (n int) {
		for _, path := range f.Requests() {
			if path == "/fleet/.git/info/refs" {
				n++
			}
		}
		return n
	}
	before := advertised()
	trunk = f.trunk()
	first := look()
	if got := advertised() - before; got != 1 {
		t.Errorf("the trunk and the first look read the list of branches %d times", got)
	}
	if _, err := f.follows.Move(t.Context(), trunk, first); err != nil {
		t.Fatal(err)
	}
	before = advertised()
	if second := look(); !second.Same || !second.UpToDate || second.Head == "" {
		t.Errorf("the second look does not know what the task has pushed: %+v", second)
	}
	if got := advertised() - before; got > 0 {
		t.Errorf("the second look reads the list of branches again: %d requests", got)
	}
}

// A pin is undone if the trunk had all of it. A release of the commit that was pinned as a pre-release is another pin.
func TestUndonePin(t *testing.T) {
	t.Parallel()
	f := newFollowedFleet(t, "tags: v1.*, follow: {commit: true}")
	pin := func() {
		t.Helper()
		f.Git("fleet", "checkout", "-q", "-B", "work", "main")
		if err := f.follows.Commit(t.Context(), f.trunk(), f.look()); err != nil {
			t.Fatal(err)
		}
		f.Git("fleet", "checkout", "-q", "main")
	}
	f.Git("components", "tag", "v1.4.0-rc.1")
	pin()
	if got := f.look(); !got.Current {
		t.Fatalf("the pre-release is not pinned: %s", got.From)
	}
	f.Git("components", "tag", "v1.4.0")
	if got := f.look(); got.Undone || got.Current || got.To != "v1.4.0" {
		t.Errorf("a release of the pinned commit: undone %t, current %t, to %s", got.Undone, got.Current, got.To)
	}
	pin()
	f.Git("fleet", "revert", "--no-edit", "HEAD")
	if got := f.look(); !got.Undone || got.Current {
		t.Errorf("after a revert: undone %t, current %t", got.Undone, got.Current)
	}
}

// A moved tag, a lower version and a rewound branch are named with both commits.
func TestWhatIsNotNewer(t *testing.T) {
	t.Parallel()
	f := newFollowedFleet(t, "tags: v*, follow: true")
	is := func(want, to string) {
		t.Helper()
		if got := f.look(); got.Back != want || !strings.HasPrefix(got.To, to) ||
			want != "" && len(got.Was) != len(got.Commit) {
			t.Errorf("%q, %s %s → %s %s, want %q to %s", got.Back, got.From, got.Was, got.To, got.Commit, want, to)
		}
	}
	pin := func() {
		t.Helper()
		f.moved()
		f.Git("fleet", "checkout", "-q", "main")
		f.Git("fleet", "reset", "-q", "--hard", bot.FollowPrefix+"components")
	}
	f.Git("components", "tag", "v1.4.0")
	is("", "v1.4.0")
	pin()
	f.Commit("components", hydratetest.ConfigMap("two"))
	f.Git("components", "tag", "-f", "v1.4.0")
	is("moved", "v1.4.0")
	f.Git("components", "tag", "v1.5.0")
	is("", "v1.5.0")
	pin()
	f.Git("components", "tag", "-d", "v1.5.0")
	is("lower", "v1.4.0")
	f.Git("components", "tag", "v9", "HEAD:web/cm.yaml")
	if got, err := f.follows.Look(t.Context(), f.trunk(), "components"); err == nil ||
		!strings.Contains(err.Error(), "no commit") {
		t.Errorf("a tag of a file: %+v, %v", got, err)
	}

	f = newFollowedFleet(t, "branch: main, follow: true")
	pin()
	f.Commit("components", hydratetest.ConfigMap("two"))
	is("", "")
	pin()
	f.Commit("components", hydratetest.ConfigMap("three"))
	f.Commit("components", hydratetest.ConfigMap("four"))
	is("", "")
	f.Git("components", "reset", "-q", "--hard", "HEAD~3")
	is("rewound", "")
	f.Commit("components", hydratetest.ConfigMap("instead"))
	is("rewound", "")
}
