package promote_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/rollout"
)

const otherURL = "https://github.com/acme/"

// written is a tree with one file.
func (s *stage) written(data string, path ...string) string {
	s.T.Helper()
	mode, hash := "100644 blob", s.Pipe(data, "hash-object", "-w", "--stdin")
	for _, name := range slices.Backward(path) {
		mode, hash = "040000 tree", s.Pipe(mode+" "+hash+"\t"+name+"\n", "mktree")
	}
	return hash
}

// pin commits the fleet with the pins of other repositories, whose commits are in the store.
func (s *stage) pin(message string, commits map[string]string) {
	s.T.Helper()
	lock := &fetch.Lock{}
	for name, commit := range commits {
		lock.SetPin(name, fetch.Pin{
			URL: otherURL + name, Wanted: "refs/heads/main", Resolved: "refs/heads/main",
			Commit: commit,
		})
	}
	data, err := lock.Bytes()
	if err != nil {
		s.T.Fatal(err)
	}
	s.Write("sluice.lock", string(data))
	s.Commit(message)
}

// elsewhere gives workspace team-a to a repository of its own, with an app that prod runs and approvers. The fleet's
// layer for all apps is in the repository components; team-b's repository is none of team-a's. It returns functions
// that make a commit of each repository.
func (s *stage) elsewhere() (tenant, layer func(text string) string) {
	s.T.Helper()
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	commit := func(tree string) string { return s.Git("commit-tree", "-m", "change", tree) }
	layer = func(text string) string { return commit(s.written("motd: "+text+"\n", "values.yaml")) }
	tenant = func(text string) string {
		apps := s.written(base+"App\nmetadata: {name: cart}\nspec: {namespace: team-a, placement: {}, source: {manifests: {path: m}}}\n", "cart", "app.yaml")
		m := s.written("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cart}\ndata: {a: "+text+"}\n", "cart.yaml")
		return commit(s.Pipe(fmt.Sprintf("040000 tree %s\tapps\n040000 tree %s\tm\n", apps, m), "mktree"))
	}
	for _, name := range []string{"team-a", "team-b", "components"} {
		s.Write("repositories/"+name+".yaml", base+"Repository\nmetadata: {name: "+name+"}\nspec: {url: "+otherURL+name+
			", branch: main}\n")
	}
	s.Write("workspaces/team-a.yaml", base+
		"Workspace\nmetadata: {name: team-a}\nspec: {repository: team-a, approvers: {users: [zoe]}, clusters: {}, namespaces: [team-a]}\n")
	s.Write("sluice.yaml", strings.Replace(s.Read("sluice.yaml"), " region,",
		" {name: region, repository: components, values: [values.yaml]},", 1))
	s.pin("another repository", map[string]string{
		"team-a": tenant("one"), "team-b": layer("one"),
		"components": layer("one"),
	})
	s.hydrateThe("dev", "prod")
	return tenant, layer
}

