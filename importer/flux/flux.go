package flux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	"github.com/sluice-gitops/sluice/importer/internal/reach"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Limits of one cluster.
const (
	maxUnits = 20_000 // Kustomizations, HelmReleases and ResourceSets; objects of a ResourceSet
	maxDepth = 50     // Kustomizations that come out of Kustomizations
)

// Builder builds a Kustomize root: the objects of `kustomize build root`, where a kustomization may read any file of
// files. Import does not change the objects.
type Builder interface {
	Build(ctx context.Context, files []kustomize.File, root string) ([]manifest.Object, error)
}

// Importer reads clusters of one commit.
type Importer struct {
	// Starting is called before a unit is built; an error becomes the unit's. nil calls nothing.
	Starting func(Key) error
	// Ignore reports files whose objects are not followed: they stay ordinary objects of the Kustomization that applies
	// them. nil ignores none.
	Ignore func(name string) bool
	// Lenient replaces a variable that is not set by nothing, as kustomize-controller does with
	// StrictPostBuildSubstitutions=false. Otherwise it is an error, unless its reference has a default.
	Lenient bool
	// Memory keeps results between imports; nil keeps none.
	Memory Memory

	tree    Tree
	builder Builder
	origins map[Key][]Origin
	ids     map[string]string // ids of the content of files; see identify

	commit   *content   // the repository under review
	contents []*content // of the repositories that were listed, the commit's first
	others   []Repository
	mentions map[string][]mention // by file of another repository

	repositories map[string]*artifact // by what they are made from; see repository
}

// New lists the commit's files. It fails if they cannot be listed. The content of other repositories is in the tree
// too, in one directory.
func New(tree Tree, builder Builder, others ...Repository) (*Importer, error) {
	i := &Importer{
		tree: tree, builder: builder, others: others, mentions: map[string][]mention{},
		ids: map[string]string{}, repositories: map[string]*artifact{},
	}
	var err error
	i.commit, err = i.listed("", ".")
	return i, err
}

// Unit is one Kustomization, HelmRelease or ResourceSet of a cluster.
type Unit struct {
	Key    Key
	Origin Origin
	Parent Key // the Kustomization whose objects this one is among; empty for the cluster's root

	// Stream has the objects of a Kustomization or ResourceSet as YAML documents, in Flux's order, without those that
	// are units themselves.
	Stream []byte
	// Release of a HelmRelease.
	Release *Release

	Namespace string   // of objects that name none
	Path      string   // of a Kustomization: the directory in its source
	Reads     []string // files of the commit that the unit's build, or that of a unit above it, read
	// the files of the commit that a Kustomization's own build read; of one that fails or is suspended, those that it
	// may be built from
	Own       []string
	Refers    []Key // the units that bring the objects that the unit's object refers to; may repeat
	DependsOn []Key
	Prune     bool // Flux removes objects that disappear
	Force     bool // Flux deletes and creates again an object whose change the API server refuses
	Orphan    bool // Flux leaves the objects in the cluster when the unit is deleted
	Suspended bool // Flux leaves the unit alone; it is not rendered
	Notes     []string
	StandIns  []string // files with the values of objects that are not in Git
	Err       error    // why the unit cannot be rendered
	Brings    bool     // the unit fails, and its files may describe other units, which are missing
	// Declared is a digest of the object, without the values of a release that can be rendered; of a unit that fails,
	// also of the objects that it refers to. Object is the object as YAML, of a unit that fails.
	Declared string
	Object   []byte

	object manifest.Object
}

// cluster is the state of one Import.
type cluster struct {
	*Importer
	self      Key         // the source that is this repository
	sync      *syncing    // what a FluxInstance says about self; nil if none does
	brought   map[Key]Key // the unit of each of objects; empty of those that only the root has
	objects   map[Key]manifest.Object
	artifacts map[Key]*artifact
	units     map[Key]*Unit
	order     []Key
	sets      sets
	absent    []reference // references whose objects counted as absent when their unit was read; see recheckOptional
}

