package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// Objects reads Git objects. *gitstore.Store implements it.
type Objects interface {
	Tree(ctx context.Context, h gitstore.Hash) ([]gitstore.Entry, error)
	Blob(ctx context.Context, h gitstore.Hash) ([]byte, error)
}

// Cluster describes one cluster to Update.
type Cluster struct {
	Name  string
	State State
	// Chart describes the sources of an app: "web 1.4.0". Update calls it for clusters whose state is new.
	Chart func(app string) string
	// Values lists the value paths that the layers of an app set, without duplicates. Update calls it if its values are
	// new. Equal lists should be one slice, which must not change during the update.
	Values func(app string) []string
}

// Stats say what an update did.
type Stats struct {
	Clusters int // whose state is new
	Trees    int // that were read
	Objects  int // that were read
}

// Update returns an index of exactly these clusters. values identifies what the functions Values answer from: while it
// does not change, Update calls them only for clusters whose state is new. Without an earlier index, x is new(Index).
func (x *Index) Update(ctx context.Context, objects Objects, clusters []Cluster, values string) (*Index, Stats, error) {
	var stats Stats
	known := make(map[string]*cluster, len(x.clusters))
	for i := range x.clusters {
		known[x.clusters[i].name] = &x.clusters[i]
	}
	same := len(clusters) == len(x.clusters) && values == x.values
	for _, c := range clusters {
		if have := known[c.Name]; have == nil || have.state != c.State {
			same = false
			break
		}
	}
	if same {
		return x, stats, nil
	}
	u := newUpdate(ctx, x, objects, values)
	for _, c := range clusters {
		have := known[c.Name]
		if have != nil && have.state == c.State {
			u.out.clusters = append(u.out.clusters, u.keep(*have, c))
			continue
		}
		stats.Clusters++
		one, err := u.cluster(c)
		if err != nil {
			return nil, stats, fmt.Errorf("index of cluster %s: %w", c.Name, err)
		}
		u.out.clusters = append(u.out.clusters, one)
	}
	slices.SortStableFunc(u.out.clusters, func(a, b cluster) int { return strings.Compare(a.name, b.name) })
	stats.Trees, stats.Objects = u.trees, u.objects
	u.out.drop()
	return u.out, stats, nil
}

// update builds an index on top of another one.
type update struct {
	ctx     context.Context //nolint:containedctx // an update lives as long as one call of Update
	from    Objects
	out     *Index
	facts   map[fact]uint32
	byHash  map[gitstore.Hash]uint32
	blobs   map[gitstore.Hash][]uint32
	sets    map[string][]uint32 // lists of extra facts, shared by targets
	fresh   bool                // values are new
	trees   int
	objects int
}

func newUpdate(ctx context.Context, x *Index, objects Objects, values string) *update {
	u := &update{
		ctx: ctx, from: objects, facts: make(map[fact]uint32, len(x.facts)),
		byHash: make(map[gitstore.Hash]uint32, len(x.trees)), blobs: map[gitstore.Hash][]uint32{},
		sets:  map[string][]uint32{},
		out:   &Index{facts: slices.Clone(x.facts), trees: slices.Clone(x.trees), values: values},
		fresh: values != x.values,
	}
	for i, f := range x.facts {
		u.facts[f] = uint32(i)
	}
	for i, t := range x.trees {
		u.byHash[t.hash] = uint32(i)
	}
	return u
}

// keep takes a cluster whose manifests did not change. Its values may.
func (u *update) keep(have cluster, c Cluster) cluster {
	if !u.fresh {
		return have
	}
	have.targets = slices.Clone(have.targets)
	for i := range have.targets {
		t := &have.targets[i]
		charts := slices.DeleteFunc(slices.Clone(t.extra), func(f uint32) bool { return u.out.facts[f].kind != Chart })
		t.extra = u.extra(charts, c, t.app)
	}
	return have
}

func (u *update) cluster(c Cluster) (cluster, error) {
	out := cluster{name: c.Name, state: c.State}
	if c.State.Tree.IsZero() {
		return out, nil
	}
	entries, err := branch.Apps(u.ctx, u.from, c.State.Tree)
	if err != nil {
		return out, err
	}
	for _, e := range entries {
		if e.Mode != gitstore.ModeTree || strings.HasPrefix(e.Name, ".") {
			continue
		}
		i, err := u.tree(e.Hash)
		if err != nil {
			return out, fmt.Errorf("app %s: %w", e.Name, err)
		}
		t := target{app: e.Name, tree: i}
		var charts []uint32
		if c.Chart != nil {
			for text := range strings.SplitSeq(c.Chart(e.Name), ", ") {
				if text != "" {
					charts = append(charts, u.fact(Chart, text))
				}
			}
		}
		t.extra = u.extra(charts, c, e.Name)
		out.targets = append(out.targets, t)
	}
	return out, nil
}

