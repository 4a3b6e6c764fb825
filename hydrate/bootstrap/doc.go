// Package bootstrap says what makes a cluster sync its branch: the objects of Flux or Argo CD, as YAML.
//
// It is pure: a fleet and options go in, objects come out; it reads no repository and asks nobody. The same input gives the
// same bytes. No object holds a secret: what needs one names a Secret or a key that the reader creates. One object is printed
// for each app that the fleet places on the cluster, with the order that the apps' dependsOn gives; what is not placed there
// is not waited for.
package bootstrap

import (
	"bytes"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

// Labels of every object that is printed.
const (
	LabelApp     = "sluice.dev/app"
	LabelCluster = "sluice.dev/cluster"
)

// Object is one Kubernetes object.
type Object map[string]any

// Options are what both Flux and Argo CD need.
type Options struct {
	Repository Repository
	Forge      Forge  // where commit statuses are written; None: nowhere
	Namespace  string // that the objects are put into
	Namespaces bool   // make the namespaces of apps, too
}

// YAML is a stream of documents.
func YAML(objects []Object) ([]byte, error) {
	var out bytes.Buffer
	for _, o := range objects {
		data, err := yaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(data)
	}
	return out.Bytes(), nil
}

func object(apiVersion, kind, namespace, name string, labels map[string]any) Object {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	return Object{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
}

// placed is an app on the cluster, with what the printed objects need of it.
type placed struct {
	app       *fleet.App
	name      string // of its object
	namespace string
	step      int
	after     []string // names of the objects of the apps before it
}

// apps are the cluster's apps, by name.
func apps(f *fleet.Fleet, c *fleet.Cluster, name func(app string) string) ([]placed, error) {
	if c.Retired() {
		return nil, fmt.Errorf("cluster %s is retired: nothing syncs it any more", c.Name)
	}
	steps := f.Steps(c)
	var out []placed
	for _, t := range f.TargetsOf(c) {
		resolved, err := f.Resolve(t)
		if err != nil {
			return nil, err
		}
		p := placed{app: t.App, name: name(t.App.Name), namespace: resolved.Namespace, step: steps[t.App.Name]}
		for _, before := range f.Dependencies(t) {
			p.after = append(p.after, name(before.Name))
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no app is placed on cluster %s: see `sluice where --cluster %s`", c.Name, c.Name)
	}
	return out, nil
}

// namespaces are those that apps need and that no cluster has by itself.
func namespaces(list []placed, own string) []Object {
	seen := map[string]bool{own: true, "default": true, "kube-system": true, "kube-public": true, "kube-node-lease": true}
	var out []Object
	for _, p := range list {
		if !seen[p.namespace] {
			seen[p.namespace] = true
			out = append(out, object("v1", "Namespace", "", p.namespace, nil))
		}
	}
	return out
}
