package promote

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

// defaultSettle keeps the steps of a wave apart where nobody is asked whether clusters are well.
const defaultSettle = 5 * time.Minute

// decider holds what one decision looks at over and over.
type decider struct {
	s        Situation
	p        fleet.Promotion
	bake     time.Duration
	settle   time.Duration
	order    order
	waves    []Wave
	clusters map[string]ClusterState
	freezes  []Freeze // of the environment
	rec      Record
	d        Decision
}

// Decide says what to do next in an environment, and why nothing more. An error is one of the configuration or of the
// record; it names what to correct.
func Decide(s Situation) (Decision, error) {
	x, err := prepare(s)
	if err != nil {
		return Decision{}, err
	}
	if err := x.observe(); err != nil {
		return Decision{}, err
	}
	if b := x.rec.Rollback; b != nil && len(b.Clusters) > 0 && len(x.thawed(b.Clusters)) == 0 {
		// Nothing of it can be done, and it must neither hold up the others nor become a rollback of all.
		if err := x.emit(Event{Kind: EventRolledBack}); err != nil {
			return Decision{}, err
		}
	}
	switch {
	case x.s.Running.Foreign != "":
		x.d.Gates = []Gate{{Name: GateBranch, State: Red, Reason: x.s.Running.Foreign + "; Sluice moves nothing until that is resolved"}}
	case x.rec.Rollback != nil:
		x.rollback()
	default:
		if err := x.advance(); err != nil {
			return Decision{}, err
		}
	}
	return x.finish(), nil
}

func prepare(s Situation) (*decider, error) {
	s.Now = s.Now.UTC().Truncate(time.Second)
	x := &decider{s: s, p: s.Environment.Promotion, order: s.Trunk.order(), clusters: map[string]ClusterState{}, rec: s.Record.clone()}
	if x.rec.Environment == "" {
		x.rec = NewRecord(s.Environment.Name)
	}
	if x.rec.Environment != s.Environment.Name {
		return nil, fmt.Errorf("environment %s: the record is that of %s", s.Environment.Name, x.rec.Environment)
	}
	if s.Now.IsZero() {
		return nil, fmt.Errorf("environment %s: the time is not known", s.Environment.Name)
	}
	members := make([]Cluster, 0, len(s.Clusters))
	for _, c := range s.Clusters {
		members = append(members, c.Cluster)
		if c.State != "retired" {
			x.clusters[c.Name] = c
		}
	}
	var err error
	if x.waves, err = Waves(s.Environment, members); err != nil {
		return nil, err
	}
	if x.bake, err = duration(x.p.Bake); err != nil {
		return nil, fmt.Errorf("environment %s: bake: %w", s.Environment.Name, err)
	}
	if x.settle, err = duration(x.p.Settle); err != nil {
		return nil, fmt.Errorf("environment %s: settle: %w", s.Environment.Name, err)
	}
	if x.p.Settle == "" && len(x.p.Health.CommitStatuses)+len(x.p.Checks) == 0 {
		x.settle = defaultSettle
	}
	if x.freezes, err = Planned(x.p); err != nil {
		return nil, fmt.Errorf("environment %s: %w", s.Environment.Name, err)
	}
	for _, f := range x.rec.Freezes {
		if f.Target == "" {
			x.freezes = append(x.freezes, f)
		}
	}
	return x, nil
}

// emit puts an event into the record, and remembers it for the caller.
func (x *decider) emit(e Event) error {
	if e.At.IsZero() {
		e.At = x.s.Now
	}
	next, err := Apply(x.rec, e)
	if err != nil {
		return err
	}
	x.rec, x.d.Events = next, append(x.d.Events, e)
	return nil
}

func (x *decider) act(a Action) {
	a.Base = x.s.Running.Commit
	x.d.Actions = append(x.d.Actions, a)
}

// advance goes on with the promotion that runs, and begins the next one.
func (x *decider) advance() error {
	moved, err := x.progress()
	if err != nil || x.rec.Rollback != nil {
		return err
	}
	if h := x.hurry(); h != nil {
		x.d.Gates = []Gate{x.hurryGate(h)}
	}
	want := x.want()
	x.d.Wants = want
	if want == nil {
		if x.s.Request != nil {
			x.act(Action{Kind: CloseRequest, Reason: "there is nothing to promote any more"})
		}
	} else {
		x.d.Gates = x.gates(*want)
		if err := x.offer(*want); err != nil {
			return err
		}
		if x.promote(*want) {
			return nil // the waves begin anew with it
		}
	}
	if moved != nil {
		x.act(*moved)
	}
	return nil
}

