package gitea_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/gitea"
)

// against returns the adapter of a server whose API is a function.
func against(t *testing.T, answer http.HandlerFunc) *gitea.Forge {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	f, err := gitea.New(gitea.Config{URL: server.URL, Token: "a", Clock: time.Now})
	check(t, err)
	return f
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []gitea.Config{
		{},
		{URL: "https://git.example.com", Clock: time.Now},
		{Token: "a", Clock: time.Now},
		{URL: "https://git.example.com", Token: "a"},
		{URL: "http://git.example.com", Token: "a", Clock: time.Now},
		{URL: "https://u:p@git.example.com", Token: "a", Clock: time.Now},
	} {
		if _, err := gitea.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	for _, address := range []string{"", "/", "/gitea", "/gitea/api/v1/"} {
		path := ""
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path = r.URL.Path
			_, _ = fmt.Fprint(w, `{"id": 1, "login": "sluice-bot"}`)
		}))
		f, err := gitea.New(gitea.Config{URL: server.URL + address, Token: "a", Clock: time.Now})
		check(t, err)
		if _, err := f.Self(t.Context()); err != nil || !strings.HasSuffix(path, "/api/v1/user") ||
			strings.Contains(path, "//") || strings.Contains(address, "gitea") != strings.Contains(path, "gitea") {
			t.Errorf("the address ends with %q: the request is for %s, the error is %v", address, path, err)
		}
		server.Close()
	}
}

// Only the first rule that matches a branch counts. A rule protects a branch if no single writer can move it.
func TestProtectedByRules(t *testing.T) {
	t.Parallel()
	type rule map[string]any
	strict := func(name string, more rule) rule {
		out := rule{
			"rule_name": name, "enable_push": true, "enable_push_whitelist": true, "enable_merge_whitelist": true,
			"created_at": "2026-01-01T00:00:00Z",
		}
		maps.Copy(out, more)
		return out
	}
	open := func(name string, more rule) rule {
		out := strict(name, rule{"enable_push_whitelist": false})
		maps.Copy(out, more)
		return out
	}
	for name, c := range map[string]struct {
		rules  []rule
		branch string
		want   bool
	}{
		"no rule":              {nil, "env/prod", false},
		"name":                 {[]rule{strict("env/prod", nil)}, "env/prod", true},
		"name in another case": {[]rule{strict("ENV/prod", nil)}, "env/prod", true},
		"another name":         {[]rule{strict("env/prod", nil)}, "env/prod-2", false},
		"pattern":              {[]rule{strict("env/*", nil)}, "env/prod", true},
		"star and slash":       {[]rule{strict("env/*", nil)}, "env/prod/eu", false},
		"two stars":            {[]rule{strict("sluice/**", nil)}, "sluice/a/b", true},
		"alternatives":         {[]rule{strict("{env,cluster}/*", nil)}, "cluster/eu-1", true},
		"not a pattern":        {[]rule{strict("env/[", nil)}, "env/[", true},
		"everybody pushes":     {[]rule{open("env/*", nil)}, "env/prod", false},
		"nobody pushes": {
			[]rule{strict("env/*", rule{"enable_push": false, "enable_push_whitelist": false})},
			"env/prod", true,
		},
		"everybody merges":       {[]rule{strict("env/*", rule{"enable_merge_whitelist": false})}, "env/prod", false},
		"merging needs approval": {[]rule{strict("env/*", rule{"enable_merge_whitelist": false, "required_approvals": 1})}, "env/prod", true},
		"files are left out":     {[]rule{strict("env/*", rule{"unprotected_file_patterns": "*.md;"})}, "env/prod", false},
		"no files are left out":  {[]rule{strict("env/*", rule{"unprotected_file_patterns": " ; "})}, "env/prod", true},
		"name before pattern":    {[]rule{strict("env/*", nil), open("env/prod", nil)}, "env/prod", false},
		"priority before name":   {[]rule{open("env/prod", rule{"priority": 2}), strict("env/*", rule{"priority": 1})}, "env/prod", true},
		"older before newer": {
			[]rule{open("*/prod", rule{"created_at": "2026-02-01T00:00:00Z"}), strict("env/*", nil)},
			"env/prod", true,
		},
		"before Gitea 1.20": {[]rule{strict("", rule{"branch_name": "env/prod"})}, "env/prod", true},
	} {
		f := against(t, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(c.rules) })
		got, err := f.Protected(t.Context(), forge.Repository{Path: "acme/fleet"}, c.branch)
		if err != nil || got != c.want {
			t.Errorf("%s: branch %s is protected: %t, %v; want %t", name, c.branch, got, err, c.want)
		}
	}
}

