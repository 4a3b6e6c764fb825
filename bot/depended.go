package bot

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
)

// A sweep compares what a merge request depended on in its last review with the listings of open merge requests. It sends at most one request
// for each repository that is named, whatever the number of merge requests and of lines.

const (
	maxDepended   = 2000      // merge requests with dependencies that are remembered
	dependedFresh = time.Hour // after which a review resolves the lines again, because permissions may have changed
)

// depended is what a merge request depended on in its last review.
type depended struct {
	at       time.Time
	lines    []string
	identity string
	named    []reference
	open     map[string]*forge.MergeRequest // by the key of the reference
}

// rememberDepended remembers what a review depends on.
func (t *task) rememberDepended(mr *forge.MergeRequest, deps *dependencies) {
	key := headKey(t.place, mr.Number)
	if deps == nil {
		t.depended.Remove(key)
		return
	}
	d := &depended{at: t.Clock(), lines: command.DependsOn(mr.Body), identity: deps.identity(), named: deps.named, open: map[string]*forge.MergeRequest{}}
	for _, one := range deps.list {
		if one.mr.State == forge.Open {
			d.open[one.key()] = one.mr
		}
	}
	t.depended.Add(key, d)
}

// identityNow returns the identity of what a merge request depends on; false if that may have changed since the last review.
func (t *task) identityNow(ctx context.Context, mr *forge.MergeRequest) (string, bool) {
	lines := command.DependsOn(mr.Body)
	if len(lines) == 0 {
		return "", true
	}
	d, ok := t.depended.Get(headKey(t.place, mr.Number))
	if !ok || !slices.Equal(d.lines, lines) {
		return "", false
	}
	if age := t.Clock().Sub(d.at); age < 0 || age >= dependedFresh {
		return "", false
	}
	for _, ref := range d.named {
		other, ok := t.at(ref.place)
		if !ok {
			return "", false
		}
		list, err := t.listings.open(ctx, other.forge, ref.place)
		if err != nil {
			return "", false // the review reports it
		}
		before, now := d.open[ref.key()], numbered(list, ref.number)
		if (before == nil) != (now == nil) || now != nil && (now.Head != before.Head || now.TargetBranch != before.TargetBranch || !now.Updated.Equal(before.Updated)) {
			return "", false
		}
	}
	return d.identity, true
}
