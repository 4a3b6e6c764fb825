package promotions

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer"
)

// mergedForge lists merge requests by repository and commit.
type mergedForge struct {
	Forge
	of    map[string][]*forge.MergeRequest // by PATH@COMMIT
	err   error
	asked []string
}

func (f *mergedForge) MergeRequestsOf(_ context.Context, repo forge.Repository, commit string) ([]*forge.MergeRequest,
	error,
) {
	f.asked = append(f.asked, repo.Path+"@"+commit)
	return f.of[repo.Path+"@"+commit], f.err
}

func mr(state forge.State, author, target string) *forge.MergeRequest {
	return &forge.MergeRequest{State: state, Author: forge.User{Login: author}, TargetBranch: target}
}

// beside is a fleet and the repository acme/team of one forge.
type beside struct {
	*hydratetest.Host
	*authors
	forge *mergedForge
	now   time.Time
}

func newBeside(t *testing.T) *beside {
	t.Helper()
	h := hydratetest.NewHost(t)
	h.Commit("acme/fleet", map[string]string{"sluice.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n"})
	w := &beside{Host: h, forge: &mergedForge{of: map[string][]*forge.MergeRequest{}}, now: time.Unix(1_800_000_000, 0)}
	r := session.Runtime{Cache: t.TempDir(), Version: "test", Clock: func() time.Time { return w.now }}
	s, err := session.Open(t.Context(), r, session.Options{
		Repo: h.URL + "/acme/fleet", Jobs: 1,
		Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	w.authors = &authors{s, w.forge, forge.Repository{Path: "acme/fleet"}, NewAuthors()}
	return w
}

// change commits to acme/team, as a person of whom only the merge requests tell the name on the forge.
func (w *beside) change(text string, brought ...*forge.MergeRequest) string {
	h := w.Commit("acme/team", map[string]string{"a.yaml": text})
	w.forge.of["acme/team@"+h] = brought
	return h
}

func (w *beside) pin(t *testing.T, wanted, from, to string) promote.MovedPin {
	t.Helper()
	m := promote.MovedPin{Name: "team", URL: w.URL + "/acme/team", Wanted: wanted}
	for hash, text := range map[*gitstore.Hash]string{&m.From: from, &m.To: to} {
		var err error
		if *hash, err = gitstore.ParseHash(text); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestAuthorsElsewhere(t *testing.T) {
	t.Parallel()
	w := newBeside(t)
	w.change("one")
	from := w.Git("acme/team", "rev-parse", "HEAD")
	one := w.change("two", mr(forge.Merged, "yan", "main"), mr(forge.Closed, "zoe", "main"),
		mr(forge.Open, "kim", "other"))
	two := w.change("three", mr(forge.Merged, "zoe", "main"))
	direct := w.change("four")
	w.Git("acme/team", "checkout", "-q", "--detach", from)
	closed := w.change("five", mr(forge.Closed, "zoe", "main"), mr(forge.Open, "yan", "main"))
	w.Git("acme/team", "checkout", "-q", "--detach", from)
	ghost := w.change("six", mr(forge.Merged, "", "main"))
	w.Git("acme/team", "checkout", "-q", "--detach", from)
	side := w.change("seven", mr(forge.Merged, "yan", "side"))
	w.Git("acme/team", "checkout", "-q", "--detach", two)
	w.Git("acme/team", "-c", "user.name=zoe", "-c", "user.email=zoe@example.com", "merge", "-q", "--no-ff", "-X",
		"ours", "-m", "merge", side)
	merge := w.Git("acme/team", "rev-parse", "HEAD")
	w.forge.of["acme/team@"+merge] = []*forge.MergeRequest{mr(forge.Merged, "yan", "main")}

	const none = "came without a merge request"
	for name, c := range map[string]struct {
		wanted, from, to string
		want             []string
		fails            string
	}{
		"merge requests":                 {"refs/heads/main", from, two, []string{"yan", "zoe", "kim"}, ""},
		"one of them":                    {"refs/heads/main", from, one, []string{"yan", "zoe", "kim"}, ""},
		"direct push":                    {"refs/heads/main", from, direct, nil, none},
		"closed":                         {"refs/heads/main", from, closed, nil, none},
		"deleted account":                {"refs/heads/main", from, ghost, nil, none},
		"another branch":                 {"refs/heads/main", from, side, nil, none},
		"merged into the other branch":   {"refs/heads/side", from, side, []string{"yan"}, ""},
		"no branch":                      {"", from, side, nil, none},
		"tags":                           {"refs/tags/v*", from, side, []string{"yan"}, ""},
		"direct push with a tag":         {"refs/tags/v*", from, direct, nil, none},
		"a branch with a name like refs": {"refs/heads/refs/tags/v1", from, side, nil, none},
		"back":                           {"refs/heads/main", two, from, nil, "lacks commits of"},
		"aside":                          {"refs/heads/side", one, side, nil, "lacks commits of"},
		"back to a lower tag":            {"refs/tags/v*", two, one, nil, "lacks commits of"},
		"not there":                      {"refs/heads/main", from, strings.Repeat("1", 40), nil, "1111111"},
		"from what is not there":         {"refs/heads/main", strings.Repeat("1", 40), two, nil, "1111111"},
		"a merge":                        {"refs/heads/side", side, merge, nil, none},
	} {
		got, err := w.AuthorsElsewhere(t.Context(), w.pin(t, c.wanted, c.from, c.to))
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %q, %v; want the error %q", name, got, err, c.fails)
			}
			continue
		}
		got = slices.DeleteFunc(got, func(s string) bool { return s == "A" || s == "a@example.com" }) // Git's names
		slices.Sort(got)
		if got = slices.Compact(got); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
			t.Errorf("%s: the result is %q, the error is %v; want %q", name, got, err, c.want)
		}
	}

	// Merging a change does not make zoe its author.
	w.forge.of["acme/team@"+side] = []*forge.MergeRequest{mr(forge.Merged, "yan", "main")}
	w.cache = NewAuthors()
	if got, err := w.AuthorsElsewhere(t.Context(), w.pin(t, "refs/heads/main", two, merge)); err != nil ||
		slices.Contains(got, "zoe") || !slices.Contains(got, "yan") || !slices.Contains(got, "A") {
		t.Errorf("a merge: %q %v", got, err)
	}
}

// The answer that nobody opened a merge request is asked for again; errors are not remembered.
func TestAuthorsElsewhereAreFoundLate(t *testing.T) {
	t.Parallel()
	w := newBeside(t)
	from, to := w.change("one"), w.change("two")
	m := w.pin(t, "refs/heads/main", from, to)
	for i, step := range []struct {
		pass  time.Duration
		list  []*forge.MergeRequest
		err   error
		asked int
		fails string
	}{
		{0, nil, forge.ErrUnavailable, 1, "authors of"},
		{0, []*forge.MergeRequest{mr(forge.Open, "yan", "main")}, nil, 2, "came without a merge request"},
		{time.Second, []*forge.MergeRequest{mr(forge.Merged, "yan", "main")}, nil, 2, "came without a merge request"},
		{noAuthorsFor, []*forge.MergeRequest{mr(forge.Merged, "yan", "main")}, nil, 3, ""},
		{noAuthorsFor - time.Second, nil, nil, 3, ""},
		{24 * time.Hour, nil, forge.ErrUnavailable, 4, ""},
	} {
		w.now, w.forge.err = w.now.Add(step.pass), step.err
		w.forge.of["acme/team@"+to] = step.list
		got, err := w.AuthorsElsewhere(t.Context(), m)
		if len(w.forge.asked) != step.asked {
			t.Errorf("step %d: asked for %q", i, w.forge.asked)
		}
		if step.fails != "" && (err == nil || !strings.Contains(err.Error(), step.fails) ||
			step.err != nil && !errors.Is(err, step.err)) {
			t.Errorf("step %d: %q %v", i, got, err)
		}
		if step.fails == "" && (err != nil || !slices.Contains(got, "yan")) {
			t.Errorf("step %d: %q %v", i, got, err)
		}
	}
	m.Wanted = "refs/heads/side" // what came into one branch is no answer for another
	if got, err := w.AuthorsElsewhere(t.Context(), m); err == nil {
		t.Errorf("for another branch: %q", got)
	}
}

func TestTooManyCommitsElsewhere(t *testing.T) {
	t.Parallel()
	w := newBeside(t)
	from := w.change("one")
	var stream strings.Builder // one process instead of 201
	for i := range maxElsewhere + 1 {
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter A <a@example.com> %d +0000\ndata 1\nx\n",
			1_800_000_000+i)
		if i == 0 {
			fmt.Fprintf(&stream, "from %s\n", from)
		}
		stream.WriteString("\n")
	}
	cmd := exec.CommandContext(t.Context(), "git", "-C", filepath.Join(w.Root, "acme/team"), "fast-import", "--quiet")
	cmd.Stdin = strings.NewReader(stream.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the error is %v\nthe output is\n%s", err, out)
	}
	to := w.Git("acme/team", "rev-parse", "main")
	if got, err := w.AuthorsElsewhere(t.Context(), w.pin(t, "refs/heads/main", from, to)); err == nil ||
		!strings.Contains(err.Error(), "more than 200 between") || len(w.forge.asked) > 0 {
		t.Errorf("%d names, asked %d times: %v", len(got), len(w.forge.asked), err)
	}
}

