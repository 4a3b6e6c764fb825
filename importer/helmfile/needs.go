package helmfile

import (
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// dependsOn finds the apps that an app needs. A release that needs one that the cluster does not have is listed.
func (c writer) dependsOn(a *app) []string {
	var out []string
	for _, x := range a.cells {
		for _, need := range x.release.Needs {
			name, why := c.needed(x, need)
			switch {
			case why != "":
				c.find(c.at(x), NotCarried, "needs "+need, why)
			case name != a.name && !slices.Contains(out, name):
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// needed finds the app of a need, which is [[KUBECONTEXT/]NAMESPACE/]NAME.
func (c writer) needed(x *cell, need string) (name, why string) {
	parts := strings.Split(need, "/")
	release, namespace, context := parts[len(parts)-1], x.namespace, x.cluster.context
	if len(parts) > 1 && parts[len(parts)-2] != "" {
		namespace = parts[len(parts)-2]
	}
	if len(parts) > 2 {
		context = strings.Join(parts[:len(parts)-2], "/")
	}
	if context != x.cluster.context {
		return "", "the release is on another cluster: let an environment or a wave follow the other one"
	}
	for _, a := range c.apps {
		for _, y := range a.cells {
			if y.cluster == x.cluster && y.release.Name == release && y.namespace == namespace {
				return a.name, ""
			}
		}
	}
	return "", "the cluster has no such release in the fleet"
}

// file adds a file of the result.
func (c writer) file(name string, value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	c.result.Files[name] = text
	return nil
}
