package hydrate

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/hydrate/source"
	imports "github.com/sluice-gitops/sluice/importer"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Epoch identifies how inputs become objects; see source.Epoch.
const Epoch = source.Epoch

// Config configures a Hydrator.
type Config struct {
	Store    *gitstore.Store
	Branches gitstore.Branches // where rendered branches live
	// Source is the remote of the source repository. Sluice writes only commits of its trunk to environment branches.
	// If nil, it writes any commit; this is for branches of the local repository.
	Source   gitstore.Branches
	Gate     Gate // nil: no policy is enforced
	Renderer renderer.Renderer
	Archives source.Archives
	// Credentials are for fetching other repositories of fleets. If nil, only commits that Store has are used.
	Credentials source.Credentials
	// Mirror has commits of other repositories that the Store lacks; nil: there is none. See source.Reader.Mirroring.
	Mirror source.Mirror
	// Alone refuses content from other repositories: a review of an untrusted change must not show what the store has
	// of them.
	Alone bool
	// Only has the commits of repositories whose content is taken although Alone is set: the change is one of them.
	Only []source.Pinned
	// Trust has the signers of charts, of the trunk. If nil, those of the commit that is read count.
	Trust    *source.Trust
	Jobs     int    // targets rendered at a time, at least 1
	Version  string // version of Sluice, for the trailer
	Signer   gitstore.Signer
	Progress Progress
	Detect   bool   // recognise repositories of other tools without sluice.yaml; see source.Reader.Detecting
	Trunk    string // of such a repository; "" if it is not known
	// Pins resolves charts that sluice.lock lacks; nil: they are errors. For verbs that write nothing.
	Pins source.Pinner
	// Commits fetches commits of other repositories that nobody declares; nil: see source.Reader.Fetching.
	Commits source.Commits
	// Assumed are the capabilities of every cluster; see fleet.Loader. For verbs that write nothing.
	Assumed fleet.Capabilities
	// Output is a place in a registry that replaces the output of every fleet; see fleet.Loader.
	Output string
	// Imports keeps imports between runs; nil keeps none. See source.Reader.Remembering.
	Imports *imports.Memory
}

// Progress reports the progress of a phase. Several goroutines call it. total is 0 if it is not known.
type Progress func(phase string, done, total int)

// Hydrator renders commits of one source repository. It caches fleets and renderings between calls, and lists the
// branches in each call. Calls must not overlap.
type Hydrator struct {
	Config
	sources *source.Reader
	targets *render.Targets
}

// New returns a Hydrator.
func New(c Config) *Hydrator {
	c.Jobs = max(c.Jobs, 1)
	if c.Progress == nil {
		c.Progress = func(string, int, int) {}
	}
	sources := source.NewReader(c.Store, c.Archives,
		c.Renderer).WithCredentials(c.Credentials).Trusting(c.Trust).Assuming(c.Assumed).WritingTo(c.Output).Pinning(c.Pins)
	sources.Fetching(c.Commits).Mirroring(c.Mirror)
	if c.Alone {
		sources.Alone(c.Only...)
	}
	if c.Detect {
		sources.Detecting(c.Trunk)
	}
	if c.Imports != nil {
		sources.Remembering(c.Imports)
	}
	return &Hydrator{Config: c, sources: sources, targets: render.New(c.Store, c.Renderer, c.Jobs)}
}

// WithBranches returns a Hydrator whose rendered branches live in b. It shares fleets and renderings with h.
func (h *Hydrator) WithBranches(b gitstore.Branches) *Hydrator {
	out := *h
	out.Branches = b
	return &out
}

// WithSource returns a Hydrator that writes only commits of the trunk of a remote; see Config.Source. It shares fleets
// and renderings with h.
func (h *Hydrator) WithSource(remote gitstore.Branches) *Hydrator {
	out := *h
	out.Source = remote
	return &out
}

// Raising returns a Hydrator for which clusters with an older version of Kubernetes have another one; see fleet.Loader.
// It shares renderings with h. It must not write a branch.
func (h *Hydrator) Raising(to fleet.Raise) *Hydrator {
	out := *h
	out.sources = h.sources.Raising(to)
	return &out
}

// DetectImport returns a sluice.yaml for a repository of another tool that has none. It returns nil if the repository
// is not one.
func (h *Hydrator) DetectImport(ctx context.Context, tree gitstore.Hash) ([]byte, error) {
	return h.sources.Detect(ctx, tree)
}

// Open reads the source tree of a commit. An invalid fleet is reported as fleet.Problems.
func (h *Hydrator) Open(ctx context.Context, tree gitstore.Hash) (*source.View, error) {
	return h.sources.Open(ctx, tree)
}

// Fleet reads the fleet of a tree and its warnings. An invalid fleet is reported as fleet.Problems.
func (h *Hydrator) Fleet(ctx context.Context, tree gitstore.Hash) (*fleet.Fleet, fleet.Problems, error) {
	v, err := h.sources.Open(ctx, tree)
	if err != nil {
		return nil, nil, err
	}
	return v.Fleet, v.Problems, nil
}

// EnvironmentState fetches and reads the content of an environment's branch at a commit. The zero hash gives the state of
// a branch that does not exist.
func (h *Hydrator) EnvironmentState(ctx context.Context, f *fleet.Fleet, environment string,
	tip gitstore.Hash,
) (*branch.State, error) {
	if !tip.IsZero() {
		if err := h.Branches.Fetch(ctx, tip); err != nil {
			return nil, err
		}
	}
	return branch.ReadState(ctx, h.Store, f.EnvironmentBranch(environment), environment, tip, f.Signers())
}

// Readable returns the newest commit on the first-parent line of tip whose fleet is valid; see source.Reader.Readable.
func (h *Hydrator) Readable(ctx context.Context, tip gitstore.Commit) (gitstore.Commit, *fleet.Fleet, error) {
	return h.sources.Readable(ctx, tip)
}

// Trunks returns a reader of the trunks of a remote.
func (h *Hydrator) Trunks(remote gitstore.Branches) *admit.Trunks {
	return admit.NewTrunks(h.Store, h.sources, remote)
}

// ResolvePin asks another repository of the fleet which commit its declaration selects now; see
// source.Reader.ResolvePin.
func (h *Hydrator) ResolvePin(ctx context.Context, r *fleet.Repository, have fetch.Pin) (fetch.Pin, error) {
	return h.sources.ResolvePin(ctx, r, have)
}

// Affected returns the targets that the change from one tree to another can affect, without rendering.
func (h *Hydrator) Affected(ctx context.Context, base, head gitstore.Hash) ([]fleet.AffectedTarget, error) {
	v, err := h.sources.Open(ctx, head)
	if err != nil {
		return nil, err
	}
	return h.sources.Affected(ctx, base, v)
}

// Claims returns the files that differ between two views, and who reads each; see source.Reader.Claims.
func (h *Hydrator) Claims(ctx context.Context, base, head *source.View) (map[string]fleet.Claim, error) {
	return h.sources.Claims(ctx, base, head)
}

// ChangedPaths returns the paths that differ between two views; see source.Reader.ChangedPaths.
func (h *Hydrator) ChangedPaths(ctx context.Context, base, head *source.View) ([]string, error) {
	return h.sources.ChangedPaths(ctx, base, head)
}

// Readers returns the targets that read a path that differs between two views; see fleet.Readers.
func (h *Hydrator) Readers(base, head *source.View, path string, apps map[string]bool) (found map[[2]string]bool, any bool) {
	return h.sources.Readers(base, head, path, apps)
}

// Count returns a number with its noun: "1 app", "2 apps", "2 branches".
func Count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
