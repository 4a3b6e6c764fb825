package flux

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// expand reads one object and registers its unit. A *missingError means that an object which it refers to is not known
// yet, and errLate that all other units must be read first: then it registers nothing.
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
			Namespace: orDefault(d.Namespace, r.Namespace), Name: d.Name,
		})
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
	if name := a.missingSubmodule(dir); name != "" {
		return expansion{}, fmt.Errorf("spec.path: the submodule %s is not in the commit, and Flux builds its files (add a kustomization.yaml that names what to build, or remove recurseSubmodules)", name)
	}
	m, err := c.produce(ctx, k, a, dir, k.Namespace, &ks.Spec)
	if err != nil {
		return expansion{}, err
	}
	u := c.unit(p)
	u.Path, u.Namespace, u.Prune, u.Notes = dir, orDefault(ks.Spec.TargetNamespace, defaultNamespace), ks.Spec.Prune,
		slices.Clone(m.Notes)
	u.Orphan, u.Force = orphans(&ks.Spec), ks.Spec.Force
	u.Reads = union(p.reads, m.Reads)
	for _, d := range ks.Spec.DependsOn {
		u.DependsOn = append(u.DependsOn, Key{
			Group: groupKustomize, Kind: kindKustomization,
			Namespace: orDefault(d.Namespace, k.Namespace), Name: d.Name,
		})
	}
	out := expansion{objects: m.objects()}
	c.remember(out.objects, u.Reads)
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
	u.Own = m.Reads
	return out, nil
}

// follows reports whether an object becomes a unit of its own.
func (c *cluster) follows(k Key, reads []string) bool {
	if !expands(k) {
		return false
	}
	return c.Ignore == nil || !c.Ignore(c.origin(k, reads).File)
}

// afterBuild substitutes the variables of spec.postBuild and adds spec.commonMetadata. It changes copies, since builds
// are shared, and returns notes about the variables too.
func (c *cluster) afterBuild(built []manifest.Object, reads []string, namespace string,
	spec *kustomizev1.KustomizationSpec,
) ([]manifest.Object, []string, error) {
	vars, err := variables{}, error(nil)
	if spec.PostBuild != nil {
		// A Kustomization may bring the ConfigMaps that it substitutes from: the one of an earlier reconciliation
		// counts then.
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
