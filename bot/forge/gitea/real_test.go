package gitea_test

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bed/bedtest"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
)

// A server with a small MAX_RESPONSE_ITEMS has shorter pages. The adapter reads all of them.
func TestRealPages(t *testing.T) {
	bedtest.Need(t, "gitea")
	t.Parallel()
	w := newWorld(t, "[api]\nMAX_RESPONSE_ITEMS = 3\nDEFAULT_PAGING_NUM = 2\n")
	repo := w.Repository(t, "acme/fleet")
	w.User(t, "ada")
	w.Grant(t, repo, "ada", forge.AccessWrite)
	const many = 8
	var first forge.MergeRequest
	for i := range many {
		mr := w.Open(t, repo, forgetest.Scene{Title: "x", Author: "ada", SourceBranch: fmt.Sprint("b", i)})
		if i == 0 {
			first = mr
		}
		w.Report(t, repo, first.Head, "ada", forge.Status{Context: fmt.Sprint("c", i), State: forge.Success})
	}
	if got, err := w.forge.OpenMergeRequests(t.Context(), repo, ""); err != nil || len(got) != many {
		t.Errorf("%d open merge requests, want %d: %v", len(got), many, err)
	}
	if got, err := w.forge.Statuses(t.Context(), repo, first.Head); err != nil || len(got) != many {
		t.Errorf("%d statuses, want %d: %v", len(got), many, err)
	}
}

// The head of a merge request of a fork is a ref of the repository.
func TestRealHead(t *testing.T) {
	bedtest.Need(t, "gitea")
	t.Parallel()
	w := newWorld(t, "")
	repo := w.Repository(t, "acme/fleet")
	w.User(t, "eve")
	mr := w.Open(t, repo, forgetest.Scene{Title: "x", Author: "eve", SourceBranch: "patch", Fork: true})
	head := func() string {
		out, err := exec.CommandContext(t.Context(), "git", "ls-remote",
			strings.Replace(w.URL, "://", "://"+self+":"+bedtest.Password+"@", 1)+"/"+repo.Path+".git",
			w.forge.MergeRequestRef(mr.Number)).Output()
		if err != nil {
			t.Fatal(err)
		}
		commit, _, _ := strings.Cut(string(out), "\t")
		return commit
	}
	if got := head(); got != mr.Head {
		t.Errorf("the ref is at %s, the merge request at %s", got, mr.Head)
	}
	got, err := w.forge.MergeRequest(t.Context(), repo, mr.Number)
	if err != nil || got.SourceRepo != "eve/fleet" || !got.Fork {
		t.Errorf("the merge request is %+v, %v", got, err)
	}
}

// Permissions of teams count as those of collaborators. Members of a team with administrator access own the
// repositories of the organization. Gitea shows the permissions only to administrators.
func TestRealPermissionsOfTeams(t *testing.T) {
	bedtest.Need(t, "gitea")
	t.Parallel()
	w := newWorld(t, "")
	repo := w.Repository(t, "acme/fleet")
	for team, want := range map[string]forge.Access{
		"read": forge.AccessRead, "write": forge.AccessWrite, "admin": forge.AccessAdmin,
	} {
		login := "in-" + team
		w.User(t, login)
		check(t, w.As("").Do(t.Context(), http.MethodPost, "/orgs/acme/teams", map[string]any{
			"name": team, "permission": team, "units": []string{"repo.code", "repo.pulls"}, "includes_all_repositories": true,
		}, nil))
		check(t, w.AddMember(t.Context(), "acme", team, login))
		if team != "admin" {
			check(t, w.AddMember(t.Context(), "acme", team, self))
		}
		if got, err := w.forge.Access(t.Context(), repo, login); err != nil || got != want {
			t.Errorf("a member of a team with the permission %s has %s, want %s: %v", team, got, want, err)
		}
	}
	w.Grant(t, repo, self, forge.AccessWrite)
	if _, err := w.forge.Access(t.Context(), repo, "in-write"); !errors.Is(err, forge.ErrForbidden) {
		t.Errorf("without administrator access: %v", err)
	}
	if _, err := w.forge.Protected(t.Context(), repo, "main"); !errors.Is(err, forge.ErrForbidden) {
		t.Errorf("the rules without administrator access: %v", err)
	}
}

