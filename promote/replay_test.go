package promote_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/rollout"
)

// TestReplayedRecordsPromoteNothing: a state branch that somebody set back to an earlier commit of its own, which is
// signed, or deleted, promotes nothing where a mirror remembers a newer tip. An unsigned commit that contains both tips
// is refused for its signature alone.
func TestReplayedRecordsPromoteNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.sign()
	s.Git("config", "uploadpack.allowAnySHA1InWant", "true")
	mirror, ref := t.TempDir(), "refs/heads/"+rollout.StateBranch
	look := func(commands ...promote.Command) error {
		t.Helper()
		return s.lookFrom(mirror, commands)
	}
	first := s.release("one")
	if err := look(); err != nil {
		t.Fatal(err)
	}
	wants(t, "prod", []string{s.runs()}, first)
	old := s.Git("rev-parse", ref)
	if err := look(ordered(rollout.EventFreeze, "1", nil)); err != nil {
		t.Fatal(err)
	}
	frozen := s.Git("rev-parse", ref)
	if frozen == old {
		t.Fatal("the freeze is not on the branch")
	}
	second := s.release("two")
	if err := look(); err != nil { // the record names what waits
		t.Fatal(err)
	}
	frozen = s.Git("rev-parse", ref)
	for name, back := range map[string]func(){
		"set back": func() { s.Git("update-ref", ref, old) },
		"deleted":  func() { s.Git("update-ref", "-d", ref) },
	} {
		back()
		err := look()
		if err == nil || !strings.Contains(err.Error(), frozen) ||
			name == "set back" && !strings.Contains(err.Error(), old) ||
			!strings.Contains(err.Error(), "git push --force") {
			t.Errorf("%s: the error is %v", name, err)
		}
		if strings.Contains(s.runs(), second) {
			t.Fatalf("%s: the freeze is undone", name)
		}
		if lost, ok := errors.AsType[*promote.LostRecordsError](s.recordFrom(mirror)); !ok ||
			lost.Seen.String() != frozen {
			t.Errorf("%s: the record alone is read as %v", name, lost)
		}
		s.Git("update-ref", ref, frozen)
		if err := look(); err != nil || strings.Contains(s.runs(), second) {
			t.Errorf("%s, then restored: %v", name, err)
		}
		frozen = s.Git("rev-parse", ref)
		if err := s.recordFrom(mirror); err != nil {
			t.Errorf("%s, then restored: %v", name, err)
		}
	}
	merged := s.Git("commit-tree", "-p", old, "-p", frozen, "-m", "accept", old+"^{tree}")
	s.Git("update-ref", ref, merged)
	if err := look(); err == nil || !strings.Contains(err.Error(), "not signed as spec.signers demands") {
		t.Errorf("an unsigned merge: %v", err)
	}
}

// A task whose listing is older than what another task of the same mirror has pushed reads the newer records, and does
// not take them for lost.
func TestOlderListingLosesNoRecords(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.sign()
	s.Git("config", "uploadpack.allowAnySHA1InWant", "true")
	mirror := t.TempDir()
	if err := s.lookFrom(mirror, nil); err != nil {
		t.Fatal(err)
	}
	f, _, err := s.Hydrator(2).Fleet(t.Context(), s.tip().Tree)
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(h *hydrate.Hydrator, trunk gitstore.Commit) (rollout.Record, error){
		"record": func(h *hydrate.Hydrator, _ gitstore.Commit) (rollout.Record, error) {
			return promote.ReadRecord(t.Context(), h, "prod", f.Signers())
		},
		"pass": func(h *hydrate.Hydrator, trunk gitstore.Commit) (rollout.Record, error) {
			list, err := promote.Look(t.Context(), h, promote.Request{Trunk: trunk, Now: s.now, Adapters: s.adapters()})
			if err != nil {
				return rollout.Record{}, err
			}
			return list[0].Decision.Record, nil
		},
	} {
		h, trunk := s.mirrored(mirror) // lists the refs
		if err := s.lookFrom(mirror, []promote.Command{ordered(rollout.EventFreeze, name,
			func(c *promote.Command) { c.Reason = name })}); err != nil {
			t.Fatal(err)
		}
		record, err := read(h, trunk)
		if err != nil || len(record.Freezes) == 0 || record.Freezes[len(record.Freezes)-1].Reason != name {
			t.Errorf("%s: the freezes are %+v, the error is %v", name, record.Freezes, err)
		}
	}
}