func TestSiblings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ fleet, path, address, want string }{
		{"https://git.example.com/acme/fleet.git", "acme/fleet", "https://git.example.com/acme/team", "acme/team"},
		{"https://git.example.com/acme/fleet.git", "acme/fleet", "git@git.example.com:acme/team.git", "acme/team"},
		{
			"https://git.example.com/acme/fleet.git", "acme/fleet", "ssh://git@git.example.com/acme/sub/team.git/",
			"acme/sub/team",
		},
		{"git@git.example.com:Acme/Fleet.git", "acme/fleet", "https://GIT.example.com/other/team", "other/team"},
		{
			"https://git.example.com/gitlab/acme/fleet", "acme/fleet", "https://git.example.com/gitlab/acme/team",
			"acme/team",
		},
		{"https://git.example.com/gitlab/acme/fleet", "acme/fleet", "https://git.example.com/acme/team", ""},
		{
			"https://git.example.com:8443/acme/fleet", "acme/fleet", "https://git.example.com:8443/acme/team",
			"acme/team",
		},
		{"https://git.example.com:8443/acme/fleet", "acme/fleet", "https://git.example.com/acme/team", ""},
		{"https://git.example.com/acme/fleet", "acme/fleet", "https://git.example.com.evil.example.org/acme/team", ""},
		{"https://git.example.com/acme/fleet", "acme/fleet", "https://git.example.com:8443/acme/team", ""},
		{"https://git.example.com/acme/fleet", "acme/fleet", "https://evil.example.org/git.example.com/acme/team", ""},
		{"https://git.example.com/acme/fleet", "acme/fleet", "https://git.example.com/../acme/team", ""},
		{"https://git.example.com/acme/fleet", "me/fleet", "https://git.example.com/acme/team", ""},
		{"https://git.example.com/acme/fleet", "acme/other", "https://git.example.com/acme/team", ""},
		{"", "acme/fleet", "https://git.example.com/acme/team", ""},
		{"https://git.example.com/acme/fleet", "", "https://git.example.com/acme/team", ""},
	} {
		if got, ok := sibling(c.fleet, c.path, c.address); got.Path != c.want || ok != (c.want != "") {
			t.Errorf("%s beside %s (%s): %q %v, want %q", c.address, c.fleet, c.path, got.Path, ok, c.want)
		}
	}
	w := newBeside(t)
	if _, err := w.AuthorsElsewhere(t.Context(),
		promote.MovedPin{URL: "https://git.example.com/acme/team"}); err == nil ||
		!strings.Contains(err.Error(), "is not on the forge of the fleet") || len(w.forge.asked) > 0 {
		t.Errorf("on another forge: %v, asked for %q", err, w.forge.asked)
	}
}
