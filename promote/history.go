package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/nearest"
	"github.com/sluice-gitops/sluice/rollout"
)

// HistoryEntry is a state that an environment had, or a command that changed its record alone.
type HistoryEntry struct {
	// Command is set for a command, which has At, and none of the other fields.
	Command  *rollout.PastCommand
	Commit   gitstore.Hash
	Tree     gitstore.Hash
	Source   rollout.Source
	At       time.Time
	Subject  string
	Author   string
	Trailers []gitstore.Trailer
	merged   []gitstore.Trailer // of the promotion that the commit merges, if the forge made it
}

// ErrNoEnvironment means that the fleet does not have the environment.
var ErrNoEnvironment = errors.New("the fleet has no environment")

// By names who made the state: the person who asked, the author of a commit that Sluice did not make, or Sluice.
func (e HistoryEntry) By() string {
	if e.Command != nil {
		return e.Command.Actor()
	}
	for _, t := range e.Trailers {
		if t.Key == branch.TrailerBy {
			return t.Value
		}
	}
	if slices.ContainsFunc(e.Trailers, func(t gitstore.Trailer) bool { return t.Key == branch.TrailerVersion }) {
		return "Sluice"
	}
	return e.Author
}

// What returns the subject of the commit, with the trailers that explain it.
func (e HistoryEntry) What() string {
	if e.Command != nil {
		return e.Command.String()
	}
	values := map[string]string{}
	for _, t := range e.Trailers {
		values[t.Key] = strings.TrimPrefix(values[t.Key]+", "+t.Value, ", ")
	}
	parts := []string{e.Subject}
	for _, one := range [][2]string{
		{branch.TrailerApproved, "approved by "},
		{branch.TrailerNow, "skipped its gates: "},
		{branch.TrailerReason, "reason: "},
		{branch.TrailerRollback, "rollback: "},
		{branch.TrailerRenderedAgain, "rendered again: "},
		{branch.TrailerTakenBack, "taken back: "},
		{branch.TrailerLeftOut, "left out, because they are red in an environment before: "},
		{branch.TrailerWorkspaces, "workspaces: "},
		{branch.TrailerApps, "apps: "},
		{branch.TrailerClusters, "clusters: "},
		{branch.TrailerPolicyException, "policy exception: "},
		{branch.TrailerUnmerged, "not merged; the trunk was at "},
	} {
		if v := values[one[0]]; v != "" {
			parts = append(parts, one[1]+v)
		}
	}
	return strings.Join(parts, "; ")
}

// ReadHistory reads the states of an environment's branch, and the commands of its record that made no commit, newest
// first. It reads only Git. With a record that cannot be read, it returns the states and an error.
func ReadHistory(ctx context.Context, h *hydrate.Hydrator, tree gitstore.Hash, environment string,
	most int,
) ([]HistoryEntry, error) {
	f, _, err := h.Fleet(ctx, tree)
	if err != nil {
		return nil, err
	}
	ref := f.EnvironmentBranch(environment)
	refs, err := h.Branches.List(ctx, ref)
	if err != nil {
		return nil, err
	}
	if refs[ref].IsZero() {
		if _, ok := f.Environment(environment); !ok {
			return nil, fmt.Errorf("%w %q, and %s does not exist%s", ErrNoEnvironment, environment, ref,
				nearest.DidYouMean(environment, environmentNames(f)))
		}
		return nil, nil
	}
	if err := h.Branches.Fetch(ctx, refs[ref]); err != nil {
		return nil, err
	}
	tip, err := h.Store.Commit(ctx, refs[ref])
	if err != nil {
		return nil, err
	}
	out, err := history(ctx, h, tip, most)
	if err != nil {
		return out, err
	}
	record, err := ReadRecord(ctx, h, environment, f.Signers())
	out = withCommands(out, record.Commands)
	return out[:min(most, len(out))], err
}

// withCommands merges commands, oldest first, into states, newest first, by time. The states keep their order, whatever
// their dates.
func withCommands(states []HistoryEntry, commands []rollout.PastCommand) []HistoryEntry {
	out := make([]HistoryEntry, 0, len(states)+len(commands))
	left := len(commands)
	add := func(after time.Time) {
		for ; left > 0 && commands[left-1].At.After(after); left-- {
			out = append(out, HistoryEntry{At: commands[left-1].At, Command: &commands[left-1]})
		}
	}
	for _, s := range states {
		add(s.At)
		out = append(out, s)
	}
	add(time.Time{})
	return out
}

func history(ctx context.Context, h *hydrate.Hydrator, tip gitstore.Commit, most int) ([]HistoryEntry, error) {
	var out []HistoryEntry
	at := tip
	for range most {
		if at.Hash.IsZero() {
			return out, nil
		}
		entry := HistoryEntry{
			Commit: at.Hash, Tree: at.Tree, At: at.Committer.When, Author: at.Author.Name,
			Trailers: gitstore.Trailers(at.Message),
		}
		entry.Subject, _, _ = strings.Cut(at.Message, "\n")
		var err error
		if entry.merged, err = mergedTrailers(ctx, h, at); err != nil {
			return out, err
		}
		// the tree alone tells what a merge by the forge brought
		if entry.Source, err = branch.ReadSource(ctx, h.Store, at.Tree); err != nil {
			return out, err
		}
		if entry.Source.Commit == "" {
			entry.Source.Commit = branch.Trailer(at.Message, branch.TrailerSource)
		}
		out = append(out, entry)
		if len(at.Parents) == 0 {
			return out, nil
		}
		parent := at.Parents[0]
		if err := h.Branches.Fetch(ctx, parent); err != nil {
			return out, err
		}
		next, err := h.Store.Commit(ctx, parent)
		if err != nil {
			return out, err
		}
		at = next
	}
	return out, nil
}

// mergedTrailers returns the trailers of the promotion that a commit merges, if the forge made the commit.
func mergedTrailers(ctx context.Context, h *hydrate.Hydrator, c gitstore.Commit) ([]gitstore.Trailer, error) {
	if len(c.Parents) != 2 { //nolint:mnd // a merge of one commit
		return nil, nil
	}
	if err := h.Branches.Fetch(ctx, c.Parents[1]); err != nil {
		return nil, err
	}
	merged, err := branch.MergedPromotion(ctx, h.Store, c)
	if err != nil || merged == nil {
		return nil, err
	}
	return gitstore.Trailers(merged.Message), nil
}

// EarlierState finds the newest state of an environment branch in which a cluster had a tree. An error that wraps
// promote.ErrNoTree means that it never had.
func EarlierState(ctx context.Context, h *hydrate.Hydrator, now *branch.State, cluster string,
	tree gitstore.Hash,
) (*branch.State, error) {
	return newPast(h, now).with(ctx, cluster, tree)
}