// Import reads a cluster, whose root Kustomization applies a directory of the repository: `clusters/prod`. It returns
// the units in the order in which Flux comes upon them. The error is that of a root that is no directory, or of limits;
// errors of units, the root's too, are in Unit.Err.
func (i *Importer) Import(ctx context.Context, root string) ([]Unit, error) {
	root = path.Clean(strings.TrimPrefix(root, "/"))
	if root == ".." || strings.HasPrefix(root, "../") {
		return nil, fmt.Errorf("the path %q leaves the repository", root)
	}
	c := &cluster{
		Importer: i, objects: map[Key]manifest.Object{}, brought: map[Key]Key{}, artifacts: map[Key]*artifact{},
		units: map[Key]*Unit{},
	}
	c.sets = sets{objects: c.objects, reads: map[Key][]string{}}
	a, err := i.repository(i.commit, &sourcev1.GitRepositorySpec{})
	if err != nil {
		return nil, err
	}
	if !a.isDir(root) {
		return nil, fmt.Errorf("%q is not a directory of the repository", root)
	}
	first, err := c.root(ctx, a, root)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		c.fail(c.unbuilt(root), err)
	} else if err := c.expandAll(ctx, first); err != nil {
		return nil, err
	}
	c.recheckSelectors()
	c.recheckOptional()
	out := make([]Unit, 0, len(c.order))
	for _, k := range c.order {
		c.describe(c.units[k])
		out = append(out, *c.units[k])
	}
	return out, nil
}

// expandAll expands the root and everything that comes out of it. The error is that of a limit or of the context.
func (c *cluster) expandAll(ctx context.Context, root pending) error {
	work := agenda{queue: []pending{root}}
	for p, ok := work.next(); ok; p, ok = work.next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(c.units) >= maxUnits {
			return fmt.Errorf("the cluster has more than %d Kustomizations, HelmReleases and ResourceSets", maxUnits)
		}
		found, err := c.expand(ctx, p)
		missing, waits := errors.AsType[*missingError](err)
		switch {
		case waits:
			// The unit that brings the object may also bring providers that p selects: p must be late again.
			p.err, p.missing, p.late = err, missing.key, false
			work.waiting = append(work.waiting, p)
		case errors.Is(err, errLate):
			p.late = true
			work.late = append(work.late, p)
		case err != nil:
			c.fail(p, err)
		default:
			work.add(c, found)
		}
	}
	for _, p := range work.waiting { // no unit is left that could bring what these wait for
		c.fail(p, p.err)
	}
	return nil
}

// agenda has the objects that are not expanded yet.
type agenda struct {
	queue   []pending
	waiting []pending // wait for an object that no unit has brought yet
	late    []pending // wait until the queue is empty; one of them is then queued
}

// next takes the next object off the agenda. It returns false if only objects that wait for others are left.
func (a *agenda) next() (pending, bool) {
	if len(a.queue) == 0 && len(a.late) > 0 {
		// HelmReleases last: they bring nothing that others refer to.
		n := max(0, slices.IndexFunc(a.late, func(p pending) bool { return p.object.Kind() != kindHelmRelease }))
		a.queue = append(a.queue, a.late[n])
		a.late = slices.Delete(a.late, n, n+1)
	}
	if len(a.queue) == 0 {
		return pending{}, false
	}
	p := a.queue[0]
	a.queue = a.queue[1:]
	return p, true
}

// add takes what a unit brings: it queues the objects that waited for it, then the units of the expansion.
func (a *agenda) add(c *cluster, found expansion) {
	if len(found.objects) > 0 {
		a.waiting = slices.DeleteFunc(a.waiting, func(p pending) bool {
			ready := c.mayHave(p.missing, found.objects)
			if ready {
				a.queue = append(a.queue, p)
			}
			return ready
		})
	}
	a.queue = append(a.queue, found.children...)
}

// mayHave reports whether the cluster may have an object that was missing, now that a unit has brought some. An
// ExternalArtifact is in no file: a generator makes it.
func (c *cluster) mayHave(missing Key, brought []manifest.Object) bool {
	if missing.Kind == kindExternalArtifact {
		return slices.ContainsFunc(brought,
			func(o manifest.Object) bool { return keyOf(o).Kind == kindArtifactGenerator })
	}
	_, ok := c.objects[missing]
	return ok
}

// pending is an object that is not expanded yet.
type pending struct {
	object  manifest.Object
	parent  Key
	depth   int
	reads   []string // of the parent
	origin  Origin   // if it is written in no file of its own
	late    bool     // it was taken from agenda.late: every object that does not depend on it is known
	missing Key      // that it waits for
	err     error    // if missing never comes
}

