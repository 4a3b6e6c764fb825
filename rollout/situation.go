package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/expression"
)

// Situation contains everything that a decision depends on. A caller reads it from Git and the forge. Fields that
// could not be read are empty, and count as unknown.
type Situation struct {
	Environment fleet.Environment
	Clusters    []ClusterState
	Workspaces  map[string]fleet.WorkspaceApprovers // who may approve promotions of one workspace only, by its name
	Before      []Upstream                          // the environments of Environment.After
	Trunk       Trunk                               // an environment without Before follows its last commit
	Shallow     bool                                // the clone's history ends before a required commit
	Running     Running
	Record      Record
	Candidate   *Candidate // the rendering of the proposal of Next; nil if it is not rendered
	// Changes describes what the proposed source changes in holds. Without it, everything that a hold covers stays
	// held.
	Changes *Changes
	// Without is the state of the environment without the changes of the workspaces that alone are red. It is nil if
	// RedAlone returns nil.
	Without *Without
	// LeftOut describes the proposal of Next without the workspaces that are red in an environment before. It is nil if
	// there is none.
	LeftOut *LeftOut
	// Described are the clusters that apps of the environment describe, by their environments, in the order in which
	// they move.
	Described []Described
	// Entire describes the proposal of Next with all described clusters. It is nil if there are none.
	Entire *Entire
	// Request is the open merge request, in mode request. RequestKnown means that the forge answered.
	Request      *MergeRequest
	RequestKnown bool
	// Unprotected is the reason why others than Sluice could write its branches; nothing is promoted then, but
	// rollbacks continue. It is empty if the branches are protected, or if protection is not required.
	Unprotected string
	Checks      []CheckResult // of the environment's checks
	// Site is what is known of an isolated environment, whose cluster branches move elsewhere. The trees in Clusters are
	// then those of its receipt. Nil: its cluster branches move here.
	Site *Site
	// Facts are what the expressions of gates ask for that is not in the other fields: commit, changes and history. Nil:
	// they are not known.
	Facts *expression.Facts
	Now   time.Time
	// CommandPrefix begins the commands in suggestions: "sluice" on a terminal, "/sluice" (the default) in a chat.
	CommandPrefix string
}

// command is a command that a text advises.
func (s Situation) command(words ...string) string {
	return strings.Join(append([]string{cmp.Or(s.CommandPrefix, "/sluice")}, words...), " ")
}

// Changes lists the apps of each hold whose manifests a source changes on all clusters of the hold, compared with the
// held ones.
type Changes struct {
	Source Source
	Holds  []HoldChange
}

// HoldChange describes what a source changes in one hold.
type HoldChange struct {
	Hold Hold
	Apps []string
}

// Running describes the content of the environment branch.
type Running struct {
	Source Source // zero: the branch does not exist
	Tree   string
	Commit string // tip of the branch
	// Overtakes means that --now promoted the source, according to the trailer of the tip's commit.
	Overtakes bool
	// Restores means that the tip's commit is a rollback, according to its trailer; Restored are the clusters that it
	// names, empty for all.
	Restores bool
	Restored []string
	// First means that the tip's commit is the first one of the branch, and a promotion made it.
	First bool
	// Renders means that the tip's commit renders again what ran before, according to its trailer.
	Renders bool
	// Overwrites means that the tip is foreign, and that the request puts a commit on top of it.
	Overwrites bool
	// TakesBack means that the tip's commit takes workspaces back alone, according to its trailer.
	TakesBack bool
	Foreign   string // why the tip is foreign; "" if it is not
	// Authors are the authors of the commits in the current rollout; only set if another person must agree to
	// expedite it.
	Authors []string
	// AuthorsUnknown is the reason why Authors may be incomplete.
	AuthorsUnknown string
}

// ClusterState is a cluster, with the actual and the desired content of its branch.
type ClusterState struct {
	Cluster
	Tree            string   // of the cluster branch; empty if it does not exist
	Desired         string   // the cluster's subtree of the environment branch; empty if it does not exist
	Statuses        []Status // on the tip of the cluster branch
	Apps            []string // on the tip of the cluster branch; nil: not read
	StatusesUnknown string   // why the statuses could not be read; empty if they were
	Foreign         string   // why the branch is not Sluice's to move; empty if it is
}

