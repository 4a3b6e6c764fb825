package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// maxImports limits the imports whose states a site can promote.
const maxImports = 200

// imports are what transfer bundles brought for an environment whose site this repository is. They take the place of
// the environments before it and of the trunk: the newest import is what comes next, it is promoted as it is, and
// nothing of it is rendered here.
type imports struct {
	list    []incoming.Import // oldest first
	sources []rollout.Source  // of list
	order   rollout.Trunk     // source commits, in the order in which imports brought them
	foreign string            // why the branch is not believed; then the rest is empty
}

// readImports reads the branches of the environments whose site this repository is.
func (s *snapshot) readImports(ctx context.Context) error {
	s.imports = map[string]*imports{}
	for _, e := range s.fleet.Spec.Environments {
		tip := s.refs[incoming.Branch(e.Name)]
		if !incoming.Site(s.fleet, e.Name, s.refs) { // home has no imports, whatever somebody pushes
			continue
		}
		one, err := s.readImportsOf(ctx, e.Name, tip)
		if err != nil {
			return err
		}
		s.imports[e.Name] = one
	}
	return nil
}

func (s *snapshot) readImportsOf(ctx context.Context, environment string, tip gitstore.Hash) (*imports, error) {
	if err := s.hydrator.Branches.Fetch(ctx, tip); err != nil {
		return nil, err
	}
	out := &imports{}
	if allowed := s.fleet.Signers(); !allowed.Empty() {
		_, err := s.hydrator.Store.VerifySignature(ctx, tip, allowed)
		if unsigned, ok := errors.AsType[*gitstore.SignatureError](err); ok {
			out.foreign = fmt.Sprintf("branch %s is not signed as spec.signers demands: %v: import the bundle again with --sign-key",
				incoming.Branch(environment), unsigned)
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
	list, err := incoming.History(ctx, s.hydrator.Store, environment, tip, maxImports)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, gitstore.ErrNotFound) {
			out.foreign, err = err.Error(), nil
		}
		return out, err
	}
	slices.Reverse(list)
	for _, one := range list {
		source, err := branch.ReadSource(ctx, s.hydrator.Store, one.Tree)
		if err != nil {
			return nil, err
		}
		out.add(one, source)
	}
	return out, nil
}

// add adds a newer import. The commits that it brings for some app come last in the order, also if an earlier import
// had them: a rollback at home is the newest state.
func (i *imports) add(one incoming.Import, source rollout.Source) {
	var before rollout.Source
	if n := len(i.sources); n > 0 {
		before = i.sources[n-1]
	}
	var brings []string
	compare := func(have, want rollout.ClusterSource) {
		for _, part := range append(exceptions(have, want), "") {
			if c := want.Of(part); c != have.Of(part) && c != "" {
				brings = append(brings, c)
			}
		}
	}
	compare(rollout.ClusterSource{Commit: before.Commit, Apps: before.Apps},
		rollout.ClusterSource{Commit: source.Commit, Apps: source.Apps})
	for _, clusters := range []map[string]rollout.ClusterSource{before.Clusters, source.Clusters} {
		for name := range clusters {
			compare(before.On(name), source.On(name))
		}
	}
	slices.SortFunc(brings, func(a, b string) int { return slices.Index(i.order, a) - slices.Index(i.order, b) })
	for _, c := range slices.Compact(brings) {
		i.order = append(slices.DeleteFunc(i.order, func(o string) bool { return o == c }), c)
	}
	i.list, i.sources = append(i.list, one), append(i.sources, source)
}

// exceptions lists the apps that have commits of their own.
func exceptions(sources ...rollout.ClusterSource) []string {
	var out []string
	for _, s := range sources {
		for app := range s.Apps {
			out = append(out, app)
		}
	}
	return out
}

