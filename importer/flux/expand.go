package flux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// missingError means that a unit refers to an object that no unit has brought yet.
type missingError struct {
	field string // "" if the caller names it
	key   Key
}

func (e *missingError) Error() string {
	if e.key.Kind == kindExternalArtifact {
		return fmt.Sprintf("%s: no ArtifactGenerator of the cluster makes it", e.key)
	}
	if e.field == "" {
		return fmt.Sprintf("%s is not in Git (add it)", e.key)
	}
	if e.key.Kind == kindConfigMap || e.key.Kind == kindSecret {
		return fmt.Sprintf("%s: %s is not in Git (add it, or set optional: true)", e.field, e.key)
	}
	return fmt.Sprintf("%s: %s is not in Git (add it)", e.field, e.key)
}

// expand reads one object and registers its unit. With an error it registers nothing. A *missingError means that an
// object which it refers to is not known yet, and errLate that all other units must be read first.
func (c *cluster) expand(ctx context.Context, p pending) (expansion, error) {
	k := keyOf(p.object)
	if u, ok := c.units[k]; ok {
		if u.Parent != p.parent {
			u.Notes = append(u.Notes, fmt.Sprintf("%s is applied by %s too: the first one counts", k, p.parent))
		}
		return expansion{}, nil
	}
	if p.depth > maxDepth {
		//nolint:staticcheck // a kind's name begins the message
		return expansion{}, fmt.Errorf("Kustomizations are nested more than %d levels deep", maxDepth)
	}
	if k.Kind == kindResourceSet {
		return c.expandSet(ctx, p)
	}
	if !p.late && !suspended(p.object) && len(c.optionalReferences(p.object)) > 0 {
		return expansion{}, errLate
	}
	out := expansion{}
	var err error
	if k.Kind == kindHelmRelease {
		err = c.expandRelease(p)
	} else {
		out, err = c.expandKustomization(ctx, p)
	}
	if err == nil && p.late {
		c.absent = append(c.absent, c.optionalReferences(p.object)...)
	}
	return out, err
}

// expandRelease reads a HelmRelease, which brings no objects that others refer to.
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
	u.Release, u.Namespace, u.Prune = release, release.Namespace, true
	u.StandIns, u.Reads = release.StandIns, p.reads
	if len(u.StandIns) > 0 {
		u.Reads = union(p.reads, u.StandIns)
	}
	for _, d := range r.Spec.DependsOn {
		u.DependsOn = append(u.DependsOn, Key{
			Group: groupHelm, Kind: kindHelmRelease,
			Namespace: cmp.Or(d.Namespace, r.Namespace), Name: d.Name,
		})
	}
	return nil
}

// suspended reports whether spec.suspend is set.
func suspended(o manifest.Object) bool {
	spec, _ := o["spec"].(map[string]any)
	yes, _ := spec["suspend"].(bool)
	return yes
}

// expandKustomization builds a Kustomization. Objects that become units are its children; the others are its stream.
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
	if name := a.missingSubmodule(dir); name != "" {
		return expansion{}, fmt.Errorf("spec.path: the submodule %s is not in the commit, and Flux builds its files (add a kustomization.yaml that names what to build, or remove recurseSubmodules)", name)
	}
	m, err := c.produce(ctx, k, a, dir, k.Namespace, &ks.Spec)
	if err != nil {
		return expansion{}, err
	}
	u := c.unit(p)
	u.Path, u.Namespace = dir, cmp.Or(ks.Spec.TargetNamespace, defaultNamespace)
	u.Prune, u.Orphan, u.Force = ks.Spec.Prune, orphans(&ks.Spec), ks.Spec.Force
	u.Notes = slices.Clone(m.Notes)
	u.Own, u.Reads = m.Reads, union(p.reads, m.Reads)
	for _, d := range ks.Spec.DependsOn {
		u.DependsOn = append(u.DependsOn, Key{
			Group: groupKustomize, Kind: kindKustomization,
			Namespace: cmp.Or(d.Namespace, k.Namespace), Name: d.Name,
		})
	}
	out := expansion{objects: m.objects()}
	c.remember(k, out.objects, u.Reads)
	if u.StandIns = c.standIns(k.Namespace, ks.Spec.PostBuild); len(u.StandIns) > 0 {
		u.Reads = union(u.Reads, u.StandIns)
	}
	for _, one := range m.Pieces {
		if one.Object == nil || !c.follows(keyOf(one.Object), u.Reads) {
			u.Stream = append(u.Stream, one.Text...)
		} else if keyOf(one.Object) != k {
			out.children = append(out.children, pending{
				object: one.Object, parent: k, depth: p.depth + 1,
				reads: u.Reads,
			})
		}
	}
	return out, nil
}

