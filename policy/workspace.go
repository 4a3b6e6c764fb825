package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/policy/confine"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// workspaceOf is the workspace in the name of an app, such as team-a in team-a/shop; "" for an app of the fleet itself.
func workspaceOf(app string) string {
	name, _, ok := strings.Cut(app, "/")
	if !ok {
		return ""
	}
	return name
}

// OfWorkspace reports whether a rule holds workspaces to their bounds. Its severity is always error. A rule of a
// workspace's own policy is none of these, whatever the workspace is called.
func OfWorkspace(rule string) bool {
	return strings.HasPrefix(rule, "workspace-") && !strings.Contains(rule, "/")
}

func workspaceRules() []Rule {
	rule := func(id, title string) Rule {
		return Rule{ID: id, Severity: SeverityError, Title: title, BuiltIn: true}
	}
	return []Rule{
		rule(confine.RuleCluster, "the workspace does not reach this cluster"),
		rule(confine.RuleKind, "the workspace may not contain objects of this kind"),
		rule(confine.RuleNamespace, "the object is outside the workspace's namespaces"),
		rule(confine.RuleRBAC, "the object gives rights that the workspace does not have"),
		rule(confine.RuleReference, "the object refers to, selects or takes over what belongs to others"),
		rule(confine.RuleHost, "the pod gets access to its host"),
		rule(confine.RuleImage, "the workspace may not run this image"),
		rule(confine.RuleQuota, "the workspace has more on a cluster than its quota"),
		rule(confine.RuleOwner, "another app contains the workspace's object too"),
	}
}

// confineCheck holds the objects of workspaces to their bounds.
type confineCheck struct {
	engine *Engine
	crds   *definitions
}

func (c *confineCheck) scope(s *Subject, o *Object) string {
	if c.engine.options.Workspaces[workspaceOf(s.App.Name)] == nil {
		return ""
	}
	return fmt.Sprintf("%s\x00%s\x00%s\x00%d", o.Key, s.App.Name, s.App.Namespace, c.scopeOf(s, o))
}

func (c *confineCheck) check(_ context.Context, s *Subject, o *Object) ([]breach, error) {
	var out []breach
	for _, b := range c.engine.options.Workspaces[workspaceOf(s.App.Name)].Check(confine.Object{
		Object: o.Object,
		Scope:  c.scopeOf(s, o), Namespace: s.App.Namespace,
	}) {
		out = append(out, breach{rule: b.Rule, message: b.Message, hint: b.Hint, path: b.Path})
	}
	return out, nil
}

// scopeOf returns the scope of an object's kind, as far as Kubernetes or a definition of the fleet says it.
func (c *confineCheck) scopeOf(s *Subject, o *Object) manifest.Scope {
	id := o.Object.Identity()
	kind := manifest.GroupKind{Group: id.Group, Kind: id.Kind}
	if scope := manifest.BuiltinScope(kind); scope != manifest.ScopeUnknown {
		return scope
	}
	if d := c.crds.of(s.Cluster.Name, kind); d != nil {
		if d.clusterScoped {
			return manifest.ScopeCluster
		}
		return manifest.ScopeNamespaced
	}
	if manifest.WellKnownScope(kind) == manifest.ScopeCluster {
		return manifest.ScopeCluster
	}
	return manifest.ScopeUnknown
}

// Confine checks only the rules of workspaces. Equal objects in equal circumstances are judged once.
func (e *Engine) Confine(ctx context.Context, in Input) (*Result, error) {
	run := newRun(ctx, e, in)
	run.checkers = []checker{&confineCheck{engine: e, crds: run.crds}}
	if err := run.all(ctx); err != nil {
		return nil, err
	}
	run.out = slices.DeleteFunc(run.out, func(f Finding) bool { return !OfWorkspace(f.Rule) })
	sortFindings(run.out)
	return &Result{Findings: run.out, Notes: run.notes.list()}, nil
}