// The approvers of a workspace in a repository of its own approve what others wrote there, and nothing of which the
// authors are unknown.
func TestApproversOfAWorkspaceElsewhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		authors []string
		err     error
		refused string
	}{
		"written by others": {authors: []string{"yan"}},
		"her own change":    {authors: []string{"yan", "Zoe"}, refused: "zoe is an author of what it brings"},
		"unknown authors": {
			err:     errors.New("commit 1a2b came without a merge request"),
			refused: "the approval of zoe does not count: the authors of changes in repository team-a are unknown: commit 1a2b came without a merge request; an approver of prod must approve",
		},
		"some of the author": {
			authors: []string{"yan"}, err: errors.New("the forge is not available"),
			refused: "the forge is not available",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: manual, approvers: {users: [mia], count: 1}")
			tenant, layer := s.elsewhere()
			old := s.Git("show", "main:sluice.lock")
			s.out.elsewhere, s.out.notElsewhere = c.authors, c.err
			s.pin("team-a moves", map[string]string{
				"team-a": tenant("two"), "team-b": layer("two"),
				"components": layer("one"),
			})
			s.hydrateThe("dev")
			s.look(nil, ordered(rollout.EventPromote, "p", ofWorkspaces("team-a")))
			if len(s.out.pins) == 0 || s.out.pins[0].Name != "team-a" || s.out.pins[0].URL != otherURL+"team-a" ||
				!strings.Contains(old, s.out.pins[0].From.String()) {
				t.Fatalf("asked for %+v", s.out.pins)
			}
			for _, m := range s.out.pins {
				if m != s.out.pins[0] {
					t.Errorf("asked for %+v, of which team-a has nothing", m)
				}
			}
			last, refused := s.look(nil, says(rollout.EventApprove, "a", "zoe", nil))
			if got := s.has("team-a", "two"); got != (c.refused == "") {
				t.Errorf("prod has team-a's change: %v; refused %q", got, refused)
			}
			if c.refused == "" {
				return
			}
			wants(t, "refused", refused, c.refused)
			if c.err != nil {
				wants(t, "the gate", []string{last.Decision.WaitsFor}, "approvers of workspace team-a do not count")
			}
			if s.look(nil, says(rollout.EventApprove, "b", "mia", nil)); !s.has("team-a", "two") {
				t.Error("an approver of the environment approves it")
			}
		})
	}
}

// An approval does not count any more if the authors become unknown before prod moves.
func TestApprovalOfUnknownAuthors(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, approvers: {users: [mia], count: 2}")
	tenant, layer := s.elsewhere()
	s.pin("team-a moves", map[string]string{
		"team-a": tenant("two"), "team-b": layer("one"),
		"components": layer("one"),
	})
	s.hydrateThe("dev")
	s.look(nil, ordered(rollout.EventPromote, "p", ofWorkspaces("team-a")))
	if _, refused := s.look(nil, says(rollout.EventApprove, "a", "zoe", nil)); len(refused) > 0 {
		t.Fatal(refused)
	}
	s.out.notElsewhere = errors.New("the forge is not available")
	if s.look(nil, says(rollout.EventApprove, "b", "mia", nil)); s.has("team-a", "two") {
		t.Fatal("zoe's approval counts although she may be an author")
	}
	s.out.notElsewhere = nil
	if s.look(nil); !s.has("team-a", "two") {
		t.Error("both approved it")
	}
}

// A layer of the fleet in another repository brings changes of its authors too, and content that the workspace takes
// for the first time has unknown authors.
func TestAuthorsOfEverythingThatAWorkspaceReads(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	s := newStage(t, "mode: manual, approvers: {users: [mia], count: 1}")
	tenant, layer := s.elsewhere()
	one := tenant("one")
	s.pin("components move", map[string]string{"team-a": one, "team-b": layer("one"), "components": layer("two")})
	s.pin("and team-a", map[string]string{"team-a": tenant("two"), "team-b": layer("one"), "components": layer("two")})
	s.hydrateThe("dev")
	s.look(nil, ordered(rollout.EventPromote, "p", ofWorkspaces("team-a")))
	asked := map[string]bool{}
	for _, m := range s.out.pins {
		asked[m.Name] = true
	}
	if len(asked) != 2 || !asked["team-a"] || !asked["components"] {
		t.Errorf("asked for %+v", s.out.pins)
	}
	text := s.Read("workspaces/team-a.yaml")
	s.Write("workspaces/team-a.yaml", text[:len(text)-2]+", sources: {repositories: [team-b]}}\n")
	apps := s.written("apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: cart}\nspec: {namespace: team-a, placement: {}, source: {helm: {path: c, repository: team-b}}}\n", "cart", "app.yaml")
	first := s.Git("commit-tree", "-m", "change", s.Pipe("040000 tree "+apps+"\tapps\n", "mktree"))
	chart := s.Git("commit-tree", "-m", "chart", s.written("apiVersion: v2\nname: c\nversion: 1.0.0\n", "c",
		"Chart.yaml"))
	s.pin("a chart of team-b", map[string]string{"team-a": first, "team-b": chart, "components": layer("two")})
	s.hydrateThe("dev")
	s.look(nil, ordered(rollout.EventPromote, "q", ofWorkspaces("team-a")))
	_, refused := s.look(nil, says(rollout.EventApprove, "a", "zoe", nil))
	wants(t, "refused", refused,
		"the workspace takes content from repository team-b for the first time, and its authors are unknown")
}

