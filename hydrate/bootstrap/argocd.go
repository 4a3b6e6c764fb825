package bootstrap

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

const argo = "argoproj.io/v1alpha1"

// Retries of a failed sync. Argo CD reports the phase Running until the last retry has failed, so the trigger uses
// the number of retries: a commit turns red after redAfter failed attempts, and a later attempt can still turn it
// green.
const (
	retryLimit = 5
	redAfter   = 3
)

// Names in Argo CD's notifications.
const (
	argoTrigger = "sluice-commit-status"
	argoService = "sluice"
	argoToken   = "sluice-token" //nolint:gosec // a key's name
)

// ArgoOptions are the options of Argo CD's objects.
type ArgoOptions struct {
	Options
	Project        string
	Hub            bool // one Argo CD for many clusters, which are registered under their names in the fleet
	ApplicationSet bool // one ApplicationSet that creates an Application for every folder of the branch
}

// Check refuses names that Kubernetes does not accept.
func (o ArgoOptions) Check() error { return checkNames(o.Namespace, o.Project) }

// ArgoCD returns the objects with which Argo CD syncs a cluster: an Application for each app, or one ApplicationSet,
// and the ConfigMap that writes the commit statuses argocd/<app>/<cluster> on the rendered commits.
func ArgoCD(f *fleet.Fleet, c *fleet.Cluster, o ArgoOptions) ([]Object, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	list, err := apps(f, c, fleet.SyncArgoCD, func(app string) string { return applicationName(app, c, o) })
	if err != nil {
		return nil, err
	}
	switch {
	case o.OCI && !f.Publishes():
		return nil, errNoArtifacts
	case o.OCI && o.ApplicationSet:
		return nil, errors.New("an ApplicationSet cannot list the folders of an artifact: leave out --applicationset, or --oci")
	case o.OCI: // Argo CD knows the digest that it synced, not the commit that a status belongs to
		o.Forge = None
	}
	if o.Hub {
		if err := checkHub(f, c); err != nil {
			return nil, err
		}
	}
	var out []Object
	if o.ApplicationSet {
		if f.AsRendered() {
			return nil, errors.New("an ApplicationSet does not know the namespaces of apps, and with spec.output.namespaces: asRendered objects do not name them: leave --applicationset out")
		}
		if o.Namespaces && !o.Hub {
			out = namespaces(list, o.Namespace)
		}
		out = append(out, applicationSet(f, c, o))
	} else {
		for _, p := range list {
			out = append(out, application(f, c, p, o))
		}
	}
	if o.Forge == None {
		return out, nil
	}
	return append(out, notifications(o)), nil
}

// checkHub refuses an app of the cluster whose Application would have the name of another cluster's. Names of clusters
// and apps can contain dots: app team-a/shop on cluster eu, and app shop on cluster eu.team-a, are both eu.team-a.shop.
func checkHub(f *fleet.Fleet, c *fleet.Cluster) error {
	var own map[string]string // name of the Application → app
	for _, other := range f.Clusters {
		if other == c || other.Retired() || !strings.HasPrefix(other.Name, c.Name+".") &&
			!strings.HasPrefix(c.Name, other.Name+".") {
			continue
		}
		if own == nil {
			own = map[string]string{}
			for _, t := range f.TargetsOf(c) {
				own[hubName(c, t.App)] = t.App.Name
			}
		}
		for _, t := range f.TargetsOf(other) {
			if name := hubName(other, t.App); own[name] != "" {
				return fmt.Errorf("app %s on cluster %s and app %s on cluster %s would have one Application, %s: rename an app or a cluster, or leave --hub out", own[name], c.Name, t.App.Name, other.Name, name)
			}
		}
	}
	return nil
}

func hubName(c *fleet.Cluster, app *fleet.App) string {
	return c.Name + "." + rollout.ObjectName(app.Name)
}

// applicationName returns the name of an app's Application. On a hub, the Applications of all clusters share a
// namespace, so that the name begins with the cluster's.
func applicationName(app string, c *fleet.Cluster, o ArgoOptions) string {
	if o.Hub {
		return safeName(c.Name + "." + app)
	}
	return safeName(app)
}

