package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/policy/confine"
	"github.com/sluice-gitops/sluice/policy/schemas"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
)

// ReviewOptions configure a review and its policy.
type ReviewOptions struct {
	Compare      compare.Request
	Policy       gitstore.Hash // tree of the source commit whose policy applies; zero: nothing is judged
	BoundsOnly   bool          // of the policy, judge only the bounds of workspaces
	Trunk        gitstore.Hash // tree of the trunk, whose signers of charts count; zero is Policy
	Pins         Pins          // commits of other repositories that replace those in sluice.lock
	Offline      bool          // fetch no schemas
	Whole        bool          // judge whole environments, not only changed objects
	FindingsOnly bool
}

// Review compares two sides and judges the difference. Problems of the fleet and of its policy are part of the
// review.
func (s *Session) Review(ctx context.Context, o ReviewOptions) (*report.Review, *compare.PreviewResult, error) {
	options := review.Options{Compare: o.Compare, Version: s.runtime.Version, FindingsOnly: o.FindingsOnly}
	if f, _, err := s.Fleet(ctx, o.Compare.Head.Tree); err == nil {
		options.Fleet = f.Name
	}
	var broken policy.Problems
	var own []string
	switch {
	case o.Policy.IsZero():
	case o.BoundsOnly:
		engine, err := boundsEngine(ctx, s, o.Policy)
		if err != nil {
			return nil, nil, err
		}
		if engine != nil {
			options.Judge = review.Policy{Engine: boundsOnly{engine}, Whole: o.Whole}
		}
	default:
		engine, err := s.Policy(ctx, o.Policy, o.Offline)
		switch {
		case errors.As(err, &broken):
		case err != nil:
			return nil, nil, err
		default:
			options.Judge = review.Policy{Engine: engine, Whole: o.Whole}
		}
		proposed, err := proposedPolicy(ctx, s, o)
		if err != nil {
			return nil, nil, err
		}
		broken = append(broken, proposed...)
		if o.Compare.Against == compare.AgainstCommit { // a promotion brings an older commit, and the policies of the trunk stay
			if own, err = proposedOwn(ctx, s, o.Policy, o.Compare.Head.Tree); err != nil {
				return nil, nil, err
			}
		}
	}
	r, preview, err := review.Make(ctx, s.Hydrator, options)
	if err != nil {
		return nil, nil, err
	}
	if o.Compare.Against == "" {
		if r.Pins, err = movedPins(ctx, s, o.Compare, o.Pins.Head); err != nil {
			return nil, nil, err
		}
	}
	if len(broken)+len(own) > 0 {
		r.Errors = append(append(r.Errors, broken.Strings()...), own...)
		r.Verdict = review.Verdict(r)
	}
	return r, preview, nil
}

// boundsOnly is an engine that judges only the bounds of workspaces.
type boundsOnly struct{ *policy.Engine }

// Check implements review.Engine.
func (e boundsOnly) Check(ctx context.Context, in policy.Input) (*policy.Result, error) {
	return e.Confine(ctx, in)
}

// boundsEngine returns the engine that judges the bounds of workspaces; nil if the fleet of the tree has no workspace. If the policy cannot be
// loaded, its exemptions do not count.
func boundsEngine(ctx context.Context, s *Session, tree gitstore.Hash) (*policy.Engine, error) {
	if !hasWorkspaces(ctx, s, tree) {
		return nil, nil //nolint:nilnil // nothing is judged
	}
	engine, err := s.enforcedPolicy(ctx, tree, false)
	if _, broken := errors.AsType[policy.Problems](err); broken {
		return policy.Load(ctx, noFiles{}, policyOptions(ctx, s, tree))
	}
	return engine, err
}

// noFiles is a source without a policy.
type noFiles struct{}

// Open implements fs.FS.
func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// hasWorkspaces reports whether the fleet of a tree has workspaces. A fleet that cannot be read counts as one with workspaces.
func hasWorkspaces(ctx context.Context, s *Session, tree gitstore.Hash) bool {
	f, _, err := s.Fleet(ctx, tree)
	return err != nil || len(f.Workspaces) > 0
}

// proposedPolicy returns the mistakes in the head's policy, if it differs from the policy of the review. The head's policy applies after
// the merge, and a broken policy would then stop every hydration.
func proposedPolicy(ctx context.Context, s *Session, o ReviewOptions) (policy.Problems, error) {
	judging, err := policyTree(ctx, s.Store, o.Policy)
	if err != nil {
		return nil, err
	}
	proposed, err := policyTree(ctx, s.Store, o.Compare.Head.Tree)
	if errors.Is(err, gitstore.ErrMalformed) {
		return nil, nil // reading the fleet of that tree fails too, and the report says so
	}
	if err != nil || proposed.IsZero() || proposed == judging {
		return nil, err
	}
	var broken policy.Problems
	if _, err := s.enforcedPolicy(ctx, o.Compare.Head.Tree, false); err != nil && !errors.As(err, &broken) {
		return nil, err
	}
	return broken, nil
}

