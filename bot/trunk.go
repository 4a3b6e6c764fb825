package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// Branches renders commits into branches.
type Branches interface {
	Hydrate(ctx context.Context, r hydrate.Request) (*hydrate.Result, error)
	Running(ctx context.Context, tree gitstore.Hash) ([]promotion.Running, error)
	// Output returns the repository that rendered branches go to.
	Output(ctx context.Context) (forge.Repository, error)
}

// Environments promotes commits.
type Environments interface {
	// Promotions evaluates what promotions wait for and executes what is due.
	Promotions(ctx context.Context, trunk gitstore.Commit) ([]promotion.Status, error)
	// Order executes a command on an environment if the trunk's sluice.yaml gives the person the right. An error that wraps ErrRefused
	// says why it does not.
	Order(ctx context.Context, o Order) (string, error)
}

// trunk hydrates the trunk's tip, says so on the commits and on the merge requests that brought them, and has the open
// merge requests looked at again: their base moved.
func (j *job) trunk(ctx context.Context) error {
	if err := j.open(ctx); err != nil {
		return err
	}
	tip, f, err := j.trunkTip(ctx)
	if err != nil {
		return err
	}
	if f == nil {
		return nil
	}
	earlier, err := j.missed(ctx, tip)
	var result *hydrate.Result
	if err == nil {
		result, err = j.space.Branches.Hydrate(ctx, hydrate.Request{Commit: tip, Write: true, PerPush: j.settings.PerPush})
	}
	if errors.Is(err, ErrRefused) {
		return errors.Join(earlier, j.refused(ctx, tip, err))
	}
	if err != nil {
		return errors.Join(earlier, err)
	}
	// What is due is done first: a forge that takes no status, or no comment, holds up no promotion.
	promotions, err := j.space.Environments.Promotions(ctx, tip)
	if err != nil {
		j.log.Warn("promotions", "error", err) // what is hydrated is told all the same
	}
	for _, e := range promotions {
		j.log.Debug("promotion", "environment", e.Environment, "runs", e.Source.String(), "done", e.Done, "waits", e.Decision.WaitsFor)
	}
	told := errors.Join(earlier,
		j.told(ctx, errors.Join(j.sayHydrated(ctx, tip, result), j.sayPromoted(ctx, promotions))),
		j.journeys(ctx, tip, f, result, promotions))
	if j.seen("trunk", tip.Hash.String()) {
		return told
	}
	if err := j.othersAgain(ctx, f.Spec.Trunk); err != nil {
		return errors.Join(told, err)
	}
	j.remember("trunk", tip.Hash.String())
	for _, e := range result.Environments {
		if e.Status == hydrate.StatusConflict {
			return errors.Join(told, fmt.Errorf("environment %s: %s", e.Name, e.Reason)) // another look, a little later
		}
	}
	return told
}

// refused says on a commit why nothing of it is hydrated: only a new commit, or another configuration, helps.
func (j *job) refused(ctx context.Context, c gitstore.Commit, why error) error {
	j.log.Warn("not hydrated", "commit", c.Hash.String(), "error", why)
	return j.forge.SetStatus(ctx, j.place.Repo(), c.Hash.String(), forge.Status{Context: j.context() + "/hydrate", State: forge.Failure, Description: why.Error()})
}

// told is what is worth another try of statuses that could not be written. What the forge refuses for good is logged, and holds up
// nothing: the next look tries again in any case.
func (j *job) told(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, forge.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	j.log.Warn("statuses could not be written", "error", err)
	return nil
}

// mostMissed is how many commits of the trunk are made up for. Whoever was away for longer begins with the newest.
const mostMissed = 100

// missed hydrates what came before the tip and was not hydrated: several commits came at once, or nobody was there. Each makes a
// commit of its own on the branches, and its own statuses. One that cannot be hydrated says so on itself and stops no later one;
// told is what could not be said.
func (j *job) missed(ctx context.Context, tip gitstore.Commit) (told, err error) {
	list, err := j.space.Commits.Missed(ctx, tip, mostMissed)
	if err != nil {
		return nil, fmt.Errorf("what came before %s: %w", tip.Hash.Short(), err)
	}
	for _, c := range list {
		f, _, err := j.space.Fleets.Fleet(ctx, c.Tree)
		if err := j.brokenFleet(ctx, c, err); err != nil && !errors.Is(err, ErrNoFleet) {
			return told, err
		}
		if f == nil {
			continue
		}
		result, err := j.space.Branches.Hydrate(ctx, hydrate.Request{Commit: c, Write: true, PerPush: j.settings.PerPush})
		if errors.Is(err, ErrRefused) {
			told = errors.Join(told, j.told(ctx, j.refused(ctx, c, err)))
			continue
		}
		if err != nil {
			return told, err
		}
		told = errors.Join(told, j.told(ctx, j.sayHydrated(ctx, c, result))) // journeys are told from the tip on
	}
	return told, nil
}

