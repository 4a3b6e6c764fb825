package promote

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/expression"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// ReplayRequest asks when a gate would have been open in the past.
type ReplayRequest struct {
	Trunk       gitstore.Commit // its fleet and its history
	Environment string
	Gate        *expression.Expression
	Since       time.Time // promotions that landed earlier are left out
	Changes     Differ
}

// ReplayedPromotion is a promotion of the past, and when a gate would have been open for it.
type ReplayedPromotion struct {
	At      time.Time     // when it landed
	Commit  gitstore.Hash // of the environment branch
	Source  string        // the source commit that it brought
	Subject string        // of that commit
	Now     string        // the reason why it did not wait for its gates; "" if it did
	// Open says that the gate was open when it landed. Opened is when it opened first, between the moment at which each
	// environment before ran the commit and then.
	Open   bool
	Opened time.Time
	// Opens is when the gate would have opened after it landed, if nothing but time had passed; zero if it would not have.
	Opens   time.Time
	Unknown []string          // why the gate would have had no value
	Terms   []expression.Term // the parts of the expression, if it was not open
}

// replayForesight is how long after a promotion the opening of its gate is looked for.
const replayForesight = 14 * 24 * time.Hour

// ReplayGate evaluates a gate for the promotions of an environment's past, newest first. Everything is read from Git: what
// is not there is unknown, such as the values of checks; an environment before counts as healthy for as long as it ran
// the commit.
func ReplayGate(ctx context.Context, h *hydrate.Hydrator, r ReplayRequest) ([]ReplayedPromotion, error) {
	f, _, err := h.Fleet(ctx, r.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	e, ok := f.Environment(r.Environment)
	if !ok {
		return nil, ErrNoEnvironment
	}
	p := &replay{h: h, fleet: f, request: r, upstreams: map[string][]HistoryEntry{}}
	if p.entries, p.commands, err = p.states(ctx, e.Name); err != nil {
		return nil, err
	}
	for _, name := range e.After {
		if p.upstreams[name], _, err = p.states(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := p.readTrunk(ctx); err != nil {
		return nil, err
	}
	var out []ReplayedPromotion
	for i, entry := range p.entries {
		if !entry.promotion() || i == len(p.entries)-1 { // gates do not apply to the first state
			continue
		}
		if entry.At.Before(r.Since) {
			break
		}
		one, err := p.promotion(ctx, e, i)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// replay evaluates a gate for past promotions.
type replay struct {
	h         *hydrate.Hydrator
	fleet     *fleet.Fleet
	request   ReplayRequest
	entries   []HistoryEntry            // states, newest first
	commands  []HistoryEntry            // of the environment
	upstreams map[string][]HistoryEntry // by environment
	places    map[string]int            // of the trunk's commits: the tip has 0
	commits   map[string]gitstore.Commit
}

func (p *replay) states(ctx context.Context, environment string) (states, commands []HistoryEntry, err error) {
	all, err := ReadHistory(ctx, p.h, p.request.Trunk.Tree, environment, maxHistory)
	for _, e := range all {
		if e.Command != nil {
			commands = append(commands, e)
		} else {
			states = append(states, e)
		}
	}
	return states, commands, err
}

// readTrunk numbers the trunk's commits, back to the oldest one that a state has.
func (p *replay) readTrunk(ctx context.Context) error {
	needed := map[string]bool{}
	for _, list := range append([][]HistoryEntry{p.entries}, p.lists()...) {
		for _, e := range list {
			for _, c := range e.Source.Commits() {
				needed[c] = true
			}
		}
	}
	p.places, p.commits = map[string]int{}, map[string]gitstore.Commit{}
	for at := p.request.Trunk; len(needed) > 0 && len(p.places) < maxTrunk; {
		id := at.Hash.String()
		p.places[id], p.commits[id] = len(p.places), at
		delete(needed, id)
		if len(at.Parents) == 0 {
			break
		}
		next, err := p.h.Store.Commit(ctx, at.Parents[0])
		if unknownHistory(err) {
			break
		} else if err != nil {
			return err
		}
		at = next
	}
	return nil
}

func (p *replay) lists() [][]HistoryEntry {
	var out [][]HistoryEntry
	for _, list := range p.upstreams {
		out = append(out, list)
	}
	return out
}

// promotion evaluates the gate for the state with an index.
func (p *replay) promotion(ctx context.Context, e *fleet.Environment, i int) (ReplayedPromotion, error) {
	entry := p.entries[i]
	out := ReplayedPromotion{
		At: entry.At, Commit: entry.Commit, Source: p.promoted(i), Now: entry.trailer(branch.TrailerNow),
	}
	if c, ok := p.commits[out.Source]; ok {
		out.Subject, _, _ = strings.Cut(c.Message, "\n")
	}
	facts, available, err := p.facts(ctx, e, i)
	if err != nil {
		return out, err
	}
	gate := p.request.Gate
	result := gate.Evaluate(facts)
	out.Open, out.Unknown = result.Open, result.Unknown
	switch {
	case out.Open:
		out.Opened, _ = gate.Opens(facts.At(available), entry.At)
		if out.Opened.IsZero() {
			out.Opened = entry.At
		}
	default:
		out.Terms = gate.Explain(facts)
		if len(out.Unknown) == 0 {
			out.Opens, _ = gate.Opens(facts, entry.At.Add(replayForesight))
		}
	}
	return out, nil
}

// facts returns what is known about a promotion at the moment at which it landed, and since when it could have landed.
func (p *replay) facts(ctx context.Context, e *fleet.Environment, i int) (out *expression.Facts, available time.Time,
	err error,
) {
	entry, before, gate := p.entries[i], p.entries[i+1], p.request.Gate
	out = &expression.Facts{Now: entry.At.UTC(), Unknown: map[string]string{}, Upstreams: map[string]expression.Upstream{}}
	out.Environment = expression.Environment{Name: e.Name, Runs: before.Source.Commit}
	for _, c := range p.fleet.ClustersOf(e.Name) {
		if !c.Retired() {
			out.Environment.Clusters = append(out.Environment.Clusters, c.Name)
		}
	}
	out.Request = expression.Request{By: entry.trailer(branch.TrailerBy), Reason: entry.trailer(branch.TrailerReason)}
	out.Request.Apps = listOf(entry.trailer(branch.TrailerApps))
	out.Request.Workspaces = listOf(entry.trailer(branch.TrailerWorkspaces))
	out.Approvals.By = entry.trailers(branch.TrailerApproved)
	out.Approvals.Count = int64(len(out.Approvals.By))
	commands := slices.DeleteFunc(slices.Clone(p.commands), func(c HistoryEntry) bool { return !c.At.Before(entry.At) })
	out.History = historyFacts(slices.Concat(p.entries[i+1:], commands))
	for _, c := range e.Promotion.Checks {
		out.Unknown[expression.Path("checks", c.Name)] = "the results of checks are not in Git"
	}
	promoted := p.promoted(i)
	commit, known := p.commits[promoted]
	if known {
		out.Commit = commitFacts(commit, entry.At)
		available = commit.Committer.When
	} else {
		out.Unknown["commit"] = "it is not on the known part of the trunk"
		available = entry.At
	}
	for name, states := range p.upstreams {
		since, runs := p.since(states, promoted, out.Request.Apps, entry.At)
		one := expression.Upstream{Runs: runs}
		if !since.IsZero() {
			one.Healthy, one.Soak = true, entry.At.Sub(since)
			if since.After(available) {
				available = since
			}
		}
		out.Unknown[expression.Path("upstreams", name, "waves")] = "when its waves were healthy is not in Git"
		out.Unknown[expression.Path("upstreams", name, "receiptAge")] = "the age that a receipt had then is not in Git"
		out.Upstreams[name] = one
	}
	if available.After(entry.At) {
		available = entry.At
	}
	if gate.Asks("commit.authors") {
		if _, there := p.places[p.ran(i)]; !there {
			out.Unknown["commit.authors"] = "what the environment ran is not on the known part of the trunk"
		} else if out.Commit.Authors, err = p.authors(ctx, p.ran(i), promoted); errors.Is(err, gitstore.ErrTooManyCommits) || unknownHistory(err) {
			out.Unknown["commit.authors"] = err.Error()
		} else if err != nil {
			return nil, available, err
		}
	}
	if gate.Asks("commit.files") {
		runs, there := p.commits[before.Source.Commit]
		if !known || !there {
			out.Unknown["commit.files"] = "what the environment ran is not on the known part of the trunk"
		} else if out.Commit.Files, err = filesBetween(ctx, p.h.Store, runs.Tree, commit.Tree); err != nil {
			return nil, available, err
		}
	}
	if gate.Asks("changes") {
		if err := errors.Join(p.h.Branches.Fetch(ctx, entry.Commit), p.h.Branches.Fetch(ctx, before.Commit)); err != nil {
			return nil, available, err
		}
		err = changeFacts(ctx, p.request.Changes, p.fleet, e.Name, before.Tree, entry.Tree.String(), out)
	}
	return out, available, err
}

// promoted returns the source commit that the state with an index brought: the newest one of what it has and the state
// before has not.
func (p *replay) promoted(i int) string {
	now, before := p.entries[i].Source, p.entries[i+1].Source
	if now.Commit != before.Commit {
		return now.Commit
	}
	out := ""
	for _, c := range now.Commits() {
		if slices.Contains(before.Commits(), c) {
			continue
		}
		place, known := p.places[c]
		if best, ok := p.places[out]; known && (!ok || place < best) || out == "" {
			out = c
		}
	}
	return cmp.Or(out, now.Commit)
}

// ran returns the oldest commit of which the state before the one with an index had something that changed.
func (p *replay) ran(i int) string {
	now, before := p.entries[i].Source, p.entries[i+1].Source
	out := ""
	if now.Commit != before.Commit {
		out = before.Commit
	}
	for app := range now.Apps {
		if c := before.Of(app); c != now.Of(app) && (out == "" || p.places[c] > p.places[out]) {
			out = c
		}
	}
	return cmp.Or(out, before.Commit)
}

// since returns when an environment began to run a promoted commit or a newer one, without a break until it landed, and
// what it ran then; zero if it did not. Without apps, everything must be as new.
func (p *replay) since(states []HistoryEntry, promoted string, apps []string, landed time.Time) (since time.Time,
	runs string,
) {
	wanted, known := p.places[promoted]
	older := func(commit string) bool {
		place, ok := p.places[commit]
		return !known || !ok || place > wanted
	}
	for _, s := range states {
		if s.At.After(landed) {
			continue
		}
		if runs == "" {
			runs = s.Source.Commit
		}
		has := s.Source.Commits()
		if len(apps) > 0 {
			has = nil
			for _, app := range apps {
				has = append(has, s.Source.Of(app))
			}
		}
		if len(has) == 0 || slices.ContainsFunc(has, older) {
			break
		}
		since = s.At
	}
	return since, runs
}

// authors names the authors of the trunk's commits after one up to another. Each merge counts its author as well.
func (p *replay) authors(ctx context.Context, from, to string) ([]string, error) {
	var out []string
	for id, c := range p.commits {
		if place := p.places[id]; place < p.places[to] || place >= p.places[from] {
			continue
		}
		some, err := authorsOf(ctx, p.h.Store, c)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func listOf(trailer string) []string {
	if trailer == "" {
		return nil
	}
	return strings.Split(trailer, ", ")
}
