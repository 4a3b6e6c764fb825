package rollout

import "time"

// The version and kind of a record.
const (
	RecordVersion = "sluice.dev/v1alpha1"
	RecordKind    = "PromotionRecord"
)

const (
	maxRecord    = 16 << 20 // bytes that are read and written
	recordBudget = 3 << 20  // bytes above which Encode drops the oldest entries
	maxNodes     = 2_000_000
	maxCommands  = 100
	maxHandled   = 200
	maxApprovals = 100
	maxFreezes   = 200
	maxRan       = 50
	maxHolds     = 500
)

// RecordPath returns the path of an environment's record on the state branch.
func RecordPath(environment string) string { return "environments/" + environment + ".yaml" }

// StateBranch is the branch that holds the records.
const StateBranch = "sluice/state"

// Record contains what Sluice remembers about an environment's promotions. It does not contain what the environment
// runs; that is on the branch. Without a record, promotions continue from the branches, and bake times start again.
type Record struct {
	APIVersion  string                      `yaml:"apiVersion"`
	Kind        string                      `yaml:"kind"`
	Environment string                      `yaml:"environment"`
	Request     *Request                    `yaml:"request,omitempty"`
	Approvals   []Approval                  `yaml:"approvals,omitempty"`
	Freezes     []Freeze                    `yaml:"freezes,omitempty"`
	Halt        *Halt                       `yaml:"halt,omitempty"`
	Rollback    *Rollback                   `yaml:"rollback,omitempty"`
	Holds       []Hold                      `yaml:"holds,omitempty"`
	Progress    *Progress                   `yaml:"progress,omitempty"`
	Before      map[string]*UpstreamHistory `yaml:"before,omitempty"`
	Ran         []PastState                 `yaml:"ran,omitempty"`     // oldest first
	Handled     []string                    `yaml:"handled,omitempty"` // ids of events, to recognise repeated ones
	Offered     *Offered                    `yaml:"offered,omitempty"`
	// the merge request that was open at the last observation
	Opened   *Offered `yaml:"opened,omitempty"`
	Declined *Offered `yaml:"declined,omitempty"` // the merge request that a person closed
	// Sequence counts the versions of the record. Commits on branches name the one that they were made with, so that an
	// older record, or none, is noticed.
	Sequence int `yaml:"sequence,omitempty"`
	// Tip is the commit that the environment branch had at the last observation.
	Tip string `yaml:"tip,omitempty"`
	// Tips are the commits of the cluster branches that existed at the last observation, by cluster. A commit is empty
	// if an earlier version observed the branch.
	Tips map[string]string `yaml:"tips,omitempty"`
	// Receipt is the number of the newest receipt of an isolated environment at the last observation, so that an older one
	// in its place is noticed.
	Receipt int64 `yaml:"receipt,omitempty"`
	// ReceiptCommit is the commit of the branch with it.
	ReceiptCommit string `yaml:"receiptCommit,omitempty"`
	// oldest first; only for display, no decision reads them
	Commands []PastCommand `yaml:"commands,omitempty"`
	// Failed was written by earlier versions. DecodeRecord converts it to holds.
	Failed []failedSource `yaml:"failed,omitempty"`
	// Branches was written by earlier versions. DecodeRecord converts it to Tips.
	Branches []string `yaml:"branches,omitempty"`
	// Resumed was written by earlier versions. DecodeRecord drops it.
	Resumed any `yaml:"resumed,omitempty"`
}

// Offered is a state that people can approve, and since when.
type Offered struct {
	Source Source    `yaml:"source"`
	Tree   string    `yaml:"tree"`
	At     time.Time `yaml:"at"`
	// Replaces means that another tree was offered before, for the same request.
	Replaces bool `yaml:"replaces,omitempty"`
}

// Knows reports whether a tree is the one that was offered last, or the one that the environment had at the last
// observation. Such a tree is Sluice's own, whoever committed it.
func (r Record) Knows(tree string) bool {
	return r.Offered.Is(tree) || r.Has(tree)
}

// Has reports whether a tree is the one that the environment had at the last observation.
func (r Record) Has(tree string) bool { return len(r.Ran) > 0 && r.Ran[len(r.Ran)-1].Tree == tree }

// Is reports whether a tree is the one that was offered.
func (o *Offered) Is(tree string) bool { return o != nil && o.Tree == tree }

// Request is a requested promotion.
type Request struct {
	Source Source   `yaml:"source"`
	Apps   []string `yaml:"apps,omitempty"`
	// Workspaces are those whose apps were meant. Apps contains them.
	Workspaces []string `yaml:"workspaces,omitempty"`
	Now        bool     `yaml:"now,omitempty"`
	// Again is why the promotion may bring what was rolled back. Without it, it may not.
	Again string `yaml:"again,omitempty"`
	// Renders is the commit of the environment branch whose source is to be rendered again; "" for a promotion.
	Renders string    `yaml:"renders,omitempty"`
	Reason  string    `yaml:"reason,omitempty"`
	By      string    `yaml:"by"`
	At      time.Time `yaml:"at"`
	Said    time.Time `yaml:"said,omitempty"` // when the person wrote it, if that was earlier than At
	// Part means that a part of it has landed, and that another tree follows.
	Part bool `yaml:"part,omitempty"`
}

// Approval is one person's agreement to one tree.
type Approval struct {
	By    string   `yaml:"by"`
	Teams []string `yaml:"teams,omitempty"`
	Tree  string   `yaml:"tree"`
	// Workspace is the one whose approver the person is. The approval counts only for a promotion of this workspace
	// alone. It is empty for a person who may approve any promotion of the environment.
	Workspace string `yaml:"workspace,omitempty"`
	// Now means that the approval was given to a request with --now. Without it, the approval does not count as the
	// second person's agreement to skipping gates.
	Now    bool      `yaml:"now,omitempty"`
	Reason string    `yaml:"reason,omitempty"`
	At     time.Time `yaml:"at"`
}