func application(f *fleet.Fleet, c *fleet.Cluster, p placed, o ArgoOptions) Object {
	out := object(argo, "Application", o.Namespace, p.name, map[string]any{
		LabelCluster: c.Name,
		LabelApp:     rollout.ObjectName(p.app.Name),
	})
	metadata := out["metadata"].(map[string]any) //nolint:forcetypeassert // object makes it
	metadata["annotations"] = annotations(o, strconv.Itoa(p.step), p.delivery)
	metadata["finalizers"] = []any{"resources-finalizer.argocd.argoproj.io"}
	to := destination(c, o)
	to["namespace"] = p.namespace
	revision := f.ClusterBranch(c)
	if o.OCI {
		o.Repository.URL, revision = f.Artifact(c), f.ArtifactTag()
	}
	out["spec"] = applicationSpec(revision, fleet.AppDir(p.app.Name), to, o, o.Namespaces, p.delivery)
	return out
}

// annotations returns the annotations of an Application; those of the fleet and the app take precedence.
func annotations(o ArgoOptions, wave string, d fleet.Delivery) map[string]any {
	out := map[string]any{}
	if wave != "" {
		out["argocd.argoproj.io/sync-wave"] = wave
	}
	if o.Forge != None {
		out["notifications.argoproj.io/subscribe."+argoTrigger+"."+argoService] = ""
	}
	maps.Copy(out, toAny(d.Annotations))
	return out
}

func toAny(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}

// destination returns where Argo CD applies the objects of a cluster: on a hub, the cluster that is registered under
// its name; otherwise the cluster that Argo CD runs in.
func destination(c *fleet.Cluster, o ArgoOptions) map[string]any {
	if o.Hub {
		return map[string]any{"name": c.Name}
	}
	return map[string]any{"server": "https://kubernetes.default.svc"}
}

func applicationSpec(revision, path string, to map[string]any, o ArgoOptions, createNamespace bool,
	d fleet.Delivery,
) map[string]any {
	defaults := []string{"ServerSideApply=true"}
	if createNamespace {
		defaults = append(defaults, "CreateNamespace=true")
	}
	var options []any
	for _, option := range fleet.MergeSyncOptions(defaults, d.SyncOptions) {
		options = append(options, option)
	}
	return map[string]any{
		"project":     cmp.Or(d.Project, o.Project, "default"),
		"source":      map[string]any{"repoURL": o.Repository.URL, "targetRevision": revision, "path": path},
		"destination": to,
		"syncPolicy": map[string]any{
			"automated":   map[string]any{"prune": true, "selfHeal": true},
			"syncOptions": options,
			"retry": map[string]any{
				"limit":   int64(retryLimit),
				"backoff": map[string]any{"duration": "5s", "factor": int64(2), "maxDuration": "1m"},
			},
		},
	}
}

// applicationSet returns the ApplicationSet of a cluster. Its generator lists the folders of the branch: one for each
// app, and below fleet.WorkspacesDir one for each app of a workspace.
func applicationSet(f *fleet.Fleet, c *fleet.Cluster, o ArgoOptions) Object {
	revision, name := f.ClusterBranch(c), "sluice"
	app, title := "{{ .path.basename }}", "{{ .path.basenameNormalized }}"
	directories := []any{map[string]any{"path": "*"}}
	if len(f.Workspaces) > 0 {
		workspace := "{{ if eq (len .path.segments) 3 }}{{ index .path.segments 1 }}.{{ end }}"
		app, title = workspace+app, workspace+title
		directories = append(directories, map[string]any{"path": fleet.WorkspacesDir, "exclude": true},
			map[string]any{"path": fleet.WorkspacesDir + "/*/*"})
	}
	if o.Hub {
		name = safeName("sluice." + c.Name)
		title = safeName(c.Name) + "." + title
	}
	out := object(argo, "ApplicationSet", o.Namespace, name, map[string]any{LabelCluster: c.Name})
	metadata := map[string]any{"name": title, "labels": map[string]any{LabelCluster: c.Name, LabelApp: app}}
	if a := annotations(o, "", f.Spec.Delivery); len(a) > 0 {
		metadata["annotations"] = a
	}
	out["spec"] = map[string]any{
		"goTemplate": true, "goTemplateOptions": []any{"missingkey=error"},
		"generators": []any{map[string]any{"git": map[string]any{
			"repoURL": o.Repository.URL, "revision": revision, "directories": directories,
		}}},
		"template": map[string]any{"metadata": metadata, "spec": applicationSpec(revision, "{{ .path.path }}",
			destination(c, o), o, false, f.Spec.Delivery)},
	}
	return out
}

