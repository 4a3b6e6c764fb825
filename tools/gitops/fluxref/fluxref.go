// Package fluxref builds a repository with Flux's own libraries, as the controllers of a cluster do. Sluice's importer
// is compared with it. The package changes the files of the repository: give it a copy.
package fluxref

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/kustomize"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is a Kubernetes object.
type Object = unstructured.Unstructured

// Options say what a cluster is.
type Options struct {
	Dir         string // a copy of the repository, which Build changes
	Root        string // directory that the cluster's first Kustomization applies
	KubeVersion string // that charts see; "" for Helm's default
	APIVersions []string
	Helm        int      // 3, or 4 and 0 for the version that Flux ships since 2.8
	Lenient     bool     // StrictPostBuildSubstitutions=false of kustomize-controller
	Ignore      []string // patterns of files, as in .gitignore, whose Kustomizations and HelmReleases are not followed

	Repositories []Repository // other repositories that GitRepositories may name
}

// Repository is a copy of another repository at one commit.
type Repository struct {
	URL    string `json:"url"`
	Ref    string `json:"ref"`    // full name of the branch or tag
	Commit string `json:"commit"` // that Dir has
	Dir    string `json:"dir"`
}

// Result has the units of a cluster by the names of their apps in Sluice. Every unit is in one of the maps.
type Result struct {
	Built      map[string][]*Object
	Namespaces map[string]string // of the built units: what objects that name none get
	Failed     map[string]error  // Flux does not build it either
	// needs something that is not in the repository, or that these libraries do not do: the reason
	Skipped map[string]string
}

// cluster simulates Flux's controllers for one cluster, with their libraries. It builds Kustomizations, and follows the
// Kustomizations and HelmReleases among the built objects. It retries a reference to an object that no unit has created
// yet.
type cluster struct {
	Options
	Result
	ctx     context.Context
	temp    string
	store   map[string]*Object
	seen    map[string]bool
	copies  map[string]string // of other repositories, without ignored files, by their GitRepository
	own     string            // name of the GitRepository that stands for the repository
	ignore  *string           // spec.ignore of that GitRepository
	ignored map[string]bool
}

const (
	kindKs      = "Kustomization"
	kindRelease = "HelmRelease"
	kindSet     = "ResourceSet"
)

// skipError is the reason why a unit is not compared.
type skipError string

func (e skipError) Error() string { return string(e) }

func (c *cluster) isUnit(u *Object) bool {
	return (u.GetKind() == kindKs && strings.HasPrefix(u.GetAPIVersion(), "kustomize.toolkit.fluxcd.io/") ||
		u.GetKind() == kindRelease && strings.HasPrefix(u.GetAPIVersion(), "helm.toolkit.fluxcd.io/") ||
		u.GetKind() == kindSet && strings.HasPrefix(u.GetAPIVersion(), "fluxcd.controlplane.io/")) &&
		!c.ignored[u.GetKind()+"/"+u.GetName()]
}

// unitName returns the name of the app that Sluice creates for a unit.
func unitName(u *Object) string {
	switch {
	case u.GetKind() == kindRelease:
		return u.GetNamespace() + "." + u.GetName()
	case u.GetKind() == kindSet:
		return u.GetNamespace() + "." + u.GetName() + ".rset"
	case u.GetNamespace() == "flux-system":
		return u.GetName()
	}
	return u.GetNamespace() + "." + u.GetName() + ".ks"
}

// Build builds everything that a cluster applies.
func Build(ctx context.Context, o Options) (result *Result, err error) {
	temp, err := os.MkdirTemp("", "sluice-fluxref")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	c := &cluster{
		Options: o, ctx: ctx, temp: temp, store: map[string]*Object{}, seen: map[string]bool{},
		copies: map[string]string{},
		Result: Result{
			Built: map[string][]*Object{}, Namespaces: map[string]string{}, Failed: map[string]error{},
			Skipped: map[string]string{},
		},
	}
	if c.ignored, err = writtenIn(o.Dir, o.Ignore); err != nil {
		return nil, err
	}
	removed, err := removeIgnored(o.Dir, nil)
	defer func() { err = errors.Join(err, restore(removed)) }()
	if err != nil {
		return nil, err
	}
	queue, err := c.start()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Root, err)
	}
	if c.ignore != nil { // it can include files again that .sourceignore excludes
		if err := restore(removed); err != nil {
			return nil, err
		}
		if removed, err = removeIgnored(o.Dir, c.ignore); err != nil {
			return nil, err
		}
	}
	c.reconcile(queue)
	return &c.Result, nil
}