// trunkTip is the trunk's commit and its fleet; ErrNoFleet if there is none. A commit whose fleet cannot be read gets a red status,
// and what stands for it is the last one before it whose fleet could be: a mistake on the trunk stops no promotion and no rollback.
func (j *job) trunkTip(ctx context.Context) (gitstore.Commit, *fleet.Fleet, error) {
	tip, err := j.space.Commits.Revision(ctx, "HEAD")
	if err != nil {
		return tip, nil, err
	}
	f, _, err := j.space.Fleets.Fleet(ctx, tip.Tree)
	if err == nil && f.Spec.Trunk != "" {
		trunk, missing := j.space.Commits.Revision(ctx, "refs/heads/"+f.Spec.Trunk)
		switch {
		case missing == nil && trunk.Hash != tip.Hash:
			tip = trunk
			f, _, err = j.space.Fleets.Fleet(ctx, tip.Tree)
		case missing != nil && !errors.Is(missing, gitstore.ErrNoRef): // policy and rights must not come from another branch because a fetch failed
			return tip, nil, missing
		}
	}
	return j.readable(ctx, tip, f, err)
}

func (j *job) readable(ctx context.Context, tip gitstore.Commit, f *fleet.Fleet, err error) (gitstore.Commit, *fleet.Fleet, error) {
	if err == nil {
		return tip, f, nil
	}
	if err := j.brokenFleet(ctx, tip, err); err != nil {
		return tip, nil, err
	}
	good, f, err := j.space.Fleets.Readable(ctx, tip)
	if _, broken := errors.AsType[fleet.Problems](err); broken {
		return tip, nil, nil // there is none: only a new commit helps
	}
	return good, f, err
}

// brokenFleet says on a commit that its fleet cannot be read. An error is one that is no mistake of the fleet's.
func (j *job) brokenFleet(ctx context.Context, tip gitstore.Commit, err error) error {
	problems, broken := errors.AsType[fleet.Problems](err)
	if !broken {
		return err
	}
	if problems.Absent() {
		return ErrNoFleet
	}
	return j.told(ctx, j.forge.SetStatus(ctx, j.place.Repo(), tip.Hash.String(), forge.Status{
		Context: j.context() + "/hydrate", State: forge.Failure, Description: fmt.Sprintf("%d problems in the fleet: %s", len(problems), problems[0]),
	}))
}

// mostJourneys is how many commits of the trunk are followed through the environments.
const mostJourneys = 30

