package promote

import (
	"time"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

// Situation is all that a decision looks at. A caller reads it from Git and the forge; what could not be read is left
// empty, and counts as unknown.
type Situation struct {
	Environment fleet.Environment
	Clusters    []ClusterState
	Before      []Earlier // the environments of Environment.After
	Trunk       Trunk     // an environment without Before follows its last commit
	Running     Running
	Record      Record
	Candidate   *Candidate    // what Want asked for, rendered; nil if it is not
	Request     *MergeRequest // the open one, in mode request
	Facts       []Fact        // of the environment's checks
	Now         time.Time
}

// Running is what the environment branch holds.
type Running struct {
	Source Source // zero: there is no branch yet
	Tree   string
	Commit string // tip of the branch
	// Overtakes says that --now brought it there: the trailer of the tip's commit.
	Overtakes bool
	// Restores says that the tip's commit is a rollback, by its trailer.
	Restores bool
	Foreign  string // why the tip is not Sluice's own work; "" if it is
}

// ClusterState is a cluster, with what its branch holds and should hold.
type ClusterState struct {
	Cluster
	Tree     string   // of the cluster branch; "" if there is none
	Want     string   // the cluster's subtree of the environment branch; "" if there is none
	Statuses []Status // on the tip of the cluster branch
	Apps     []string // that the tip of the cluster branch holds; nil: nobody looked
	Lost     bool     // the statuses could not be read
	Foreign  string   // why the branch is not Sluice's to move; "" if it is
}

// behind says that the cluster branch is not what the environment branch asks for.
func (c ClusterState) behind() bool { return c.Tree != c.Want && c.Want != "" }

// Earlier is an environment before this one.
type Earlier struct {
	Name     string
	Source   Source
	Since    time.Time // when it began to run Source, if somebody wrote it down
	Complete bool      // all its clusters have Source: its waves are through
	Clusters []ClusterState
}

// Candidate is a source, rendered for the environment on top of a tip.
type Candidate struct {
	Source  Source // all of it: what the environment runs afterwards
	Tree    string
	Base    string // the tip of the environment branch that it was made for
	Policy  State  // red with a reason if rendering or policy refuse it
	Reason  string
	Blocked string   // why it may not go in though it can be rendered; "" if it may
	Authors []string // of the commits that it brings; told where somebody else must agree
	// AuthorsUnknown is why Authors may lack somebody.
	AuthorsUnknown string
}

// MergeRequest is the open one for a promotion.
type MergeRequest struct {
	Source Source
	Tree   string
}

// Status is one commit status, in the words of forges: success, pending, failure, error.
type Status struct {
	Name  string
	State string
}

// Fact is the answer to a check.
type Fact struct {
	Name   string
	State  State
	Reason string
	At     time.Time // when it was asked
}

// ActionKind says what is to be done.
type ActionKind string

// The actions. Each may be done twice; each must fail if the branches are not what the Situation says any more.
const (
	MoveEnvironment ActionKind = "moveEnvironment" // commit Tree to the environment branch, or nothing
	MoveWave        ActionKind = "moveWave"        // bring the branches of Clusters to the environment's state
	DoRollback      ActionKind = "rollback"        // commit an earlier tree, and bring all its clusters there at once
	DoHalt          ActionKind = "halt"            // stored with the record already; to be told
	OpenRequest     ActionKind = "openRequest"     // open the merge request, or bring it up to date
	CloseRequest    ActionKind = "closeRequest"
	Nothing         ActionKind = "nothing"
)

// Action is one thing to be done.
type Action struct {
	Kind       ActionKind
	Source     Source   // moveEnvironment, openRequest: what the environment runs afterwards; rollback: likewise
	Tree       string   // moveEnvironment, openRequest: exactly this tree; rollback: the tree to take from
	Base       string   // the tip of the environment branch it holds for
	Wave       string   // moveWave
	Clusters   []string // moveWave; rollback of clusters
	Apps       []string // promotion or rollback of apps
	Overtakes  bool     // by --now: to be written in the trailer
	By         string   // who asked for it, "" for nobody
	ApprovedBy []string
	Reason     string
}

// WaveProgress is where one wave stands.
type WaveProgress struct {
	Name   string
	State  WaveState
	Moved  int // clusters that have what the environment branch asks for
	Total  int
	Frozen []string
	Since  time.Time
	Until  time.Time
	Reason string
}

// WaveState is one of the words below.
type WaveState string

// What a wave may be.
const (
	WavePending WaveState = "pending"
	WaveMoving  WaveState = "moving"
	WaveBaking  WaveState = "baking"
	WaveDone    WaveState = "done"
	WaveFailed  WaveState = "failed"
)

// Decision is what to do, and why nothing more.
type Decision struct {
	Actions   []Action
	Wants     *Want  // what comes next, if anything does
	Gates     []Gate // of the promotion of Wants
	WaveGates []Gate // of the next move of cluster branches
	Waves     []WaveProgress
	Frozen    []string  // clusters that stay behind because they are frozen
	Events    []Event   // what was seen; they are in Record already
	Record    Record    // to be stored before the actions are done
	WaitsFor  string    // one sentence; "" if nothing is to come
	Next      time.Time // when something may change by itself; zero if not known
}

// Want is a promotion that is due or asked for.
type Want struct {
	Source    Source   // what the environment runs afterwards
	Asked     Source   // what was promoted
	Apps      []string // only these of it, all if empty
	Overtakes bool
	By        string // "" for nobody: the mode is auto or request
	Reason    string
}
