package hydrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// Trailers of promotions, beside those of rendered commits.
const (
	TrailerFrom     = "Sluice-Promoted-From"
	TrailerApproved = "Sluice-Approved-By"
	TrailerBy       = "Sluice-Requested-By"
	TrailerApps     = "Sluice-Apps"
	TrailerNow      = "Sluice-Now"      // why gates were overtaken
	TrailerRollback = "Sluice-Rollback" // why, of a commit that brings back an earlier state
	TrailerWave     = "Sluice-Wave"
)

// Outside is what promotions need to know that Git does not hold. What is not known counts as unknown, and unknown is never green.
type Outside interface { //nolint:interfacebloat // one world outside, asked by one caller
	// Statuses are those on a rendered commit.
	Statuses(ctx context.Context, commit string) ([]promote.Status, error)
	// Facts answers an environment's checks.
	Facts(ctx context.Context, environment fleet.Environment, now time.Time) []promote.Fact
	// Policy judges what an environment would be: its verdict and why.
	Policy(ctx context.Context, environment string, source gitstore.Commit) (promote.State, string)
	// Authors are the people behind source commits, by their names on the forge and in Git.
	Authors(ctx context.Context, commits []gitstore.Commit) []string
	// Request is the open merge request from one branch to another; nil if there is none, or no forge.
	Request(ctx context.Context, from, to string) (*OpenRequest, error)
	// Open opens it or brings its text up to date; Close closes it. ErrNoForge where there is none.
	Open(ctx context.Context, r OpenRequest) error
	Close(ctx context.Context, r OpenRequest, why string) error
}

// ErrNoForge is a merge request that is needed where there is no forge.
var ErrNoForge = errors.New("mode request needs a forge: run the service or `sluice ci`, or promote by command")

// OpenRequest is a merge request for a promotion.
type OpenRequest struct {
	Number            int
	From, To          string // branches
	Head              string
	Title, Body       string
	Source, Tree, Why string
}

// PromoteRequest asks for one look at promotions.
type PromoteRequest struct {
	Trunk        gitstore.Commit // its tip: the fleet, its gates and rights are read from it
	Environments []string        // none: all that come after another
	Commands     []Command
	Now          time.Time
	Outside      Outside
	DryRun       bool // decide, and do nothing
	PerPush      int
}

// Command is what somebody asks for in an environment.
type Command struct {
	promote.Event
	Environment string
	From        string // of promote: the environment to take from
	Revision    string // of promote: a source commit; of rollback: what to go back to
	Person      promote.Person
	Verb        string // the right that it needs
	CLI         bool   // given on a command line: rights are the repository's own
}

// EnvironmentStatus is where an environment stands.
type EnvironmentStatus struct {
	Environment string
	Branch      string
	Tip         string
	Source      promote.Source
	Behind      int // commits of the trunk
	Decision    promote.Decision
	Done        []string // what was done, in words
	Refused     []string // commands that were not carried out, and why
	Candidate   string   // tree of what is wanted
	Foreign     string
}