// A team can have another level for the code than in general, and Gitea's API states the general one. What counts is who
// can push: members of a team that triages issues cannot.
func TestRealLevelsOfTheCode(t *testing.T) {
	bedtest.Need(t, "gitea")
	t.Parallel()
	w := newWorld(t, "")
	private, public := w.Repository(t, "acme/fleet"), w.Repository(t, "acme/web")
	check(t, w.As("").Do(t.Context(), http.MethodPatch, "/repos/"+public.Path, map[string]any{"private": false}, nil))
	teams := map[string]map[string]any{
		"triage":  {"permission": "write", "units_map": map[string]string{"repo.issues": "write", "repo.pulls": "write"}},
		"reviews": {"permission": "write", "units_map": map[string]string{"repo.code": "read", "repo.pulls": "write"}},
		"coders":  {"permission": "read", "units_map": map[string]string{"repo.code": "write", "repo.pulls": "read"}},
	}
	for name, team := range teams {
		team["name"], team["includes_all_repositories"] = name, true
		check(t, w.As("").Do(t.Context(), http.MethodPost, "/orgs/acme/teams", team, nil))
		w.User(t, name) // of the same name
		check(t, w.AddMember(t.Context(), "acme", name, name))
	}
	if got, err := w.forge.Access(t.Context(), private, "coders"); !errors.Is(err, forge.ErrForbidden) ||
		!strings.Contains(fmt.Sprint(err), "make it a member of the team") {
		t.Errorf("the members are hidden from the adapter: access %s, %v", got, err)
	}
	for name := range teams {
		check(t, w.AddMember(t.Context(), "acme", name, self))
	}
	want := func(repo forge.Repository, login string, want forge.Access) {
		t.Helper()
		got, err := w.forge.Access(t.Context(), repo, login)
		if err != nil || got != want {
			t.Errorf("%s has %s on %s, want %s: %v", login, got, repo.Path, want, err)
		}
		_, err = w.Write(t.Context(), repo.Path, login, "by-"+login)
		if can := err == nil; can != (want >= forge.AccessWrite) {
			t.Errorf("%s can push to %s: %t (%v), the adapter says %s", login, repo.Path, can, err, got)
		}
	}
	want(private, "triage", forge.AccessNone)
	want(private, "reviews", forge.AccessRead)
	want(private, "coders", forge.AccessWrite)
	want(public, "triage", forge.AccessRead)
	want(public, "reviews", forge.AccessRead)
	want(public, "coders", forge.AccessWrite)
	check(t, w.AddMember(t.Context(), "acme", "coders", "reviews"))
	want(private, "reviews", forge.AccessWrite)
	w.Grant(t, private, "triage", forge.AccessRead)
	want(private, "triage", forge.AccessRead)
	w.Grant(t, private, "triage", forge.AccessWrite)
	want(private, "triage", forge.AccessWrite)
}

// A status is not changed but posted again, and the newest of a context counts, also if somebody else posted it.
func TestRealStatusesOfOthers(t *testing.T) {
	bedtest.Need(t, "gitea")
	t.Parallel()
	w := newWorld(t, "")
	repo := w.Repository(t, "acme/fleet")
	w.User(t, "ada")
	w.Grant(t, repo, "ada", forge.AccessWrite)
	mr := w.Open(t, repo, forgetest.Scene{Title: "x", Author: "ada", SourceBranch: "a"})
	check(t, w.forge.SetStatus(t.Context(), repo, mr.Head, forge.Status{Context: "sluice", State: forge.Failure}))
	w.Report(t, repo, mr.Head, "ada", forge.Status{Context: "sluice", State: forge.Success})
	got, err := w.forge.Statuses(t.Context(), repo, mr.Head)
	if err != nil || len(got) != 1 || got[0].State != forge.Success || got[0].Author.Login != "ada" {
		t.Errorf("the statuses are %+v, %v", got, err)
	}
}

// Merge requests of commits that no merge created: a head before it is merged, and a commit that was rebased.
func TestRealMergeRequestsOf(t *testing.T) {
	bedtest.Need(t, "gitea")
	t.Parallel()
	w := newWorld(t, "")
	repo := w.Repository(t, "acme/fleet")
	w.User(t, "ada")
	w.Grant(t, repo, "ada", forge.AccessWrite)
	one := w.Open(t, repo, forgetest.Scene{Title: "x", Author: "ada", SourceBranch: "a"})
	second := w.Push(t, repo, one.Number)
	for _, commit := range []string{one.Head, second} {
		got, err := w.forge.MergeRequestsOf(t.Context(), repo, commit)
		if err != nil || len(got) != 1 || got[0].Number != one.Number || got[0].State != forge.Open {
			t.Errorf("of commit %s: %+v, %v", commit, got, err)
		}
	}
}
