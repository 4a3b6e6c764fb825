package gitops

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/chartutil"
	"github.com/fluxcd/pkg/kustomize"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	helmutil "helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

// fluxCluster simulates Flux's controllers for one cluster, with their libraries. It builds Kustomizations, and
// follows the Kustomizations and HelmReleases among the built objects. It retries a reference to an object that no
// unit has created yet.
type fluxCluster struct {
	t      *testing.T
	dir    string // a copy of the repository
	ctx    context.Context
	store  map[string]*unstructured.Unstructured
	built  map[string]map[string]string // unit → identity → object
	failed map[string]error
	seen   map[string]bool
	own    string // name of the GitRepository that stands for the repository

}

const (
	kindKs      = "Kustomization"
	kindRelease = "HelmRelease"
)

func isUnit(u *unstructured.Unstructured) bool {
	return u.GetKind() == kindKs && strings.HasPrefix(u.GetAPIVersion(), "kustomize.toolkit.fluxcd.io/") ||
		u.GetKind() == kindRelease && strings.HasPrefix(u.GetAPIVersion(), "helm.toolkit.fluxcd.io/")
}

// unitName returns the name of the app that Sluice creates for a unit.
func unitName(u *unstructured.Unstructured) string {
	switch {
	case u.GetKind() == kindRelease:
		return u.GetNamespace() + "." + u.GetName()
	case u.GetNamespace() == "flux-system":
		return u.GetName()
	}
	return u.GetNamespace() + "." + u.GetName() + ".ks"
}

func reconcile(t *testing.T, dir, root string) *fluxCluster {
	t.Helper()
	c := &fluxCluster{t: t, dir: dir, ctx: t.Context(), store: map[string]*unstructured.Unstructured{}, built: map[string]map[string]string{}, failed: map[string]error{}, seen: map[string]bool{}}
	removeIgnored(t, dir)
	first := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": kindKs, "metadata": map[string]any{"name": "flux-system", "namespace": "flux-system"},
		"spec": map[string]any{"path": root, "sourceRef": map[string]any{"kind": "GitRepository", "name": "flux-system"}},
	}}
	// If `flux bootstrap` wrote the root's own Kustomization, it is among the root's objects.
	objects, err := c.kustomization(dir, first)
	if err != nil {
		t.Fatalf("%s: %v", root, err)
	}
	c.own = "flux-system"
	var queue []*unstructured.Unstructured
	for _, o := range objects {
		path, _, _ := unstructured.NestedString(o.Object, "spec", "path")
		if isUnit(o) && o.GetKind() == kindKs && filepath.Clean(path) == filepath.Clean(root) {
			c.own, _, _ = unstructured.NestedString(o.Object, "spec", "sourceRef", "name")
			queue = append(queue, o)
		}
	}
	if len(queue) == 0 {
		queue = append(queue, first)
		names := map[string]bool{}
		for _, o := range objects {
			if name, ok, _ := unstructured.NestedString(o.Object, "spec", "sourceRef", "name"); isUnit(o) && ok {
				names[name] = true
			}
		}
		if len(names) == 1 {
			c.own = slices.Collect(maps.Keys(names))[0]
		}
	}
	for len(queue) > 0 {
		var waiting []*unstructured.Unstructured
		progress := false
		for _, u := range queue {
			found, err := c.unit(u)
			if err != nil {
				c.failed[unitName(u)] = err
				waiting = append(waiting, u)
				continue
			}
			delete(c.failed, unitName(u))
			progress = true
			waiting = append(waiting, found...)
		}
		if queue = waiting; !progress {
			return c
		}
	}
	return c
}

var errForeign = errors.New("the source is not this repository")

