package bot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/rollout"
)

// maxRollouts is the number of trunk commits whose rollout is reported.
const maxRollouts = 30

// rollouts updates the rollout in the comments of merged merge requests, from the tip back to the first commits that
// every environment runs. It sends no request for a commit whose rollout did not change.
func (j *job) rollouts(ctx context.Context, tip gitstore.Commit, f *fleet.Fleet, result *hydrate.Result, promotions []promote.Status) error {
	const key = "rollouts"
	state := stateOf(tip, result, promotions)
	if j.seen(key, state) {
		return nil
	}
	running, err := j.space.Branches.Running(ctx, tip.Tree)
	if err != nil {
		return err
	}
	line, err := j.space.Commits.Line(ctx, tip, maxRollouts)
	if err != nil {
		return err
	}
	const enough = 3 // number of adjacent commits that every environment runs; the rollouts of older ones are complete
	place := map[gitstore.Hash]int{}
	for i, c := range line {
		place[c.Hash] = i
	}
	arrived := 0
	for i, c := range line {
		rows, everywhere := rolloutRows(c.Hash, place, running, f, result, promotions)
		if err := j.publishRollout(ctx, c, rows); err != nil {
			return err
		}
		if arrived++; !everywhere {
			arrived = 0
		}
		if i > 0 && arrived >= enough {
			break
		}
	}
	j.remember(key, state)
	return nil
}

// stateOf returns a digest of everything that rollouts depend on.
func stateOf(tip gitstore.Commit, result *hydrate.Result, promotions []promote.Status) string {
	var b strings.Builder
	b.WriteString(tip.Hash.String())
	if result != nil {
		for _, e := range result.Environments {
			fmt.Fprint(&b, " ", e.Name, e.Status, e.Reason, e.New)
		}
	}
	for i := range promotions {
		p := &promotions[i]
		fmt.Fprint(&b, " ", p.Environment, p.Tip, p.Source, p.Foreign, p.Decision.WaitsFor, p.Decision.LeftOut, waves(p))
	}
	return b.String()
}

// publishRollout writes the rollout of a commit to the merge requests that it came from.
func (j *job) publishRollout(ctx context.Context, c gitstore.Commit, rows []report.RolloutRow) error {
	key, state := "rollout/"+c.Hash.String(), fmt.Sprint(rows)
	if j.seen(key, state) {
		return nil
	}
	merged, err := j.forge.MergeRequestsOf(ctx, j.place.Repo(), c.Hash.String())
	if err != nil {
		return err
	}
	for _, mr := range merged {
		if mr.State != forge.Merged {
			continue
		}
		if err := commenting(ctx, j, mr.Number, func(ctx context.Context) error {
			return publish.Rollout(ctx, j.forge, j.place.Repo(), mr.Number, "", rows)
		}); err != nil {
			return fmt.Errorf("rollout of merge request %d: %w", mr.Number, err)
		}
	}
	j.remember(key, state)
	return nil
}

// rolloutRows returns the state of a commit in each environment, and whether all environments run it. place maps the
// trunk's commits to their position, the newest at 0: an environment that runs a newer commit runs this one too.
func rolloutRows(commit gitstore.Hash, place map[gitstore.Hash]int, running []promote.Running, f *fleet.Fleet, result *hydrate.Result, promotions []promote.Status) (rows []report.RolloutRow, everywhere bool) {
	out := make([]report.RolloutRow, 0, len(running))
	status := map[string]hydrate.EnvironmentResult{}
	if result != nil {
		for _, e := range result.Environments {
			status[e.Name] = e
		}
	}
	promoted := map[string]*promote.Status{}
	for i := range promotions {
		promoted[promotions[i].Environment] = &promotions[i]
	}
	everywhere = true
	for _, r := range running {
		row := report.RolloutRow{Environment: r.Environment, State: "not rendered yet"}
		if !r.Source.IsZero() {
			row.Commit, row.Since, row.State = r.Source.String(), r.Since.UTC().Truncate(time.Second), "runs another commit"
		}
		p := promoted[r.Environment]
		if p != nil && rolledBack(p, commit.String()) != "" {
			row.State = rolledBack(p, commit.String())
			everywhere = false
			out = append(out, row)
			continue
		}
		at, known := place[r.Source]
		has := known && at <= place[commit]
		switch e, hydrated := status[r.Environment]; {
		case has && p != nil:
			row.State, row.Waits = waves(p)+without(p, place[commit], place), ""
			if row.State != arrivedState || r.Source == commit {
				row.Waits = plain(p.Decision.WaitsFor)
			}
		case has:
			row.State = arrivedState
		case hydrated && !e.Status.OK():
			row.State, row.Waits = string(e.Status), e.Reason
		default:
			row.Waits = waitsFor(f, r.Environment, p)
		}
		everywhere = everywhere && row.State == arrivedState
		out = append(out, row)
	}
	return out, everywhere
}

// without names the workspaces that an environment left out of a commit, in words that follow a state; "" if there is none. newer is the position
// of the commit in place.
func without(p *promote.Status, newer int, place map[gitstore.Hash]int) string {
	var out []string
	for _, w := range p.Decision.LeftOut {
		older := func(c rollout.ClusterSource) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(c.Apps)), func(app string) bool {
				at, err := gitstore.ParseHash(c.Of(app))
				i, known := place[at]
				return fleet.WorkspaceOf(app) == w && (err != nil || !known || i > newer)
			})
		}
		if slices.ContainsFunc(p.Source.Entries(slices.Collect(maps.Keys(p.Source.Clusters))), older) {
			out = append(out, w)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " without " + rollout.Few(out)
}

// rolledBack describes the rollback of an environment from a commit: the restored commit, the person and the reason. It returns "" if
// there was none.
func rolledBack(p *promote.Status, commit string) string {
	for _, h := range p.Decision.Record.Holds {
		if h.Source.Commit != commit || h.Cause == rollout.CauseStopped {
			continue
		}
		verb := "rolled back"
		if h.Cause == rollout.CauseFailed {
			verb = "failed and was rolled back"
		}
		text := fmt.Sprintf("%s to %s by %s", verb, p.Source, h.Actor())
		if h.Reason != "" {
			text += ": " + h.Reason
		}
		return text + " (" + h.Scope(p.Environment) + ")"
	}
	return ""
}

// plain removes the backticks around commands, because a table escapes its text.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }

// arrivedState is the state of an environment that runs a commit on all clusters.
const arrivedState = "runs it"

// waitsFor returns the reason why an environment waits.
func waitsFor(f *fleet.Fleet, environment string, p *promote.Status) string {
	if p != nil && p.Decision.WaitsFor != "" {
		return plain(p.Decision.WaitsFor)
	}
	if e, ok := f.Environment(environment); ok && len(e.After) > 0 {
		return "promotion from " + e.After[0]
	}
	return ""
}

// waves describes the progress of an environment's waves.
func waves(e *promote.Status) string {
	for i, w := range e.Decision.Waves {
		if w.State != rollout.WaveDone {
			return fmt.Sprintf("wave %s, %d of %d: %s", w.Name, i+1, len(e.Decision.Waves), waveWords(w))
		}
	}
	return arrivedState
}

// waveWords describes the state of a wave and the reason why it waits.
func waveWords(w rollout.WaveProgress) string {
	if w.Reason == "" {
		return string(w.State)
	}
	return fmt.Sprintf("%s (%s)", w.State, w.Reason)
}
