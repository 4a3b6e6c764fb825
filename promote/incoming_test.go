package promote_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// siteStage is a site of prod: what home's prod had is brought by imports. The repository is home's, too, so that its
// branch home/prod can be rendered.
type siteStage struct {
	*stage
	sequence int64
}

func newSite(t *testing.T, promotion string) *siteStage {
	t.Helper()
	s := &siteStage{stage: newStage(t, promotion+"}\n      isolated: {receipts: {maxAge: 72h}")}
	s.Git("branch", "-m", "env/prod", "home/prod")
	for line := range strings.FieldsSeq(s.Git("for-each-ref", "--format=%(refname:short)", "refs/heads/cluster/")) {
		s.Git("branch", "-q", "-D", line)
	}
	s.Git("branch", "-q", "-D", "env/dev")
	return s
}

// brings imports the branch home/prod.
func (s *siteStage) brings() {
	s.T.Helper()
	store := s.Hydrator(1).Store
	home, err := store.Resolve(s.T.Context(), "home/prod")
	if err != nil {
		s.T.Fatal(err)
	}
	s.sequence++
	i := incoming.Import{
		Environment: "prod", Sequence: s.sequence, Digest: strings.Repeat("a", 64), Home: home.Hash,
	}
	w, err := store.NewWriter()
	if err != nil {
		s.T.Fatal(err)
	}
	refs, err := store.Local().List(s.T.Context(), incoming.Prefix)
	if err != nil {
		s.T.Fatal(err)
	}
	old := refs[incoming.Branch("prod")]
	var parents []gitstore.Hash
	if !old.IsZero() {
		parents = append(parents, old)
	}
	who := branch.Committer{}.At(s.now)
	h, err := w.Commit(gitstore.CommitSpec{
		Tree: home.Tree, Parents: append(parents, home.Hash), Author: who, Committer: who,
		Message: gitstore.Message("Import", "", i.Trailers()),
	})
	if err != nil {
		s.T.Fatal(err)
	}
	if _, err := store.Local().Push(s.T.Context(), w, []gitstore.Move{{Branch: incoming.Branch("prod"), Old: old, New: h}},
		gitstore.PushOptions{}); err != nil {
		s.T.Fatal(err)
	}
}

// homeGets renders the trunk as home's prod.
func (s *siteStage) homeGets() {
	s.T.Helper()
	s.Git("branch", "-m", "env/prod", "kept")
	s.Git("branch", "-m", "home/prod", "env/prod")
	s.hydrateThe("prod")
	s.Git("branch", "-m", "env/prod", "home/prod")
	s.Git("branch", "-m", "kept", "env/prod")
}

func (s *siteStage) same(what, a, b string) {
	s.T.Helper()
	if x, y := s.Git("rev-parse", a), s.Git("rev-parse", b); x != y {
		s.T.Errorf("%s: %s has %s, and %s has %s", what, a, x, b, y)
	}
}

func TestASitePromotesWhatBundlesBring(t *testing.T) {
	t.Parallel()
	s := newSite(t, "mode: auto, bake: 10m, waves: [{name: all}]")
	s.brings()
	got, _ := s.look(nil)
	s.same("the first state", "env/prod^{tree}", "home/prod^{tree}")
	s.same("the cluster", "cluster/prod-eu-1^{tree}", "home/prod:prod-eu-1")
	if got.Behind != 0 || got.Decision.Record.Progress == nil || got.Decision.Record.Progress.Done.IsZero() {
		t.Errorf("the status is %+v", got)
	}

	old := s.Git("rev-parse", "home/prod")
	s.changeShop("second")
	s.homeGets()
	s.brings()
	got, _ = s.look(nil)
	wants(t, "before the bake", []string{got.Decision.WaitsFor}, "home")
	s.now = s.now.Add(10 * time.Minute)
	s.look(nil)
	s.same("the second", "env/prod^{tree}", "home/prod^{tree}")

	// Home goes back: the newest import has the older source commit, and comes next all the same.
	s.Git("branch", "-f", "home/prod", s.Git("commit-tree", old+"^{tree}", "-p", "home/prod", "-m", "back"))
	s.brings()
	s.look(nil)
	s.now = s.now.Add(10 * time.Minute)
	s.look(nil)
	s.same("the rollback", "env/prod^{tree}", "home/prod^{tree}")
}

func TestASiteRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t, "mode: manual")
	s.brings()
	_, refused := s.look(nil, ordered(rollout.EventPromote, "1", nil))
	if len(refused) > 0 {
		t.Fatalf("refused: %q", refused)
	}
	s.same("by command", "env/prod^{tree}", "home/prod^{tree}")
	s.changeShop("second")
	s.homeGets()
	s.brings()
	s.out.red[s.Git("rev-parse", "main")] = true
	got, _ := s.look(nil, ordered(rollout.EventPromote, "2", nil))
	wants(t, "the site's policy", []string{got.Decision.WaitsFor}, "the trunk's policy says no")

	// Somebody pushes to the branch.
	s.Git("branch", "-f", incoming.Branch("prod"), s.Git("commit-tree", "main^{tree}", "-p", incoming.Branch("prod"), "-m", "mine"))
	_, refused = s.look(nil, ordered(rollout.EventPromote, "3", nil))
	wants(t, "another's commit", refused, "is not an import of a bundle")
}

