package promote

import (
	"time"
)

// The version and kind of a record.
const (
	RecordVersion = "sluice.dev/v1alpha1"
	RecordKind    = "PromotionRecord"
)

const (
	maxRecord    = 16 << 20 // bytes that are read and written
	recordBudget = 3 << 20  // bytes above which Encode drops what is oldest
	maxNodes     = 2_000_000
	maxCommands  = 100
	maxHandled   = 200
	maxApprovals = 100
	maxFreezes   = 200
	maxRan       = 50
	maxHolds     = 500
)

// RecordPath is where a caller keeps an environment's record in the state branch.
func RecordPath(environment string) string { return "environments/" + environment + ".yaml" }

// StateBranch is the branch that holds the records.
const StateBranch = "sluice/state"

// Record is what Sluice remembers about an environment's promotions. What the environment runs is not in it: that is read
// from its branch. Without a record, promotions go on from what the branches hold; only times begin anew.
type Record struct {
	APIVersion  string                      `yaml:"apiVersion"`
	Kind        string                      `yaml:"kind"`
	Environment string                      `yaml:"environment"`
	Request     *Request                    `yaml:"request,omitempty"`
	Approvals   []Approval                  `yaml:"approvals,omitempty"`
	Freezes     []Freeze                    `yaml:"freezes,omitempty"`
	Halt        *Halt                       `yaml:"halt,omitempty"`
	Resumed     *Resumed                    `yaml:"resumed,omitempty"` // who lifted the last halt
	Rollback    *Rollback                   `yaml:"rollback,omitempty"`
	Holds       []Hold                      `yaml:"holds,omitempty"`
	Progress    *Progress                   `yaml:"progress,omitempty"`
	Before      map[string]*UpstreamHistory `yaml:"before,omitempty"`
	Ran         []PastState                 `yaml:"ran,omitempty"`     // oldest first
	Handled     []string                    `yaml:"handled,omitempty"` // ids of events, so that one may arrive twice
	Offered     *Offered                    `yaml:"offered,omitempty"`
	Opened      *Offered                    `yaml:"opened,omitempty"`   // the merge request that was open at the last look
	Declined    *Offered                    `yaml:"declined,omitempty"` // the merge request that a person closed
	Branches    []string                    `yaml:"branches,omitempty"` // clusters that had a branch at the last look
	Commands    []PastCommand               `yaml:"commands,omitempty"` // oldest first; for people, no decision reads them
	// Failed was written by earlier versions. DecodeRecord turns it into holds.
	Failed []failedSource `yaml:"failed,omitempty"`
}

// Offered is a state that people are asked to agree to, and since when.
type Offered struct {
	Source Source    `yaml:"source"`
	Tree   string    `yaml:"tree"`
	At     time.Time `yaml:"at"`
	// Replaces says that another tree was offered before, for the same request.
	Replaces bool `yaml:"replaces,omitempty"`
}

// Knows reports whether a tree is the one that was offered last, or the one that the environment had at the last look. Such
// a tree is Sluice's own, whoever committed it.
func (r Record) Knows(tree string) bool {
	return r.Offered.Is(tree) || r.Has(tree)
}

// Has reports whether a tree is the one that the environment had at the last look.
func (r Record) Has(tree string) bool { return len(r.Ran) > 0 && r.Ran[len(r.Ran)-1].Tree == tree }

// Is reports whether a tree is the one that was offered.
func (o *Offered) Is(tree string) bool { return o != nil && o.Tree == tree }

// Request is a promotion that somebody asked for.
type Request struct {
	Source Source    `yaml:"source"`
	Apps   []string  `yaml:"apps,omitempty"`
	Now    bool      `yaml:"now,omitempty"`
	Reason string    `yaml:"reason,omitempty"`
	By     string    `yaml:"by"`
	At     time.Time `yaml:"at"`
	Said   time.Time `yaml:"said,omitempty"` // when the person wrote it, if that was earlier than At
}

// Approval is one person's agreement to one tree.
type Approval struct {
	By    string   `yaml:"by"`
	Teams []string `yaml:"teams,omitempty"`
	Tree  string   `yaml:"tree"`
	// Now says that the request which the approval was given to overtakes gates. Without it, the approval does not count as
	// the second person's agreement to overtaking.
	Now    bool      `yaml:"now,omitempty"`
	Reason string    `yaml:"reason,omitempty"`
	At     time.Time `yaml:"at"`
}

