package branch

import (
	"cmp"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
)

// Trailers of rendered commits.
const (
	TrailerSource      = "Sluice-Source"
	TrailerEnvironment = "Sluice-Environment"
	TrailerCluster     = "Sluice-Cluster" // on a cluster branch
	TrailerVersion     = "Sluice-Version"
	// TrailerUnmerged marks a commit rendered from a source commit that the trunk did not contain. Its value is the
	// tip of the trunk at that time. A later commit of the trunk may replace it if it descends from that tip.
	TrailerUnmerged = "Sluice-Unmerged"
	// TrailerPolicyException names a policy rule whose findings did not stop hydration, and the reason.
	TrailerPolicyException = "Sluice-Policy-Exception"
)

// Trailers of promotions.
const (
	TrailerFrom     = "Sluice-Promoted-From"
	TrailerApproved = "Sluice-Approved-By"
	TrailerBy       = "Sluice-Requested-By"
	TrailerApps     = "Sluice-Apps"
	// TrailerWorkspaces names the workspaces whose apps a command meant; TrailerApps names the apps.
	TrailerWorkspaces = "Sluice-Workspaces"
	TrailerNow        = "Sluice-Now"      // the reason why a promotion did not wait for its gates
	TrailerReason     = "Sluice-Reason"   // of a promotion that waited for its gates: what the person wrote
	TrailerRollback   = "Sluice-Rollback" // the reason of a rollback
	// TrailerRenderedAgain is the reason why what ran is rendered again.
	TrailerRenderedAgain = "Sluice-Rendered-Again"
	// TrailerTakenBack is the reason why a rollout continues without the changes of the workspaces that
	// TrailerWorkspaces names.
	TrailerTakenBack = "Sluice-Taken-Back"
	// TrailerLeftOut names the workspaces that a promotion leaves out, because they are red in an environment before.
	TrailerLeftOut  = "Sluice-Left-Out"
	TrailerWave     = "Sluice-Wave"
	TrailerClusters = "Sluice-Clusters" // the clusters that a partial rollback names
	// TrailerRecord is the version of the environment's record when the branch moved, so that a lost or an older record is
	// noticed.
	TrailerRecord = "Sluice-Record"
	// TrailerRebuilt marks the commit of the state branch that replaces records that were lost.
	TrailerRebuilt = "Sluice-Rebuilt"
	// TrailerAppSource names an app on a cluster branch and its source commit, if that commit differs from
	// TrailerSource. There is one for each such app.
	TrailerAppSource = "Sluice-App-Source"
)

// Trailer returns the value of the first trailer with a key in a commit message, or "".
func Trailer(message, key string) string {
	for _, t := range gitstore.Trailers(message) {
		if t.Key == key {
			return t.Value
		}
	}
	return ""
}

// Committer is the identity that Sluice commits with. Empty fields have defaults.
type Committer struct{ Name, Email string }

// At returns the committer's signature at a time.
func (c Committer) At(when time.Time) gitstore.Signature {
	return gitstore.Signature{Name: cmp.Or(c.Name, "Sluice"), Email: cmp.Or(c.Email, "sluice@localhost"), When: when}
}

// Commit describes a commit that Sluice makes. Equal descriptions give equal commit ids, unless they are signed.
type Commit struct {
	Tree, Parent  gitstore.Hash // a zero parent makes a root commit
	Author        gitstore.Signature
	Committer     gitstore.Signature
	Subject, Body string
	Trailers      []gitstore.Trailer
	Version       string // of Sluice, the last trailer
	Signer        gitstore.Signer
}

// Write writes the commit and returns its hash. It moves no branch.
func (c Commit) Write(w *gitstore.Writer) (gitstore.Hash, error) {
	trailers := append(append([]gitstore.Trailer(nil), c.Trailers...),
		gitstore.Trailer{Key: TrailerVersion, Value: c.Version})
	spec := gitstore.CommitSpec{
		Tree: c.Tree, Author: c.Author, Committer: c.Committer, Message: gitstore.Message(c.Subject, c.Body, trailers),
		Signer: c.Signer,
	}
	if !c.Parent.IsZero() {
		spec.Parents = []gitstore.Hash{c.Parent}
	}
	return w.Commit(spec)
}