// Promote looks at the environments in the order of the graph: reads what they run, applies commands, decides, stores the record and
// does what was decided. Everything may be done twice; compare-and-swap decides between two who do it at once. An error
// of one environment, such as ErrMoved, stops no other: the statuses are those of the others, and the error joins all.
func (h *Hydrator) Promote(ctx context.Context, r PromoteRequest) ([]EnvironmentStatus, error) {
	v, err := h.open(ctx, r.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	p := &promotion{h: h, r: r, view: v, records: map[string]promote.Record{}, states: map[string]*state{}, statuses: map[string][]promote.Status{}, composed: map[string]*composed{}}
	defer p.close()
	if err := p.read(ctx); err != nil {
		return nil, err
	}
	var out []EnvironmentStatus
	var failed []error
	for _, e := range v.fleet.Spec.Environments {
		if len(e.After) == 0 || len(r.Environments) > 0 && !slices.Contains(r.Environments, e.Name) {
			continue
		}
		st, err := p.environment(ctx, e)
		if err != nil {
			failed = append(failed, fmt.Errorf("environment %s: %w", e.Name, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		out = append(out, *st)
	}
	return out, errors.Join(failed...)
}

// promotion is one call of Promote.
type promotion struct {
	h        *Hydrator
	r        PromoteRequest
	view     *view
	refs     map[string]gitstore.Hash
	records  map[string]promote.Record
	stateTip gitstore.Commit // of the branch of records
	states   map[string]*state
	trunk    promote.Trunk
	commits  map[string]gitstore.Commit // of the trunk
	statuses map[string][]promote.Status
	composed map[string]*composed
	all      bool // render everything, and take nothing from branches
}

// read lists the branches, and reads what they hold.
func (p *promotion) read(ctx context.Context) error {
	f := p.view.fleet
	var err error
	if p.refs, err = p.h.Branches.List(ctx, append(f.BranchPrefixes(), promote.StateBranch, requestBranch(""))...); err != nil {
		return err
	}
	for _, e := range f.Spec.Environments {
		branch := f.EnvironmentBranch(e.Name)
		fetch := []gitstore.Hash{}
		for _, c := range f.ClustersOf(e.Name) {
			if tip := p.refs[f.ClusterBranch(c)]; !tip.IsZero() {
				fetch = append(fetch, tip)
			}
		}
		if tip := p.refs[branch]; !tip.IsZero() {
			fetch = append(fetch, tip)
		}
		if err := p.h.Branches.Fetch(ctx, fetch...); err != nil {
			return err
		}
		if p.states[e.Name], err = p.h.readState(ctx, branch, p.refs[branch]); err != nil {
			return err
		}
	}
	if err := p.readRecords(ctx); err != nil {
		return err
	}
	return p.readTrunk(ctx)
}

func (p *promotion) readRecords(ctx context.Context) error {
	tip := p.refs[promote.StateBranch]
	var snap *gitstore.Snapshot
	if !tip.IsZero() {
		if err := p.h.Branches.Fetch(ctx, tip); err != nil {
			return err
		}
		var err error
		if p.stateTip, err = p.h.store.Commit(ctx, tip); err != nil {
			return err
		}
		snap = p.h.store.Snapshot(ctx, p.stateTip.Tree)
	}
	for _, e := range p.view.fleet.Spec.Environments {
		var data []byte
		if snap != nil {
			data, _ = snap.ReadFile(promote.RecordPath(e.Name)) // none: nothing is remembered
		}
		record, err := promote.DecodeRecord(e.Name, data)
		if err != nil {
			return err
		}
		p.records[e.Name] = record
	}
	return nil
}

const maxTrunk = 5_000 // commits that are looked at

// readTrunk walks the trunk back to the oldest commit that an environment runs or a record names.
func (p *promotion) readTrunk(ctx context.Context) error {
	needed := map[string]bool{}
	for name, st := range p.states {
		for _, c := range commitsOf(sourceOf(st)) {
			needed[c] = true
		}
		if q := p.records[name].Request; q != nil {
			for _, c := range commitsOf(q.Source) {
				needed[c] = true
			}
		}
	}
	for c := range needed {
		if hash, err := gitstore.ParseHash(c); err == nil { // brings the history that is needed
			if ok, err := p.h.store.IsAncestor(ctx, hash, p.r.Trunk.Hash); err != nil && !errors.Is(err, gitstore.ErrShallow) && !errors.Is(err, gitstore.ErrNotFound) {
				return err
			} else if !ok {
				delete(needed, c) // it is not on the trunk, and its environment is told so
			}
		}
	}
	p.commits = map[string]gitstore.Commit{}
	at := p.r.Trunk
	for range maxTrunk {
		id := at.Hash.String()
		p.trunk = append(p.trunk, id)
		p.commits[id] = at
		delete(needed, id)
		if len(needed) == 0 || len(at.Parents) == 0 {
			break
		}
		next, err := p.h.store.Commit(ctx, at.Parents[0])
		if errors.Is(err, gitstore.ErrNotFound) || errors.Is(err, gitstore.ErrShallow) {
			break // the history ends here: what is older is not known
		} else if err != nil {
			return err
		}
		at = next
	}
	slices.Reverse(p.trunk)
	return nil
}

func commitsOf(s promote.Source) []string {
	out := slices.Collect(maps.Values(s.Apps))
	if s.Commit != "" {
		out = append(out, s.Commit)
	}
	return out
}

func sourceOf(st *state) promote.Source {
	if !st.exists() {
		return promote.Source{}
	}
	return promote.Source{Commit: st.record.Source, Apps: st.record.Apps}
}

// environment looks at one environment.
func (p *promotion) environment(ctx context.Context, e fleet.Environment) (*EnvironmentStatus, error) {
	st := p.states[e.Name]
	out := &EnvironmentStatus{Environment: e.Name, Branch: st.branch, Tip: hashText(st.tip.Hash), Source: sourceOf(st), Foreign: st.foreign}
	out.Behind = p.behind(out.Source)
	s, err := p.situation(ctx, e)
	if err != nil {
		return nil, err
	}
	changed, err := p.commands(ctx, e, &s, out)
	if err != nil {
		return nil, err
	}
	if err := p.look(ctx, e, &s); err != nil {
		return nil, err
	}
	if s.Candidate != nil {
		out.Candidate = s.Candidate.Tree
	}
	if out.Decision, err = promote.Decide(s); err != nil {
		return nil, err
	}
	if p.r.DryRun {
		return out, nil
	}
	before := p.records[e.Name]
	p.records[e.Name] = out.Decision.Record
	if err := p.store(ctx, before, out.Decision.Record, changed, e.Name); err != nil {
		return nil, err
	}
	for _, a := range out.Decision.Actions {
		if err := p.act(ctx, e, a, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// behind counts the trunk's commits that an environment does not run.
func (p *promotion) behind(s promote.Source) int {
	i := slices.Index(p.trunk, s.Commit)
	if i < 0 {
		return len(p.trunk)
	}
	return len(p.trunk) - 1 - i
}

// situation is what is known of an environment without asking anybody.
func (p *promotion) situation(ctx context.Context, e fleet.Environment) (promote.Situation, error) {
	st := p.states[e.Name]
	s := promote.Situation{Environment: e, Trunk: p.trunk, Record: p.records[e.Name], Now: p.r.Now}
	s.Running = promote.Running{Source: sourceOf(st), Commit: hashText(st.tip.Hash), Foreign: st.foreign}
	if st.exists() {
		s.Running.Tree = st.tip.Tree.String()
		s.Running.Overtakes = trailer(st.tip.Message, TrailerNow) != ""
		s.Running.Restores = trailer(st.tip.Message, TrailerRollback) != ""
	}
	var err error
	if s.Clusters, err = p.clusters(ctx, e.Name); err != nil {
		return s, err
	}
	for _, name := range e.After {
		earlier := promote.Earlier{Name: name, Source: sourceOf(p.states[name])}
		if b := p.states[name]; b.exists() {
			earlier.Since = b.tip.Committer.When
		}
		if earlier.Clusters, err = p.clusters(ctx, name); err != nil {
			return s, err
		}
		earlier.Complete = !slices.ContainsFunc(earlier.Clusters, func(c promote.ClusterState) bool {
			return c.Tree != c.Want && c.Want != "" && c.State != "frozen" && c.State != "retired"
		})
		s.Before = append(s.Before, earlier)
	}
	return s, nil
}

func (p *promotion) clusters(ctx context.Context, environment string) ([]promote.ClusterState, error) {
	f, st := p.view.fleet, p.states[environment]
	var out []promote.ClusterState
	for _, c := range f.ClustersOf(environment) {
		one := promote.ClusterState{Cluster: promote.Cluster{Name: c.Name, Labels: c.Labels, State: c.State}, Want: hashText(st.clusters[c.Name])}
		if tip := p.refs[f.ClusterBranch(c)]; !tip.IsZero() {
			commit, err := p.h.store.Commit(ctx, tip)
			if err != nil {
				return nil, err
			}
			one.Tree = commit.Tree.String()
		}
		out = append(out, one)
	}
	return out, nil
}

// look asks for what only matters when something is to be promoted: statuses, checks, the candidate, its policy.
func (p *promotion) look(ctx context.Context, e fleet.Environment, s *promote.Situation) error {
	busy := s.Record.Progress != nil && s.Record.Progress.Done.IsZero() || s.Record.Rollback != nil || s.Record.Request != nil
	latest := promote.Latest(p.trunk, s.Before)
	if !busy && latest.Equal(s.Running.Source) {
		return nil
	}
	if len(e.Promotion.Health.CommitStatuses) > 0 && p.r.Outside != nil {
		p.ask(ctx, e.Name, s.Clusters)
		for i := range s.Before {
			p.ask(ctx, s.Before[i].Name, s.Before[i].Clusters)
		}
	}
	if len(e.Promotion.Checks) > 0 && p.r.Outside != nil {
		s.Facts = p.r.Outside.Facts(ctx, e, p.r.Now)
	}
	want, err := promote.Next(*s)
	if err != nil {
		return err
	}
	if want != nil && s.Running.Foreign == "" {
		if s.Candidate, err = p.candidate(ctx, e.Name, want.Source); err != nil {
			return err
		}
	}
	return p.openRequest(ctx, e, s)
}

func (p *promotion) openRequest(ctx context.Context, e fleet.Environment, s *promote.Situation) error {
	if e.Promotion.Mode != "request" || p.r.Outside == nil {
		return nil
	}
	open, err := p.r.Outside.Request(ctx, requestBranch(e.Name), p.states[e.Name].branch)
	if err != nil || open == nil {
		return err
	}
	s.Request = &promote.MergeRequest{}
	if tip := p.refs[requestBranch(e.Name)]; !tip.IsZero() && tip.String() == open.Head {
		if err := p.h.Branches.Fetch(ctx, tip); err != nil {
			return err
		}
		st, err := p.h.readState(ctx, requestBranch(e.Name), tip)
		if err != nil {
			return err
		}
		s.Request = &promote.MergeRequest{Source: sourceOf(st), Tree: st.tip.Tree.String()}
	}
	return nil
}

func requestBranch(environment string) string { return "sluice/promote/" + environment }

// ask reads the statuses on the tips of cluster branches.
func (p *promotion) ask(ctx context.Context, environment string, clusters []promote.ClusterState) {
	f := p.view.fleet
	for _, c := range f.ClustersOf(environment) {
		i := slices.IndexFunc(clusters, func(s promote.ClusterState) bool { return s.Name == c.Name })
		tip := p.refs[f.ClusterBranch(c)].String()
		if i < 0 || p.refs[f.ClusterBranch(c)].IsZero() || c.State == "retired" {
			continue
		}
		list, known := p.statuses[tip]
		if !known {
			var err error
			if list, err = p.r.Outside.Statuses(ctx, tip); err != nil {
				clusters[i].Lost = true
				continue
			}
			p.statuses[tip] = list
		}
		clusters[i].Statuses = list
	}
}

// commands applies what people ask for, and says whether that changed anything.
func (p *promotion) commands(ctx context.Context, e fleet.Environment, s *promote.Situation, out *EnvironmentStatus) (bool, error) {
	changed := false
	for _, c := range p.r.Commands {
		if c.Environment != e.Name {
			continue
		}
		if !c.CLI {
			if ok, why := promote.Allowed(e, c.Verb, c.Person); !ok {
				out.Refused = append(out.Refused, why)
				continue
			}
			if c.Now {
				if ok, why := promote.Allowed(e, "now", c.Person); !ok {
					out.Refused = append(out.Refused, why)
					continue
				}
			}
		}
		next, err := p.apply(ctx, e, c, s)
		if err == nil {
			s.Record, changed = next, true
			continue
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		out.Refused = append(out.Refused, err.Error())
	}
	return changed, nil
}

// apply is the record after a command.
func (p *promotion) apply(ctx context.Context, e fleet.Environment, c Command, s *promote.Situation) (promote.Record, error) {
	event, err := p.event(ctx, e, c, s)
	if err != nil {
		return s.Record, err
	}
	return promote.Apply(s.Record, event)
}

// event makes a command complete: it binds it to commits and trees.
func (p *promotion) event(ctx context.Context, e fleet.Environment, c Command, s *promote.Situation) (promote.Event, error) {
	event := c.Event
	event.By = cmp.Or(event.By, c.Person.User)
	event.Teams = c.Person.Teams
	if event.At.IsZero() {
		event.At = p.r.Now
	}
	switch event.Kind {
	case promote.EventPromote:
		source, err := p.promoted(c, s)
		event.Source = source
		return event, err
	case promote.EventApprove:
		next, err := promote.Next(*s)
		if err != nil {
			return event, err
		}
		if next == nil {
			return event, fmt.Errorf("there is nothing to approve in %s", e.Name)
		}
		candidate, err := p.candidate(ctx, e.Name, next.Source)
		if err != nil {
			return event, err
		}
		event.Tree = candidate.Tree
	case promote.EventRollback:
		to, err := p.earlier(ctx, e.Name, c.Revision)
		if err != nil {
			return event, err
		}
		event.To, event.Source = *to, s.Running.Source
	}
	return event, nil
}

// promoted finds the source that a promotion is about.
func (p *promotion) promoted(c Command, s *promote.Situation) (promote.Source, error) {
	switch {
	case c.Revision != "":
		for _, commit := range slices.Backward(p.trunk) {
			if strings.HasPrefix(commit, c.Revision) && len(c.Revision) >= 7 {
				return promote.Source{Commit: commit}, nil
			}
		}
		return promote.Source{}, fmt.Errorf("%s is no commit of the trunk that an environment before could run: give at least seven digits of its id", c.Revision)
	case c.From != "":
		for _, b := range s.Before {
			if b.Name == c.From {
				return b.Source, nil
			}
		}
		return promote.Source{}, fmt.Errorf("%s does not come before %s: spec.environments says what does", c.From, c.Environment)
	}
	latest := promote.Latest(p.trunk, s.Before)
	if latest.Empty() {
		return latest, errors.New("the environments before run nothing yet")
	}
	return latest, nil
}

const maxHistory = 1_000

// earlier finds a state that the environment had: the last one with another tree than now, or the one of a source commit.
func (p *promotion) earlier(ctx context.Context, environment, revision string) (*promote.Ran, error) {
	entries, err := p.h.history(ctx, p.states[environment].tip, maxHistory)
	if err != nil {
		return nil, err
	}
	now := p.states[environment].tip.Tree
	for _, e := range entries {
		if e.Tree == now {
			continue
		}
		if revision == "" || strings.HasPrefix(e.Source.Commit, revision) || strings.HasPrefix(e.Commit.String(), revision) {
			st, err := p.stateOf(ctx, environment, e.Tree.String())
			if err != nil {
				return nil, err
			}
			st.tip.Hash = e.Commit // it is there
			return &promote.Ran{Source: sourceOf(st), Tree: e.Tree.String(), At: e.At}, nil
		}
	}
	if revision == "" {
		return nil, errors.New("there is no earlier state")
	}
	return nil, fmt.Errorf("%s never ran %s: `sluice history %s` shows what it ran", environment, revision, environment)
}

// Aim points a freeze or its end at an environment or a cluster. until is a time or a span, as in commands; "" is without end.
func (c *Command) Aim(f *fleet.Fleet, target, until string, now time.Time) error {
	if _, ok := f.Environment(target); ok {
		c.Environment = target
	} else if cluster, ok := f.Cluster(target); ok {
		c.Environment, c.Target = cluster.Environment, cluster.Name
	} else {
		return fmt.Errorf("%q is neither an environment nor a cluster", target)
	}
	if until == "" {
		return nil
	}
	if d, err := time.ParseDuration(until); err == nil && d > 0 {
		c.Until = now.Add(d)
		return nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, until); err == nil {
			c.Until = t
			return nil
		}
	}
	return fmt.Errorf("%q is no time: write one such as 2026-12-24T18:00:00Z, 2026-12-24 or 4h", until)
}