// start returns the Kustomization that applies the root.
func (c *cluster) start() ([]*Object, error) {
	first := &Object{Object: map[string]any{
		"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": kindKs,
		"metadata": map[string]any{"name": "flux-system", "namespace": "flux-system"},
		"spec": map[string]any{"path": c.Root, "sourceRef": map[string]any{
			"kind": "GitRepository",
			"name": "flux-system",
		}},
	}}
	// If `flux bootstrap` wrote the root's own Kustomization, it is among the root's objects.
	objects, err := c.kustomization(c.Dir, first)
	if err != nil {
		return nil, err
	}
	c.own = "flux-system"
	var queue []*Object
	names := map[string]bool{}
	for _, o := range objects {
		if !c.isUnit(o) {
			continue
		}
		path, _, _ := unstructured.NestedString(o.Object, "spec", "path")
		name, ok, _ := unstructured.NestedString(o.Object, "spec", "sourceRef", "name")
		if o.GetKind() == kindKs && filepath.Clean(path) == filepath.Clean(c.Root) {
			c.own = name
			queue = append(queue, o)
		}
		if ok {
			names[name] = true
		}
	}
	if len(queue) == 0 {
		queue = append(queue, first)
		if len(names) == 1 {
			c.own = slices.Collect(maps.Keys(names))[0]
		}
	}
	for _, o := range objects {
		if patterns, ok, _ := unstructured.NestedString(o.Object, "spec", "ignore"); ok &&
			o.GetKind() == "GitRepository" && o.GetName() == c.own {
			c.ignore = &patterns
		}
	}
	return queue, nil
}

// reconcile builds units until no further one can be built.
func (c *cluster) reconcile(queue []*Object) {
	for len(queue) > 0 {
		var waiting []*Object
		progress := false
		for _, u := range queue {
			found, err := c.unit(u)
			var skip skipError
			if errors.As(err, &skip) {
				c.Skipped[unitName(u)], c.seen[unitName(u)] = string(skip), true
				delete(c.Failed, unitName(u))
				continue
			}
			if err != nil {
				c.Failed[unitName(u)] = err
				waiting = append(waiting, u)
				continue
			}
			delete(c.Failed, unitName(u))
			progress = true
			waiting = append(waiting, found...)
		}
		if queue = waiting; !progress {
			return
		}
	}
}

const errForeign = skipError("its source is not this repository")

// unit reconciles one unit and returns the units that it creates.
func (c *cluster) unit(u *Object) ([]*Object, error) {
	name := unitName(u)
	if suspend, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); c.seen[name] || suspend {
		return nil, nil
	}
	if u.GetKind() == kindSet {
		return nil, skipError("the Flux Operator builds it")
	}
	if u.GetKind() == kindRelease {
		objects, err := c.release(u)
		if err != nil {
			return nil, err
		}
		c.seen[name] = true
		c.Built[name], c.Namespaces[name] = stored(objects), releaseNamespace(u)
		return nil, nil
	}
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "sourceRef", "kind")
	source, _, _ := unstructured.NestedString(u.Object, "spec", "sourceRef", "name")
	namespace, _, _ := unstructured.NestedString(u.Object, "spec", "sourceRef", "namespace")
	from, err := c.source(kind, cmp.Or(namespace, u.GetNamespace()), source)
	if err != nil {
		return nil, err
	}
	if _, remote, _ := unstructured.NestedMap(u.Object, "spec", "kubeConfig"); remote {
		return nil, skipError("it is for another cluster")
	}
	objects, err := c.kustomization(from, u)
	if err != nil {
		return nil, err
	}
	c.seen[name] = true
	var kept, found []*Object
	for _, o := range objects {
		if c.isUnit(o) {
			if unitName(o) != name {
				found = append(found, o)
			}
			continue
		}
		kept = append(kept, o)
		c.store[key(o)] = o
	}
	target, _, _ := unstructured.NestedString(u.Object, "spec", "targetNamespace")
	c.Built[name], c.Namespaces[name] = stored(kept), cmp.Or(target, "default")
	return found, nil
}

