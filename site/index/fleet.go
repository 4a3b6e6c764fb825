package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Fleet brings an index up to date with the cluster branches of a fleet. trunk is the tree of the trunk's tip.
// withValues also reads which values the layers set; without it, the value facts stay as they are. x may be nil.
func Fleet(ctx context.Context, x *Index, h *hydrate.Hydrator, trunk gitstore.Hash, withValues bool) (*Index, Stats,
	error,
) {
	if x == nil {
		x = new(Index)
	}
	f, _, err := h.Fleet(ctx, trunk)
	if err != nil {
		return nil, Stats{}, err
	}
	r := &fleetReader{
		ctx: ctx, h: h, fleet: f, views: map[string]*source.View{}, files: h.Store.Snapshot(ctx, trunk),
		parsed: map[string][]string{}, lists: map[string][]string{},
	}
	clusters, err := r.clusters(withValues)
	if err != nil {
		return nil, Stats{}, err
	}
	values := x.values
	if withValues {
		values = trunk.String()
	}
	out, stats, err := x.Update(ctx, h.Store, clusters, values)
	return out, stats, errors.Join(err, r.failed)
}

// Open loads an index, or starts an empty one if the file does not exist or cannot be used.
func Open(file string) (*Index, error) {
	x, err := Load(file)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrUnusable) {
		return new(Index), nil
	}
	return x, err
}

// fleetReader reads what an index needs of a fleet.
type fleetReader struct {
	ctx    context.Context //nolint:containedctx // a reader lives as long as one call of Fleet
	h      *hydrate.Hydrator
	fleet  *fleet.Fleet
	views  map[string]*source.View // by source commit; nil: it cannot be read
	files  *gitstore.Snapshot
	parsed map[string][]string // value paths by file
	lists  map[string][]string // value paths by the files of a target
	failed error
}

func (r *fleetReader) clusters(withValues bool) ([]Cluster, error) {
	refs, err := r.h.Branches.List(r.ctx, r.fleet.BranchPrefixes()...)
	if err != nil {
		return nil, err
	}
	var tips []gitstore.Hash
	for _, c := range r.fleet.Clusters {
		if tip := refs[r.fleet.ClusterBranch(c)]; !tip.IsZero() {
			tips = append(tips, tip)
		}
	}
	if len(tips) == 0 {
		return nil, nil
	}
	if err := r.h.Branches.Fetch(r.ctx, tips...); err != nil {
		return nil, err
	}
	var out []Cluster
	for _, c := range r.fleet.Clusters {
		tip := refs[r.fleet.ClusterBranch(c)]
		if tip.IsZero() || c.Retired() {
			continue
		}
		commit, err := r.h.Store.Commit(r.ctx, tip)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		// only a cluster whose state is new needs them
		from := sync.OnceValue(func() sources { return sourcesOf(commit) })
		one := Cluster{
			Name: c.Name, State: State{commit.Tree, runs(commit)},
			Chart: func(app string) string { return r.chart(c.Name, app, from().of(app)) },
		}
		if withValues {
			one.Values = func(app string) []string { return r.values(c, app) }
		}
		out = append(out, one)
	}
	return out, nil
}

// runs lists the source commits of a cluster branch.
func runs(c gitstore.Commit) string {
	out := []string{branch.Trailer(c.Message, branch.TrailerSource)}
	for _, t := range gitstore.Trailers(c.Message) {
		if t.Key == branch.TrailerAppSource {
			out = append(out, t.Value)
		}
	}
	return strings.Join(out, " ")
}

// sources are the source commits that a cluster branch was rendered from.
type sources struct {
	all  string
	apps map[string]string // where another one than all
}

func sourcesOf(tip gitstore.Commit) sources {
	out := sources{all: branch.Trailer(tip.Message, branch.TrailerSource), apps: map[string]string{}}
	for _, t := range gitstore.Trailers(tip.Message) {
		if app, commit, ok := strings.Cut(t.Value, " "); ok && t.Key == branch.TrailerAppSource {
			out.apps[app] = commit
		}
	}
	return out
}

func (s sources) of(app string) string { return cmp.Or(s.apps[app], s.all) }

// chart describes the sources of an app on a cluster at the commit that it was rendered from; "" if that is unknown.
func (r *fleetReader) chart(name, app, commit string) string {
	v := r.view(commit)
	if v == nil {
		return ""
	}
	c, ok := v.Fleet.Cluster(name)
	a, known := v.Fleet.App(app)
	if !ok || !known {
		return ""
	}
	list, err := v.Versions(fleet.Target{App: a, Cluster: c})
	if err != nil {
		return "" // the commit was rendered by a version that read it; validate says what is wrong with it now
	}
	return strings.Join(list, ", ")
}

func (r *fleetReader) view(commit string) *source.View {
	if v, ok := r.views[commit]; ok {
		return v
	}
	r.views[commit] = nil
	h, err := gitstore.ParseHash(commit)
	if err != nil {
		return nil
	}
	c, err := r.h.Store.Commit(r.ctx, h)
	if err != nil {
		return nil
	}
	v, err := r.h.Open(r.ctx, c.Tree)
	if err != nil {
		return nil
	}
	r.views[commit] = v
	return v
}

// values lists the paths that the layers of an app set on a cluster.
func (r *fleetReader) values(c *fleet.Cluster, app string) []string {
	a, ok := r.fleet.App(app)
	if !ok {
		return nil
	}
	files := r.fleet.ValuesFiles(fleet.Target{App: a, Cluster: c})
	var key strings.Builder
	for _, f := range files {
		key.WriteString(f.Path + "\x00" + f.At + "\x00")
	}
	if have, ok := r.lists[key.String()]; ok {
		return have
	}
	set := map[string]bool{}
	for _, f := range files {
		for _, p := range r.paths(f.Path) {
			set[strings.TrimPrefix(f.At+"."+p, ".")] = true
		}
	}
	out := make([]string, 0, len(set))
	for p := range set {
		out = append(out, p)
	}
	slices.Sort(out)
	r.lists[key.String()] = out
	return out
}

// paths lists the values that a file sets. A file that is not YAML sets one value, at the place that its layer names.
func (r *fleetReader) paths(file string) []string {
	if have, ok := r.parsed[file]; ok {
		return have
	}
	var out []string
	data, err := r.files.ReadFile(file)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && r.failed == nil {
			r.failed = fmt.Errorf("index: %w", err)
		}
	} else if manifest.Check(data, manifest.DefaultBudget()) == nil {
		var v any
		if yaml.Unmarshal(data, &v) == nil {
			out = leaves(out, "", v)
		}
	}
	r.parsed[file] = out
	return out
}

func leaves(out []string, path string, v any) []string {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return append(out, path)
	}
	for k, inner := range m {
		out = leaves(out, strings.TrimPrefix(path+"."+k, "."), inner)
	}
	return out
}