// policyTree returns the hash of the policy folder of a source commit's tree, zero if there is none.
func policyTree(ctx context.Context, store *gitstore.Store, tree gitstore.Hash) (gitstore.Hash, error) {
	entries, err := store.Tree(ctx, tree)
	if err != nil {
		return gitstore.Hash{}, err
	}
	for _, e := range entries {
		if e.Name == policy.Dir {
			return e.Hash, nil
		}
	}
	return gitstore.Hash{}, nil
}

// Policy loads the policy of a source commit's tree. Mistakes in the policy are policy.Problems.
func (s *Session) Policy(ctx context.Context, tree gitstore.Hash, offline bool) (*policy.Engine, error) {
	return s.runtime.loadPolicy(ctx, s.Store.Snapshot(ctx, tree), policyOptions(ctx, s, tree), offline)
}

// enforcedPolicy loads the policy for hydration. It implements enforce.Loader.
func (s *Session) enforcedPolicy(ctx context.Context, tree gitstore.Hash, schemas bool) (*policy.Engine, error) {
	if schemas {
		return s.Policy(ctx, tree, false)
	}
	return policy.Load(ctx, s.Store.Snapshot(ctx, tree), policyOptions(ctx, s, tree))
}

// policyOptions returns the options that the policy of a tree takes from that tree's fleet. If the fleet cannot be read, no workspace has
// bounds, and the policy then allows no object in a workspace.
func policyOptions(ctx context.Context, s *Session, tree gitstore.Hash) policy.Options {
	o := policy.Options{Now: s.runtime.Clock(), Parallel: runtime.GOMAXPROCS(0)}
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return o
	}
	o.Workspaces = map[string]*confine.Bounds{}
	for _, w := range f.Workspaces {
		o.Workspaces[w.Name] = boundsOf(f, w)
	}
	o.Own = ownPoliciesOf(s, tree, f)
	o.Environments = environmentsOf(f)
	return o
}

func environmentsOf(f *fleet.Fleet) []string {
	out := make([]string, len(f.Spec.Environments))
	for i, e := range f.Spec.Environments {
		out[i] = e.Name
	}
	return out
}

// boundsOf returns what a workspace may contain. Clusters that the fleet does not have yet count by their labels.
func boundsOf(f *fleet.Fleet, w *fleet.Workspace) *confine.Bounds {
	return &confine.Bounds{
		Name: w.Name, File: w.File, Namespaces: w.Spec.Namespaces, References: w.Spec.References,
		Allow: w.Spec.Kinds.Allow, Deny: w.Spec.Kinds.Deny, ClusterScoped: w.Spec.Kinds.ClusterScoped, Roles: w.Spec.Roles,
		Images: w.Spec.Sources.Images, HostAccess: w.Spec.HostAccess, AsRendered: f.AsRendered(), Objects: w.Spec.Quotas.Objects, Targets: w.Spec.Quotas.Targets,
		Reaches: func(name string, labels map[string]string) bool {
			c, ok := f.Cluster(name)
			if !ok {
				c = &fleet.Cluster{Name: name, Environment: labels["environment"], Labels: labels}
			}
			return w.Reaches(c)
		},
	}
}

func (r Runtime) loadPolicy(ctx context.Context, files fs.FS, o policy.Options, offline bool) (*policy.Engine, error) {
	var err error
	if o.Schemas, err = r.schemas(files, offline); err != nil {
		return nil, err
	}
	return policy.Load(ctx, files, o)
}

// schemas returns the schemas of built-in kinds, from the locations in the policy of a tree.
func (r Runtime) schemas(files fs.FS, offline bool) (policy.Schemas, error) {
	if r.Schemas != nil {
		return r.Schemas, nil
	}
	locations, err := policy.SchemaLocations(files)
	if err != nil {
		return nil, err
	}
	source, err := schemas.New(schemas.Config{
		Locations: locations, Files: files, Cache: filepath.Join(r.Cache, "schemas"), Offline: offline || r.Offline, UserAgent: r.userAgent(),
		Transport: r.Guard.Transport(),
	})
	if err != nil {
		return nil, policy.Problems{{File: policy.Dir, Message: err.Error()}}
	}
	return source, nil
}

// TestPolicy runs the tests of a tree's own rules.
func (s *Session) TestPolicy(ctx context.Context, tree gitstore.Hash, run string) ([]policy.TestResult, error) {
	return policy.Test(ctx, s.Store.Snapshot(ctx, tree), run, policy.Options{Now: s.runtime.Clock()})
}
