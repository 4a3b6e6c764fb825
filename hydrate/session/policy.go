package session

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/ownpolicy"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/policy/confine"
	"github.com/sluice-gitops/sluice/policy/schemas"
)

// Policy loads the policy of a source commit's tree. Mistakes in the policy are policy.Problems.
func (s *Session) Policy(ctx context.Context, tree gitstore.Hash, offline bool) (*policy.Engine, error) {
	return s.Runtime.loadPolicy(ctx, s.Store.Snapshot(ctx, tree), s.policyOptions(ctx, tree), offline)
}

// EnforcedPolicy loads the policy for hydration. It implements enforce.Loader.
func (s *Session) EnforcedPolicy(ctx context.Context, tree gitstore.Hash, schemas bool) (*policy.Engine, error) {
	if schemas {
		return s.Policy(ctx, tree, false)
	}
	return policy.Load(ctx, s.Store.Snapshot(ctx, tree), s.policyOptions(ctx, tree))
}

// policyOptions returns the options that the policy of a tree takes from that tree's fleet. If the fleet cannot be
// read, no workspace has bounds, and the policy then allows no object in a workspace.
func (s *Session) policyOptions(ctx context.Context, tree gitstore.Hash) policy.Options {
	o := policy.Options{Now: s.Runtime.Clock(), Parallel: runtime.GOMAXPROCS(0)}
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return o
	}
	o.Workspaces = map[string]*confine.Bounds{}
	for _, w := range f.Workspaces {
		o.Workspaces[w.Name] = boundsOf(f, w)
	}
	o.Own = s.OwnPolicies().Of(tree, f)
	o.Environments = ownpolicy.Environments(f)
	return o
}

// boundsOf returns what a workspace may contain. Clusters that the fleet does not have yet count by their labels.
func boundsOf(f *fleet.Fleet, w *fleet.Workspace) *confine.Bounds {
	return &confine.Bounds{
		Name: w.Name, File: w.File, Namespaces: w.Spec.Namespaces, References: w.Spec.References,
		Allow: w.Spec.Kinds.Allow, Deny: w.Spec.Kinds.Deny, ClusterScoped: w.Spec.Kinds.ClusterScoped,
		Roles:  w.Spec.Roles,
		Images: w.Spec.Sources.Images, HostAccess: w.Spec.HostAccess, AsRendered: f.AsRendered(),
		Objects: w.Spec.Quotas.Objects, Targets: w.Spec.Quotas.Targets,
		Reaches: func(name string, labels map[string]string) bool {
			c, ok := f.Cluster(name)
			if !ok {
				c = &fleet.Cluster{Name: name, Environment: labels["environment"], Labels: labels}
			}
			return w.Reaches(c)
		},
	}
}

// Schemas returns the schemas of built-in kinds, from the locations in the policy of a tree.
func (s *Session) Schemas(ctx context.Context, tree gitstore.Hash, offline bool) (policy.Schemas, error) {
	return s.Runtime.schemas(s.Store.Snapshot(ctx, tree), offline)
}

// OwnPolicies evaluates the own policies of workspaces.
func (s *Session) OwnPolicies() ownpolicy.Evaluator {
	return ownpolicy.Evaluator{
		Fleets: s.Hydrator, Clock: s.Runtime.Clock, Exceeded: s.shared.exceeded,
		Judge: s.judgeOwn,
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
		Locations: locations, Files: files, Cache: filepath.Join(r.Cache, "schemas"), Offline: offline || r.Offline,
		UserAgent: r.UserAgent(),
		Transport: r.Guard.Transport(),
	})
	if err != nil {
		return nil, policy.Problems{{File: policy.Dir, Message: err.Error()}}
	}
	return source, nil
}

// TestPolicy runs the tests of a tree's own rules.
func (s *Session) TestPolicy(ctx context.Context, tree gitstore.Hash, run string) ([]policy.TestResult, error) {
	return policy.Test(ctx, s.Store.Snapshot(ctx, tree), run, policy.Options{Now: s.Runtime.Clock()})
}

// BoundsPolicy returns the engine that judges the bounds of workspaces; nil if the fleet of the tree has no workspace.
// If the policy cannot be loaded, its exemptions do not count.
func (s *Session) BoundsPolicy(ctx context.Context, tree gitstore.Hash) (*policy.Engine, error) {
	if !s.HasWorkspaces(ctx, tree) {
		return nil, nil //nolint:nilnil // nothing is judged
	}
	engine, err := s.EnforcedPolicy(ctx, tree, false)
	if _, broken := errors.AsType[policy.Problems](err); broken {
		return policy.Load(ctx, noFiles{}, s.policyOptions(ctx, tree))
	}
	return engine, err
}

// noFiles is a source without a policy.
type noFiles struct{}

// Open implements fs.FS.
func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// HasWorkspaces reports whether the fleet of a tree has workspaces. A fleet that cannot be read counts as one with
// workspaces.
func (s *Session) HasWorkspaces(ctx context.Context, tree gitstore.Hash) bool {
	f, _, err := s.Fleet(ctx, tree)
	return err != nil || len(f.Workspaces) > 0
}