// notifications returns the ConfigMap that writes commit statuses. A commit that changes nothing of an app starts no
// sync of it, so the status is about the revision that was compared, not the one that was last synced. oncePer
// contains the time of the last change of health, so that a new status follows when an app recovers on the same
// commit. A new Application has no status at all, hence `app.status?`. Argo CD never sends a failed post again, so
// posts are retried for about two minutes.
func notifications(o ArgoOptions) Object {
	out := object("v1", "ConfigMap", o.Namespace, "argocd-notifications-cm", map[string]any{
		"app.kubernetes.io/name": "argocd-notifications-cm", "app.kubernetes.io/part-of": "argocd",
	})
	const (
		revision = "{{ .app.status.sync.revision }}"
		context  = `argocd/{{ index .app.metadata.labels "` + LabelApp + `" }}/{{ index .app.metadata.labels "` +
			LabelCluster + `" }}`
		once   = `"[app.status?.sync?.revision, app.status?.health?.lastTransitionTime, app.status?.operationState?.finishedAt]"`
		ofThis = "app.status?.operationState?.operation?.sync?.revision == app.status?.sync?.revision"
		waits  = 30 * time.Second
		posts  = 8
	)
	base, path, header, failed, field := o.Repository.web+"/api/v3", "repos/"+o.Repository.path+"/statuses/"+revision,
		"Authorization", "failure", "context"
	token := "Bearer $" + argoToken
	switch {
	case o.Forge == GitLab:
		base, path = o.Repository.web+"/api/v4", "projects/"+url.PathEscape(o.Repository.path)+"/statuses/"+revision
		header, token, failed, field = "PRIVATE-TOKEN", "$"+argoToken, "failed", "name"
	case o.Forge == Gitea:
		base, token = o.Repository.web+"/api/v1", "token $"+argoToken
	case o.Repository.host == "github.com" || o.Repository.host == "www.github.com":
		base = "https://api.github.com"
	}
	template := func(state, description string) string {
		return fmt.Sprintf("webhook:\n  %s:\n    method: POST\n    path: %s\n    body: |\n      {\"state\": %q, %q: \"%s\", \"description\": %q}\n",
			argoService, "'"+path+"'", state, field, context, description)
	}
	out["data"] = map[string]any{
		"service.webhook." + argoService: fmt.Sprintf("url: %s\nheaders:\n  - name: %s\n    value: %s\n  - name: Content-Type\n    value: application/json\nretryMax: %d\nretryWaitMax: %d\n",
			base, header, token, posts, waits.Nanoseconds()),
		"template.sluice-healthy": template("success", "synced and healthy"),
		"template.sluice-failed":  template(failed, "failed to sync, or degraded"),
		"trigger." + argoTrigger: "- when: app.status?.sync?.status == 'Synced' and app.status?.health?.status == 'Healthy'\n" +
			"  oncePer: " + once + "\n  send: [sluice-healthy]\n" +
			"- when: app.status?.sync?.status == 'Synced' and app.status?.health?.status == 'Degraded'" +
			" or app.status?.operationState?.phase in ['Error', 'Failed'] and " + ofThis +
			fmt.Sprintf(" or app.status?.operationState?.phase == 'Running' and (app.status?.operationState?.retryCount ?? 0) >= %d and ", redAfter) + ofThis + "\n" +
			"  oncePer: " + once + "\n  send: [sluice-failed]\n",
	}
	return out
}