// Who writes content into a merge commit is its author, whether the merge is the one into the trunk or one before it. Who
// merges only is not.
func TestAuthorsOfMergedContent(t *testing.T) {
	t.Parallel()
	const mallory = "mallory <mallory@example.com>"
	evil := func(s *stage, author string) {
		s.Write("apps/shop/layers/global/values.yaml", "config:\n  motd: \"evil\"\n")
		s.Git("add", "-A")
		s.Git("commit", "-qm", "merge", "--author", author)
	}
	for name, test := range map[string]struct {
		merge   func(s *stage)
		refused bool
	}{
		"in the branch": {refused: true, merge: func(s *stage) {
			s.Git("checkout", "-qb", "feature", "main~1")
			s.Git("merge", "-q", "--no-ff", "--no-commit", "main")
			evil(s, mallory)
			s.Git("checkout", "-q", "main")
			s.Git("merge", "-q", "--no-ff", "feature", "-m", "Merge feature")
		}},
		"into the trunk": {refused: true, merge: func(s *stage) {
			s.Git("checkout", "-qb", "feature", "main")
			s.Write("docs.txt", "x")
			s.Commit("harmless")
			s.Git("checkout", "-q", "main")
			s.Git("merge", "-q", "--no-ff", "--no-commit", "feature")
			evil(s, mallory)
		}},
		"only merged": {merge: func(s *stage) {
			s.Git("checkout", "-qb", "feature", "main")
			evil(s, "ada <ada@example.com>")
			s.Git("checkout", "-q", "main")
			s.Git("merge", "-q", "--no-ff", "--no-commit", "feature")
			s.Git("commit", "-qm", "Merge feature", "--author", mallory)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: manual, approvers: {users: [mallory@example.com], count: 1}")
			test.merge(s)
			s.hydrateThe("dev")
			s.look(nil, ordered(rollout.EventPromote, "p", nil))
			_, refused := s.look(nil, ordered(rollout.EventApprove, "a", func(c *promote.Command) { c.By = "mallory@example.com" }))
			if test.refused {
				wants(t, "refused", refused, "is an author of what it brings")
			} else if len(refused) > 0 {
				t.Error(refused)
			}
		})
	}
}

// A clone that lacks the commits of a merge does not know who wrote them: nobody's approval counts.
func TestAuthorsInAShallowClone(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, approvers: {users: [mallory@example.com, noor], count: 1}")
	s.Git("checkout", "-qb", "feature", "main")
	s.Write("apps/shop/layers/global/values.yaml", "config:\n  motd: \"evil\"\n")
	s.Git("add", "-A")
	s.Git("commit", "-qm", "evil", "--author", "mallory <mallory@example.com>")
	s.Write("docs.txt", "x")
	s.Commit("harmless")
	tip := s.Git("rev-parse", "feature")
	s.Git("checkout", "-q", "main")
	s.Git("merge", "-q", "--no-ff", "feature", "-m", "Merge feature")
	s.hydrateThe("dev")
	s.Git("branch", "-D", "feature")
	s.Write(".git/shallow", tip+"\n")
	s.Git("reflog", "expire", "--expire=now", "--all")
	s.Git("gc", "-q", "--prune=now")
	s.look(nil, ordered(rollout.EventPromote, "p", nil))
	last, _ := s.look(nil, ordered(rollout.EventApprove, "a", func(c *promote.Command) { c.By = "mallory@example.com" }))
	wants(t, "approvals", []string{last.Decision.WaitsFor}, "the local history is incomplete")
}