// unit reconciles one unit and returns the units that it creates.
func (c *fluxCluster) unit(u *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	name := unitName(u)
	if suspend, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); c.seen[name] || suspend {
		return nil, nil
	}
	if u.GetKind() == kindRelease {
		objects, err := c.release(u)
		if err != nil {
			return nil, err
		}
		c.seen[name] = true
		c.built[name] = contentsOf(c.t, objects)
		return nil, nil
	}
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "sourceRef", "kind")
	source, _, _ := unstructured.NestedString(u.Object, "spec", "sourceRef", "name")
	from := c.dir
	switch {
	case kind == "ExternalArtifact":
		if from = c.artifact(source); from == "" {
			return nil, errForeign
		}
	case kind != "GitRepository" || source != c.own:
		return nil, errForeign
	}
	objects, err := c.kustomization(from, u)
	if err != nil {
		return nil, err
	}
	c.seen[name] = true
	var kept, found []*unstructured.Unstructured
	for _, o := range objects {
		if isUnit(o) {
			if unitName(o) != name {
				found = append(found, o)
			}
			continue
		}
		kept = append(kept, o)
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = "default"
		}
		c.store[o.GetKind()+"/"+namespace+"/"+o.GetName()] = o
	}
	c.built[name] = contentsOf(c.t, kept)
	return found, nil
}

// artifact copies the folders of an ArtifactGenerator, as source-watcher does for patterns that end with `/**`.
func (c *fluxCluster) artifact(name string) string {
	for _, g := range c.store {
		list, _, _ := unstructured.NestedSlice(g.Object, "spec", "artifacts")
		for _, a := range list {
			a := a.(map[string]any)
			if g.GetKind() != "ArtifactGenerator" || a["name"] != name {
				continue
			}
			out := c.t.TempDir()
			for _, rule := range a["copy"].([]any) {
				rule := rule.(map[string]any)
				_, from, _ := strings.Cut(rule["from"].(string), "/")
				to := strings.TrimPrefix(rule["to"].(string), "@artifact/")
				if err := os.CopyFS(filepath.Join(out, to), os.DirFS(filepath.Join(c.dir, strings.TrimSuffix(from, "/**")))); err != nil {
					c.t.Fatal(err)
				}
			}
			return out
		}
	}
	return ""
}

// kustomization returns the objects that kustomize-controller applies, without the labels of the owner.
func (c *fluxCluster) kustomization(root string, u *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	path, _, _ := unstructured.NestedString(u.Object, "spec", "path")
	dir := filepath.Join(root, path)
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	action, err := kustomize.NewGenerator(root, *u).WriteFile(dir, kustomize.WithSaveOriginalKustomization())
	if err != nil {
		return nil, errors.Join(err, kustomize.CleanDirectory(dir, action))
	}
	built, err := kustomize.SecureBuild(root, dir, false)
	if clean := kustomize.CleanDirectory(dir, action); clean != nil {
		c.t.Fatal(clean)
	}
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	_, post, _ := unstructured.NestedMap(u.Object, "spec", "postBuild")
	var own []*unstructured.Unstructured
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		own = append(own, objects(c.t, string(text))...)
	}
	known := c.client(own)
	for _, r := range built.Resources() {
		if post {
			replaced, err := kustomize.SubstituteVariables(c.ctx, known, *u, r)
			if err != nil {
				return nil, err
			}
			if replaced != nil {
				r = replaced
			}
		}
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		out = append(out, objects(c.t, string(text))...)
	}
	labels, _, _ := unstructured.NestedStringMap(u.Object, "spec", "commonMetadata", "labels")
	annotations, _, _ := unstructured.NestedStringMap(u.Object, "spec", "commonMetadata", "annotations")
	ssautil.SetCommonMetadata(out, labels, annotations)
	return out, nil
}

