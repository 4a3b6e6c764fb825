package promote_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/signers"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// incident is a branch that somebody moves, what Sluice does about it, and the command that it prints. Nothing moves
// before that command: nothing at all if the branch is the environment's or that of the records, and otherwise not the
// cluster.
func (w *trees) incident(cluster string) error {
	hurry := w.command(rollout.EventPromote, cluster)
	hurry.Now, hurry.Apps, hurry.Revision = true, nil, "" // so that there is something to go back from
	if err := w.passes(4, hurry, w.command(rollout.EventApprove, cluster)); err != nil {
		return err
	}
	refs, err := w.refs()
	if err != nil {
		return err
	}
	record, err := promote.ReadRecord(w.ctx, w.h, "prod", signers.List{})
	if err != nil {
		return err
	}
	if record.Tip != refs["env/prod"].String() || record.Tips[cluster] != refs["cluster/"+cluster].String() {
		return nil // a move of this pass would not be missed
	}
	before, err := w.read()
	if err != nil {
		return err
	}
	kind := choose(w.r, "env/prod back", "env/prod back", "cluster back", "cluster back", "env/prod deleted",
		"cluster deleted", "state deleted", "state rewound", "record removed", "foreign commit")
	if done, err := w.damage(kind, cluster, refs); err != nil || !done {
		return err
	}
	w.logf("incident: %s, %s", kind, cluster)
	w.done[kind]++
	damaged, err := w.refs()
	if err != nil {
		return err
	}
	var commands []promote.Command
	if w.r.IntN(2) == 0 {
		commands = append(commands, w.command(rollout.EventKind(choose(w.r, string(rollout.EventPromote),
			string(rollout.EventRollback), string(rollout.EventResume))), cluster))
	}
	list, err := promote.Look(w.ctx, w.h, w.request(commands...))
	_, lost := errors.AsType[*promote.RecordsError](err)
	if lost {
		w.done["records refused"]++
	} else if err != nil {
		return err
	}
	if len(list) > 0 {
		w.logf("%v, refused %q, waits for %q", commands, list[0].Refused, list[0].Decision.WaitsFor)
	}
	after, err := w.refs()
	if err != nil {
		return err
	}
	ofState := strings.HasPrefix(kind, "state") || kind == "record removed"
	for _, name := range slices.Sorted(maps.Keys(damaged)) {
		stays := name == "cluster/"+cluster || !strings.HasPrefix(kind, "cluster") && name != rollout.StateBranch
		if stays && after[name] != damaged[name] && (!ofState || lost) {
			return fmt.Errorf("%s moved from %s to %s before anybody repaired: %s", name, damaged[name].Short(),
				after[name].Short(), kind)
		}
	}
	if ofState && !lost {
		return w.passes(1) // no branch was moved with a newer record: nobody can tell
	}
	return w.mend(kind, cluster, before, damaged)
}

// refs lists the branches.
func (w *trees) refs() (map[string]gitstore.Hash, error) {
	return w.h.Branches.List(w.ctx, "env/prod", "cluster/", rollout.StateBranch)
}

// damage moves a branch in a way of other people. It reports whether it could.
func (w *trees) damage(kind, cluster string, refs map[string]gitstore.Hash) (bool, error) {
	name := map[string]string{
		"env/prod back": "env/prod", "env/prod deleted": "env/prod", "foreign commit": "env/prod",
		"cluster back": "cluster/" + cluster, "cluster deleted": "cluster/" + cluster,
	}[kind]
	if name == "" {
		name = rollout.StateBranch
	}
	tip, err := w.h.Store.Commit(w.ctx, refs[name])
	if err != nil {
		return false, err
	}
	var to gitstore.Hash
	writer, err := w.h.Store.NewWriter()
	if err != nil {
		return false, err
	}
	defer func() { _ = writer.Close() }() // what was pushed is on the branch
	who := gitstore.Signature{Name: "Mallory", Email: "m@example.com", When: w.now}
	switch kind {
	case "env/prod back", "cluster back", "state rewound":
		at := tip
		for range 1 + w.r.IntN(3) {
			if len(at.Parents) == 0 {
				break
			}
			if at, err = w.h.Store.Commit(w.ctx, at.Parents[0]); err != nil {
				return false, err
			}
		}
		if to = at.Hash; to == tip.Hash {
			return false, nil
		}
	case "record removed":
		tree, err := writer.Tree(nil)
		if err != nil {
			return false, err
		}
		if to, err = (branch.Commit{Tree: tree, Parent: tip.Hash, Author: who, Committer: who, Subject: "tidy"}).Write(writer); err != nil {
			return false, err
		}
	case "foreign commit":
		files, err := w.h.Store.Tree(w.ctx, tip.Tree)
		if err != nil {
			return false, err
		}
		blob, err := writer.Blob([]byte("by hand\n"))
		if err != nil {
			return false, err
		}
		tree, err := writer.Tree(append(slices.Clone(files), gitstore.Entry{Name: "note", Mode: gitstore.ModeFile, Hash: blob}))
		if err != nil {
			return false, err
		}
		if to, err = writer.Commit(gitstore.CommitSpec{
			Tree: tree, Parents: []gitstore.Hash{tip.Hash}, Author: who, Committer: who, Message: "by hand\n",
		}); err != nil {
			return false, err
		}
	}
	return true, w.force(writer, name, tip.Hash, to)
}

