package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/expression"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// facts returns what the gates of an environment ask for about a proposal that is not in a situation. What they do not
// ask for is not read. It returns nil if there are no gates.
func (p *proposals) facts(ctx context.Context, e fleet.Environment, next *rollout.Proposal, c *rollout.Candidate) (
	*expression.Facts, error,
) {
	ask := gateQuestions(e.Promotion.Gates)
	if len(ask) == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	out := &expression.Facts{Now: p.request.Now, Unknown: map[string]string{}}
	st := p.states[e.Name]
	commit, known := p.trunk.commits[next.Promoted.Commit]
	if known {
		out.Commit = commitFacts(commit, p.request.Now)
	} else {
		out.Unknown["commit"] = next.Promoted.Commit + " is not on the known part of the trunk"
	}
	if ask.about("commit.authors") {
		names, unknown, err := p.authors.between(ctx, st.Source(), next.Source)
		if err != nil {
			return nil, err
		}
		out.Commit.Authors = names
		if unknown != "" {
			out.Unknown["commit.authors"] = unknown
		}
	}
	if ask.about("commit.files") {
		runs, there := p.trunk.commits[st.Source().Commit]
		switch {
		case !known || st.Exists() && !there:
			out.Unknown["commit.files"] = "what the environment runs is not on the known part of the trunk"
		default:
			var err error
			out.Commit.Files, err = filesBetween(ctx, p.hydrator.Store, runs.Tree, commit.Tree)
			if errors.Is(err, gitstore.ErrTooManyPaths) {
				out.Unknown["commit.files"] = "too many files differ to be listed"
			} else if err != nil {
				return nil, err
			}
		}
	}
	if ask.about("history") {
		entries, err := p.past[e.Name].history(ctx)
		if err != nil {
			return nil, err
		}
		out.History = historyFacts(withCommands(entries, p.records.known[e.Name].Commands))
	}
	if ask.about("changes") {
		var before gitstore.Hash
		if st.Exists() {
			before = st.Tip.Tree
		}
		if err := changeFacts(ctx, p.request.Adapters.Changes, p.fleet, e.Name, before, c.Tree, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// questions are the expressions of gates.
type questions []*expression.Expression

// gateQuestions compiles the expressions of gates, without those that have an error: the gate says so.
func gateQuestions(gates []fleet.GateExpression) questions {
	var out questions
	for _, g := range gates {
		if e, err := expression.Compile(g.Expr); err == nil {
			out = append(out, e)
		}
	}
	return out
}

func (q questions) about(path string) bool {
	return slices.ContainsFunc(q, func(e *expression.Expression) bool { return e.Asks(path) })
}

func commitFacts(c gitstore.Commit, now time.Time) expression.Commit {
	return expression.Commit{ID: c.Hash.String(), Time: c.Committer.When.UTC(), Age: now.Sub(c.Committer.When)}
}

// filesBetween lists the files that differ between two trees of the source.
func filesBetween(ctx context.Context, store *gitstore.Store, before, after gitstore.Hash) ([]string, error) {
	changes, err := store.Changes(ctx, before, after)
	if err != nil {
		return nil, fmt.Errorf("files that a promotion changes: %w", err)
	}
	out := make([]string, len(changes))
	for i := range changes {
		out[i] = changes[i].Path
	}
	return out, nil
}

// promotion reports whether a state is one that Sluice promoted. A rollback is none.
func (e HistoryEntry) promotion() bool {
	return e.Command == nil && e.trailer(branch.TrailerFrom) != "" && !e.back()
}

// back reports whether a state is a rollback.
func (e HistoryEntry) back() bool {
	return e.trailer(branch.TrailerRollback) != "" || e.trailer(branch.TrailerTakenBack) != ""
}

func (e HistoryEntry) trailer(key string) string {
	if all := e.trailers(key); len(all) > 0 {
		return all[0]
	}
	return ""
}

// trailers returns the values of a key in the commit and in the promotion that it merges.
func (e HistoryEntry) trailers(key string) []string {
	var out []string
	for _, t := range slices.Concat(e.Trailers, e.merged) {
		if t.Key == key {
			out = append(out, t.Value)
		}
	}
	return out
}

// historyFacts lists the moves of an environment, newest first.
func historyFacts(entries []HistoryEntry) expression.History {
	var out expression.History
	for _, e := range entries {
		switch {
		case e.Command != nil:
			if e.Command.Verb == rollout.EventHalt && e.Command.By == "" {
				out.Failures = append(out.Failures, e.At.UTC())
			}
		case e.back():
			out.Rollbacks = append(out.Rollbacks, e.At.UTC())
			if e.trailer(branch.TrailerBy) == "" {
				out.Failures = append(out.Failures, e.At.UTC())
			}
		case e.promotion():
			out.Promotions = append(out.Promotions, e.At.UTC())
		}
	}
	slices.SortStableFunc(out.Failures, func(a, b time.Time) int { return b.Compare(a) }) // commands can come last
	return out
}

// changeFacts sets what differs between two trees of an environment branch.
func changeFacts(ctx context.Context, differ Differ, f *fleet.Fleet, environment string, before gitstore.Hash,
	after string, out *expression.Facts,
) error {
	to, err := gitstore.ParseHash(after)
	if err != nil || differ == nil {
		out.Unknown["changes"] = "the promotion is not rendered"
		return nil //nolint:nilerr // a candidate that cannot be rendered has no tree; another gate says why
	}
	changes, err := differ(ctx, f, environment, before, to)
	switch {
	case err != nil:
		return fmt.Errorf("changes of %s, which a gate asks for: %w", environment, err)
	case changes == nil:
		out.Unknown["changes"] = "too many objects differ to be compared"
	default:
		out.Changes = changesOf(changes)
	}
	return nil
}

func changesOf(c *diff.ChangeSet) expression.Changes {
	out := expression.Changes{
		Added: int64(c.Totals.Added), Changed: int64(c.Totals.Changed), Removed: int64(c.Totals.Removed), Workloads: int64(c.Totals.Workloads),
		Risk: string(diff.RiskNone),
	}
	risk := diff.RiskNone
	for i := range c.Groups {
		g := &c.Groups[i]
		risk = diff.Graver(risk, g.Risk)
		out.Apps, out.Clusters = append(out.Apps, g.App), append(out.Clusters, g.Clusters...)
		for _, o := range g.Objects {
			out.Kinds = append(out.Kinds, o.ID.Kind)
			for _, e := range o.Effects {
				out.Effects = append(out.Effects, string(e.Name))
			}
		}
	}
	for _, l := range c.Losses {
		risk = diff.Graver(risk, l.Risk)
		out.Effects = append(out.Effects, string(l.Name))
	}
	out.Risk = string(risk)
	for _, list := range []*[]string{&out.Apps, &out.Clusters, &out.Kinds, &out.Effects} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return out
}
