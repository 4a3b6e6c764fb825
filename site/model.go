package site

import (
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site/conform"
	"github.com/sluice-gitops/sluice/site/index"
)

// Fleet is what the pages show. Read builds it; it does not change afterwards and is safe for concurrent use.
type Fleet struct {
	Name         string
	Trunk        string // the branch
	Tip          Commit // of the trunk
	Version      string // of Sluice
	Made         time.Time
	Environments []*Environment         // in the order of sluice.yaml
	Clusters     []*Cluster             // by name; without retired ones
	Apps         []*App                 // by name
	Versions     *promote.FleetVersions // of Kubernetes; nil if the fleet declares none
	Labels       []string               // label keys that the overview can fold by, class and region first
	Problems     []string               // what could not be read
	Warnings     []string               // what was read, and should be looked at
	Conformance  []conform.Group
	Index        *index.Index
	Touched      Touched // by the commits of the trunk that promotions brought together
	Images       Images
	Sources      Sources
	Catalog      []*fleet.CatalogApp // of the trunk, by name, then version

	MergeRequests []MergeRequest // that were reviewed
	Reviews       bool           // merge requests are reviewed here; without it there are no pages of them
}

// Commit is a commit of the source repository as pages name it.
type Commit struct {
	Hash    string
	Subject string
	Author  string
	At      time.Time
	Behind  int // commits of the trunk that came later; -1 if the commit is not on the part of the trunk that was read
}

// Known reports whether the commit names one.
func (c Commit) Known() bool { return c.Hash != "" }

// Environment is one stage of the promotion graph.
type Environment struct {
	Name     string
	Branch   string
	After    []string
	Level    int    // 0 for environments that follow the trunk
	Mode     string // auto, manual or request; "" if it follows the trunk
	Tip      string // commit of the branch; "" if the branch does not exist
	Source   rollout.Source
	Commit   Commit // of Source
	Since    time.Time
	Foreign  string // why the tip is not Sluice's own work
	Upstream []Gap
	Status   *promote.Status // what promotion decides; nil if the environment follows the trunk or could not be read
	Waves    []Wave
	Windows  []Window
	Open     bool      // a promotion may land now
	OpenWhy  string    // why not
	OpenNext time.Time // when that changes; zero if unknown
	Clusters []*Cluster
	History  []Event        // newest first
	Next     *report.Review // what the next promotion would do; nil if that is unknown, or too much
	Figures  Figures
}

// Gap says how many commits an environment is behind one that it takes commits from; -1 is unknown.
type Gap struct {
	Environment string
	Behind      int
}

// Wave is a wave of an environment with the state of its clusters.
type Wave struct {
	Name     string
	State    string
	Reason   string
	Since    time.Time
	Until    time.Time
	Bake     time.Duration
	Clusters []*Cluster
}

// Window is a time span in which promotions may land, or may not.
type Window struct {
	Text string
	Deny bool
}

// Cluster is a cluster with what its branch holds.
type Cluster struct {
	Name        string
	Environment *Environment
	Class       string
	Labels      map[string]string
	KubeVersion string
	State       string // active or frozen
	Branch      string
	Tip         gitstore.Commit // zero if the branch does not exist
	Runs        rollout.ClusterSource
	Commit      Commit
	Desired     gitstore.Hash // the cluster's tree on the environment branch
	Apps        []*Placed     // by name
	Trouble     string        // why it does not run what the environment branch holds; "" if it does
	Planned     bool          // the trouble is part of a rollout, a freeze or a halt
	Health      *Health       // nil: no health gate reads statuses of its branch, or there is no forge
	file        string
}

// Current reports whether the cluster branch holds what the environment branch asks for.
func (c *Cluster) Current() bool { return c.Trouble == "" }

