package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Epoch identifies how inputs become objects. It is part of every input digest. Raise it with each change that renders
// equal inputs differently, such as a new version of Helm or Kustomize: the next run then renders every target once.
const Epoch = "3 helm 3.22.0 kustomize 0.21.2"

// EpochHelm4 is part of the input digest of targets with charts that Helm 4 renders.
const EpochHelm4 = "helm 4.3.2"

// Target is one app on one cluster with its references resolved.
type Target struct {
	fleet.Selection
	Digest string // input digest: targets with equal digests render to equal objects

	view *View
}

// KeepsUnstable reports whether the branch's values of unstable fields are kept (`unstable: keep`).
func (t *Target) KeepsUnstable() bool { return t.Unstable == "keep" }

// Rendering identifies what a target renders to.
type Rendering struct {
	view   *View
	app    *fleet.App
	digest string
}

// Rendering returns equal values for targets of one app with equal outputs: the same objects in the same files. It
// returns false for a target whose output depends on what a branch holds.
func (t *Target) Rendering() (Rendering, bool) {
	return Rendering{t.view, t.App, t.Digest}, !t.KeepsUnstable()
}

// AsRendered reports whether objects keep the namespaces that the renderer gave them.
func (t *Target) AsRendered() bool { return t.view.Fleet.AsRendered() }

// ForcesHookJobs reports whether Jobs that are hooks get Flux's force annotation.
func (t *Target) ForcesHookJobs() bool { return t.view.Fleet.ForceHookJobs(t.Cluster.Environment) }

// Scope returns the scope of a custom kind that no definition in the environment has: the one in spec.kinds or, for a
// kind of a well-known project, the one in the built-in table.
func (t *Target) Scope(kind manifest.GroupKind) manifest.Scope {
	if scope := manifest.Kinds(t.view.Fleet.Spec.Kinds).Scope(kind); scope != manifest.ScopeUnknown {
		return scope
	}
	return manifest.WellKnownScope(kind)
}

// Target resolves a target and computes its input digest. It reads object ids and the lock file, not the sources.
func (v *View) Target(t fleet.Target) (*Target, error) {
	selection, err := v.Fleet.Select(t)
	if err != nil {
		return nil, err
	}
	out := &Target{Selection: selection, view: v}
	key := make([]byte, 0, 1024)
	key = append(key, Epoch...)
	if key, err = out.AppendKey(key); err != nil {
		return nil, err
	}
	charts := false
	for i, src := range out.Sources {
		d := v.contents.describe(src)
		if d.err != nil {
			return nil, t.SourceError(i, d.err)
		}
		key = append(key, 0)
		key = append(key, d.id...)
		charts = charts || src.Helm != nil || d.charts
	}
	for _, layer := range out.Components { // the digest covers the folder itself, but not the files that it refers to
		r := v.contents.kustomizeID(componentRoot(v.contents, layer.Path))
		if r.err != nil {
			return nil, fmt.Errorf("component %s: %w", layer.Path, r.err)
		}
		key = append(key, 0)
		key = append(key, r.id...)
		charts = charts || r.charts
	}
	if charts && v.Fleet.Helm(t) == fleet.Helm4 {
		key = append(key, "\x00"+EpochHelm4...)
	}
	if out.KeepsUnstable() { // the kept values differ between clusters
		key = append(key, "\x00of "+t.Cluster.Name...)
	}
	if v.Fleet.AsRendered() {
		key = append(key, "\x00as rendered"...)
	}
	sum := sha256.Sum256(key)
	out.Digest = "sha256:" + hex.EncodeToString(sum[:])
	return out, nil
}