// behind reports whether the cluster branch differs from the desired state.
func (c ClusterState) behind() bool { return c.Tree != c.Desired && c.Desired != "" }

// Upstream is an environment that promotions come from.
type Upstream struct {
	Name     string
	Source   Source
	Since    time.Time // when it began to run Source, if that is recorded
	Complete bool      // all its clusters run Source: its waves are complete
	Foreign  string    // why the tip of its branch is not Sluice's own; then Source is empty
	Entire   bool      // Source is promoted as it is, also where clusters have different commits
	Tree     string    // what is promoted with Source, if that is a tree and not a rendering here; else ""
	Clusters []ClusterState
	// Site is what is known of an isolated environment; nil if its cluster branches move here. The other fields then say
	// what its receipt says.
	Site *Site
	// Waves are those of its clusters, with the times of its last rollout. WavesUnknown says why there are none.
	Waves        []UpstreamWave
	WavesUnknown string
}

// UpstreamWave is a wave of an environment that promotions come from.
type UpstreamWave struct {
	Name     string
	Clusters []string
	Healthy  time.Time // since when the rollout of what the environment has reached it everywhere and is healthy; zero if not
}

// idle reports whether all clusters are frozen and at least one of them does not run Source, so that the environment
// shows nothing about Source.
func (b Upstream) idle() bool {
	return len(living(b.Clusters)) == 0 && slices.ContainsFunc(b.Clusters,
		func(c ClusterState) bool { return c.State == "frozen" && c.behind() })
}

// Candidate is a source that was rendered for the environment, on top of a tip of its branch.
type Candidate struct {
	Source  Source // what the environment runs afterwards
	Tree    string
	Same    bool   // every cluster gets the manifests that the environment branch has: only records differ
	Base    string // the tip of the environment branch that it was rendered on
	Policy  State  // red with a reason if rendering or policy refuse it
	Reason  string
	Blocked string   // why it must not land although it renders; empty if it may
	Authors []string // of the commits that it brings; only where somebody else must agree
	// AuthorsUnknown says why Authors may be incomplete.
	AuthorsUnknown string
	// OthersUnknown says why Authors may lack authors of changes in other repositories; "" if Authors has them. If it
	// is set, approvals of a workspace's approvers do not count, because they may have written these changes.
	OthersUnknown string
}

// MergeRequest is the open merge request of a promotion.
type MergeRequest struct {
	Source Source
	Tree   string
}

// Status is one commit status, in the words of forges: success, pending, failure, error.
type Status struct {
	Name  string
	State string
}

// CheckResult is the result of a check.
type CheckResult struct {
	Name   string
	State  State
	Reason string
	Value  *float64  // the least value of a Prometheus query; nil if it has none
	At     time.Time // when the check ran
}

// ActionKind is the kind of an Action.
type ActionKind string

// The actions. Each is idempotent, and must fail if the branches have changed since the Situation was read.
const (
	MoveEnvironment ActionKind = "moveEnvironment" // commit Tree to the environment branch, or nothing
	MoveWave        ActionKind = "moveWave"        // bring the branches of Clusters to the environment's state
	// commit an earlier tree or a part of it, and move its clusters at once
	DoRollback   ActionKind = "rollback"
	DoHalt       ActionKind = "halt"        // the record has it already; to be reported
	OpenRequest  ActionKind = "openRequest" // open the merge request, or bring it up to date
	CloseRequest ActionKind = "closeRequest"
	Nothing      ActionKind = "nothing"
)

