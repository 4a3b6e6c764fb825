// Package argoref generates and renders the Applications of a repository with Argo CD's own code: the generators of its
// ApplicationSet controller and the manifest generation of its repository server. Sluice's importer is compared with
// it. It calls helm and kustomize, as the repository server does; both must be in PATH.
package argoref

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	v1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/git"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	namespace = "argocd" // of Argo CD
	maxDepth  = 50       // Applications that come out of Applications
)

// Options name a repository and what Argo CD knows of the clusters.
type Options struct {
	Dir    string   // the files of one commit; not changed
	Apps   []string // patterns of the files that hold Applications; none is every YAML and JSON file
	Ignore []string // patterns, as in .gitignore, of files whose Applications are not followed
	// Repositories are URLs of the repository. Without any, it is the one that most sources with a path in Dir name.
	Repositories []string
	Trunk        string // a revision that means the commit, besides HEAD; "" is main or master
	Clusters     []Cluster
	BuildOptions string // of Kustomize, as kustomize.buildOptions in argocd-cm
}

// Cluster is a cluster that is registered in Argo CD.
type Cluster struct {
	Name, Server        string
	Labels, Annotations map[string]string
	KubeVersion         string
	APIVersions         []string
}

// App is an Application, an ApplicationSet that generates none, or a file that cannot be read.
type App struct {
	Name      string
	Cluster   string // "" if the destination names none of the clusters, for an ApplicationSet and for a file
	Namespace string // of namespaced objects that name none
	File      string // in which the Application, its ApplicationSet or its parent is written
	Objects   []*unstructured.Unstructured
	Err       error  // why Argo CD cannot build it
	Skipped   string // why this package cannot build it
}

// skip is the error of something that this package cannot build, though Argo CD can.
type skip string

func (s skip) Error() string { return string(s) }

// found is an object with the file in which it is written.
type found struct {
	object *unstructured.Unstructured
	file   string
	parent string // the Application that applies the object
	depth  int
}

// builder is the state of one build.
type builder struct {
	Options
	work    string // temporary files
	own     map[string]bool
	secrets []corev1.Secret
	kept    map[string]bool // KIND/NAME of objects in ignored files
	written map[string]string
	apps    map[string]*App
	parents map[string]string // by key of apps
	specs   map[string]any
	order   []string
}

// Build generates and renders all Applications, and those that they apply. It fails only if it can build nothing at
// all.
func Build(ctx context.Context, o Options) ([]App, error) {
	for _, program := range []string{"helm", "kustomize"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("Argo CD calls %s, which is not in PATH", program)
		}
	}
	work, err := os.MkdirTemp("", "sluice-argoref")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	b := &builder{
		Options: o, work: work, own: map[string]bool{}, kept: map[string]bool{}, written: map[string]string{},
		apps: map[string]*App{}, parents: map[string]string{}, specs: map[string]any{},
	}
	if err := b.index(ctx); err != nil {
		return nil, err
	}
	queue, err := b.find()
	if err != nil {
		return nil, err
	}
	b.repositories(queue)
	b.register()
	for len(queue) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		next := queue[0]
		queue = append(queue[1:], b.object(ctx, next)...)
	}
	out := make([]App, len(b.order))
	for i, key := range b.order {
		out[i] = *b.apps[key]
	}
	return out, nil
}

// object renders an Application, or the Applications of an ApplicationSet, and returns the Applications that they
// apply.
func (b *builder) object(ctx context.Context, f found) []found {
	if f.object.GetKind() == "Application" {
		var app v1alpha1.Application
		if err := convert(f.object, &app); err != nil {
			b.add(App{Name: f.object.GetName(), File: f.file, Err: err}, f.parent, f.object.Object["spec"])
			return nil
		}
		return b.application(ctx, &app, f)
	}
	var out []found
	name := f.object.GetName() + ".appset" // as Sluice calls it
	var set v1alpha1.ApplicationSet
	err := convert(f.object, &set)
	var apps []v1alpha1.Application
	if err == nil {
		apps, err = b.generate(ctx, &set)
	}
	if err != nil { // the controller creates none of the Applications
		b.add(failed(App{Name: name, File: f.file}, err), f.parent, f.object.Object["spec"])
		return nil
	}
	count := map[string]int{}
	for i := range apps {
		count[apps[i].Name]++
	}
	for i := range apps {
		// the controller applies none of one name: its errors are by name, see validateGeneratedApplications
		if n := apps[i].Name; count[n] > 1 {
			b.add(failed(App{Name: name, File: f.file}, fmt.Errorf("it contains applications with duplicate name: %s",
				n)), f.parent, f.object.Object["spec"])
			continue
		}
		out = append(out, b.application(ctx, &apps[i], f)...)
	}
	return out
}