// find returns the newest import with a source on some clusters.
func (i *imports) find(source rollout.Source, clusters []string) (incoming.Import, bool) {
	want := source.Among(clusters)
	for n, s := range slices.Backward(i.sources) {
		if s.Among(clusters).Equal(want) {
			return i.list[n], true
		}
	}
	return incoming.Import{}, false
}

// atSite returns an environment whose only upstream is home: what bundles brought.
func (s *snapshot) atSite(e fleet.Environment) fleet.Environment {
	if s.imports[e.Name] != nil {
		e.After = []string{incoming.HomeName}
	}
	return e
}

// upstream describes what bundles brought as an environment that runs everywhere.
func (i *imports) upstream() rollout.Upstream {
	out := rollout.Upstream{
		Name: incoming.HomeName, Entire: true, Complete: true, Foreign: i.foreign, WavesUnknown: "what bundles brought has no waves",
	}
	if n := len(i.list); n > 0 {
		out.Source, out.Since, out.Tree = i.sources[n-1], i.list[n-1].At, i.list[n-1].Tree.String()
	}
	return out
}

// given takes the tree of the newest import with a source as the composition of the source. To render a source again is to
// take the tree that home rendered last.
func (c *compositions) given(environment string, source rollout.Source, clusters []string, again bool, from *imports) (*composition, error) {
	key := compositionKey{environment, source.Key(), again}
	if one := c.done[key]; one != nil {
		return one, nil
	}
	w, err := c.h.Store.NewWriter()
	if err != nil {
		return nil, err
	}
	one := &composition{w: w}
	c.done[key] = one
	switch found, ok := from.find(source, clusters); {
	case !ok:
		one.failure = fmt.Sprintf("no bundle brought %s: a site takes bundles whole, so promote without --app, --workspace and --commit", source)
	default:
		one.tree = found.Tree
	}
	return one, nil
}

// onTrunk returns a commit of the trunk, also one that is older than those that were read.
func (p *proposals) onTrunk(ctx context.Context, id string) (commit gitstore.Commit, known bool, err error) {
	if commit, known = p.trunk.commits[id]; known {
		return commit, true, nil
	}
	hash, err := gitstore.ParseHash(id)
	if err != nil || !p.hydrator.Store.Has(hash) {
		return commit, false, err
	}
	if known, err = p.hydrator.Store.IsAncestor(ctx, hash, p.trunk.tip.Hash); err != nil || !known {
		return commit, false, err
	}
	commit, err = p.hydrator.Store.Commit(ctx, hash)
	return commit, err == nil, err
}

// tookTrunk reports whether bundles brought the trunk too: then the site has home's policy and source commits.
func (p *proposals) tookTrunk(from *imports) bool {
	return slices.ContainsFunc(from.order, func(c string) bool {
		_, known := p.trunk.commits[c]
		return known
	})
}

// imported judges what a bundle brings by the site's own policy, if the site has the source commit. If it has not, home
// has judged: nothing reaches home's branch past its gates, and home's signers signed what it has.
func (p *proposals) imported(ctx context.Context, environment string, source rollout.Source, from *imports) (rollout.State, string) {
	found, ok := from.find(source, p.clusterNames(environment))
	if !ok {
		return rollout.Unknown, "no bundle brought it"
	}
	then, err := branch.ReadTree(ctx, p.hydrator.Store, found.Tree)
	if err != nil {
		return rollout.Unknown, "what the bundle brings cannot be read"
	}
	for _, c := range source.Commits() {
		commit, known, err := p.onTrunk(ctx, c)
		if err != nil {
			return rollout.Unknown, err.Error()
		}
		if !known && p.tookTrunk(from) {
			return rollout.Unknown, "the trunk lacks its source commit, so that the policy cannot judge it: export it with --source"
		}
		if !known {
			continue
		}
		part := Part{Environment: environment, Base: p.states[environment].Tip.Hash, Source: commit, Rendered: then}
		if s, why := p.request.Adapters.Policy.Judge(ctx, part); s != rollout.Green {
			return s, why
		}
	}
	return rollout.Green, ""
}
