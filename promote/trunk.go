package promote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

const (
	maxTrunk    = 5_000 // commits that are read
	enoughTrunk = 500   // commits that are read where what an environment runs is not on the trunk
)

// trunk is the part of the trunk that matters: back to the oldest commit that an environment runs or a record names.
type trunk struct {
	store   *gitstore.Store
	tip     gitstore.Commit
	order   rollout.Trunk              // oldest first
	commits map[string]gitstore.Commit // by id
	shallow bool                       // the clone's history ends before a commit that is needed
}

// neededCommits are the trunk's commits that environments run, or that decisions compare with.
func neededCommits(states map[string]*branch.State, records map[string]rollout.Record) map[string]bool {
	needed := map[string]bool{}
	add := func(s rollout.Source) {
		for _, c := range s.Commits() {
			needed[c] = true
		}
	}
	for _, st := range states {
		add(st.Source())
	}
	for _, r := range records {
		if r.Request != nil {
			add(r.Request.Source)
		}
		for _, o := range []*rollout.Offered{r.Opened, r.Declined} {
			if o != nil {
				add(o.Source)
			}
		}
		for _, h := range r.Holds {
			add(h.Source)
		}
		if p := r.Progress; p != nil && p.From != "" {
			for _, past := range r.Ran {
				if past.Tree == p.From {
					add(past.Source)
				}
			}
		}
	}
	return needed
}

// unknownHistory reports whether a commit is not in this clone.
func unknownHistory(err error) bool {
	return errors.Is(err, gitstore.ErrShallow) || errors.Is(err, gitstore.ErrNotFound)
}

// readTrunk walks the trunk's first parents back until it has seen all needed commits.
func readTrunk(ctx context.Context, store *gitstore.Store, tip gitstore.Commit, needed map[string]bool) (*trunk,
	error,
) {
	t := &trunk{store: store, tip: tip, commits: map[string]gitstore.Commit{}}
	rewritten, err := t.keepAncestors(ctx, needed)
	if err != nil {
		return nil, err
	}
	at := tip
	for i := range maxTrunk {
		id := at.Hash.String()
		t.order = append(t.order, id)
		t.commits[id] = at
		delete(needed, id)
		if len(needed) == 0 && (!rewritten || i > enoughTrunk) || len(at.Parents) == 0 {
			break
		}
		next, err := store.Commit(ctx, at.Parents[0])
		if unknownHistory(err) {
			t.shallow = true
			break
		} else if err != nil {
			return nil, err
		}
		at = next
	}
	slices.Reverse(t.order)
	return t, t.insertMerged(ctx, needed)
}

// keepAncestors drops the commits that are not on the trunk, and fetches the history that the others need.
func (t *trunk) keepAncestors(ctx context.Context, needed map[string]bool) (rewritten bool, err error) {
	for c := range needed {
		hash, err := gitstore.ParseHash(c)
		if err != nil {
			delete(needed, c) // not a commit; the environment's gate says so
			continue
		}
		ok, err := t.store.IsAncestor(ctx, hash, t.tip.Hash)
		switch {
		case unknownHistory(err):
			t.shallow = t.shallow || errors.Is(err, gitstore.ErrShallow)
			ok = false
		case err != nil:
			return false, err
		}
		if !ok {
			delete(needed, c)
			rewritten = true
		}
	}
	return rewritten, nil
}

// insertMerged inserts needed commits that are not first-parent ancestors of the trunk's tip into t.order. An example
// is an old tip that somebody merged into their own branch. It inserts each one before the first commit that contains
// it.
func (t *trunk) insertMerged(ctx context.Context, needed map[string]bool) error {
	for _, c := range slices.Sorted(maps.Keys(needed)) {
		hash, err := gitstore.ParseHash(c)
		if err != nil {
			continue
		}
		commit, err := t.store.Commit(ctx, hash)
		if unknownHistory(err) {
			continue // the environment's gate says that it is unknown
		} else if err != nil {
			return err
		}
		low, high := 0, len(t.order) // the first that contains it is in order[low:high], or there is none
		for low < high {
			at := (low + high) / 2
			has, err := t.store.IsAncestor(ctx, hash, t.commits[t.order[at]].Hash)
			if err != nil && !unknownHistory(err) {
				return err
			}
			if has {
				high = at
			} else {
				low = at + 1
			}
		}
		if low < len(t.order) {
			t.commits[c] = commit
			t.order = slices.Insert(t.order, low, c)
		}
	}
	return nil
}

// behind counts the trunk's commits that a source does not contain.
func behind(trunk rollout.Trunk, s rollout.Source) int {
	return len(trunk) - 1 - slices.Index(trunk, s.Commit)
}

// brought returns the trunk's commits that to contains and from does not, for any app on any cluster, oldest first. If
// an app ran an older commit than the other apps, for example after a rollback, the result includes all commits since
// that one.
func (t *trunk) brought(from, to rollout.Source) []gitstore.Commit {
	place := make(map[string]int, len(t.order))
	for i, c := range t.order {
		place[c] = i
	}
	of := func(commit string) int {
		if i, ok := place[commit]; ok {
			return i
		}
		return -1
	}
	first := make([]int, len(t.order)) // for each commit, the oldest place from which something goes to it
	for i := range first {
		first[i] = i
	}
	move := func(have, want string) {
		if end := of(want); end >= 0 && have != want {
			first[end] = min(first[end], of(have))
		}
	}
	compare := func(have, want rollout.ClusterSource) {
		move(have.Commit, want.Commit)
		for _, apps := range []map[string]string{have.Apps, want.Apps} {
			for app := range apps {
				move(have.Of(app), want.Of(app))
			}
		}
	}
	compare(rollout.ClusterSource{Commit: from.Commit, Apps: from.Apps},
		rollout.ClusterSource{Commit: to.Commit, Apps: to.Apps})
	for _, clusters := range []map[string]rollout.ClusterSource{from.Clusters, to.Clusters} {
		for name := range clusters {
			compare(from.On(name), to.On(name))
		}
	}
	var out []gitstore.Commit
	begin := len(t.order)
	for i, v := range slices.Backward(t.order) {
		begin = min(begin, first[i])
		if i > begin {
			out = append(out, t.commits[v])
		}
	}
	slices.Reverse(out)
	return out
}

// author returns the commit from which a rendered commit takes its author: the source commit, or the trunk's tip if the
// clone does not have the source commit.
func (t *trunk) author(ctx context.Context, source string) (gitstore.Commit, error) {
	if c, ok := t.commits[source]; ok {
		return c, nil
	}
	hash, err := gitstore.ParseHash(source)
	if err != nil {
		return t.tip, nil //nolint:nilerr // a damaged record names no author
	}
	c, err := t.store.Commit(ctx, hash)
	if unknownHistory(err) {
		return t.tip, nil
	}
	return c, err
}

// subjects are those of the commits that a promotion brings, newest first.
func (t *trunk) subjects(st *branch.State, to rollout.Source) []string {
	const most = 30
	list := t.brought(st.Source(), to)
	var lines []string
	for _, c := range slices.Backward(list) {
		subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
		lines = append(lines, c.Hash.Short()+" "+subject)
		if len(lines) == most && len(list) > most {
			lines = append(lines, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
	}
	return lines
}

// bringing is the body of a promotion's commit.
func (t *trunk) bringing(st *branch.State, to rollout.Source) string {
	lines := t.subjects(st, to)
	for i := range lines {
		lines[i] = "- " + lines[i]
	}
	return strings.Join(lines, "\n")
}