// Bundle reads all content that the rendering of the target depends on.
func (t *Target) Bundle(ctx context.Context) (*renderer.Bundle, error) {
	b := &renderer.Bundle{
		Namespace: t.Namespace, KubeVersion: t.Cluster.ChartVersion(),
		APIVersions: t.Cluster.APIVersions, Helm: t.view.Fleet.Helm(t.Target),
	}
	if strict := t.view.Fleet.Spec.Strict.UnmatchedPatches; strict != nil && !*strict {
		b.AllowUnmatched = true
	}
	for i, src := range t.Sources {
		ready, err := t.source(ctx, src)
		if err != nil {
			return nil, t.SourceError(i, err)
		}
		b.Sources = append(b.Sources, ready)
	}
	if i := t.Imported(); i != nil && i.Component != nil {
		sum := sha256.Sum256(i.Component)
		b.Components = append(b.Components, renderer.Component{Root: ".", Files: renderer.Content{
			Name: i.File, Digest: "component " + hex.EncodeToString(sum[:]),
			Files: []renderer.File{{Path: "kustomization.yaml", Data: i.Component}},
		}})
	}
	for _, layer := range t.Components {
		c, err := t.component(ctx, layer)
		if err != nil {
			return nil, fmt.Errorf("component %s: %w", layer.Path, err)
		}
		b.Components = append(b.Components, c)
	}
	return b, nil
}

// source reads one source of the target.
func (t *Target) source(ctx context.Context, src fleet.Source) (renderer.Source, error) {
	c := t.view.contents
	switch {
	case src.Helm != nil:
		values, err := t.MergedValues(src.Name)
		if err != nil {
			return renderer.Source{}, err
		}
		helm, err := c.helm(ctx, src.Helm, values)
		if err == nil {
			err = t.mayReadChart(src.Helm, helm)
		}
		if from := t.importedSource(src.Name); from != nil && err == nil {
			helm.KubeVersion, helm.APIVersions = from.KubeVersion, from.APIVersions
		}
		return renderer.Source{Helm: helm}, err
	case src.Objects != nil:
		content := renderer.Content{
			Name: src.Objects.Name, Digest: "objects " + src.Objects.Digest,
			Files: []renderer.File{{Path: "objects.yaml", Data: src.Objects.Data}},
		}
		return renderer.Source{Manifests: &renderer.ManifestsSource{Files: content}}, nil
	case src.Kustomize != nil:
		root, err := t.root(ctx, c.root(src.Kustomize))
		if from := t.importedSource(src.Name); from != nil && err == nil {
			root.KubeVersion, root.APIVersions = from.KubeVersion, from.APIVersions
		}
		return renderer.Source{Kustomize: root}, err
	default:
		content, err := c.manifests(src.Manifests.Path, t.App)
		return renderer.Source{Manifests: &renderer.ManifestsSource{Files: content}}, err
	}
}

// importedSource returns the importer's description of a source; nil for an app that the fleet itself declares.
func (t *Target) importedSource(name string) *fleet.ImportedSource {
	if i := t.Imported(); i != nil {
		return i.Source(name)
	}
	return nil
}

// component reads a layer's component, the files that it refers to, and its charts. It replaces references for the
// target's cluster, but only in files of the component's own folder.
func (t *Target) component(ctx context.Context, layer fleet.LayerFile) (renderer.Component, error) {
	dir := layer.Path
	out := renderer.Component{Root: dir}
	content, err := t.view.contents.kustomizeFiles(componentRoot(t.view.contents, dir))
	if err == nil && layer.OfWorkspace() {
		err = t.mayRead(content)
	}
	if err != nil {
		return out, err
	}
	out.Files = renderer.Content{Name: dir, Files: make([]renderer.File, len(content.Files))}
	h := sha256.New()
	for i, f := range content.Files {
		data := f.Data
		if strings.HasPrefix(f.Path, dir+"/") {
			if data, err = t.ComponentFile(f.Path, f.Data); err != nil {
				return out, err
			}
		}
		out.Files.Files[i] = renderer.File{Path: f.Path, Data: data}
		fmt.Fprintf(h, "%d %s %d\n%s", len(f.Path), f.Path, len(data), data)
	}
	out.Files.Digest = "component " + hex.EncodeToString(h.Sum(nil))
	out.Charts, err = t.view.contents.kustomizeCharts(ctx, ownerOf(t.Target, layer),
		componentRoot(t.view.contents, dir))
	return out, err
}