// force moves a branch wherever somebody wants it.
func (w *trees) force(writer *gitstore.Writer, name string, from, to gitstore.Hash) error {
	results, err := w.h.Branches.Push(w.ctx, writer, []gitstore.Move{{Branch: name, Old: from, New: to}},
		gitstore.PushOptions{})
	if err != nil {
		return err
	}
	return results[0].Err()
}

// mend is the person who repairs, with a command that Sluice prints.
func (w *trees) mend(kind, cluster string, before *snapshot, damaged map[string]gitstore.Hash) error {
	w.events++
	want := promote.Repair{Environment: "prod", By: "ann", Reason: "repair"}
	switch kind {
	case "state deleted", "state rewound", "record removed":
		list, err := promote.RebuildRecords(w.ctx, w.h, w.request(), "ann", "lost")
		if err != nil {
			return err
		}
		if len(list) != 1 || list[0].Halt == nil {
			return fmt.Errorf("the records after the repair: %+v, want one that is halted", list)
		}
		w.logf("the record is rebuilt: holds %v", list[0].Holds)
		w.done["rebuilt"]++
		if err := w.passes(1); err != nil {
			return err
		}
		return w.ran(before)
	case "foreign commit":
		if err := w.force(nil, "env/prod", damaged["env/prod"], before.env.Hash); err != nil {
			return err
		}
		return w.passes(2)
	case "env/prod back", "cluster back":
		want.Adopt = w.r.IntN(2) == 0
	}
	want.Restore = !want.Adopt
	found, done, err := promote.RepairBranches(w.ctx, w.h, w.request(), want)
	w.logf("repair of %v: %q, %v", found, done, err)
	if err != nil && want.Adopt { // a state that never ran, which the message says
		w.done["refused adoption"]++
		want.Adopt, want.Restore = false, true
		if found, done, err = promote.RepairBranches(w.ctx, w.h, w.request(), want); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if len(found) == 0 || len(done) == 0 {
		return fmt.Errorf("repair finds %v and does %q after: %s", found, done, kind)
	}
	if want.Restore {
		w.done["restored"]++
		if kind == "cluster back" || kind == "cluster deleted" { // a command may have moved the others meanwhile
			return w.clusterRan(cluster, before)
		}
		if err := w.ran(before); err != nil {
			return err
		}
		return w.passes(2)
	}
	w.done["adopted"]++
	if kind == "env/prod back" {
		now, err := w.read()
		if err != nil {
			return err
		}
		back, err := w.h.Store.Commit(w.ctx, damaged["env/prod"])
		if err != nil {
			return err
		}
		if now.env.Tree != back.Tree {
			return fmt.Errorf("the adopted state is tree %s, want %s", now.env.Tree.Short(), back.Tree.Short())
		}
		w.tookBack(before, now)
	}
	return w.passes(2)
}

// ran checks that the environment, and every cluster, has what it had.
func (w *trees) ran(before *snapshot) error {
	now, err := w.read()
	if err != nil {
		return err
	}
	if !maps.Equal(now.desired, before.desired) || !maps.Equal(now.running, before.running) {
		return fmt.Errorf("after the repair prod wants %v and runs %v, and it wanted %v and ran %v", now.desired,
			now.running, before.desired, before.running)
	}
	return nil
}

// clusterRan checks that a cluster has what it had, and lets the environment go on.
func (w *trees) clusterRan(cluster string, before *snapshot) error {
	now, err := w.read()
	if err != nil {
		return err
	}
	if now.clusters[cluster].Tree != before.clusters[cluster].Tree {
		return fmt.Errorf("after the repair %s has %s, and it had %s", cluster, now.clusters[cluster].Tree.Short(),
			before.clusters[cluster].Tree.Short())
	}
	return w.passes(2)
}

// tookBack remembers what a rollback of everything took back.
func (w *trees) tookBack(before, now *snapshot) {
	for key, tree := range now.desired {
		if was := before.desired[key]; was != tree {
			if w.bad[key] == nil {
				w.bad[key] = map[string]bool{}
			}
			w.bad[key][was] = true
		}
		delete(w.bad[key], tree)
	}
}

// rewriteTrunk removes the newest commits of the trunk, and commits something else.
func (w *trees) rewriteTrunk() error {
	keep := max(1, len(w.trunk)-1-w.r.IntN(2))
	if keep == len(w.trunk) {
		return nil
	}
	tip := w.trunk[len(w.trunk)-1].Hash
	w.dropped = append(w.dropped, w.trunk[keep:]...)
	w.trunk = slices.Clone(w.trunk[:keep])
	w.logf("the trunk is rewritten: it ends at %s", w.trunk[keep-1].Hash.Short())
	if err := w.force(nil, "main", tip, w.trunk[keep-1].Hash); err != nil {
		return err
	}
	w.done["rewritten trunk"]++
	w.rewritten = true
	err := w.release("dev")
	w.rewritten = false
	if err != nil {
		return err
	}
	return w.passes(2)
}

// setClock sets the clock back.
func (w *trees) setClock() {
	by := time.Duration(w.r.IntN(90)) * time.Minute
	w.now = w.now.Add(-by)
	w.logf("the clock is set back by %s", by)
	w.done["clock"]++
}
