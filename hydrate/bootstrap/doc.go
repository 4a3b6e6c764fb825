// Package bootstrap returns the objects with which Flux or Argo CD syncs a cluster's branch, or its artifact.
//
// It is pure: it maps a fleet and options to objects, reads no repository and opens no connection. Equal input gives
// equal bytes. No object holds a secret; it refers to a Secret or a key that the user creates. Each app that the
// fleet places on the cluster gets one object, in the order of dependsOn. Dependencies that are not placed on the
// cluster are ignored.
//
// The package is not API: it can change in every release.
package bootstrap

import (
	"bytes"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
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
	Forge      Forge  // forge that gets commit statuses, as Repository.ForgeOf returns it: GitHub, GitLab, Gitea or None
	Namespace  string // of the objects
	Namespaces bool   // also return the namespaces of apps
	OCI        bool   // sync the artifact of the cluster (spec.output.oci) in place of its branch
	Insecure   bool   // the registry of artifacts has no TLS
}

// errNoArtifacts means that a fleet has no artifacts to sync.
var errNoArtifacts = errors.New("the fleet has no spec.output.oci, so there are no artifacts to sync: add it, or leave out --oci")

// YAML encodes objects as a stream of documents.
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

// placed is an app on the cluster, with the data for the printed objects.
type placed struct {
	app       *fleet.App
	name      string // of its object
	namespace string
	step      int      // position in the order of dependsOn, from 0; apps of one step do not depend on each other
	after     []string // names of the objects of the apps that it depends on
	delivery  fleet.Delivery
}

// apps returns the cluster's apps, by name. tool is the tool that the objects are for. It refuses an environment
// whose spec.sync names the other tool.
func apps(f *fleet.Fleet, c *fleet.Cluster, tool string, name func(app string) string) ([]placed, error) {
	if c.Retired() {
		return nil, fmt.Errorf("cluster %s is retired, and nothing should sync its branch: choose another cluster, or change spec.state in its file", c.Name)
	}
	if sync := f.SyncOf(c.Environment); sync != "" && sync != tool {
		return nil, fmt.Errorf("spec.sync says that %s syncs environment %s of cluster %s: run `sluice bootstrap %s`, or change sync in sluice.yaml", sync, c.Environment, c.Name, sync)
	}
	steps := f.Steps(c)
	var out []placed
	for _, t := range f.TargetsOf(c) {
		resolved, err := f.Resolve(t)
		if err != nil {
			return nil, err
		}
		p := placed{
			app: t.App, name: name(rollout.ObjectName(t.App.Name)), namespace: resolved.Namespace,
			step: steps[t.App.Name],
		}
		if p.delivery, err = f.DeliveryOf(t); err != nil {
			return nil, err
		}
		for _, before := range f.Dependencies(t) {
			p.after = append(p.after, name(rollout.ObjectName(before.Name)))
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no app is placed on cluster %s: see `sluice where --cluster %s`", c.Name, c.Name)
	}
	return out, nil
}

// namespaces returns the Namespaces of apps, except those that every cluster has.
func namespaces(list []placed, own string) []Object {
	seen := map[string]bool{
		own: true, "default": true, "kube-system": true, "kube-public": true,
		"kube-node-lease": true,
	}
	var out []Object
	for _, p := range list {
		if !seen[p.namespace] {
			seen[p.namespace] = true
			out = append(out, object("v1", "Namespace", "", p.namespace, nil))
		}
	}
	return out
}