// extra adds the value facts of a target to its charts. Equal lists are one.
func (u *update) extra(charts []uint32, c Cluster, app string) []uint32 {
	var paths []string
	if c.Values != nil {
		paths = c.Values(app)
	}
	key := fmt.Sprintf("%d %p %d", charts, paths, len(paths)) // targets with equal layers share the slice
	if have, ok := u.sets[key]; ok {
		return have
	}
	list := slices.Clone(charts)
	for _, path := range paths {
		list = append(list, u.fact(Value, path))
	}
	slices.Sort(list)
	u.sets[key] = list
	return list
}

// tree returns the place of a rendering, and reads it if no cluster had it.
func (u *update) tree(hash gitstore.Hash) (uint32, error) {
	if i, ok := u.byHash[hash]; ok {
		return i, nil
	}
	entries, err := u.from.Tree(u.ctx, hash)
	if err != nil {
		return 0, err
	}
	u.trees++
	one := tree{hash: hash}
	for _, e := range entries {
		facts, ok := u.blobs[e.Hash]
		if !ok {
			if e.Mode != gitstore.ModeFile {
				continue
			}
			data, err := u.from.Blob(u.ctx, e.Hash)
			switch {
			case errors.Is(err, gitstore.ErrTooLarge): // Sluice writes no such file: whoever pushed it must not hide the fleet
			case err != nil:
				return 0, err
			default:
				facts = u.object(data)
			}
			u.blobs[e.Hash] = facts
			u.objects++
		}
		one.facts = append(one.facts, facts...)
	}
	slices.Sort(one.facts)
	one.facts = slices.Clip(slices.Compact(one.facts))
	i := uint32(len(u.out.trees)) //nolint:gosec // far fewer trees than 2^32
	u.out.trees = append(u.out.trees, one)
	u.byHash[hash] = i
	return i, nil
}

func (u *update) object(data []byte) []uint32 {
	s := scan(data)
	if s.kind == "" {
		return nil
	}
	title := s.kind + " " + s.name
	if s.namespace != "" {
		title = s.kind + " " + s.namespace + "/" + s.name
	}
	facts := []uint32{u.fact(Object, title), u.fact(Type, s.apiVersion+" "+s.kind)}
	if s.namespace != "" {
		facts = append(facts, u.fact(Namespace, s.namespace))
	}
	for _, image := range s.images {
		facts = append(facts, u.fact(Image, image))
	}
	return facts
}

func (u *update) fact(kind Kind, text string) uint32 {
	f := fact{kind, text}
	i, ok := u.facts[f]
	if !ok {
		i = uint32(len(u.out.facts)) //nolint:gosec // far fewer facts than 2^32
		f.text = strings.Clone(text)
		u.out.facts = append(u.out.facts, f)
		u.facts[f] = i
	}
	return i
}

// drop removes trees that no cluster has, and facts that no tree has, once they are more than a third.
func (x *Index) drop() {
	used := make([]bool, len(x.trees))
	live := 0
	for i := range x.clusters {
		for _, t := range x.clusters[i].targets {
			if !used[t.tree] {
				used[t.tree] = true
				live++
			}
		}
	}
	const share = 3
	if x.dead = len(x.trees) - live; x.dead*share <= len(x.trees) {
		return
	}
	c := &compaction{from: x, facts: make([]uint32, len(x.facts)), sets: map[string][]uint32{}}
	place := make([]uint32, len(x.trees))
	var trees []tree
	for i, t := range x.trees {
		if used[i] {
			place[i] = uint32(len(trees)) //nolint:gosec // far fewer trees than 2^32
			trees = append(trees, tree{t.hash, c.list(t.facts)})
		}
	}
	clusters := slices.Clone(x.clusters)
	for i := range clusters {
		clusters[i].targets = slices.Clone(clusters[i].targets)
		for j := range clusters[i].targets {
			t := &clusters[i].targets[j]
			t.tree, t.extra = place[t.tree], c.shared(t.extra)
		}
	}
	x.facts, x.trees, x.clusters, x.dead = c.out, trees, clusters, 0
}

// compaction numbers the facts that are used anew.
type compaction struct {
	from  *Index
	out   []fact
	facts []uint32 // old number → new number + 1
	sets  map[string][]uint32
}

func (c *compaction) list(old []uint32) []uint32 {
	out := make([]uint32, len(old))
	for i, f := range old {
		if c.facts[f] == 0 {
			c.out = append(c.out, c.from.facts[f])
			c.facts[f] = uint32(len(c.out)) //nolint:gosec // far fewer facts than 2^32
		}
		out[i] = c.facts[f] - 1
	}
	slices.Sort(out)
	return out
}

func (c *compaction) shared(old []uint32) []uint32 {
	key := fmt.Sprint(old)
	if have, ok := c.sets[key]; ok {
		return have
	}
	c.sets[key] = c.list(old)
	return c.sets[key]
}