// journeys brings the journey in the comments of merged merge requests up to date: from the tip back to where everything is everywhere.
// Nothing is asked of the forge about a commit whose journey is what it was.
func (j *job) journeys(ctx context.Context, tip gitstore.Commit, f *fleet.Fleet, result *hydrate.Result, promotions []promotion.Status) error {
	const key = "journeys"
	state := stateOf(tip, result, promotions)
	if j.seen(key, state) {
		return nil
	}
	running, err := j.space.Branches.Running(ctx, tip.Tree)
	if err != nil {
		return err
	}
	line, err := j.space.Commits.Line(ctx, tip, mostJourneys)
	if err != nil {
		return err
	}
	const enough = 3 // in a row that are everywhere: what is older was told
	place := map[gitstore.Hash]int{}
	for i, c := range line {
		place[c.Hash] = i
	}
	arrived := 0
	for i, c := range line {
		rows, everywhere := journey(c.Hash, place, running, f, result, promotions)
		if err := j.tellJourney(ctx, c, rows); err != nil {
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

// stateOf is all that journeys depend on: while it stays, they do.
func stateOf(tip gitstore.Commit, result *hydrate.Result, promotions []promotion.Status) string {
	var b strings.Builder
	b.WriteString(tip.Hash.String())
	if result != nil {
		for _, e := range result.Environments {
			fmt.Fprint(&b, " ", e.Name, e.Status, e.Reason, e.New)
		}
	}
	for i := range promotions {
		p := &promotions[i]
		fmt.Fprint(&b, " ", p.Environment, p.Tip, p.Source, p.Foreign, p.Decision.WaitsFor, waves(p))
	}
	return b.String()
}

// tellJourney writes the journey of a commit on the merge requests that brought it.
func (j *job) tellJourney(ctx context.Context, c gitstore.Commit, rows []report.JourneyRow) error {
	key, state := "journey/"+c.Hash.String(), fmt.Sprint(rows)
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
		if err := publish.Journey(ctx, j.forge, j.place.Repo(), mr.Number, "", rows); err != nil {
			return fmt.Errorf("journey of merge request %d: %w", mr.Number, err)
		}
	}
	j.remember(key, state)
	return nil
}

// journey says where a commit stands in each environment, and whether all of them have it. place has the trunk's commits, the newest at 0:
// what runs a newer one has it too.
func journey(commit gitstore.Hash, place map[gitstore.Hash]int, running []promotion.Running, f *fleet.Fleet, result *hydrate.Result, promotions []promotion.Status) (rows []report.JourneyRow, everywhere bool) {
	out := make([]report.JourneyRow, 0, len(running))
	status := map[string]hydrate.EnvironmentResult{}
	if result != nil {
		for _, e := range result.Environments {
			status[e.Name] = e
		}
	}
	promoted := map[string]*promotion.Status{}
	for i := range promotions {
		promoted[promotions[i].Environment] = &promotions[i]
	}
	everywhere = true
	for _, r := range running {
		row := report.JourneyRow{Environment: r.Environment, State: "not rendered yet"}
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
			row.State, row.Waits = waves(p), ""
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

// rolledBack says that an environment went back from a commit, to what, by whom and why; "" if it did not.
func rolledBack(p *promotion.Status, commit string) string {
	for _, h := range p.Decision.Record.Holds {
		if h.Source.Commit == commit && h.Cause != promote.CauseStopped {
			return fmt.Sprintf("%s on %s, which runs %s", h.What(), h.Scope(p.Environment), p.Source)
		}
	}
	return ""
}

// plain leaves out the backticks around commands: a table escapes its texts.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }

// arrivedState is that of an environment all of whose clusters have a commit.
const arrivedState = "runs it"

// waitsFor says what an environment waits for.
func waitsFor(f *fleet.Fleet, environment string, p *promotion.Status) string {
	if p != nil && p.Decision.WaitsFor != "" {
		return plain(p.Decision.WaitsFor)
	}
	if e, ok := f.Environment(environment); ok && len(e.After) > 0 {
		return "promotion from " + e.After[0]
	}
	return ""
}

// waves says how far the clusters of an environment are that runs the commit.
func waves(e *promotion.Status) string {
	for i, w := range e.Decision.Waves {
		if w.State != promote.WaveDone {
			return fmt.Sprintf("wave %s, %d of %d: %s", w.Name, i+1, len(e.Decision.Waves), waveWords(w))
		}
	}
	return arrivedState
}

// waveWords says what a wave waits for, where that is known.
func waveWords(w promote.WaveProgress) string {
	if w.Reason == "" {
		return string(w.State)
	}
	return string(w.State) + ", waits for " + w.Reason
}

// othersAgain has every open merge request on the trunk looked at.
func (j *job) othersAgain(ctx context.Context, trunk string) error {
	open, err := j.forge.OpenMergeRequests(ctx, j.place.Repo(), trunk)
	if err != nil {
		return err
	}
	for _, mr := range open {
		if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: mr.Number}); err != nil {
			return err
		}
	}
	return nil
}

// sweep has everything looked at: what no webhook told of is found here. A look that fails keeps none of the others from being made.
func (j *job) sweep(ctx context.Context) error {
	open, err := j.forge.OpenMergeRequests(ctx, j.place.Repo(), "")
	if err != nil {
		return err
	}
	for _, mr := range open {
		if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: mr.Number}); err != nil {
			return err
		}
	}
	if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Trunk}); err != nil {
		return err
	}
	err = j.enqueueClosedPreviews(ctx, open)
	if errors.Is(err, ErrRefused) { // whoever hydrates says so
		err = nil
	}
	return errors.Join(j.commandsAgain(ctx), err)
}

// previewsAgain has merge requests looked at that are not open and have a preview: nobody told that they were closed.
func (j *job) enqueueClosedPreviews(ctx context.Context, open []*forge.MergeRequest) error {
	if err := j.open(ctx); err != nil {
		return err
	}
	branches, err := j.space.Reviews.Previews(ctx, previewPrefix)
	if errors.Is(err, ErrRefused) {
		return nil // there are none, where none may be written
	}
	if err != nil {
		return fmt.Errorf("list previews: %w", err)
	}
	for _, branch := range branches {
		number, err := strconv.Atoi(strings.TrimPrefix(branch, previewPrefix))
		if err != nil || number <= 0 || slices.ContainsFunc(open, func(mr *forge.MergeRequest) bool { return mr.Number == number }) {
			continue
		}
		if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Review, Number: number, Force: true}); err != nil {
			return err
		}
	}
	return nil
}
