package bootstrap

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

const (
	fluxSource       = "source.toolkit.fluxcd.io/v1"
	fluxKustomize    = "kustomize.toolkit.fluxcd.io/v1"
	fluxNotification = "notification.toolkit.fluxcd.io/v1beta3"
	fluxReceiver     = "notification.toolkit.fluxcd.io/v1"
)

// FluxOptions are the options of Flux's objects.
type FluxOptions struct {
	Options
	Name         string // of the source, the Provider, the Alert and the Receiver
	Secret       string // with the credentials that read the source; "" for a public one
	VerifySecret string // with the public keys that verify artifacts, if the fleet signs them
	// with trusted_root.json, if an identity signs artifacts by a Sigstore that is not the public one; "" for the public one
	TrustedRootSecret string
	StatusSecret      string        // with the token that writes commit statuses
	ReceiverSecret    string        // with the token of the Receiver; "" for no Receiver
	Interval          time.Duration // between two fetches of the branch
	Timeout           time.Duration // for an app to become healthy
}

// Check refuses names and intervals that Flux and Kubernetes do not accept.
func (o FluxOptions) Check() error {
	if o.Name == "" || o.Forge != None && o.StatusSecret == "" {
		return errors.New("the name of the objects, and of the Secret for commit statuses, cannot be empty")
	}
	if o.OCI && o.VerifySecret == "" {
		return errors.New("the name of the Secret with the public keys cannot be empty")
	}
	if o.Interval < time.Second || o.Timeout < time.Second {
		return errors.New("intervals and timeouts are at least a second")
	}
	return checkNames(o.Namespace, o.Name, o.Secret, o.ReceiverSecret, o.StatusSecret, o.VerifySecret, o.TrustedRootSecret)
}

// Flux returns the objects with which Flux syncs a cluster: a GitRepository for its branch or an OCIRepository for its
// artifact, a Kustomization for each app, and a Provider and an Alert that write the commit statuses kustomization/<app>/<cluster> on the rendered
// commits.
func Flux(f *fleet.Fleet, c *fleet.Cluster, o FluxOptions) ([]Object, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	list, err := apps(f, c, fleet.SyncFlux, func(app string) string { return safeName(app, "flux-system") })
	if err != nil {
		return nil, err
	}
	if o.OCI && !f.Publishes() {
		return nil, errNoArtifacts
	}
	labels := map[string]any{LabelCluster: c.Name}
	source := fluxSourceOf(f, c, o)
	var out []Object
	if o.Namespaces {
		out = namespaces(list, o.Namespace)
	}
	out = append(out, source)
	for _, p := range list {
		out = append(out, kustomization(p, c, o, f.AsRendered()))
	}
	out = append(out, statuses(c, o)...)
	if o.ReceiverSecret != "" {
		receiver := object(fluxReceiver, "Receiver", o.Namespace, o.Name, labels)
		receiver["spec"] = map[string]any{
			"type":      "generic-hmac",
			"secretRef": map[string]any{"name": o.ReceiverSecret},
			"resources": []any{map[string]any{"apiVersion": fluxSource, "kind": o.sourceKind(), "name": o.Name}},
		}
		out = append(out, receiver)
	}
	return out, nil
}

// sourceKind is the kind of the source that Kustomizations name.
func (o FluxOptions) sourceKind() string {
	if o.OCI {
		return "OCIRepository"
	}
	return "GitRepository"
}

// fluxSourceOf returns the source of a cluster: its branch, or its artifact.
func fluxSourceOf(f *fleet.Fleet, c *fleet.Cluster, o FluxOptions) Object {
	out := object(fluxSource, o.sourceKind(), o.Namespace, o.Name, map[string]any{LabelCluster: c.Name})
	spec := map[string]any{
		"url": o.Repository.URL, "ref": map[string]any{"branch": f.ClusterBranch(c)},
		"interval": o.Interval.String(), "timeout": "1m0s",
	}
	if o.OCI {
		spec["url"], spec["ref"] = f.Artifact(c), map[string]any{"tag": f.ArtifactTag()}
		if o.Insecure {
			spec["insecure"] = true
		}
		if f.SignsArtifacts() {
			spec["verify"] = verification(f.Spec.Output.OCI, o)
		}
	}
	if o.Secret != "" {
		spec["secretRef"] = map[string]any{"name": o.Secret}
	}
	out["spec"] = spec
	return out
}