// application renders an Application that is not rendered yet.
func (b *builder) application(ctx context.Context, app *v1alpha1.Application, f found) []found {
	one := App{Name: app.Name, Namespace: app.Spec.Destination.Namespace, File: f.file}
	if one.Namespace == "" {
		one.Namespace = "default"
	}
	cluster, err := b.destination(app.Spec.Destination)
	if err == nil {
		one.Cluster = cluster.Name
	}
	if !b.add(one, f.parent, app.Spec) {
		return nil
	}
	known := b.apps[key(one)]
	var objects []*unstructured.Unstructured
	if err == nil && f.depth > maxDepth {
		err = fmt.Errorf("Applications are nested more than %d levels deep", maxDepth)
	}
	if err == nil {
		objects, err = b.render(ctx, app, cluster)
	}
	if err != nil {
		*known = failed(*known, err)
		return nil
	}
	var children []found
	for _, o := range objects {
		id := o.GetKind() + "/" + o.GetName()
		if !isApplication(o) || b.kept[id] {
			known.Objects = append(known.Objects, o)
			continue
		}
		file := b.written[id]
		if file == "" {
			file = f.file
		}
		children = append(children, found{object: o, file: file, parent: app.Name, depth: f.depth + 1})
	}
	return children
}

// add records an app, and reports whether it is to be rendered. Argo CD has one Application of a name: the one that a
// parent applies takes the place of the file that it was read from.
func (b *builder) add(one App, parent string, spec any) bool {
	at := key(one)
	known, ok := b.apps[at]
	same := ok && reflect.DeepEqual(plain(b.specs[at]), plain(spec))
	switch {
	case !ok:
		b.order = append(b.order, at)
	case same && (parent == "" || b.parents[at] != ""):
		return false
	case !same && (parent == "") == (b.parents[at] == ""):
		*known = App{
			Name: known.Name, Cluster: known.Cluster, File: known.File,
			Skipped: fmt.Sprintf("%s describes it differently: what Argo CD applies depends on the order", one.File),
		}
		return false
	case parent == "":
		return false
	}
	b.apps[at], b.parents[at], b.specs[at] = &one, parent, spec
	return true
}

func key(a App) string { return a.Cluster + "/" + a.Name }

// plain makes specs of different types comparable.
func plain(spec any) any {
	var out any
	if data, err := json.Marshal(spec); err == nil {
		_ = json.Unmarshal(data, &out) // it was just written
	}
	return out
}

func failed(a App, err error) App {
	var why skip
	if errors.As(err, &why) {
		a.Skipped = err.Error()
	} else {
		a.Err = err
	}
	return a
}

// destination finds the cluster of an Application.
func (b *builder) destination(d v1alpha1.ApplicationDestination) (Cluster, error) {
	if d.Name == "" && d.Server == "" {
		return Cluster{}, errors.New("spec.destination names no cluster")
	}
	for _, c := range b.Clusters {
		if d.Name != "" && d.Name == c.Name || d.Server != "" &&
			strings.TrimSuffix(d.Server, "/") == strings.TrimSuffix(c.Server, "/") {
			return c, nil
		}
	}
	if d.Name == "in-cluster" {
		return b.destination(v1alpha1.ApplicationDestination{Server: v1alpha1.KubernetesInternalAPIServerAddr})
	}
	return Cluster{}, fmt.Errorf("spec.destination names the unknown cluster %q", d.Name+d.Server)
}

// repositories decides which URLs are the repository.
func (b *builder) repositories(list []found) {
	for _, url := range b.Repositories {
		b.own[git.NormalizeGitURL(url)] = true
	}
	if len(b.own) > 0 {
		return
	}
	votes := map[string]int{}
	for _, f := range list {
		visit(f.object.Object, func(source map[string]any) {
			url, _ := source["repoURL"].(string)
			dir, _ := source["path"].(string)
			dir, _, _ = strings.Cut(dir, "{{")
			if info, err := os.Stat(filepath.Join(b.Dir, filepath.Clean("/"+dir))); url != "" &&
				strings.Trim(dir, "./") != "" && err == nil && info.IsDir() {
				votes[git.NormalizeGitURL(url)]++
			}
		})
	}
	best := ""
	for url, n := range votes {
		if best == "" || n > votes[best] || n == votes[best] && url < best {
			best = url
		}
	}
	if best != "" {
		b.own[best] = true
	}
}

// visit calls f with every mapping.
func visit(v any, f func(map[string]any)) {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			visit(inner, f)
		}
	case map[string]any:
		f(v)
		for _, inner := range v {
			visit(inner, f)
		}
	}
}

// thisCommit reports why a source is not the commit; nil if it is.
func (b *builder) thisCommit(url, revision string) error {
	if !b.own[git.NormalizeGitURL(url)] {
		return skip(url + " is another repository")
	}
	revision = strings.TrimPrefix(revision, "refs/heads/")
	if revision == "" || revision == "HEAD" || revision == b.Trunk ||
		b.Trunk == "" && slices.Contains([]string{"main", "master"}, revision) {
		return nil
	}
	return skip(fmt.Sprintf("the revision %q of %s is not the commit", revision, url))
}

func isApplication(o *unstructured.Unstructured) bool {
	return strings.HasPrefix(o.GetAPIVersion(), "argoproj.io/") &&
		(o.GetKind() == "Application" || o.GetKind() == "ApplicationSet")
}

func convert(o *unstructured.Unstructured, to any) error {
	data, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}
