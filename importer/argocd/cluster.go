package argocd

import (
	"encoding/base64"
	"maps"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const secretType = "argocd.argoproj.io/secret-type" //nolint:gosec // a label's name

// Local returns the cluster that Argo CD runs in, which it knows without a Secret.
func Local() Cluster { return Cluster{Name: inClusterName, Server: inClusterServer} }

// secret takes a cluster from a declarative cluster Secret. What the import itself says about the cluster is kept.
func (i *importer) secret(o manifest.Object) {
	labels, annotations := stringsOf(o, "labels"), stringsOf(o, "annotations")
	if labels[secretType] != "cluster" {
		return
	}
	value := func(key string) string {
		if data, ok := o["stringData"].(map[string]any); ok {
			if text, ok := data[key].(string); ok {
				return text
			}
		}
		data, _ := o["data"].(map[string]any)
		text, _ := data[key].(string)
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return "" // an encrypted one says nothing
		}
		return string(decoded)
	}
	c := Cluster{
		Name: value("name"), Server: value("server"), Labels: labels, Annotations: annotations, secret: true,
		project: value("project"),
	}
	if c.Name == "" {
		return
	}
	for n := range i.Clusters {
		known := &i.Clusters[n]
		if known.Name == c.Name || known.Server != "" && sameServer(known.Server, c.Server) {
			c.Name = known.Name
			*known = c
			return
		}
	}
	i.Clusters = append(i.Clusters, c)
}

// registered gives a cluster the label of the Secret that registers it in Argo CD, which selectors of cluster
// generators use. The cluster that Argo CD runs in needs no Secret: without labels of its own it has none.
func registered(c *Cluster) {
	if isLocal(c) {
		return
	}
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[secretType] = "cluster"
	c.Labels = labels
}

// isLocal reports whether a cluster is the one that Argo CD runs in, and has no Secret.
func isLocal(c *Cluster) bool {
	return !c.secret && sameServer(c.Server, inClusterServer) && len(c.Labels) == 0
}

func stringsOf(o manifest.Object, field string) map[string]string {
	metadata, _ := o["metadata"].(map[string]any)
	values, _ := metadata[field].(map[string]any)
	out := map[string]string{}
	for k, v := range values {
		if text, ok := v.(string); ok {
			out[k] = text
		}
	}
	return out
}

func sameServer(a, b string) bool {
	return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// serverName makes a cluster's name of its address.
func serverName(server string) string {
	_, rest, _ := strings.Cut(server, "://")
	return sanitize(rest)
}
