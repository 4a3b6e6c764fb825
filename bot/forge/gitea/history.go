package gitea

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"code.gitea.io/sdk/gitea"

	"github.com/sluice-gitops/sluice/bot/forge"
)

const (
	// maxHistory is the number of merge requests of a repository whose commits are known: the most recently updated
	// ones. Each takes a request once.
	maxHistory = 300
	// historyLife is the time for which the list of merge requests is not read again. A commit that was merged since
	// is found without the list.
	historyLife = time.Minute
)

// history has the commits of the recent merge requests of a repository, because Gitea has no request for the merge
// requests of a commit. It is safe for concurrent use.
type history struct {
	mu       sync.Mutex
	read     time.Time
	requests map[int]*changes
}

// changes are a merge request and its commits.
type changes struct {
	mr      *forge.MergeRequest
	commits map[string]bool
}

func (f *Forge) history(repo forge.Repository) *history {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := strings.ToLower(repo.Path)
	h, ok := f.histories.Get(key)
	if !ok {
		h = &history{requests: map[int]*changes{}}
		f.histories.Add(key, h)
	}
	return h
}

// of returns the merge requests that contain a commit, merged ones first.
func (h *history) of(ctx context.Context, f *Forge, repo forge.Repository, commit string) ([]*forge.MergeRequest,
	error,
) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := f.clock(); h.read.IsZero() || now.Sub(h.read) >= historyLife || now.Before(h.read) {
		if err := h.update(ctx, f, repo); err != nil {
			return nil, err
		}
		h.read = now
	}
	var out []*forge.MergeRequest
	for _, c := range h.requests {
		if c.commits[commit] {
			one := *c.mr
			out = append(out, &one)
		}
	}
	rank := map[forge.State]int{forge.Merged: -1}
	slices.SortFunc(out, func(a, b *forge.MergeRequest) int {
		return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), cmp.Compare(a.Number, b.Number))
	})
	return out, nil
}

// update reads the merge requests that were updated since the last time, and the commits of those that have others. It
// forgets the least recently updated ones above maxHistory.
func (h *history) update(ctx context.Context, f *Forge, repo forge.Repository) error {
	var last time.Time
	for _, c := range h.requests {
		if c.mr.Updated.After(last) {
			last = c.mr.Updated
		}
	}
	var changed []*forge.MergeRequest
	if err := f.recent(ctx, repo, func(mr *forge.MergeRequest) bool {
		if len(changed) == maxHistory || mr.Updated.Before(last) {
			return false
		}
		changed = append(changed, mr)
		return true
	}); err != nil {
		return err
	}
	slices.Reverse(changed) // so that last is right if a request fails
	for _, mr := range changed {
		if old := h.requests[mr.Number]; old != nil && old.mr.Head == mr.Head && old.mr.TargetBranch == mr.TargetBranch {
			old.mr = mr
			continue
		}
		path, err := at(repo, "/pulls/%d/commits", mr.Number)
		if err != nil {
			return err
		}
		all, err := list[*gitea.Commit](ctx, f, path, url.Values{"verification": {"false"}, "files": {"false"}})
		if err != nil && !missing(err) && !failed(err) { // 500 for one whose branches are gone
			return err
		}
		c := &changes{mr: mr, commits: map[string]bool{mr.Head: true}}
		for _, one := range all {
			if one.CommitMeta != nil {
				c.commits[one.SHA] = true
			}
		}
		h.requests[mr.Number] = c
	}
	for len(h.requests) > maxHistory {
		oldest := slices.MinFunc(h.all(), func(a, b *changes) int { return a.mr.Updated.Compare(b.mr.Updated) })
		delete(h.requests, oldest.mr.Number)
	}
	return nil
}

func (h *history) all() []*changes {
	out := make([]*changes, 0, len(h.requests))
	for _, c := range h.requests {
		out = append(out, c)
	}
	return out
}
