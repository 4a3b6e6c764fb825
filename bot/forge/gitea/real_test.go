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
