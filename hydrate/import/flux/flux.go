package flux

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Limits of one cluster.
const (
	maxUnits = 20_000 // Kustomizations and HelmReleases
	maxDepth = 50     // Kustomizations that come out of Kustomizations
)

// Builder builds a Kustomize root: the objects of `kustomize build root`, where a kustomization may read any file of files. Import does
// not change the objects.
type Builder interface {
	Build(ctx context.Context, files []kustomize.File, root string) ([]manifest.Object, error)
}

// Importer reads clusters of one commit.
type Importer struct {
	tree    Tree
	builder Builder
	files   []string // of the commit
	origins map[Key][]Origin
}

// New lists the commit's files. It fails if they cannot be listed.
func New(tree Tree, builder Builder) (*Importer, error) {
	files, err := list(tree)
	if err != nil {
		return nil, err
	}
	return &Importer{tree: tree, builder: builder, files: files}, nil
}

// Origin is where an object is written.
type Origin struct {
	File string
	Line int
}

// String is `file:line`.
func (o Origin) String() string {
	if o.Line == 0 {
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// Unit is one Kustomization or HelmRelease of a cluster.
type Unit struct {
	Key    Key
	Origin Origin
	Parent Key // the Kustomization whose objects this one is among; empty for the cluster's root

	// Objects of a Kustomization, in Flux's order, without the Kustomizations and HelmReleases that are units themselves.
	Objects []manifest.Object
	// Release of a HelmRelease.
	Release *Release

	Namespace string   // of objects that name none
	Path      string   // of a Kustomization: the directory in its source
	Reads     []string // files of the commit that the unit's build read
	DependsOn []Key
	Prune     bool // Flux removes objects that disappear
	Suspended bool // Flux leaves the unit alone; it is not rendered
	Notes     []string
	Err       error // why the unit cannot be rendered
}

// cluster is the state of one Import.
type cluster struct {
	*Importer
	self      Key // the GitRepository that is this repository
	objects   map[Key]manifest.Object
	artifacts map[Key]*artifact
	units     map[Key]*Unit
	order     []Key
}

// Import reads a cluster, whose root Kustomization applies a directory of the repository: `clusters/prod`. It returns the units in the
// order in which Flux comes upon them. The error is that of the root itself; errors of other units are in Unit.Err.
func (i *Importer) Import(ctx context.Context, root string) ([]Unit, error) {
	root = path.Clean(strings.TrimPrefix(root, "/"))
	if root == ".." || strings.HasPrefix(root, "../") {
		return nil, fmt.Errorf("the path %q leaves the repository", root)
	}
	c := &cluster{Importer: i, objects: map[Key]manifest.Object{}, artifacts: map[Key]*artifact{}, units: map[Key]*Unit{}}
	first, err := c.root(ctx, root)
	if err != nil {
		return nil, err
	}
	queue := []pending{first}
	waiting := []pending{}
	for len(queue) > 0 || len(waiting) > 0 {
		if len(queue) == 0 { // nobody else can bring what these wait for
			for _, p := range waiting {
				c.fail(p, p.err)
			}
			break
		}
		p := queue[0]
		queue = queue[1:]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(c.units) >= maxUnits {
			return nil, fmt.Errorf("the cluster has more than %d Kustomizations and HelmReleases", maxUnits)
		}
		found, err := c.expand(ctx, p)
		if missing, ok := errors.AsType[*missingError](err); ok {
			p.err = missing
			waiting = append(waiting, p)
			continue
		}
		if err != nil {
			c.fail(p, err)
			continue
		}
		queue, waiting = c.arrived(found, queue, waiting)
		queue = append(queue, found.children...)
	}
	out := make([]Unit, 0, len(c.order))
	for _, k := range c.order {
		out = append(out, *c.units[k])
	}
	return out, nil
}

// arrived moves to the queue what waited for one of the objects that were found.
func (c *cluster) arrived(found expansion, queue, waiting []pending) (ready, still []pending) {
	if len(found.objects) == 0 {
		return queue, waiting
	}
	for _, p := range waiting {
		if _, ok := c.objects[p.err.key]; ok {
			queue = append(queue, p)
		} else {
			still = append(still, p)
		}
	}
	return queue, still
}

// pending is an object that is not expanded yet.
type pending struct {
	object manifest.Object
	parent Key
	depth  int
	reads  []string      // of the parent
	err    *missingError // of what is waited for
}

type expansion struct {
	objects  []manifest.Object
	children []pending
}

// root builds the cluster's path once to find the Kustomization that applies it, which `flux bootstrap` puts there. Without one, the path
// is built as it is.
func (c *cluster) root(ctx context.Context, dir string) (pending, error) {
	files, err := ignoring(c.tree, c.files, nil)
	if err != nil {
		return pending{}, err
	}
	a := newArtifact(c.tree, files)
	objects, reads, err := c.build(ctx, a, dir, &kustomizev1.KustomizationSpec{Path: dir})
	if err != nil {
		return pending{}, err
	}
	c.remember(objects)
	for _, o := range objects {
		k := keyOf(o)
		if k.Group != groupKustomize || k.Kind != kindKustomization {
			continue
		}
		var ks kustomizev1.Kustomization
		if err := decode(o, &ks); err != nil {
			continue // the unit reports it
		}
		if clean(ks.Spec.Path) == dir && ks.Spec.SourceRef.Kind == kindGitRepository {
			c.self = Key{Group: groupSource, Kind: kindGitRepository, Namespace: orDefault(ks.Spec.SourceRef.Namespace, k.Namespace), Name: ks.Spec.SourceRef.Name}
			return pending{object: o, reads: reads}, nil
		}
	}
	c.self = Key{Group: groupSource, Kind: kindGitRepository, Namespace: "flux-system", Name: "flux-system"}
	c.guessSelf(objects)
	return pending{reads: reads, object: manifest.Object{
		"apiVersion": groupKustomize + "/v1", "kind": kindKustomization,
		"metadata": map[string]any{"name": "flux-system", "namespace": "flux-system"},
		"spec":     map[string]any{"path": dir, "prune": true, "sourceRef": map[string]any{"kind": kindGitRepository, "name": c.self.Name, "namespace": c.self.Namespace}},
	}}, nil
}

// guessSelf takes the only GitRepository that Kustomizations of the root name.
func (c *cluster) guessSelf(objects []manifest.Object) {
	names := map[Key]bool{}
	for _, o := range objects {
		var ks kustomizev1.Kustomization
		k := keyOf(o)
		if k.Group != groupKustomize || decode(o, &ks) != nil || ks.Spec.SourceRef.Kind != kindGitRepository { // the unit reports what does not decode
			continue
		}
		names[Key{Group: groupSource, Kind: kindGitRepository, Namespace: orDefault(ks.Spec.SourceRef.Namespace, k.Namespace), Name: ks.Spec.SourceRef.Name}] = true
	}
	if len(names) == 1 {
		for k := range names {
			c.self = k
		}
	}
}

func clean(p string) string { return path.Clean(strings.TrimPrefix(path.Clean("/"+p), "/") + "/.") }

func (c *cluster) fail(p pending, err error) {
	u := c.unit(p)
	u.Err = err
}

// unit registers a unit. An object that two Kustomizations bring keeps its first place.
func (c *cluster) unit(p pending) *Unit {
	k := keyOf(p.object)
	if u, ok := c.units[k]; ok {
		return u
	}
	u := &Unit{Key: k, Parent: p.parent, Origin: c.origin(k, p.reads)}
	c.units[k] = u
	c.order = append(c.order, k)
	return u
}

func (c *cluster) expand(ctx context.Context, p pending) (expansion, error) {
	k := keyOf(p.object)
	if u, ok := c.units[k]; ok {
		if u.Parent != p.parent {
			u.Notes = append(u.Notes, fmt.Sprintf("%s is applied by %s too: the first one counts", k, p.parent))
		}
		return expansion{}, nil
	}
	if p.depth > maxDepth {
		return expansion{}, fmt.Errorf("Kustomizations are nested more than %d levels deep", maxDepth) //nolint:staticcheck // a kind's name begins the message
	}
	if k.Kind == kindHelmRelease {
		return expansion{}, c.expandRelease(p)
	}
	return c.expandKustomization(ctx, p)
}

func (c *cluster) expandRelease(p pending) error {
	if suspended(p.object) {
		c.unit(p).Suspended = true
		return nil
	}
	release, r, err := c.release(p.object)
	if err != nil {
		return err
	}
	u := c.unit(p)
	u.Release, u.Namespace, u.Reads, u.Prune = release, release.Namespace, p.reads, true
	for _, d := range r.Spec.DependsOn {
		u.DependsOn = append(u.DependsOn, Key{Group: groupHelm, Kind: kindHelmRelease, Namespace: orDefault(d.Namespace, r.Namespace), Name: d.Name})
	}
	return nil
}

func suspended(o manifest.Object) bool {
	spec, _ := o["spec"].(map[string]any)
	yes, _ := spec["suspend"].(bool)
	return yes
}

func (c *cluster) expandKustomization(ctx context.Context, p pending) (expansion, error) {
	if suspended(p.object) {
		c.unit(p).Suspended = true
		return expansion{}, nil
	}
	var ks kustomizev1.Kustomization
	if err := decode(p.object, &ks); err != nil {
		return expansion{}, err
	}
	k := keyOf(p.object)
	if ks.Spec.KubeConfig != nil {
		return expansion{}, errors.New("spec.kubeConfig: Kustomizations for other clusters are not supported (give that cluster an entry of its own)")
	}
	a, err := c.source(k.Namespace, ks.Spec.SourceRef)
	if err != nil {
		return expansion{}, fmt.Errorf("spec.sourceRef: %w", err)
	}
	dir := clean(ks.Spec.Path)
	built, reads, err := c.build(ctx, a, dir, &ks.Spec)
	if err != nil {
		return expansion{}, err
	}
	vars := variables{}
	if ks.Spec.PostBuild != nil {
		// A Kustomization may bring the ConfigMaps that it substitutes from: the one of an earlier reconciliation counts then.
		own := c.objects
		c.objects = withOwn(c.objects, built)
		vars, err = c.load(k.Namespace, ks.Spec.PostBuild)
		c.objects = own
		if err != nil {
			return expansion{}, err
		}
	}
	used := map[string]bool{}
	built = slices.Clone(built) // builds are shared
	for i, o := range built {
		if built[i], err = vars.substitute(o, used); err != nil {
			return expansion{}, err
		}
		if m := ks.Spec.CommonMetadata; m != nil {
			built[i] = stamped(built[i], m.Labels, m.Annotations)
		}
	}
	u := c.unit(p)
	u.Path, u.Namespace, u.Prune, u.Notes = dir, orDefault(ks.Spec.TargetNamespace, defaultNamespace), ks.Spec.Prune, vars.notes(used)
	u.Reads = union(p.reads, reads)
	for _, d := range ks.Spec.DependsOn {
		u.DependsOn = append(u.DependsOn, Key{Group: groupKustomize, Kind: kindKustomization, Namespace: orDefault(d.Namespace, k.Namespace), Name: d.Name})
	}
	c.remember(built)
	out := expansion{objects: built}
	for _, o := range built {
		if key := keyOf(o); expands(key) {
			if key != k {
				out.children = append(out.children, pending{object: o, parent: k, depth: p.depth + 1, reads: u.Reads})
			}
		} else {
			u.Objects = append(u.Objects, o)
		}
	}
	return out, nil
}

func withOwn(known map[Key]manifest.Object, built []manifest.Object) map[Key]manifest.Object {
	out := maps.Clone(known)
	for _, o := range built {
		if k := keyOf(o); k.Group == "" && (k.Kind == kindConfigMap || k.Kind == kindSecret) {
			out[k] = o
		}
	}
	return out
}

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// build builds a directory of an artifact as kustomize-controller does, and tells which files of the commit it read.
func (c *cluster) build(ctx context.Context, a *artifact, dir string, spec *kustomizev1.KustomizationSpec) ([]manifest.Object, []string, error) {
	name, data, err := generated(a, dir, spec)
	if err != nil {
		return nil, nil, err
	}
	tree := overlay{artifact: a, name: name, data: data}
	walker := kustomize.NewWalker(tree, manifest.DefaultBudget()).AnyFile()
	names, err := walker.Closure(dir)
	if err != nil {
		// The lines in this error are those of the generated file. The user's own file has the better ones, if it has the mistake.
		if _, own := kustomize.NewWalker(a, manifest.DefaultBudget()).AnyFile().Closure(dir); own != nil && a.isFile(name) {
			err = own
		}
		return nil, nil, err
	}
	files := make([]kustomize.File, 0, len(names))
	var reads []string
	for _, n := range names {
		content, err := tree.ReadFile(n)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, kustomize.File{Path: n, Data: content})
		if a.isFile(n) {
			reads = append(reads, a.original(n))
		}
	}
	objects, err := c.builder.Build(ctx, files, dir)
	if err != nil {
		return nil, nil, err
	}
	return objects, union(reads, nil), nil
}

// origin finds where an object is written: in one of the files that were read for it, if there are several places.
func (c *cluster) origin(k Key, reads []string) Origin {
	candidates := c.written()[Key{Group: k.Group, Kind: k.Kind, Name: k.Name}]
	for _, o := range candidates {
		if slices.Contains(reads, o.File) {
			return o
		}
	}
	if len(candidates) > 0 {
		return candidates[0]
	}
	if len(reads) > 0 {
		return Origin{File: reads[0]}
	}
	return Origin{}
}