// A team that triages issues has write access in general on servers whose teams are older than Gitea 1.24. It does not
// count for the code.
func TestTeamsWithoutCode(t *testing.T) {
	t.Parallel()
	f := against(t, func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimPrefix(r.URL.Path, "/api/v1/") {
		case "repos/acme/fleet/collaborators/tom/permission", "repos/acme/fleet/collaborators/ada/permission":
			_, _ = fmt.Fprint(w, `{"permission": "write"}`)
		case "repos/acme/fleet/teams":
			_, _ = fmt.Fprint(w, `[{"id": 1, "name": "triage", "permission": "write", "units_map": {"repo.issues": "write"}},
				{"id": 2, "name": "coders", "permission": "write", "units_map": {"repo.code": "write"}}]`)
		case "teams/2/members/ada":
			_, _ = fmt.Fprint(w, `{"login": "ada"}`)
		case "teams/2/members":
			_, _ = fmt.Fprint(w, `[{"login": "ada"}]`)
		case "repos/acme/fleet":
			_, _ = fmt.Fprint(w, `{"private": true}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	for login, want := range map[string]forge.Access{"tom": forge.AccessNone, "ada": forge.AccessWrite} {
		if got, err := f.Access(t.Context(), forge.Repository{Path: "acme/fleet"}, login); err != nil || got != want {
			t.Errorf("%s has %s, want %s: %v", login, got, want, err)
		}
	}
}

// The adapter reads all pages of a server with a small MAX_RESPONSE_ITEMS, and those after a page from which the server
// left something out.
func TestPages(t *testing.T) {
	t.Parallel()
	const all, size, hidden = 23, 5, 7
	requests := 0
	f := against(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/settings/api") {
			_, _ = fmt.Fprintf(w, `{"max_response_items": %d}`, size)
			return
		}
		requests++
		number := func(name string) int {
			n, _ := strconv.Atoi(r.URL.Query().Get(name))
			return n
		}
		page, limit := number("page"), min(number("limit"), size)
		list := []string{}
		for i := (page - 1) * limit; i < min(page*limit, all); i++ {
			if i != hidden {
				list = append(list, fmt.Sprintf(`{"full_name": "acme/r%02d", "permissions": {"push": true}}`, i))
			}
		}
		if page*limit < all {
			w.Header().Set("Link", fmt.Sprintf(`<http://x/?page=%d>; rel="next",<http://x/?page=9>; rel="last"`, page+1))
		}
		_, _ = fmt.Fprintf(w, "[%s]", strings.Join(list, ","))
	})
	got, err := f.Repositories(t.Context())
	if err != nil || len(got) != all-1 {
		t.Errorf("%d repositories, want %d: %v", len(got), all-1, err)
	}
	if requests != 5 {
		t.Errorf("%d requests for %d pages", requests, 5)
	}
}

// Gitea hides the members of a team with the answer that it also gives for somebody who is no member.
func TestHiddenTeam(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		members int // status of the list of members
		kind    error
	}{
		"shown": {http.StatusOK, nil}, "of another organization": {http.StatusNotFound, forge.ErrNotFound},
		"of the organization": {http.StatusForbidden, forge.ErrForbidden},
	} {
		f := against(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/settings/api"):
				_, _ = fmt.Fprint(w, `{}`)
			case strings.HasSuffix(r.URL.Path, "/orgs/acme/teams"):
				_, _ = fmt.Fprint(w, `[{"id": 3, "name": "SRE"}]`)
			case strings.HasSuffix(r.URL.Path, "/teams/3/members"):
				w.WriteHeader(c.members)
				_, _ = fmt.Fprint(w, `[]`)
			default:
				http.Error(w, `{"message": "not found"}`, http.StatusNotFound)
			}
		})
		got, err := f.InTeam(t.Context(), forge.Repository{Path: "acme/fleet"}, "sre", "ada")
		if got || !errors.Is(err, c.kind) || (err == nil) != (c.kind == nil) {
			t.Errorf("the members are %s: ada is one: %t, %v; want %v", name, got, err, c.kind)
		}
	}
}

