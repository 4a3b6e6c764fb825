package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
)

// push compares pushing new objects on many branches with `git push` of the same objects.
func (b *bench) push(branches, objects int) error {
	fmt.Printf("\n== push of %d new objects on %d branches\n", objects, branches)
	var ours, gits []time.Duration
	for i := range 3 {
		src, bare := filepath.Join(b.dir, fmt.Sprintf("push-%d", i)),
			filepath.Join(b.dir, fmt.Sprintf("push-%d.git", i))
		for _, dir := range []string{src, bare, bare + "2"} {
			if _, err := b.command("", "git", "init", "-q", "--bare", dir); err != nil {
				return err
			}
		}
		store, err := gitstore.Open(b.ctx, gitstore.Options{Dir: src})
		if err != nil {
			return err
		}
		w, moves, err := newObjects(store, branches, objects)
		if err != nil {
			return err
		}
		place, err := store.Remote(bare, gitstore.Auth{})
		if err != nil {
			return err
		}
		start := time.Now()
		if _, err := place.Push(b.ctx, w, moves, gitstore.PushOptions{}); err != nil {
			return err
		}
		ours = append(ours, time.Since(start))
		if _, err := store.Local().Push(b.ctx, w, moves, gitstore.PushOptions{}); err != nil {
			return err
		}
		m, err := b.command(src, "git", "push", "-q", bare+"2", "refs/heads/*:refs/heads/*")
		if err != nil {
			return err
		}
		gits = append(gits, m.wall)
		if err := w.Close(); err != nil {
			return err
		}
		if err := store.Close(); err != nil {
			return err
		}
	}
	slices.Sort(ours)
	slices.Sort(gits)
	fmt.Printf("Sluice %.2f s, git push %.2f s: %.2f × (to reach: 1.5)\n", ours[1].Seconds(), gits[1].Seconds(),
		ratio(ours[1], gits[1]))
	return nil
}

// newObjects creates a commit on each branch. Half of the objects are commits, the others blobs and trees.
func newObjects(store *gitstore.Store, branches, objects int) (*gitstore.Writer, []gitstore.Move, error) {
	w, err := store.NewWriter()
	if err != nil {
		return nil, nil, err
	}
	who := gitstore.Signature{Name: "b", Email: "b@example.com", When: time.Unix(1_700_000_000, 0)}
	var moves []gitstore.Move
	perBranch := objects / branches
	for i := range branches {
		var entries []gitstore.Entry
		for j := range perBranch - 2 {
			blob, err := w.Blob(fmt.Appendf(nil, "branch: %d\nfile: %d\n", i, j))
			if err != nil {
				return nil, nil, err
			}
			entries = append(entries, gitstore.Entry{Name: fmt.Sprintf("f%d.yaml", j), Mode: gitstore.ModeFile,
				Hash: blob})
		}
		tree, err := w.Tree(entries)
		if err != nil {
			return nil, nil, err
		}
		commit, err := w.Commit(gitstore.CommitSpec{Tree: tree, Author: who, Committer: who, Message: "m\n"})
		if err != nil {
			return nil, nil, err
		}
		moves = append(moves, gitstore.Move{Branch: fmt.Sprintf("cluster/c-%04d", i), New: commit})
	}
	return w, moves, nil
}
