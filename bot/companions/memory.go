package companions

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/internal/lru"
)

const (
	maxRemembered = 2000      // merge requests with dependencies that are remembered
	fresh         = time.Hour // after which a review resolves the lines again, because permissions may have changed
)

// Memory has what merge requests depended on in their last reviews. A sweep compares it with the listings of open merge
// requests: it sends at most one request for each repository that is named, whatever the number of merge requests and
// of lines. It is safe for concurrent use.
type Memory struct {
	known *lru.Cache[*remembered] // by the key of the merge request
}

// remembered is what a merge request depended on.
type remembered struct {
	at       time.Time
	lines    []string
	identity string
	named    []Reference
	open     map[string]*forge.MergeRequest // by the key of the reference
}

// NewMemory returns an empty memory.
func NewMemory() *Memory { return &Memory{lru.New[*remembered](maxRemembered)} }

// Remember records what the review of a merge request depends on; nothing if d is nil.
func (m *Memory) Remember(key string, mr *forge.MergeRequest, d *Dependencies, now time.Time) {
	if d == nil {
		m.known.Remove(key)
		return
	}
	r := &remembered{
		at: now, lines: command.DependsOn(mr.Body), identity: d.Identity(), named: d.named,
		open: map[string]*forge.MergeRequest{},
	}
	for _, one := range d.List {
		if one.MR.State == forge.Open {
			r.open[one.Key()] = one.MR
		}
	}
	m.known.Add(key, r)
}

// SameLines reports whether the lines of a merge request are those of its last review.
func (m *Memory) SameLines(key string, mr *forge.MergeRequest) bool {
	r, ok := m.known.Get(key)
	return ok && slices.Equal(r.lines, command.DependsOn(mr.Body))
}

// Identity returns the identity of what a merge request depends on; false if that may have changed since the last
// review. open lists the open merge requests of a repository; if it fails, the dependencies count as changed, because
// the review reports the error.
func (m *Memory) Identity(ctx context.Context, key string, mr *forge.MergeRequest, now time.Time,
	open func(context.Context, hint.Place) ([]*forge.MergeRequest, error),
) (string, bool) {
	if len(command.DependsOn(mr.Body)) == 0 {
		return "", true
	}
	if !m.SameLines(key, mr) {
		return "", false
	}
	r, _ := m.known.Get(key)
	if age := now.Sub(r.at); age < 0 || age >= fresh {
		return "", false
	}
	for _, ref := range r.named {
		list, err := open(ctx, ref.Place)
		if err != nil {
			return "", false
		}
		var current *forge.MergeRequest // nil: not open
		i := slices.IndexFunc(list, func(mr *forge.MergeRequest) bool { return mr.Number == ref.Number })
		if i >= 0 {
			current = list[i]
		}
		if !unchanged(r.open[ref.Key()], current) {
			return "", false
		}
	}
	return r.identity, true
}

// unchanged reports whether two states of a merge request are equal for those that depend on it. nil is not open.
func unchanged(a, b *forge.MergeRequest) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Head == b.Head && a.TargetBranch == b.TargetBranch && a.Updated.Equal(b.Updated)
}
