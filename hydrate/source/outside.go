package source

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Mirror has commits of other repositories in a place that is reached when the repositories are not. It is safe for
// concurrent use.
type Mirror interface {
	// Commit makes a commit readable in the store, and returns true, if the mirror has it. With public, it does so only
	// for a commit that anybody may read.
	Commit(ctx context.Context, commit gitstore.Hash, public bool) (bool, error)
}

// mirrored reports whether a mirror, nil for none, has made a commit readable. If the mirror cannot be read, the
// repository itself is asked next.
func mirrored(ctx context.Context, m Mirror, commit gitstore.Hash, public bool) bool {
	if m == nil {
		return false
	}
	ok, err := m.Commit(ctx, commit, public)
	return ok && err == nil
}

// Mirroring makes the reader take commits of other repositories that the store lacks from m, before it asks the
// repositories. It returns the reader. Call it before any other method. A reader that is Alone does not use it.
func (r *Reader) Mirroring(m Mirror) *Reader {
	r.mirror = m
	return r
}

// Outside is what rendering an environment needs that is not in the fleet's own repository. Both lists are sorted, and
// name everything once.
type Outside struct {
	Charts  []OutsideChart
	Commits []fleet.GitCommit
	// Unread has the apps whose needs are not known because they cannot be read, with the reasons.
	Unread []Unresolved
}

// OutsideChart is a packed chart that is not vendored.
type OutsideChart struct {
	Ref    fetch.Ref
	Locked fetch.Locked
	Signed bool // a signature is demanded of it
}

// Outside returns what rendering an environment needs, of the targets that some names; nil for all. The commits are those that loading the fleet needs, too, such as
// repositories of workspaces: without them, nobody knows whether the environment has apps of theirs.
func (v *View) Outside(ctx context.Context, environment string, some func(cluster, app string) bool) (*Outside, error) {
	out, failed := &Outside{}, map[string]error{}
	charts, local := map[fetch.Ref]bool{}, localCharts{} // true: a signature is demanded
	names := v.loads()
	for _, c := range v.Fleet.ClustersOf(environment) {
		for _, t := range v.Fleet.TargetsOf(c) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if some != nil && !some(c.Name, t.App.Name) {
				continue
			}
			if i := t.Imported(); i != nil && i.Err != nil || failed[t.App.Name] != nil {
				continue // an import that failed names no chart
			}
			if err := v.outsideOf(t, local, charts, names); err != nil {
				failed[t.App.Name] = err
			}
		}
	}
	for app, err := range failed {
		out.Unread = append(out.Unread, Unresolved{app, err})
	}
	slices.SortFunc(out.Unread, func(a, b Unresolved) int { return cmp.Compare(a.App, b.App) })
	if err := v.outsideCharts(out, charts); err != nil {
		return nil, err
	}
	out.Commits = v.outsideCommits(names)
	return out, nil
}

// outsideOf adds what a target needs: its charts, and the names of the repositories whose files it reads.
func (v *View) outsideOf(t fleet.Target, local localCharts, charts map[fetch.Ref]bool, names map[string]bool) error {
	refs, err := v.remotesOf(t, local)
	if err != nil {
		return err
	}
	signed := len(v.contents.demanded) > 0 || v.contents.trust != nil && len(v.contents.trust.Default) > 0
	if len(refs) > 0 && !signed {
		resolved, err := v.Fleet.Resolve(t)
		if err != nil {
			return err
		}
		signed = slices.ContainsFunc(resolved.Sources, func(s fleet.Source) bool { return s.Helm != nil && len(s.Helm.Verify) > 0 })
	}
	for _, ref := range refs {
		charts[ref] = charts[ref] || signed
	}
	paths, err := v.paths(t)
	for _, p := range paths {
		names[fleet.RepositoryOf(p)] = true
	}
	return err
}

// outsideCharts adds the charts that are locked and not vendored. Without a lock, they cannot be rendered anywhere.
func (v *View) outsideCharts(out *Outside, charts map[fetch.Ref]bool) error {
	for ref, signed := range charts {
		locked, ok := v.contents.lock.Lookup(ref)
		if !ok {
			continue
		}
		_, err := v.contents.files.now().Stat(fetch.VendorPath(ref, locked))
		switch {
		case err == nil && !signed:
			continue
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		i := slices.IndexFunc(out.Charts, func(c OutsideChart) bool { return c.Locked.Digest == locked.Digest })
		if i < 0 {
			out.Charts = append(out.Charts, OutsideChart{ref, locked, signed})
			continue
		}
		same := &out.Charts[i] // the same archive by another name, such as another range of versions
		same.Signed = same.Signed || signed
		if cmp.Or(cmp.Compare(ref.Chart, same.Ref.Chart), cmp.Compare(ref.Repo, same.Ref.Repo), cmp.Compare(ref.Version, same.Ref.Version)) < 0 {
			same.Ref, same.Locked = ref, locked
		}
	}
	slices.SortFunc(out.Charts, func(a, b OutsideChart) int { return cmp.Compare(a.Locked.Digest, b.Locked.Digest) })
	return nil
}

// loads returns the names of the repositories that loading the fleet needs, or each target.
func (v *View) loads() map[string]bool {
	names := map[string]bool{}
	for _, w := range v.Fleet.Workspaces {
		names[w.Spec.Repository] = true
	}
	for _, l := range v.Fleet.Spec.Layers {
		names[l.Repository] = true
		for _, file := range l.Values {
			names[file.Repository] = true
		}
	}
	if len(v.Fleet.Spec.Import) > 0 { // objects of other tools are looked for everywhere
		for _, r := range v.Fleet.Repositories {
			names[r.Name] = true
		}
	}
	return names
}

// outsideCommits returns the commits of repositories with the names, of those that were read.
func (v *View) outsideCommits(names map[string]bool) []fleet.GitCommit {
	seen := map[fleet.GitCommit]bool{}
	for _, r := range v.Fleet.Repositories {
		if r.Commit != "" && names[r.Name] {
			seen[fleet.GitCommit{URL: r.URL, Commit: r.Commit}] = true
		}
	}
	for _, c := range v.Fleet.Commits() { // what they hold says what is imported
		seen[c] = true
	}
	for _, c := range v.contents.files.added() {
		if names[c.MountName()] {
			seen[c] = true
		}
	}
	var out []fleet.GitCommit
	for c := range seen {
		if hash, err := gitstore.ParseHash(c.Commit); err == nil && v.store.Has(hash) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b fleet.GitCommit) int {
		nested := 0
		if a.Nested != b.Nested {
			if nested = 1; b.Nested {
				nested = -1
			}
		}
		return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.Commit, b.Commit), nested)
	})
	return out
}
