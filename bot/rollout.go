package bot

import (
	"cmp"
	"context"
	"errors"
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

// reporter shows what environments run: in statuses of commits, in the comments of merged merge requests and in the
// log.
type reporter struct {
	*task
	tip gitstore.Commit // of the trunk, or an earlier commit that was hydrated after the fact
}

// maxRollouts is the number of trunk commits whose rollout is reported.
const maxRollouts = 30

// rollouts updates the rollout in the comments of merged merge requests, from the tip back to the first commits that
// every environment runs. It sends no request for a commit whose rollout did not change.
func (r reporter) rollouts(ctx context.Context, f *fleet.Fleet, result *hydrate.Result,
	promotions []promote.Status,
) error {
	const key = "rollouts"
	state := stateOf(r.tip, result, promotions)
	if r.seen(key, state) {
		return nil
	}
	running, err := r.space.Branches.Running(ctx, r.tip.Tree)
	if err != nil {
		return err
	}
	line, err := r.space.Commits.Line(ctx, r.tip, maxRollouts)
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
		if err := r.publishRollout(ctx, c, rows, promote.Unsigned(f)); err != nil {
			return err
		}
		if arrived++; !everywhere {
			arrived = 0
		}
		if i > 0 && arrived >= enough {
			break
		}
	}
	r.remember(key, state)
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
		fmt.Fprint(&b, " ", p.Environment, p.Tip, p.Source, p.Foreign, p.Decision.WaitsFor, p.Decision.LeftOut,
			waves(p))
	}
	return b.String()
}

// publishRollout writes the rollout of a commit, with a warning, to the merge requests that it came from.
func (r reporter) publishRollout(ctx context.Context, c gitstore.Commit, rows []report.RolloutRow,
	warning string,
) error {
	key, state := "rollout/"+c.Hash.String(), fmt.Sprint(rows, warning)
	if r.seen(key, state) {
		return nil
	}
	merged, err := r.forge.MergeRequestsOf(ctx, r.place.Repo(), c.Hash.String())
	if err != nil {
		return err
	}
	for _, mr := range merged {
		if mr.State != forge.Merged {
			continue
		}
		if err := r.commenting(ctx, mr.Number, func(ctx context.Context) error {
			return publish.Rollout(ctx, r.forge, r.place.Repo(), mr.Number, "", rows, warning)
		}); err != nil {
			return fmt.Errorf("rollout of merge request %d: %w", mr.Number, err)
		}
	}
	r.remember(key, state)
	return nil
}

// rolloutRows returns the state of a commit in each environment, and whether all environments run it. place maps the
// trunk's commits to their position, the newest at 0: an environment that runs a newer commit runs this one too.
func rolloutRows(commit gitstore.Hash, place map[gitstore.Hash]int, running []promote.Running, f *fleet.Fleet,
	result *hydrate.Result, promotions []promote.Status,
) (rows []report.RolloutRow, everywhere bool) {
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
			row.Commit, row.Since, row.State = r.Source.String(), r.Since.UTC().Truncate(time.Second),
				"runs another commit"
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

// without names the workspaces that an environment left out of a commit, in words that follow a state; "" if there is
// none. newer is the position of the commit in place.
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

// rolledBack describes the rollback of an environment from a commit: the restored commit, the person and the reason. It
// returns "" if there was none.
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
		if !w.State.Over() {
			return fmt.Sprintf("wave %s, %d of %d: %s", w.Name, i+1, len(e.Decision.Waves), waveWords(w))
		}
	}
	return arrivedState
}

// waveWords describes the state of a wave and the reason why it waits.
func waveWords(w rollout.WaveProgress) string {
	if w.Reason == "" {
		return w.State.String()
	}
	return fmt.Sprintf("%s (%s)", w.State, w.Reason)
}

// hydrated writes a status for each environment that follows the trunk, on the source commit and on
// the rendered commit.
func (r reporter) hydrated(ctx context.Context, result *hydrate.Result) error {
	var failed []error
	name := r.context() + "/hydrate" // red if an earlier task could not hydrate the commit
	if state := r.forge.state(ctx, r.place.Repo(), r.tip.Hash.String(), name); state == forge.Failure {
		failed = append(failed, r.setStatus(ctx, forge.Status{
			Context: name, State: forge.Success,
			Description: "hydrated",
		}, false, r.tip.Hash.String()))
	}
	for _, e := range result.Environments {
		if e.Status == hydrate.StatusChecked && len(e.Failures) == 0 || e.Status == hydrate.StatusSuperseded ||
			e.Status == hydrate.StatusElsewhere {
			continue
		}
		s := forge.Status{Context: r.context() + "/" + e.Name, State: forge.Success, Description: e.Summary()}
		if !e.Status.OK() {
			s.State = forge.Failure
		}
		if len(e.Held) > 0 && s.State == forge.Success { // the source commit fails, but the targets that were rendered pass
			s.State = forge.Failure
			failed = append(failed, r.setStatus(ctx, s, false, r.tip.Hash.String()))
			if e.Status == hydrate.StatusUpdated || e.Status == hydrate.StatusUnchanged {
				s.State = forge.Success
				failed = append(failed, r.setStatus(ctx, s, e.Status == hydrate.StatusUnchanged, cmp.Or(e.New, e.Old)))
			}
			continue
		}
		commits := []string{r.tip.Hash.String()}
		if e.Status == hydrate.StatusUpdated || e.Status == hydrate.StatusUnchanged {
			commits = append(commits, cmp.Or(e.New, e.Old))
		}
		failed = append(failed, r.setStatus(ctx, s, e.Status == hydrate.StatusUnchanged, commits...))
	}
	return errors.Join(failed...)
}