// Halt stops the promotions of an environment.
type Halt struct {
	By     string    `yaml:"by,omitempty"` // empty if Sluice halted it because of its health
	Reason string    `yaml:"reason"`
	At     time.Time `yaml:"at"`
	Said   time.Time `yaml:"said,omitempty"` // like Freeze.Said
}

// Asked returns when the person wrote it, by the forge's clock if there was a comment. Compare it with times of
// comments.
func (h Halt) Asked() time.Time { return later(h.At, h.Said) }

// String says who halted the environment, and why.
func (h Halt) String() string { return "halted by " + actor(h.By) + Because(h.Reason) }

// Rollback is a requested rollback, until it is complete.
type Rollback struct {
	To       Source `yaml:"to"`
	Tree     string `yaml:"tree"` // of the environment branch at that time
	From     Source `yaml:"from"`
	FromTree string `yaml:"fromTree,omitempty"` // of the environment branch when the rollback starts
	Wave     string `yaml:"wave,omitempty"`     // wave that Clusters belong to
	// Clusters are the clusters to roll back; empty means all.
	Clusters []string `yaml:"clusters,omitempty"`
	// Apps are the apps to roll back; empty means all.
	Apps []string `yaml:"apps,omitempty"`
	// Workspaces are those whose apps were meant. Apps contains them.
	Workspaces []string `yaml:"workspaces,omitempty"`
	// Stopped are other clusters, which the rollout had not reached. They keep what they run.
	Stopped []string `yaml:"stopped,omitempty"`
	// Continues is the tree of the environment branch with which the rollout under way continues, without the changes
	// of Workspaces.
	Continues string `yaml:"continues,omitempty"`
	// Later are clusters that the rollout had not reached. They move with their waves.
	Later  []string  `yaml:"later,omitempty"`
	Reason string    `yaml:"reason,omitempty"`
	By     string    `yaml:"by,omitempty"`
	At     time.Time `yaml:"at"`
}

// everywhere reports whether the rollback restores the whole environment.
func (r Rollback) everywhere() bool { return len(r.Clusters)+len(r.Apps) == 0 }

// Progress is the state of a rollout, from the move of the environment branch on.
type Progress struct {
	Source Source `yaml:"source"`
	Tree   string `yaml:"tree"` // of the environment branch; another tree begins a new rollout
	// From is the tree that every cluster ran when the rollout began. It is known only where a workspace may go back
	// alone.
	From     string     `yaml:"from,omitempty"`
	Now      bool       `yaml:"now,omitempty"`
	NowBy    string     `yaml:"nowBy,omitempty"` // who expedited the rollout while it was under way, and why
	NowWhy   string     `yaml:"nowWhy,omitempty"`
	Rollback bool       `yaml:"rollback,omitempty"`
	First    bool       `yaml:"first,omitempty"`   // nothing ran before
	Renders  bool       `yaml:"renders,omitempty"` // the same source ran before, rendered earlier
	Started  time.Time  `yaml:"started"`
	Changed  []string   `yaml:"changed,omitempty"` // clusters whose branches had to move
	Current  int        `yaml:"current,omitempty"` // how many of them have moved
	LastMove time.Time  `yaml:"lastMove,omitempty"`
	Waves    []WaveTime `yaml:"waves,omitempty"`
	Done     time.Time  `yaml:"done,omitempty"`
	CatchUp  []string   `yaml:"catchUp,omitempty"` // clusters that were frozen and behind when the rollout completed
}

// underWay reports whether clusters may still have to move or to become healthy.
func (p *Progress) underWay() bool { return p != nil && p.Done.IsZero() }

// WaveTime records when all clusters of a wave had moved, and when they were first seen healthy afterwards.
type WaveTime struct {
	Name    string    `yaml:"name"`
	Moved   time.Time `yaml:"moved"`
	Healthy time.Time `yaml:"healthy,omitempty"`
}

// UpstreamHistory records observations of an upstream environment, from which promotions come.
type UpstreamHistory struct {
	Ran []PastState `yaml:"ran"` // oldest first
	Red bool        `yaml:"red,omitempty"`
	// LastRed is the time of the last change of the environment to or from red.
	LastRed time.Time `yaml:"lastRed,omitempty"`
	// Workspaces are those that were red, by name, until the environment runs newer commits of them that were not. They
	// matter only where a workspace may fail alone; Red and LastRed are about everything else then.
	Workspaces map[string]WorkspaceHealth `yaml:"workspaces,omitempty"`
}

// WorkspaceHealth is the health of a workspace in an upstream environment.
type WorkspaceHealth struct {
	Red bool `yaml:"red,omitempty"`
	// Since is the time of the last change to or from red.
	Since time.Time `yaml:"since"`
}

// PastState is a state of an environment, with the time when it began.
type PastState struct {
	Source  Source    `yaml:"source"`
	Tree    string    `yaml:"tree,omitempty"`
	At      time.Time `yaml:"at"`
	Healthy time.Time `yaml:"healthy,omitempty"` // when it was first seen healthy
}

// failedSource is a failure in the format of earlier versions.
type failedSource struct {
	Source Source    `yaml:"source"`
	Reason string    `yaml:"reason"`
	At     time.Time `yaml:"at"`
}

// NewRecord returns an empty record.
func NewRecord(environment string) Record {
	return Record{APIVersion: RecordVersion, Kind: RecordKind, Environment: environment}
}