// Look says why somebody should look at the cluster; "" if there is no reason.
func (c *Cluster) Look() string {
	switch {
	case c.Unhealthy() && c.Trouble != "" && !c.Planned:
		return c.Trouble + "; unhealthy: " + c.Health.Reason
	case c.Unhealthy() && c.Trouble != "":
		return "unhealthy: " + c.Health.Reason + "; " + c.Trouble
	case c.Unhealthy():
		return "unhealthy: " + c.Health.Reason
	case c.Trouble != "":
		return c.Trouble
	case c.State == "frozen":
		return "frozen by sluice.yaml"
	}
	return ""
}

// Unhealthy reports whether a status on its branch says that something failed.
func (c *Cluster) Unhealthy() bool { return c.Health != nil && c.Health.State == rollout.Red }

// Dot names the state of the cluster for the class of its dot.
func (c *Cluster) Dot() string {
	switch {
	case c.State != "frozen" && c.Trouble != "" && !c.Planned:
		return "odd"
	case c.Unhealthy():
		return "unhealthy"
	case c.State == "frozen":
		return "frozen"
	case c.Trouble == "":
		return "current"
	}
	return "pending"
}

// DotWord is the text of the dot.
func (c *Cluster) DotWord() string {
	switch c.Dot() {
	case "odd":
		return "differs"
	case "current":
		return "up to date"
	}
	return c.Dot()
}

// Placed is an app on a cluster.
type Placed struct {
	App     *App
	Cluster *Cluster
	Tree    gitstore.Hash // of the app's manifests on the cluster branch; zero if it has none yet
	Desired gitstore.Hash // on the environment branch
	Version string        // of its charts, or its paths
	Image   string        // of the container that stands for the app; "" for none
	Commit  Commit
}

// Tag is the version of the app's image; "" without an image.
func (p *Placed) Tag() string {
	if p.Image == "" {
		return ""
	}
	return diff.SplitImage(p.Image).Version()
}

// App is an app of the fleet.
type App struct {
	Name      string
	Namespace string
	File      string
	Placed    []*Placed // by cluster
	Layers    *Layers   // nil: not read
	file      string
}

// Event is a commit of an environment branch.
type Event struct {
	Environment string
	Commit      string // "" for a command that changed the record alone
	Before      string // the commit before it; "" if it is the first one
	Source      Commit
	At          time.Time
	By          string
	What        string    // the subject
	Why         string    // approvals, overrides, reasons
	Kind        string    // hydrate, promote, rollback, override, foreign, or the verb of a command, such as freeze
	Scope       string    // of a command
	Until       time.Time // end of a freeze, as the command named it
	Apps        []AppChange
	Unknown     string // why Apps is incomplete; "" if it is complete
	tree        gitstore.Hash
	before      gitstore.Hash
	known       bool // what was before it
	lead        promotedSources
	promoted    bool // at the time At; the commits of hydration have the dates of their source commits
}

// AppChange is the number of clusters of an environment on which an app changed.
type AppChange struct {
	App      string
	Clusters int
	Brought  []Fact // images and versions that the app did not have before the event, on some of these clusters
	Partial  bool   // Brought may lack some, because not everything was read
	samples  []sample
}

// Fact is an image, or the version or the path of a source, as Fleet.Index has them.
type Fact struct {
	Kind index.Kind
	Text string
}

// Figures are DORA's four figures of an environment, from its history.
type Figures struct {
	Weeks []Week
	// median time from the trunk to the environment branch, of all commits that promotions brought
	Lead   time.Duration
	LeadOf int // number of commits that Lead is the median of
	// promotions without a lead time, because a source commit is unknown or newer than the promotion
	LeadLacks int
	PerWeek   float64 // deployments
	Deployed  int
	Failed    int           // deployments that were rolled back
	Restore   time.Duration // median time from a deployment to its rollback
	Truncated bool          // the history goes on beyond what was read
}

// Week has the figures of a week.
type Week struct {
	Start     time.Time
	Deployed  int
	RolledBck int
	Lead      time.Duration // median, as of Figures
	LeadOf    int
	Restore   time.Duration // median of RolledBck times
}