// TestASiteWithoutTheSource has a trunk of its own: the source commits of what it gets are not on it.
func TestASiteWithoutTheSource(t *testing.T) {
	t.Parallel()
	s := newSite(t, "mode: auto")
	s.Git("checkout", "-q", "--orphan", "own")
	s.Commit("own fleet file")
	s.Git("branch", "-f", "main", "own")
	s.Git("checkout", "-q", "main")
	s.brings()
	got, _ := s.look(nil)
	if got.Foreign != "" || len(s.out.asked) != 0 {
		t.Errorf("the status is %+v; asked %q", got, s.out.asked)
	}
	s.same("without the source", "env/prod^{tree}", "home/prod^{tree}")
	s.same("the cluster", "cluster/prod-eu-1^{tree}", "home/prod:prod-eu-1")
}

// homeRendersAgain gives home/prod another tree for the source commit that it has.
func (s *siteStage) homeRendersAgain(text string) {
	s.T.Helper()
	message := s.Git("log", "-1", "--format=%B", "home/prod")
	s.Git("switch", "-q", "home/prod")
	file := "prod-eu-1/shop/service-shop.yaml"
	s.Write(file, "# "+text+"\n"+s.Git("show", "home/prod:"+file)+"\n")
	s.Git("add", "-A")
	s.Git("commit", "-q", "-m", message)
	s.Git("switch", "-q", "main")
}

// Home renders the commit again that the site runs: the site gets the other tree, after the bake and by its own gates.
func TestASiteGetsWhatHomeRendersAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, "mode: auto, bake: 10m, waves: [{name: all}]")
	s.brings()
	s.look(nil)
	was := s.Git("rev-parse", "env/prod")
	s.homeRendersAgain("by a newer version")
	s.brings()
	got, _ := s.look(nil)
	wants(t, "before the bake", []string{got.Decision.WaitsFor}, "rendered again")
	s.out.red[s.Git("rev-parse", "main")] = true
	s.now = s.now.Add(10 * time.Minute)
	got, _ = s.look(nil)
	wants(t, "the site's policy", []string{got.Decision.WaitsFor}, "the trunk's policy says no")
	s.out.red = map[string]bool{}
	s.look(nil)
	s.same("rendered again", "env/prod^{tree}", "home/prod^{tree}")
	s.same("the cluster", "cluster/prod-eu-1^{tree}", "home/prod:prod-eu-1")
	tip := s.Git("rev-parse", "env/prod")
	s.look(nil)
	if now := s.Git("rev-parse", "env/prod"); now != tip {
		t.Errorf("another commit without a reason: %s after %s", now, tip)
	}

	// A person goes back to the rendering before: it stays there.
	back := ordered(rollout.EventRollback, "b", nil)
	back.Revision = was
	if _, refused := s.look(nil, back); len(refused) > 0 {
		t.Fatalf("refused: %q", refused)
	}
	s.now = s.now.Add(time.Hour)
	s.look(nil)
	s.same("after the rollback", "env/prod^{tree}", was+"^{tree}")

	// A command brings it again only if it says so, as with commits.
	_, refused := s.look(nil, ordered(rollout.EventPromote, "c", nil))
	wants(t, "a promotion after the rollback", refused, "--again")
	s.same("without --again", "env/prod^{tree}", was+"^{tree}")
	again := ordered(rollout.EventPromote, "d", nil)
	again.Again = "it is mended"
	if _, refused := s.look(nil, again); len(refused) > 0 {
		t.Fatalf("refused: %q", refused)
	}
	s.same("with --again", "env/prod^{tree}", "home/prod^{tree}")
}

// In mode manual, sluice promote brings it.
func TestASitePromotesByCommandWhatHomeRenderedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, "mode: manual")
	s.brings()
	s.look(nil, ordered(rollout.EventPromote, "1", nil))
	s.homeRendersAgain("by a newer version")
	s.brings()
	s.look(nil)
	if s.Git("rev-parse", "env/prod^{tree}") == s.Git("rev-parse", "home/prod^{tree}") {
		t.Fatal("it came without a command")
	}
	_, refused := s.look(nil, ordered(rollout.EventPromote, "now", func(c *promote.Command) { c.Now = true }))
	wants(t, "with --now", refused, "waits for its bake")
	if _, refused := s.look(nil, ordered(rollout.EventPromote, "2", nil)); len(refused) > 0 {
		t.Fatalf("refused: %q", refused)
	}
	s.same("by command", "env/prod^{tree}", "home/prod^{tree}")
}

// Whoever may push a branch below sluice/incoming/ gets nothing into an environment and holds nothing up, whether the fleet has
// sites or not.
func TestAPushedImportChangesNothing(t *testing.T) {
	t.Parallel()
	for name, isolated := range map[string]string{"no sites": "", "home before its first bundle": "}\n      isolated: {receipts: {maxAge: 72h}"} {
		s := &siteStage{stage: newStage(t, "mode: auto"+isolated)}
		s.look(nil)
		want := s.Git("rev-parse", "env/prod")
		s.Git("branch", "home/prod", "env/prod")
		s.brings()
		s.homeRendersAgain("by somebody")
		s.brings()
		s.look(nil)
		if got := s.Git("rev-parse", "env/prod"); got != want {
			t.Errorf("%s: env/prod has what somebody pushed: %s", name, s.Git("log", "-1", "--format=%B", got))
		}
		s.release("second")
		s.look(nil)
		if s.Git("rev-parse", "env/prod") == want {
			t.Errorf("%s: the next commit is held up", name)
		}
	}
}