// promoted writes the statuses of environments with `after`, and logs their silent apps.
func (r reporter) promoted(ctx context.Context, list []promote.Status) error {
	var failed []error
	for i := range list {
		r.logSilent(&list[i])
		for _, one := range promotedStatuses(r.context(), &list[i]) {
			failed = append(failed, r.setStatus(ctx, one.status, false, one.commits...))
		}
	}
	return errors.Join(failed...)
}

// promotedStatus is a status with the commits that get it: a source commit, optionally followed by a
// rendered commit.
type promotedStatus struct {
	status  forge.Status
	commits []string
}

// promotedStatuses returns the statuses of an environment: one for the source commit that it runs and its rendered
// commit, and a red one for each source commit that failed there or was rolled back. A pending status names the first
// silent cluster instead of the wave's gate.
func promotedStatuses(prefix string, e *promote.Status) []promotedStatus {
	if e.Source.Commit == "" {
		return nil
	}
	name := prefix + "/" + e.Environment
	var out []promotedStatus
	red := map[string]bool{}
	add := func(commit, text string) {
		if commit != "" && !red[commit] {
			red[commit] = true
			out = append(out, promotedStatus{forge.Status{
				Context: name, State: forge.Failure,
				Description: e.Environment + ": " + text,
			}, []string{commit}})
		}
	}
	r := &e.Decision.Record
	if b := r.Rollback; b != nil {
		add(b.From.Commit, "is being rolled back: "+b.Reason)
	}
	for _, h := range r.Holds {
		if h.Cause != rollout.CauseStopped {
			add(h.Source.Commit, h.What())
		}
	}
	if red[e.Source.Commit] { // a part of the environment was rolled back from this commit
		return out
	}
	s := forge.Status{Context: name, State: forge.Success, Description: e.Environment + " " + waves(e)}
	if left := e.Decision.LeftOut; len(left) > 0 {
		s.Description += " without " + rollout.Few(left) + ", red in an environment before"
	}
	commits := []string{e.Source.Commit, e.Tip}
	switch state := wavesState(e); {
	case e.Foreign != "":
		s.State, s.Description = forge.Failure, fmt.Sprintf("`sluice status %s` says what to do: %s", e.Environment,
			e.Foreign)
		commits = commits[:1] // Sluice did not make the branch's tip
	case r.Halt != nil:
		s.State, s.Description = forge.Failure, fmt.Sprintf("%s: halted by %s: %s", e.Environment,
			cmp.Or(r.Halt.By, "Sluice"), r.Halt.Reason)
	case state == rollout.WaveFailed:
		s.State = forge.Failure
	case state != rollout.WaveDone:
		s.State = forge.Pending
		if silent := e.Decision.Silent; len(silent) > 0 {
			s.Description = e.Environment + " waits: " + silent[0].String()
		}
	}
	return append(out, promotedStatus{s, commits})
}

// wavesState returns the state of the first wave in which something is left to do.
func wavesState(e *promote.Status) rollout.WaveState {
	for _, w := range e.Decision.Waves {
		if !w.State.Over() {
			return w.State
		}
	}
	return rollout.WaveDone
}

// setStatus writes a status on a source commit and on the rendered commits that follow it. It skips
// rendered commits that the forge does not know, because they may be in another repository. With keepGreen,
// it does not change a green status.
func (r reporter) setStatus(ctx context.Context, s forge.Status, keepGreen bool, commits ...string) error {
	var failed []error
	repo := r.place.Repo()
	for i, commit := range commits {
		if i == 1 { // the first rendered commit
			output, _, err := r.space.Branches.Output(ctx)
			if err != nil {
				return errors.Join(append(failed, err)...)
			}
			repo = output
		}
		if commit == "" || keepGreen && r.forge.state(ctx, repo, commit, s.Context) == forge.Success {
			continue
		}
		err := r.forge.SetStatus(ctx, repo, commit, s)
		if i > 0 && (errors.Is(err, forge.ErrNotFound) || errors.Is(err, forge.ErrUnsupported)) {
			continue
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("status %s of %.10s: %w", s.Context, commit, err))
		}
	}
	return errors.Join(failed...)
}

// logSilent logs the apps of an environment that posted no commit status after their cluster moved, once for each
// state of a cluster.
func (r reporter) logSilent(e *promote.Status) {
	key := "silent/" + e.Environment
	before := strings.Split(r.recall(key), "\n")
	var now []string
	for _, s := range e.Decision.Silent {
		line := s.String()
		if now = append(now, line); slices.Contains(before, line) {
			continue
		}
		r.log.Warn("apps posted no commit status since their cluster moved", "environment", e.Environment, "cluster",
			s.Cluster,
			"apps", s.Apps, "status", s.Status, "since", s.Since, "command", s.Command())
	}
	if text := strings.Join(now, "\n"); !r.seen(key, text) {
		r.remember(key, text)
	}
}