// mirrored opens a mirror of the repository, with the tip of its trunk.
func (s *stage) mirrored(mirror string) (*hydrate.Hydrator, gitstore.Commit) {
	s.T.Helper()
	store, err := gitstore.Open(s.T.Context(), gitstore.Options{
		URL: "file://" + s.Dir, CacheDir: mirror,
		OneListing: true,
	})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { _ = store.Close() }) // it was read, and what was written is pushed
	branches, err := store.Remote(store.RemoteURL(), gitstore.Auth{})
	if err != nil {
		s.T.Fatal(err)
	}
	h := hydrate.New(hydrate.Config{
		Store: store, Branches: branches, Renderer: renderer.NewEngine(renderer.DefaultLimits()),
		Archives: hydratetest.Offline{}, Jobs: 2, Version: "test", Signer: s.Signer,
	})
	trunk, err := store.FetchRevision(s.T.Context(), "refs/heads/main")
	if err != nil {
		s.T.Fatal(err)
	}
	return h, trunk
}

// recordFrom reads the record of prod on a mirror of the repository.
func (s *stage) recordFrom(mirror string) error {
	s.T.Helper()
	h, trunk := s.mirrored(mirror)
	f, _, err := h.Fleet(s.T.Context(), trunk.Tree)
	if err != nil {
		s.T.Fatal(err)
	}
	_, err = promote.ReadRecord(s.T.Context(), h, "prod", f.Signers())
	return err
}

// lookFrom runs four passes of promotion on a mirror of the repository.
func (s *stage) lookFrom(mirror string, commands []promote.Command) error {
	s.T.Helper()
	h, trunk := s.mirrored(mirror)
	r := promote.Request{Trunk: trunk, Commands: commands, Now: s.now, Adapters: s.adapters()}
	for range 4 {
		if _, err := promote.Look(s.T.Context(), h, r); err != nil {
			return err
		}
		r.Commands = nil
	}
	return nil
}

// TestRebuiltRecordsAreAccepted: a mirror that noted a lost tip goes on with records that a person rebuilt elsewhere, and
// with no others. The freeze that is lost is a halt now.
func TestRebuiltRecordsAreAccepted(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.sign()
	s.Git("config", "uploadpack.allowAnySHA1InWant", "true")
	mirror := t.TempDir()
	first := s.release("one")
	if err := s.lookFrom(mirror, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.lookFrom(mirror, []promote.Command{ordered(rollout.EventFreeze, "1", nil)}); err != nil {
		t.Fatal(err)
	}
	s.Git("update-ref", "-d", "refs/heads/"+rollout.StateBranch)
	if _, ok := errors.AsType[*promote.LostRecordError](s.recordOf()); !ok {
		t.Errorf("without the branch, a clone that noted nothing reads %v", s.recordOf())
	}
	r := promote.Request{Trunk: s.tip(), Now: s.now, Adapters: s.adapters()}
	list, err := promote.RebuildRecords(t.Context(), s.Hydrator(2), r, "mia", "it was deleted")
	if err != nil || len(list) != 1 || list[0].Environment != "prod" || list[0].Halt == nil {
		t.Fatalf("rebuilt: %+v, %v", list, err)
	}
	s.release("two")
	if err := s.lookFrom(mirror, nil); err != nil {
		t.Errorf("the mirror refuses the rebuilt records: %v", err)
	}
	if wants(t, "prod", []string{s.runs()}, first); s.recordOf() != nil {
		t.Errorf("the rebuilt record is read as %v", s.recordOf())
	}
	if list, err := promote.RebuildRecords(t.Context(), s.Hydrator(2), r, "mia", "again"); err != nil || len(list) > 0 {
		t.Errorf("nothing is lost any more, but rebuilt: %+v, %v", list, err)
	}
	before := s.Git("rev-parse", rollout.StateBranch) // contains the rebuilt record, which accepts no later loss
	if err := s.lookFrom(mirror, []promote.Command{ordered(rollout.EventFreeze, "2", nil)}); err != nil {
		t.Fatal(err)
	}
	s.Git("update-ref", "refs/heads/"+rollout.StateBranch, before)
	if err := s.lookFrom(mirror, nil); err == nil || !strings.Contains(err.Error(), "does not contain") {
		t.Errorf("the mirror accepts records that were set back after a repair: %v", err)
	}
}

// rebuild rebuilds the records that are lost.
func (s *stage) rebuild() {
	s.T.Helper()
	list, err := promote.RebuildRecords(s.T.Context(), s.Hydrator(2), promote.Request{
		Trunk: s.tip(), Now: s.now, Adapters: s.adapters(),
	}, "mia", "lost")
	if err != nil || len(list) == 0 {
		s.T.Fatalf("rebuilt: %+v, %v", list, err)
	}
}

// recordOf returns the error of a pass over the repository itself, which has no notes of a mirror.
func (s *stage) recordOf() error {
	s.T.Helper()
	_, err := promote.Look(s.T.Context(), s.Hydrator(2), promote.Request{
		Trunk: s.tip(), Now: s.now, Adapters: s.adapters(), DryRun: true,
	})
	return err
}