// expansion is what a unit brings.
type expansion struct {
	objects  []manifest.Object // that others refer to, or that become units
	children []pending         // the units among them
}

// root builds the cluster's path once to find the Kustomization that applies this path, which `flux bootstrap` puts
// there, and sets self to its source. Without one, root returns the Kustomization that the Flux Operator makes for a
// FluxInstance. Without both, it returns one that applies the path and nothing else.
func (c *cluster) root(ctx context.Context, a *artifact, dir string) (pending, error) {
	m, err := c.produce(ctx, Key{Kind: "directory", Name: dir}, a, dir, "", &kustomizev1.KustomizationSpec{Path: dir})
	if err != nil {
		return pending{}, err
	}
	objects, reads := m.objects(), m.Reads
	c.remember(Key{}, objects, reads) // the Kustomization that applies them remembers them again
	var instance Origin
	if c.sync, instance, err = c.syncOf(dir); err != nil {
		return pending{}, err
	}
	for _, o := range objects {
		k := keyOf(o)
		if k.Group != groupKustomize || k.Kind != kindKustomization {
			continue
		}
		var ks kustomizev1.Kustomization
		if err := decode(o, &ks); err != nil {
			continue // the unit reports it
		}
		if clean(ks.Spec.Path) == dir && c.mayBeOwn(sourceKey(k.Namespace, ks.Spec.SourceRef)) {
			c.self = sourceKey(k.Namespace, ks.Spec.SourceRef)
			return pending{object: o, reads: reads}, nil
		}
	}
	if c.sync != nil {
		o, err := c.sync.kustomization(ctx, c.builder, dir)
		if err != nil {
			return pending{}, fmt.Errorf("%s: spec.kustomize.patches: %w", instance, err)
		}
		c.self = c.sync.source()
		return pending{object: o, reads: union(reads, []string{instance.File}), origin: instance}, nil
	}
	c.guessSelf(objects)
	return pending{reads: reads, object: synthetic(dir, c.self), origin: Origin{File: dir}}, nil
}

// mayBeOwn reports whether a source of the cluster's root can be this repository. A GitRepository can; an OCIRepository
// or a Bucket only if the FluxInstance or an annotation says so.
func (c *cluster) mayBeOwn(key Key) bool {
	return key.Kind == kindGitRepository || c.sync != nil && c.sync.Kind == key.Kind ||
		slices.Contains(sourceKinds(), key.Kind) && c.objects[key].Annotation(AnnotationPushedFrom) == "."
}

// synthetic is the Kustomization that applies a cluster's directory where the directory has none.
func synthetic(dir string, source Key) manifest.Object {
	return manifest.Object{
		"apiVersion": groupKustomize + "/v1", "kind": kindKustomization,
		"metadata": map[string]any{"name": "flux-system", "namespace": "flux-system"},
		"spec": map[string]any{
			"path": dir, "prune": true, "sourceRef": map[string]any{
				"kind": kindGitRepository, "name": source.Name, "namespace": source.Namespace,
			},
		},
	}
}

// unbuilt returns the root of a directory that cannot be built: a Kustomization in one of its files that applies the
// directory, otherwise a synthetic one.
func (c *cluster) unbuilt(dir string) pending {
	for _, name := range c.commit.files {
		if !strings.HasPrefix(name, dir+"/") || !isYAML(name) {
			continue
		}
		data, err := c.tree.ReadFile(name)
		if err != nil || !bytes.Contains(data, []byte(groupKustomize)) {
			continue // the root fails already
		}
		objects, err := manifest.Decode(data, manifest.DefaultBudget())
		if err != nil {
			continue
		}
		for _, o := range objects {
			if at, ok := selfApplying(o, name); ok && at == dir {
				return pending{object: o, reads: []string{name}}
			}
		}
	}
	c.guessSelf(nil)
	return pending{object: synthetic(dir, c.self), reads: []string{dir}}
}