// source returns the directory with the files of a source.
func (c *cluster) source(kind, namespace, name string) (string, error) {
	switch {
	case kind == "ExternalArtifact":
		return c.artifact(name)
	case kind != "GitRepository":
		return "", errForeign
	case name == c.own:
		return c.Dir, nil
	}
	return c.other(namespace, name)
}

func key(o *Object) string {
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = "default"
	}
	return o.GetKind() + "/" + namespace + "/" + o.GetName()
}

// artifact copies the folders of an ArtifactGenerator, as source-watcher does for patterns that end with `/**`.
func (c *cluster) artifact(name string) (string, error) {
	for _, g := range c.store {
		if g.GetKind() != "ArtifactGenerator" {
			continue
		}
		list, _, err := unstructured.NestedSlice(g.Object, "spec", "artifacts")
		if err != nil {
			return "", err
		}
		for _, one := range list {
			a, _ := one.(map[string]any)
			if a["name"] == name {
				return c.copyArtifact(a)
			}
		}
	}
	return "", fmt.Errorf("no ArtifactGenerator makes the artifact %s", name)
}

func (c *cluster) copyArtifact(a map[string]any) (string, error) {
	out, err := os.MkdirTemp(c.temp, "artifact")
	if err != nil {
		return "", err
	}
	rules, _, err := unstructured.NestedSlice(a, "copy")
	if err != nil {
		return "", err
	}
	for _, one := range rules {
		rule, _ := one.(map[string]any)
		source, _ := rule["from"].(string)
		target, _ := rule["to"].(string)
		_, from, _ := strings.Cut(source, "/")
		folder, ok := strings.CutSuffix(from, "/**")
		if !ok {
			return "", skipError("its artifact is made with the pattern " + source)
		}
		to, folder := path.Clean(strings.TrimPrefix(target, "@artifact/")), path.Clean(folder)
		if !filepath.IsLocal(to) || !filepath.IsLocal(folder) {
			return "", fmt.Errorf("the copy from %q to %q leaves the artifact or the repository", source, target)
		}
		if err := os.CopyFS(filepath.Join(out, to), os.DirFS(filepath.Join(c.Dir, folder))); err != nil {
			return "", err
		}
	}
	return out, nil
}

// kustomization returns the objects that kustomize-controller applies, without the labels of the owner.
func (c *cluster) kustomization(root string, u *Object) ([]*Object, error) {
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
	if err := errors.Join(err, kustomize.CleanDirectory(dir, action)); err != nil {
		return nil, err
	}
	var own, out []*Object
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		list, err := decode(string(text))
		if err != nil {
			return nil, err
		}
		own = append(own, list...)
	}
	_, post, _ := unstructured.NestedMap(u.Object, "spec", "postBuild")
	strategy, _, _ := unstructured.NestedString(u.Object, "spec", "postBuild", "substituteStrategy")
	known := c.client(own)
	for _, r := range built.Resources() {
		if post {
			replaced, err := kustomize.SubstituteVariables(c.ctx, known, *u, r,
				kustomize.SubstituteWithAlways(strategy == "Always"), kustomize.SubstituteWithStrict(!c.Lenient))
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
		list, err := decode(string(text))
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	labels, _, _ := unstructured.NestedStringMap(u.Object, "spec", "commonMetadata", "labels")
	annotations, _, _ := unstructured.NestedStringMap(u.Object, "spec", "commonMetadata", "annotations")
	ssautil.SetCommonMetadata(out, labels, annotations)
	return out, nil
}
