package promotion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// Adapters are what promotions need beside Git. A nil adapter means that there is none: what it would answer is unknown, and
// an unknown status blocks the promotion.
type Adapters struct {
	Policy        PolicyJudge
	Statuses      StatusReader
	Checks        Checker
	Authors       AuthorFinder
	MergeRequests MergeRequests
}

// PolicyJudge judges what a part of a promotion would make of an environment. It returns a verdict and its reason.
type PolicyJudge interface {
	Judge(ctx context.Context, part Part) (promote.State, string)
}

// StatusReader reads the commit statuses of a rendered commit.
type StatusReader interface {
	Statuses(ctx context.Context, commit string) ([]promote.Status, error)
}

// Checker runs the checks of an environment.
type Checker interface {
	Check(ctx context.Context, environment fleet.Environment, now time.Time) []promote.Fact
}

// AuthorFinder names the people behind source commits by their names on the forge. After an error the names may be incomplete.
type AuthorFinder interface {
	Authors(ctx context.Context, commits []gitstore.Commit) ([]string, error)
}

// MergeRequests opens and closes the merge requests of promotions.
type MergeRequests interface {
	// Find returns the open merge request from one branch to another; nil if there is none.
	Find(ctx context.Context, from, to string) (*MergeRequest, error)
	// Open opens a merge request, or updates the text of the open one.
	Open(ctx context.Context, r MergeRequest) error
	Close(ctx context.Context, r MergeRequest, why string) error
}

// Part is what a promotion takes from one source commit.
type Part struct {
	Environment string
	Base        gitstore.Hash // tip of the environment branch that it would change
	Source      gitstore.Commit
	Apps        []string // none means all
	Without     []string // apps that come from other commits
}

// ErrNoForge means that mode request needs a forge, and that there is none.
var ErrNoForge = errors.New("mode request needs a forge: run the service or `sluice ci`, or promote by command")

// MergeRequest is the merge request of a promotion.
type MergeRequest struct {
	Number            int
	From, To          string // branches
	Head              string
	Title, Body       string
	Source, Tree, Why string
}

// Request asks for one look at promotions.
type Request struct {
	Trunk        gitstore.Commit // its tip: the fleet, its gates and rights are read from it
	Environments []string        // none: all that come after another
	Commands     []Command
	Now          time.Time
	Adapters     Adapters
	DryRun       bool // decide, and do nothing
	PerPush      int
	MaxDeletions int  // objects that may go from one environment; 0: what the fleet says
	Recreate     bool // make branches again that somebody deleted
	Overwrite    bool // put what is promoted on top of commits that Sluice did not make
}

// Command is what somebody asks for in an environment.
type Command struct {
	promote.Event
	Environment string
	From        string // of promote: the environment to take from
	Revision    string // of promote: a source commit; of rollback: what to go back to
	Wave        string // of rollback: its clusters
	Person      promote.Person
	Verb        string    // the right that it needs
	CLI         bool      // given on a command line: rights are the repository's own
	Said        time.Time // when somebody wrote it; zero for now. What came after that was not meant
}