// client returns the ConfigMaps and Secrets of the cluster, as the API server stores them.
func (c *fluxCluster) client(more []*unstructured.Unstructured) client.Client {
	builder := fake.NewClientBuilder()
	all := maps.Clone(c.store)
	for _, o := range more {
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = "default"
		}
		all[o.GetKind()+"/"+namespace+"/"+o.GetName()] = o
	}
	for key, o := range all {
		namespace := strings.Split(key, "/")[1]
		switch {
		case o.GetAPIVersion() != "v1":
		case o.GetKind() == "ConfigMap":
			var m corev1.ConfigMap
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &m) == nil {
				m.Namespace = namespace
				builder = builder.WithObjects(&m)
			}
		case o.GetKind() == "Secret" && o.Object["sops"] != nil:
			// The test cannot decrypt the Secret. Each variable stands for itself, as Sluice keeps references to it.
			sealed, _, _ := unstructured.NestedMap(o.Object, "stringData")
			s := corev1.Secret{Data: map[string][]byte{}}
			s.Name, s.Namespace = o.GetName(), namespace
			for name := range sealed {
				s.Data[name] = []byte("${" + name + "}")
			}
			builder = builder.WithObjects(&s)
		case o.GetKind() == "Secret":
			var s corev1.Secret
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s) == nil {
				s.Namespace = namespace
				for k, v := range s.StringData {
					if s.Data == nil {
						s.Data = map[string][]byte{}
					}
					s.Data[k] = []byte(v)
				}
				builder = builder.WithObjects(&s)
			}
		}
	}
	return builder.Build()
}

// release renders a chart of the repository as helm-controller does, before post-renderers.
func (c *fluxCluster) release(u *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var r helmv2.HelmRelease
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &r); err != nil {
		return nil, err
	}
	if r.Spec.Chart == nil || r.Spec.Chart.Spec.SourceRef.Kind != "GitRepository" || r.Spec.Chart.Spec.SourceRef.Name != c.own {
		return nil, errForeign
	}
	chart, err := loader.LoadDir(filepath.Join(c.dir, r.Spec.Chart.Spec.Chart))
	if err != nil {
		return nil, err
	}
	if files := r.Spec.Chart.Spec.ValuesFiles; len(files) > 0 { // source-controller writes them into the chart
		merged := map[string]any{}
		for _, f := range files {
			values, err := helmutil.ReadValuesFile(filepath.Join(c.dir, f))
			if errors.Is(err, fs.ErrNotExist) && r.Spec.Chart.Spec.IgnoreMissingValuesFiles {
				continue
			}
			if err != nil {
				return nil, err
			}
			merged = chartutil.MergeMaps(merged, values)
		}
		chart.Values = merged
	}
	values, err := chartutil.ChartValuesFromReferences(c.ctx, logr.Discard(), c.client(nil), r.Namespace, r.GetValues(), r.Spec.ValuesFrom...)
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(&action.Configuration{})
	install.DryRun, install.ClientOnly, install.ReleaseName, install.Namespace = true, true, r.GetReleaseName(), r.GetReleaseNamespace()
	install.IncludeCRDs = r.Spec.Install == nil || r.Spec.Install.CRDs != helmv2.Skip
	install.DisableHooks = r.Spec.Install != nil && r.Spec.Install.DisableHooks
	done, err := install.RunWithContext(c.ctx, chart, values)
	if err != nil {
		return nil, err
	}
	text := done.Manifest
	if !install.DisableHooks {
		for _, h := range done.Hooks {
			if !slices.Contains(h.Events, release.HookTest) {
				text += "\n---\n" + h.Manifest
			}
		}
	}
	out := objects(c.t, text)
	var labels, annotations map[string]string
	if m := r.Spec.CommonMetadata; m != nil {
		labels, annotations = m.Labels, m.Annotations
	}
	ssautil.SetCommonMetadata(out, labels, annotations)
	return out, nil
}

func contentsOf(t *testing.T, list []*unstructured.Unstructured) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range list {
		if o.GetKind() == "Namespace" || o.IsList() {
			o.SetNamespace("")
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		id, content := identity(t, text)
		out[id] = content
	}
	return out
}