// promote moves the environment branch, or keeps a merge request current. It says whether the branch moves.
func (x *decider) promote(w Want) bool {
	a := Action{Source: w.Source, Apps: w.Apps, Overtakes: w.Overtakes, By: w.By, Reason: w.Reason}
	if c := x.s.Candidate; c != nil {
		a.Tree = c.Tree
	}
	if x.mode() != modeRequest || x.rec.Request != nil {
		if !Holds(x.d.Gates) {
			return false
		}
		a.Kind, a.ApprovedBy = MoveEnvironment, x.approvers(a.Tree)
		x.act(a)
		return true
	}
	open := x.s.Request
	others := slices.DeleteFunc(slices.Clone(x.d.Gates), func(g Gate) bool { return g.Name == GateApprovals }) // they are the forge's
	switch {
	case x.s.Running.Commit == "": // there is no branch yet that a merge request could ask
	case Holds(others) && (open == nil || open.Tree != a.Tree || !open.Source.Equal(a.Source)):
		a.Kind = OpenRequest
		x.act(a)
	case open != nil && slices.ContainsFunc(others, func(g Gate) bool { return g.State == Red }):
		x.act(Action{Kind: CloseRequest, Reason: firstClosed(others).String()})
	}
	return false
}

// rollback does what a command or a failure asked for. It waits for nothing: that is what it is for.
func (x *decider) rollback() {
	b := x.rec.Rollback
	x.act(Action{
		Kind: DoRollback, Source: b.To, Tree: b.Tree, Clusters: x.thawed(b.Clusters), Apps: b.Apps, By: b.By, Reason: b.Reason,
	})
}

// thawed leaves out clusters that are frozen.
func (x *decider) thawed(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return x.frozen(n)
	})
}

// frozen says whether a cluster stays where it is.
func (x *decider) frozen(name string) bool {
	if x.clusters[name].State == "frozen" {
		return true
	}
	for _, f := range x.rec.Freezes {
		if f.Target == name && f.Holds(x.s.Now) {
			return true
		}
	}
	return false
}

func (x *decider) finish() Decision {
	d := x.d
	d.Record = x.rec
	for _, c := range x.s.Clusters {
		if x.frozen(c.Name) && c.behind() && c.State != "retired" {
			d.Frozen = append(d.Frozen, c.Name)
		}
	}
	slices.Sort(d.Frozen)
	times := []time.Time{}
	for _, g := range slices.Concat(d.Gates, d.WaveGates) {
		times = append(times, g.Until)
	}
	for _, f := range x.rec.Freezes {
		times = append(times, f.Until)
	}
	d.Next = earliest(x.s.Now, times...)
	d.WaitsFor = x.waitsFor(d)
	if len(d.Actions) == 0 {
		d.Actions = []Action{{Kind: Nothing, Base: x.s.Running.Commit, Reason: d.WaitsFor}}
	}
	return d
}

func (x *decider) waitsFor(d Decision) string {
	name := x.s.Environment.Name
	acts := slices.ContainsFunc(d.Actions, func(a Action) bool { return a.Kind == MoveEnvironment || a.Kind == MoveWave || a.Kind == DoRollback })
	switch {
	case acts:
		return ""
	case !Holds(d.Gates) && x.hurry() != nil:
		return fmt.Sprintf("--now waits for %s", firstClosed(d.Gates))
	case !Holds(d.WaveGates):
		return fmt.Sprintf("the clusters of %s wait for %s", name, firstClosed(d.WaveGates))
	case !Holds(d.Gates):
		return fmt.Sprintf("%s waits for %s", name, firstClosed(d.Gates))
	case d.Wants != nil && x.s.Running.Commit == "":
		return fmt.Sprintf("%s has no branch yet: its first state needs a command: /sluice promote %s", name, name)
	case d.Wants != nil:
		return fmt.Sprintf("%s waits for its merge request to be merged", name)
	case x.mode() == modeManual && x.offered() != nil:
		return fmt.Sprintf("%s waits for a command: /sluice promote %s", name, name)
	case len(d.Frozen) > 0:
		return "frozen clusters stay behind: " + few(d.Frozen)
	default:
		return ""
	}
}

// firstClosed is the gate to be told of: a red one, or else the first that is not green.
func firstClosed(gates []Gate) Gate {
	if i := slices.IndexFunc(gates, func(g Gate) bool { return g.State == Red }); i >= 0 {
		return gates[i]
	}
	if i := slices.IndexFunc(gates, func(g Gate) bool { return g.State != Green }); i >= 0 {
		return gates[i]
	}
	return Gate{}
}