// workspaces checks what concerns whole targets of workspaces: their clusters, the namespaces of their apps, and
// quotas.
func (r *run) workspaces(ctx context.Context) error {
	counted := map[[2]string]bool{}
	for i := range r.subjects {
		s := &r.subjects[i]
		name := workspaceOf(s.App.Name)
		if name == "" || len(s.Objects) == 0 {
			continue
		}
		b, id := r.engine.options.Workspaces[name], s.Objects[0].Object.Identity()
		if b == nil {
			r.add(breach{rule: confine.RuleCluster, message: fmt.Sprintf("the trunk of the fleet has no workspace %s",
				name), hint: "merge the declaration of the workspace first"}, s, id)
			continue
		}
		if !b.Reaches(s.Cluster.Name, s.Cluster.Labels) {
			r.add(breach{
				rule: confine.RuleCluster, message: fmt.Sprintf("workspace %s does not reach the cluster %s", name,
					s.Cluster.Name),
				hint: "narrow the placement of the app, or ask for the cluster in spec.clusters in " + b.File,
			}, s, id)
		}
		// Flux and Argo CD can apply all objects of the app there, whatever namespaces they name
		if !b.Owns(s.App.Namespace) {
			r.add(breach{
				rule: confine.RuleNamespace,
				message: fmt.Sprintf("the namespace %q of the app is outside of workspace %s", s.App.Namespace,
					name),
				hint: "change spec.namespace of the app, or ask for the namespace in spec.namespaces in " + b.File,
			}, s, id)
		}
		key := [2]string{name, s.Cluster.Name}
		if counted[key] || b.Objects == 0 && b.Targets == 0 || r.input.Surroundings == nil {
			continue
		}
		counted[key] = true
		targets, objects, err := r.input.Surroundings.Size(ctx, s.Cluster.Name, name)
		if err != nil {
			return err
		}
		if b.Objects > 0 && objects > b.Objects || b.Targets > 0 && targets > b.Targets {
			r.add(breach{
				rule: confine.RuleQuota,
				message: fmt.Sprintf("workspace %s has %d objects in %d apps on the cluster %s, and its quota is %s",
					name, objects, targets, s.Cluster.Name, quota(b)),
				hint: "remove some, or ask for more in spec.quotas in " + b.File,
			}, s, id)
		}
	}
	return nil
}

func quota(b *confine.Bounds) string {
	var parts []string
	if b.Objects > 0 {
		parts = append(parts, fmt.Sprintf("%d objects", b.Objects))
	}
	if b.Targets > 0 {
		parts = append(parts, fmt.Sprintf("%d apps", b.Targets))
	}
	return strings.Join(parts, " and ")
}

// claim is an app that contains an object.
type claim struct {
	app, workspace string
	had            bool // before the change
}

// shared reports an object that apps of several workspaces contain. The app that had the object before the change keeps
// it, and the others violate the rule. If several or none had it, an app of the fleet keeps it, and every app of a
// workspace violates the rule.
func (r *run) shared(ctx context.Context, cluster string, subjects []*Subject, apps []string,
	id manifest.Identity,
) error {
	one := workspaceOf(apps[0])
	if !slices.ContainsFunc(apps, func(app string) bool { return workspaceOf(app) != one }) {
		return nil
	}
	claims := make([]claim, len(apps))
	for i, app := range apps {
		had, err := r.had(ctx, cluster, app, id)
		if err != nil {
			return err
		}
		claims[i] = claim{app, workspaceOf(app), had}
	}
	for _, s := range subjects {
		own := claims[slices.Index(apps, s.App.Name)]
		foreign := func(c claim) bool { return c.workspace != own.workspace }
		// if this one gives way, all others do
		at := slices.IndexFunc(claims, func(c claim) bool { return foreign(c) && c.had })
		if at < 0 {
			at = slices.IndexFunc(claims, foreign)
		}
		if at < 0 {
			continue
		}
		if b, ok := own.against(claims[at]); ok {
			r.add(b, s, id)
		}
	}
	return nil
}

// against compares a claim with that of another workspace. It reports false if the object stays with c.
func (c claim) against(other claim) (breach, bool) {
	if c.had && !other.had || c.had == other.had && c.workspace == "" {
		return breach{}, false
	}
	b := breach{rule: confine.RuleOwner, hint: "give the object another name"}
	switch {
	case other.had && !c.had && c.workspace == "":
		b.message = fmt.Sprintf("app %s of workspace %s has had this object before, and the two would overwrite each other", other.app, other.workspace)
	case other.had && !c.had:
		b.message = fmt.Sprintf("app %s, which is not of workspace %s, has had this object before, and the two would overwrite each other", other.app, c.workspace)
	case other.workspace != "":
		b.message = fmt.Sprintf("app %s of workspace %s contains this object too, and the two would overwrite each other: neither was first, so both workspaces are held", other.app, other.workspace)
		b.hint = "agree on one of them, and give the other object another name"
	default:
		b.message = fmt.Sprintf("app %s, which is not of workspace %s, contains this object too, and the two would overwrite each other", other.app, c.workspace)
	}
	return b, true
}

func (r *run) had(ctx context.Context, cluster, app string, id manifest.Identity) (bool, error) {
	if r.input.Surroundings == nil {
		return false, nil
	}
	return r.input.Surroundings.Had(ctx, cluster, app, id)
}
