package gitlab_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/gitlab"
)

// A name without a slash is never a top-level group of strangers, also if the group that was meant is gone.
func TestInTeamOfTopLevelGroups(t *testing.T) {
	t.Parallel()
	exists := []string{"acme", "sre", "acme/platform/ops"} // each has ada as a member
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		group, isMembership := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v4/groups/"), "/members/all/1")
		switch {
		case strings.HasSuffix(r.URL.Path, "/users"):
			_, _ = fmt.Fprint(w, `[{"id": 1, "username": "ada"}]`)
		case !slices.Contains(exists, group):
			http.Error(w, `{"message": "404 Group Not Found"}`, http.StatusNotFound)
		case isMembership:
			_, _ = fmt.Fprint(w, `{"id": 1, "username": "ada", "state": "active", "access_level": 30}`)
		default:
			_, _ = fmt.Fprint(w, `{"id": 7}`)
		}
	}))
	defer server.Close()
	f, err := gitlab.New(gitlab.Config{URL: server.URL, Token: "a", Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for team, want := range map[string]bool{
		"ops": true, "acme/platform/ops": true, "acme": true, "/acme": true,
		"/sre": true, "sre": false, "acme/sre": false,
	} {
		got, err := f.InTeam(t.Context(), forge.Repository{Path: "acme/platform/fleet"}, team, "ada")
		if got != want || (err == nil) != want {
			t.Errorf("%s: a member: %t, %v; want %t", team, got, err, want)
		}
	}
}

// GitLab locks a merge request while it merges it. It is not closed then.
func TestLockedMergeRequestIsOpen(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"iid": 7, "state": "locked", "source_project_id": 1, "target_project_id": 1, "author": {"id": 1, "username": "ada"}}`)
	}))
	defer server.Close()
	f, err := gitlab.New(gitlab.Config{URL: server.URL, Token: "a", Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if mr, err := f.MergeRequest(t.Context(), forge.Repository{Path: "acme/fleet"}, 7); err != nil ||
		mr.State != forge.Open {
		t.Errorf("the mr is %+v, the error is %v", mr, err)
	}
}