// Status is where an environment stands.
type Status struct {
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

// Look looks once at the environments in the order of the graph. It reads what they run, applies commands, decides, stores
// the record and carries out what was decided. Every step is idempotent; compare-and-swap decides between two concurrent
// calls. An error of one environment, such as a *MovedError, does not stop the others: the statuses are those of the others, and
// the error joins all.
func Look(ctx context.Context, h *hydrate.Hydrator, r Request) ([]Status, error) {
	f, _, err := h.Fleet(ctx, r.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	p := &promotion{h: h, r: r, fleet: f, records: map[string]promote.Record{}, broken: map[string]error{}, states: map[string]*branch.State{}, statuses: map[string][]promote.Status{}, composed: map[string]*composed{}, foreign: map[string]string{}}
	defer p.close()
	if err := p.read(ctx); err != nil {
		return nil, err
	}
	var out []Status
	var failed []error
	for _, e := range f.Spec.Environments {
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

// Run looks at all environments until nothing more is due. It looks again at a branch that somebody else moved meanwhile.
func Run(ctx context.Context, h *hydrate.Hydrator, r Request) ([]Status, error) {
	const most = 40
	var all []Status
	var failed error
	done, refused := map[string][]string{}, map[string][]string{}
	for range most {
		var list []Status
		if list, failed = Look(ctx, h, r); failed != nil && len(list) == 0 || ctx.Err() != nil {
			if _, moved := errors.AsType[*MovedError](failed); moved && !r.DryRun && ctx.Err() == nil {
				continue
			}
			return all, errors.Join(failed, ctx.Err())
		}
		all = list
		_, more := errors.AsType[*MovedError](failed)
		if !more {
			r.Commands = nil // the record has them; where a branch moved, their IDs keep them from being applied twice
		}
		for i := range list {
			e := &list[i]
			more = more || len(e.Done) > 0
			done[e.Environment] = append(done[e.Environment], e.Done...)
			refused[e.Environment] = append(refused[e.Environment], e.Refused...)
		}
		if !more || r.DryRun {
			break
		}
	}
	for i := range all {
		all[i].Done, all[i].Refused = done[all[i].Environment], refused[all[i].Environment]
	}
	return all, failed
}

// promotion is one call of Look.
type promotion struct {
	h        *hydrate.Hydrator
	r        Request
	fleet    *fleet.Fleet
	refs     map[string]gitstore.Hash
	records  map[string]promote.Record
	broken   map[string]error // records that cannot be read
	stateTip gitstore.Commit  // of the branch of records
	states   map[string]*branch.State
	trunk    promote.Trunk
	commits  map[string]gitstore.Commit // of the trunk
	statuses map[string][]promote.Status
	composed map[string]*composed
	foreign  map[string]string // clusters whose branches are not Sluice's to move, and why
}

// read lists the branches, and reads what they hold.
func (p *promotion) read(ctx context.Context) error {
	f := p.fleet
	var err error
	if p.refs, err = p.h.Branches.List(ctx, append(f.BranchPrefixes(), promote.StateBranch, requestBranch(""))...); err != nil {
		return err
	}
	for _, e := range f.Spec.Environments {
		name := f.EnvironmentBranch(e.Name)
		fetch := []gitstore.Hash{}
		for _, c := range f.ClustersOf(e.Name) {
			if tip := p.refs[f.ClusterBranch(c)]; !tip.IsZero() {
				fetch = append(fetch, tip)
			}
		}
		if tip := p.refs[name]; !tip.IsZero() {
			fetch = append(fetch, tip)
		}
		if err := p.h.Branches.Fetch(ctx, fetch...); err != nil {
			return err
		}
		if p.states[e.Name], err = branch.ReadState(ctx, p.h.Store, name, p.refs[name]); err != nil {
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
		if p.stateTip, err = p.h.Store.Commit(ctx, tip); err != nil {
			return err
		}
		snap = p.h.Store.Snapshot(ctx, p.stateTip.Tree)
	}
	for _, e := range p.fleet.Spec.Environments {
		var data []byte
		if snap != nil {
			data, _ = snap.ReadFile(promote.RecordPath(e.Name)) // none: nothing is remembered
		}
		record, err := promote.DecodeRecord(e.Name, data)
		if err != nil {
			p.broken[e.Name] = err // it stops this environment, and no other
			record = promote.NewRecord(e.Name)
		}
		p.records[e.Name] = record
	}
	return nil
}

const (
	maxTrunk    = 5_000 // commits that are looked at
	enoughTrunk = 500   // where what runs is not on it: who goes on from there brings all of them
)

// needed are the trunk's commits that environments run or records name. rewritten says that some of them are not on it.
func (p *promotion) needed(ctx context.Context) (needed map[string]bool, rewritten bool, err error) {
	needed = map[string]bool{}
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
			if ok, err := p.h.Store.IsAncestor(ctx, hash, p.r.Trunk.Hash); err != nil && !errors.Is(err, gitstore.ErrShallow) && !errors.Is(err, gitstore.ErrNotFound) {
				return nil, false, err
			} else if !ok {
				delete(needed, c) // it is not on the trunk, and its environment is told so
				rewritten = true
			}
		}
	}
	return needed, rewritten, nil
}

// readTrunk walks the trunk back to the oldest commit that an environment runs or a record names.
func (p *promotion) readTrunk(ctx context.Context) error {
	needed, rewritten, err := p.needed(ctx)
	if err != nil {
		return err
	}
	p.commits = map[string]gitstore.Commit{}
	at := p.r.Trunk
	for i := range maxTrunk {
		id := at.Hash.String()
		p.trunk = append(p.trunk, id)
		p.commits[id] = at
		delete(needed, id)
		if len(needed) == 0 && (!rewritten || i > enoughTrunk) || len(at.Parents) == 0 {
			break
		}
		next, err := p.h.Store.Commit(ctx, at.Parents[0])
		if errors.Is(err, gitstore.ErrNotFound) || errors.Is(err, gitstore.ErrShallow) {
			break // the history ends here: what is older is not known
		} else if err != nil {
			return err
		}
		at = next
	}
	slices.Reverse(p.trunk)
	return p.aside(ctx, needed)
}

// aside puts commits into the trunk that an environment runs and that its first parents miss: the old tip, after somebody merged it
// into work of their own and pushed that. Each comes right before the first commit that has it.
func (p *promotion) aside(ctx context.Context, needed map[string]bool) error {
	for _, c := range slices.Sorted(maps.Keys(needed)) {
		hash, err := gitstore.ParseHash(c)
		if err != nil {
			continue
		}
		commit, err := p.h.Store.Commit(ctx, hash)
		if err != nil {
			continue // it is not known, and its environment is told so
		}
		low, high := 0, len(p.trunk) // the first that has it is in trunk[low:high], or there is none
		for low < high {
			at := (low + high) / 2
			has, err := p.h.Store.IsAncestor(ctx, hash, p.commits[p.trunk[at]].Hash)
			if err != nil && !errors.Is(err, gitstore.ErrShallow) && !errors.Is(err, gitstore.ErrNotFound) {
				return err
			}
			if has {
				high = at
			} else {
				low = at + 1
			}
		}
		if low < len(p.trunk) {
			p.commits[c] = commit
			p.trunk = slices.Insert(p.trunk, low, c)
		}
	}
	return nil
}

func commitsOf(s promote.Source) []string {
	out := slices.Collect(maps.Values(s.Apps))
	if s.Commit != "" {
		out = append(out, s.Commit)
	}
	return out
}

func sourceOf(st *branch.State) promote.Source {
	return promote.Source(st.Source())
}

// environment looks at one environment.
func (p *promotion) environment(ctx context.Context, e fleet.Environment) (*Status, error) {
	if err := p.broken[e.Name]; err != nil {
		return nil, err
	}
	st := p.states[e.Name]
	out := &Status{Environment: e.Name, Branch: st.Branch, Tip: hashText(st.Tip.Hash), Source: sourceOf(st), Foreign: st.Foreign}
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
	s.Running = promote.Running{Source: sourceOf(st), Commit: hashText(st.Tip.Hash), Foreign: st.Foreign}
	switch {
	case st.Foreign != "" && (p.r.Overwrite || !p.theirs(e.Name)):
		s.Running.Foreign = ""
	case !st.Exists() && len(s.Record.Ran) > 0 && !p.r.Recreate:
		s.Running.Foreign = fmt.Sprintf("somebody deleted %s: promote with --recreate on the command line to make it again", st.Branch)
	}
	if st.Exists() {
		s.Running.Tree = st.Tip.Tree.String()
		s.Running.Overtakes = branch.Trailer(st.Tip.Message, branch.TrailerNow) != ""
		s.Running.Restores = branch.Trailer(st.Tip.Message, branch.TrailerRollback) != ""
	}
	var err error
	if s.Clusters, err = p.clusters(ctx, e.Name); err != nil {
		return s, err
	}
	p.guard(&s)
	for _, name := range e.After {
		earlier := promote.Earlier{Name: name, Source: sourceOf(p.states[name])}
		if x, ok := p.fleet.Environment(name); ok && len(x.After) > 0 && p.states[name].Exists() { // commits of one that follows the trunk have the source's dates
			earlier.Since = p.states[name].Tip.Committer.When
		}
		if earlier.Clusters, err = p.clusters(ctx, name); err != nil {
			return s, err
		}
		for i := range earlier.Clusters {
			target := earlier.Clusters[i].Name
			if slices.ContainsFunc(p.records[name].Freezes, func(f promote.Freeze) bool { return f.Target == target && f.Holds(p.r.Now) }) {
				earlier.Clusters[i].State = "frozen"
			}
		}
		earlier.Complete = !slices.ContainsFunc(earlier.Clusters, func(c promote.ClusterState) bool {
			return c.Tree != c.Want && c.Want != "" && c.State != "frozen" && c.State != "retired"
		})
		s.Before = append(s.Before, earlier)
	}
	return s, nil
}

// theirs says that an environment's branch has what Sluice did not make. What the forge made of a promotion request, by a squash, is
// Sluice's own tree in a commit of somebody else's.
func (p *promotion) theirs(environment string) bool {
	st := p.states[environment]
	return st.Foreign != "" && !p.records[environment].Knows(st.Tip.Tree.String())
}

func (p *promotion) clusters(ctx context.Context, environment string) ([]promote.ClusterState, error) {
	f, st := p.fleet, p.states[environment]
	var out []promote.ClusterState
	for _, c := range f.ClustersOf(environment) {
		one := promote.ClusterState{Cluster: promote.Cluster{Name: c.Name, Labels: c.Labels, State: c.State}, Want: hashText(st.Clusters[c.Name])}
		if tip := p.refs[f.ClusterBranch(c)]; !tip.IsZero() {
			commit, err := p.h.Store.Commit(ctx, tip)
			if err != nil {
				return nil, err
			}
			one.Tree = commit.Tree.String()
			if branch.Trailer(commit.Message, branch.TrailerEnvironment) == "" && !p.r.Overwrite {
				one.Foreign = fmt.Sprintf("%s has the commit %s by %s that Sluice did not make: bring it into the source, or promote with --overwrite-foreign on the command line",
					f.ClusterBranch(c), tip.Short(), commit.Author.Name)
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// guard finds cluster branches that somebody deleted: those that were there at an earlier look.
func (p *promotion) guard(s *promote.Situation) {
	var there []string
	for i := range s.Clusters {
		c := &s.Clusters[i]
		switch was := slices.Contains(s.Record.Branches, c.Name); {
		case c.State == "retired":
			continue
		case c.Tree == "" && was && !p.r.Recreate:
			c.Foreign = fmt.Sprintf("somebody deleted the branch of %s: promote with --recreate on the command line to make it again, or retire the cluster", c.Name)
			there = append(there, c.Name)
		case c.Tree != "":
			there = append(there, c.Name)
		}
	}
	slices.Sort(there)
	s.Record.Branches = there
	for _, c := range s.Clusters {
		p.foreign[c.Name] = c.Foreign
	}
}

// look asks for what only matters when something is to be promoted: statuses, checks, the candidate, its policy.
func (p *promotion) look(ctx context.Context, e fleet.Environment, s *promote.Situation) error {
	busy := s.Record.Progress != nil && s.Record.Progress.Done.IsZero() || s.Record.Rollback != nil || s.Record.Request != nil
	latest := promote.Latest(p.trunk, s.Before)
	if !busy && latest.Equal(s.Running.Source) {
		return nil
	}
	if len(e.Promotion.Health.CommitStatuses) > 0 && p.r.Adapters.Statuses != nil {
		p.ask(ctx, e.Name, s.Clusters)
		for i := range s.Before {
			p.ask(ctx, s.Before[i].Name, s.Before[i].Clusters)
		}
	}
	if len(e.Promotion.Checks) > 0 && p.r.Adapters.Checks != nil {
		s.Facts = p.r.Adapters.Checks.Check(ctx, e, p.r.Now)
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
	if e.Promotion.Mode != "request" || p.r.Adapters.MergeRequests == nil {
		return nil
	}
	open, err := p.r.Adapters.MergeRequests.Find(ctx, requestBranch(e.Name), p.states[e.Name].Branch)
	if err != nil || open == nil {
		return err
	}
	s.Request = &promote.MergeRequest{}
	if tip := p.refs[requestBranch(e.Name)]; !tip.IsZero() && tip.String() == open.Head {
		if err := p.h.Branches.Fetch(ctx, tip); err != nil {
			return err
		}
		st, err := branch.ReadState(ctx, p.h.Store, requestBranch(e.Name), tip)
		if err != nil {
			return err
		}
		s.Request = &promote.MergeRequest{Source: sourceOf(st), Tree: st.Tip.Tree.String()}
	}
	return nil
}

func requestBranch(environment string) string { return "sluice/promote/" + environment }

// ask reads the statuses on the tips of cluster branches.
func (p *promotion) ask(ctx context.Context, environment string, clusters []promote.ClusterState) {
	f := p.fleet
	for _, c := range f.ClustersOf(environment) {
		i := slices.IndexFunc(clusters, func(s promote.ClusterState) bool { return s.Name == c.Name })
		tip := p.refs[f.ClusterBranch(c)].String()
		if i < 0 || p.refs[f.ClusterBranch(c)].IsZero() || c.State == "retired" {
			continue
		}
		list, known := p.statuses[tip]
		if !known {
			var err error
			if list, err = p.r.Adapters.Statuses.Statuses(ctx, tip); err != nil {
				clusters[i].Lost = true
				continue
			}
			p.statuses[tip] = list
		}
		apps, err := p.apps(ctx, p.refs[f.ClusterBranch(c)])
		clusters[i].Statuses, clusters[i].Apps, clusters[i].Lost = list, apps, err != nil
	}
}

// apps are those that a cluster's branch holds: its folders.
func (p *promotion) apps(ctx context.Context, tip gitstore.Hash) ([]string, error) {
	commit, err := p.h.Store.Commit(ctx, tip)
	if err != nil {
		return nil, err
	}
	entries, err := p.h.Store.Tree(ctx, commit.Tree)
	out := make([]string, 0, len(entries)) // never nil: somebody looked
	for _, e := range entries {
		out = append(out, e.Name)
	}
	return out, err
}

// hashText is a hash as text; the zero hash is empty.
func hashText(h gitstore.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}