// Halt stops an environment where it is.
type Halt struct {
	By     string    `yaml:"by,omitempty"` // empty if Sluice halted it because of its health
	Reason string    `yaml:"reason"`
	At     time.Time `yaml:"at"`
}

// Resumed says who lifted a halt, when, and why.
type Resumed struct {
	By     string    `yaml:"by"`
	Reason string    `yaml:"reason,omitempty"`
	At     time.Time `yaml:"at"`
}

// Rollback is an earlier state that a person, or a failure, asks for, until it is done.
type Rollback struct {
	To       Source `yaml:"to"`
	Tree     string `yaml:"tree"` // of the environment branch at that time
	From     Source `yaml:"from"`
	FromTree string `yaml:"fromTree,omitempty"` // of the environment branch when it goes back
	Wave     string `yaml:"wave,omitempty"`     // whose clusters Clusters are
	// Clusters are those that go back; none means all.
	Clusters []string `yaml:"clusters,omitempty"`
	// Apps are those that go back; none means all.
	Apps []string `yaml:"apps,omitempty"`
	// Stopped are other clusters, which the rollout under way had not reached. They keep what they run.
	Stopped []string  `yaml:"stopped,omitempty"`
	Reason  string    `yaml:"reason,omitempty"`
	By      string    `yaml:"by,omitempty"`
	At      time.Time `yaml:"at"`
}

// whole reports whether the rollback restores the whole environment.
func (r Rollback) whole() bool { return len(r.Clusters)+len(r.Apps) == 0 }

// Progress says where a rollout stands, from the move of the environment branch on.
type Progress struct {
	Source   Source     `yaml:"source"`
	Tree     string     `yaml:"tree"` // of the environment branch; another tree begins a new rollout
	Now      bool       `yaml:"now,omitempty"`
	NowBy    string     `yaml:"nowBy,omitempty"` // who expedited the rollout while it was under way, and why
	NowWhy   string     `yaml:"nowWhy,omitempty"`
	Rollback bool       `yaml:"rollback,omitempty"`
	Started  time.Time  `yaml:"started"`
	Changed  []string   `yaml:"changed,omitempty"` // clusters whose branches had to move
	Current  int        `yaml:"current,omitempty"` // how many of them have moved
	LastMove time.Time  `yaml:"lastMove,omitempty"`
	Waves    []WaveTime `yaml:"waves,omitempty"`
	Done     time.Time  `yaml:"done,omitempty"`
	CatchUp  []string   `yaml:"catchUp,omitempty"` // clusters that were frozen and behind when the rollout was complete
}

// underWay reports whether clusters may still have to move, or to prove that they are healthy.
func (p *Progress) underWay() bool { return p != nil && p.Done.IsZero() }

// WaveTime says when all clusters of a wave had moved, and when they were first seen healthy after that.
type WaveTime struct {
	Name    string    `yaml:"name"`
	Moved   time.Time `yaml:"moved"`
	Healthy time.Time `yaml:"healthy,omitempty"`
}

// UpstreamHistory is what was seen of an upstream environment: one that promotions come from.
type UpstreamHistory struct {
	Ran []PastState `yaml:"ran"` // oldest first
	Red bool        `yaml:"red,omitempty"`
	// LastRed is when the environment was last seen to turn red, or to stop being red.
	LastRed time.Time `yaml:"lastRed,omitempty"`
}

// PastState is a state that an environment had, from a time on.
type PastState struct {
	Source  Source    `yaml:"source"`
	Tree    string    `yaml:"tree,omitempty"`
	At      time.Time `yaml:"at"`
	Healthy time.Time `yaml:"healthy,omitempty"` // when it was first seen healthy
}

// failedSource is a failure as earlier versions recorded it.
type failedSource struct {
	Source Source    `yaml:"source"`
	Reason string    `yaml:"reason"`
	At     time.Time `yaml:"at"`
}

// NewRecord is the record of an environment that has none.
func NewRecord(environment string) Record {
	return Record{APIVersion: RecordVersion, Kind: RecordKind, Environment: environment}
}