// verification says whose signatures Flux accepts. Its identities are regular expressions.
func verification(out *fleet.OCIOutput, o FluxOptions) map[string]any {
	if out.Identity == nil {
		return map[string]any{"provider": "cosign", "secretRef": map[string]any{"name": o.VerifySecret}}
	}
	exactly := func(text string) string { return "^" + regexp.QuoteMeta(text) + "$" }
	spec := map[string]any{"provider": "cosign", "matchOIDCIdentity": []any{
		map[string]any{"issuer": exactly(out.Identity.Issuer), "subject": exactly(out.Identity.Subject)},
	}}
	if o.TrustedRootSecret != "" {
		spec["trustedRootSecretRef"] = map[string]any{"name": o.TrustedRootSecret}
	}
	return spec
}

func kustomization(p placed, c *fleet.Cluster, o FluxOptions, asRendered bool) Object {
	out := object(fluxKustomize, "Kustomization", o.Namespace, p.name,
		map[string]any{LabelCluster: c.Name, LabelApp: rollout.ObjectName(p.app.Name)})
	if len(p.delivery.Annotations) > 0 {
		metadata := out["metadata"].(map[string]any) //nolint:forcetypeassert // object makes it
		metadata["annotations"] = toAny(p.delivery.Annotations)
	}
	spec := map[string]any{
		"sourceRef": map[string]any{"kind": o.sourceKind(), "name": o.Name},
		"path":      "./" + fleet.AppDir(p.app.Name),
		"prune":     true, "wait": true,
		"interval": "10m0s", "retryInterval": "30s", "timeout": o.Timeout.String(),
	}
	if p.app.Describes() != nil {
		spec["healthCheckExprs"], spec["timeout"] = clusterAPIHealth(), max(o.Timeout, clusterAPITimeout).String()
	}
	if asRendered { // otherwise objects name their own namespaces
		spec["targetNamespace"] = p.namespace
	}
	if len(p.after) > 0 {
		var after []any
		for _, name := range p.after {
			after = append(after, map[string]any{"name": name})
		}
		spec["dependsOn"] = after
	}
	out["spec"] = spec
	return out
}

// statuses returns the Provider and the Alert that write commit statuses. The expression gives each cluster its own
// status, whose name does not depend on the Provider. The excluded events report that Flux is waiting, which it would
// post as success, and what it has done so far, which it would post as pending. Flux posts the events of the same moment
// in any order, so that pending could be the last status of an app that is healthy.
func statuses(c *fleet.Cluster, o FluxOptions) []Object {
	if o.Forge == None {
		return nil
	}
	labels := map[string]any{LabelCluster: c.Name}
	provider := object(fluxNotification, "Provider", o.Namespace, o.Name, labels)
	provider["spec"] = map[string]any{
		"type": string(o.Forge), "address": o.Repository.Page(), "secretRef": map[string]any{"name": o.StatusSecret},
		"commitStatusExpr": fmt.Sprintf("'kustomization/' + event.involvedObject.name + '/%s'", c.Name),
	}
	alert := object(fluxNotification, "Alert", o.Namespace, o.Name, labels)
	alert["spec"] = map[string]any{
		"providerRef":   map[string]any{"name": o.Name},
		"eventSeverity": "info",
		"eventSources": []any{
			map[string]any{"kind": "Kustomization", "name": "*", "matchLabels": map[string]any{LabelCluster: c.Name}},
		},
		"exclusionList": []any{
			"^Dependencies do not meet ready condition", "^Health checks canceled", "^Health check passed in",
			`^[A-Za-z0-9]+/[^ ]+ (created|configured|unchanged|deleted|skipped|unknown)(\n|$)`,
		},
	}
	return []Object{provider, alert}
}