// The merge requests of a commit that no merge created are found by their commits, which are read once.
func TestMergeRequestsOfACommit(t *testing.T) {
	t.Parallel()
	var lists, commits int
	heads := map[int]string{1: "a1", 2: "b2", 3: "c2"}
	f := against(t, func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/repos/acme/fleet/"), "/")
		switch {
		case strings.HasSuffix(r.URL.Path, "/settings/api"):
			_, _ = fmt.Fprint(w, `{}`)
		case parts[0] == "commits":
			http.Error(w, `{"message": "pull request does not exist"}`, http.StatusNotFound)
		case len(parts) == 3: // pulls/N/commits
			commits++
			n, _ := strconv.Atoi(parts[1])
			letter := heads[n][:1]
			_, _ = fmt.Fprintf(w, `[{"sha": "%s1"}, {"sha": "%s2"}, {"sha": "shared"}]`, letter, letter)
		default:
			lists++
			var out []string
			for n := 3; n > 0; n-- {
				out = append(out, fmt.Sprintf(`{"number": %d, "state": "closed", "merged": %t, "head": {"sha": %q}, "updated_at": "2026-01-0%dT00:00:00Z"}`, n, n == 2, heads[n], n))
			}
			_, _ = fmt.Fprintf(w, "[%s]", strings.Join(out, ","))
		}
	})
	for commit, want := range map[string]string{"a1": "1", "b1": "2", "c2": "3", "shared": "2 1 3", "none": ""} {
		got, err := f.MergeRequestsOf(t.Context(), forge.Repository{Path: "acme/fleet"}, commit)
		var numbers []string
		for _, mr := range got {
			numbers = append(numbers, strconv.Itoa(mr.Number))
		}
		if err != nil || strings.Join(numbers, " ") != want {
			t.Errorf("of %s: %v, want %s: %v", commit, numbers, want, err)
		}
	}
	if lists != 1 || commits != 3 {
		t.Errorf("%d requests for lists and %d for commits, want 1 and 3", lists, commits)
	}
}

// A reaction that the server does not allow is left out: it is no reason to refuse a command.
func TestReactionThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	f := against(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"message": "'eyes' is not an allowed reaction"}`, http.StatusForbidden)
	})
	if err := f.React(t.Context(), forge.Repository{Path: "acme/fleet"}, 1, 5, forge.Eyes); err != nil {
		t.Errorf("the reaction: %v", err)
	}
}

func TestCompareURL(t *testing.T) {
	t.Parallel()
	f := against(t, http.NotFound)
	source, other := forge.Repository{Path: "acme/fleet"}, forge.Repository{Path: "acme/web"}
	mr := &forge.MergeRequest{URL: "https://example.com/gitea/acme/fleet/pulls/7"}
	if got, want := f.CompareURL(mr, source, other, "a", "b"), "https://example.com/gitea/acme/web/compare/a...b"; got != want {
		t.Errorf("the address is %q, want %q", got, want)
	}
	mr.URL = "https://evil.example.com/x/pulls/7"
	if got := f.CompareURL(mr, source, other, "a", "b"); got != "" {
		t.Errorf("the address of another repository gives %q", got)
	}
}

// Paths that Gitea cannot have do not reach another resource of its API.
func TestPathsOfRepositories(t *testing.T) {
	t.Parallel()
	f := against(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("a request for %s", r.URL) })
	for _, path := range []string{"", "fleet", "acme/", "/fleet", "acme/ops/fleet"} {
		if _, err := f.MergeRequest(t.Context(), forge.Repository{Path: path}, 1); !errors.Is(err, forge.ErrNotFound) {
			t.Errorf("%q: %v", path, err)
		}
	}
}