// guessSelf sets self to the only GitRepository that the Kustomizations among objects name. If they name none or
// several, it is the one that `flux bootstrap` creates.
func (c *cluster) guessSelf(objects []manifest.Object) {
	c.self = Key{Group: groupSource, Kind: kindGitRepository, Namespace: "flux-system", Name: "flux-system"}
	names := map[Key]bool{}
	for _, o := range objects {
		var ks kustomizev1.Kustomization
		k := keyOf(o)
		// the unit reports what does not decode
		if k.Group != groupKustomize || decode(o, &ks) != nil || ks.Spec.SourceRef.Kind != kindGitRepository {
			continue
		}
		names[sourceKey(k.Namespace, ks.Spec.SourceRef)] = true
	}
	if len(names) == 1 {
		for k := range names {
			c.self = k
		}
	}
}

// clean returns a path that an object names in its source: without a leading slash, "." for the source itself. It never
// leaves the source.
func clean(p string) string { return path.Clean("./" + path.Clean("/"+p)) }

// fail registers an object as a unit that cannot be rendered, because of err.
func (c *cluster) fail(p pending, err error) {
	u := c.unit(p)
	u.Err, u.Brings = err, c.mayBring(p.object)
	if u.Key.Kind == kindResourceSet {
		u.Brings = !errors.Is(err, errServer)
	}
}

// mayBring reports whether the files of a Kustomization that cannot be built may describe other units. A Kustomization
// for another cluster or from another repository brings none of this commit.
func (c *cluster) mayBring(o manifest.Object) bool {
	k := keyOf(o)
	if k.Kind != kindKustomization {
		return false
	}
	spec, _ := o["spec"].(map[string]any)
	if spec["kubeConfig"] != nil {
		return false
	}
	var ks kustomizev1.Kustomization
	if decode(o, &ks) == nil { // otherwise the unit has that error
		if _, err := c.source(k.Namespace, ks.Spec.SourceRef); errors.Is(err, errElsewhere) {
			return false
		}
	}
	return c.mayContain(o, describing(groupKustomize, groupHelm, groupOperator))
}

// describing returns a match for mayContain: it accepts files that may contain objects of one of the API groups.
func describing(groups ...string) func(name string, data []byte) bool {
	return func(_ string, data []byte) bool {
		return slices.ContainsFunc(groups, func(group string) bool { return bytes.Contains(data, []byte(group+"/v")) })
	}
}

// mayContain reports whether match accepts one of the files from which a Kustomization is built, or the templates of a
// ResourceSet. What cannot be read may contain anything: a source that is missing, and a directory that is, since Flux
// does not remove what an earlier commit had there.
func (c *cluster) mayContain(o manifest.Object, match func(name string, data []byte) bool) bool {
	// without spec, a ResourceSet has no templates, and a Kustomization builds the root of its source
	spec, _ := o["spec"].(map[string]any)
	if o.Kind() == kindResourceSet {
		return match("", fmt.Append(nil, spec["resources"], spec["resourcesTemplate"], spec["steps"]))
	}
	dir, ok := spec["path"].(string)
	if !ok && spec["path"] != nil {
		return true
	}
	from, at := c.commit, clean(dir)
	var ks kustomizev1.Kustomization
	// an object that does not decode fails, and its path counts as one of this repository
	if decode(o, &ks) == nil && ks.Spec.SourceRef.Kind == kindGitRepository {
		var err error
		if from, err = c.contentBehind(sourceKey(keyOf(o).Namespace, ks.Spec.SourceRef)); err != nil {
			return true
		}
	}
	files := slices.Sorted(slices.Values(from.files))
	if at != "." && !slices.ContainsFunc(files, func(name string) bool { return strings.HasPrefix(name, at+"/") }) {
		return true
	}
	return reach.Any(files, func(name string) ([]byte, error) { return c.tree.ReadFile(from.at(name)) }, at, match)
}

// unit registers an object as a unit, or returns the unit that it is already: of two Kustomizations that bring an
// object, the first one is its parent.
func (c *cluster) unit(p pending) *Unit {
	k := keyOf(p.object)
	if u, ok := c.units[k]; ok {
		return u
	}
	u := &Unit{Key: k, Parent: p.parent, Origin: p.origin, object: p.object}
	if u.Origin == (Origin{}) {
		u.Origin = c.origin(k, p.reads)
	}
	c.units[k] = u
	c.order = append(c.order, k)
	return u
}