// Action is one step that a caller carries out.
type Action struct {
	Kind       ActionKind
	Source     Source   // moveEnvironment, openRequest: what the environment runs afterwards; rollback: likewise
	Tree       string   // moveEnvironment, openRequest: exactly this tree; rollback: the tree to take from
	Base       string   // the tip of the environment branch it holds for
	Wave       string   // moveWave
	Clusters   []string // moveWave; rollback of clusters
	Frozen     []string // rollback: clusters of these whose branches stay until they are unfrozen
	Stopped    []string // rollback: clusters that keep what they run, and shall run it
	Keeps      []string // rollback: apps that stay as they are, because they describe frozen clusters
	Continues  string   // rollback of workspaces: exactly this tree, with which the rollout continues
	Later      []string // rollback of workspaces: clusters that move with their waves
	Apps       []string // promotion or rollback of apps
	Workspaces []string // promotion or rollback of the apps of these workspaces; Apps contains them
	Without    []string // promotion: workspaces that it leaves out, because they are red in an environment before
	Overtakes  bool     // by --now: to be written in the trailer
	Renders    bool     // moveEnvironment: render again what the environment runs
	// moveEnvironment of an environment that never ran anything: gates that do not apply, for people
	Inapplicable []string
	By           string // who asked for it; empty: Sluice
	ApprovedBy   []string
	Reason       string
}

// WaveProgress is the progress of one wave.
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

// WaveState is the state of a wave.
type WaveState string

// The states of a wave.
const (
	WavePending WaveState = "pending"
	WaveMoving  WaveState = "moving"
	WaveBaking  WaveState = "baking"
	WaveDone    WaveState = "done"
	// WaveBack means that a rollback took its clusters to an earlier state.
	WaveBack   WaveState = "rolledBack"
	WaveFailed WaveState = "failed"
)

// Over reports whether nothing is left to do in the wave.
func (s WaveState) Over() bool { return s == WaveDone || s == WaveBack }

// String returns the state in words.
func (s WaveState) String() string {
	if s == WaveBack {
		return "rolled back"
	}
	return string(s)
}

// Decision is what to do next, and what prevents more.
type Decision struct {
	Actions   []Action
	Proposal  *Proposal // the next promotion, if there is one
	Gates     []Gate    // of Proposal
	WaveGates []Gate    // of the next move of cluster branches
	Waves     []WaveProgress
	Silent    []Silence // clusters with apps that have posted no commit status for a while
	Frozen    []string  // clusters that stay behind because they are frozen
	Behind    []string  // clusters that do not run yet what the environment branch has for them, also frozen ones
	// workspaces that are behind what else runs, because they are or were red in an environment before
	LeftOut  []string
	Freezes  []Freeze // that are in force, of the environment and of its clusters
	Events   []Event  // what was observed; Record contains them
	Record   Record   // a caller stores it before it carries out Actions
	WaitsFor string   // one sentence; empty if nothing is pending
	// Waits says of apps that describe clusters, and that Proposal changes sooner or later, what each waits for, in one
	// sentence. Those that move with the next move are not in it.
	Waits map[string]string
	Next  time.Time // when something may change without an event; zero if unknown
}

// Proposal is a promotion that is due or was requested.
type Proposal struct {
	Source   Source   // what the environment runs afterwards
	Promoted Source   // what is promoted
	Apps     []string // only these of it; all if empty
	// Workspaces are those whose apps were asked for. Apps contains them.
	Workspaces []string
	Overtakes  bool
	Renders    bool   // what the environment runs, again
	By         string // empty: nobody asked, the mode is auto or request
	Reason     string
	Held       []string // apps, or clusters, that holds keep out of it
	Released   []string // held apps that it changes
	// Returns are apps, or clusters, that were rolled back, and that a request without --again would bring as they
	// were.
	Returns []string
	// Without are workspaces that are red, or were, in an environment before. Source keeps them at what the environment
	// runs, unless Refused says why that is not possible or not known yet. Whole is what the environment would run with
	// them.
	Without []string
	Whole   Source
	Refused string
	// Entire is what the environment would run with all waves of described clusters; empty if it describes none. The
	// proposal brings the wave Stage. Later counts the apps of the waves after it.
	Entire Source
	Stage  string
	Later  int

	stages    []stage // of the apps that describe clusters
	stage     int     // index of Stage
	firm      []Gate  // of the stages that --now brings
	waits     string  // why the first stage does not come with everything else
	note      string  // why it leaves out some of Held
	round     string  // why described clusters get an older commit first
	undivided bool    // what changes is not known, so no described cluster moves
}