// follows reports whether an object becomes a unit of its own.
func (c *cluster) follows(k Key, reads []string) bool {
	if !expands(k) {
		return false
	}
	return c.Ignore == nil || !c.Ignore(c.origin(k, reads).File)
}

// afterBuild substitutes the variables of spec.postBuild and adds spec.commonMetadata. It changes copies, because
// builds are shared. It also returns notes about the variables.
func (c *cluster) afterBuild(built []manifest.Object, reads []string, namespace string,
	spec *kustomizev1.KustomizationSpec,
) ([]manifest.Object, []string, error) {
	var vars variables
	var err error
	if spec.PostBuild != nil {
		// A Kustomization may bring the ConfigMaps that it substitutes from: Flux then takes those of its earlier
		// reconciliation. They count for this Kustomization only.
		known := c.objects
		c.objects = withOwn(known, built)
		vars, err = c.load(namespace, spec.PostBuild)
		c.objects = known
		if err != nil {
			return nil, nil, err
		}
	}
	used := map[string]bool{}
	common := kustomizev1.CommonMetadata{}
	if spec.CommonMetadata != nil {
		common = *spec.CommonMetadata
	}
	out := slices.Clone(built)
	for i, o := range out {
		if out[i], err = vars.substitute(o, used); err != nil {
			if unset, ok := errors.AsType[*unsetError](err); ok {
				unset.at = c.mentioning(unset, reads)
			}
			return nil, nil, err
		}
		out[i] = stamped(out[i], common.Labels, common.Annotations)
	}
	return out, vars.notes(used), nil
}

// orphans reports whether Flux leaves a Kustomization's objects in the cluster when the Kustomization is deleted.
func orphans(spec *kustomizev1.KustomizationSpec) bool {
	switch spec.DeletionPolicy {
	case kustomizev1.DeletionPolicyOrphan:
		return true
	case "", kustomizev1.DeletionPolicyMirrorPrune:
		return !spec.Prune
	}
	return false
}

// withOwn returns known objects with the ConfigMaps and Secrets of a build.
func withOwn(known map[Key]manifest.Object, built []manifest.Object) map[Key]manifest.Object {
	out := maps.Clone(known)
	for _, o := range built {
		if k := keyOf(o); k.Group == "" && (k.Kind == kindConfigMap || k.Kind == kindSecret) {
			out[k] = o
		}
	}
	return out
}

// union returns the strings of both lists, sorted, each once.
func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// build builds a directory of an artifact as kustomize-controller does. It also returns the files of the commit that it
// read.
func (c *cluster) build(ctx context.Context, a view, dir string,
	spec *kustomizev1.KustomizationSpec,
) ([]manifest.Object, []string, error) {
	name, data, err := generated(a, dir, spec)
	if err != nil {
		return nil, nil, err
	}
	tree := c.redirected(a).Replacing(map[string][]byte{name: data})
	walker := kustomize.NewWalker(tree, manifest.DefaultBudget()).AnyFile().Mounts(c.mountDir())
	names, err := walker.Closure(dir)
	if err != nil {
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
