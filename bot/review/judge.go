package review

import (
	"cmp"
	"context"
	"strings"

	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/enforce"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/internal/sorting"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Engine checks objects. *policy.Engine implements it.
type Engine interface {
	Check(ctx context.Context, in policy.Input) (*policy.Result, error)
}

// Policy is a Judge that applies the fleet's policy. It checks both sides of a comparison with the same rules and
// counts findings of the base separately.
type Policy struct {
	Engine Engine
	Whole  bool // report the findings of the base as introduced too; for reviews of whole environments
}

// Judge implements Judge.
func (p Policy) Judge(ctx context.Context, c *compare.Comparison) (report.Findings, error) {
	after, err := p.Engine.Check(ctx, policy.Input{Subjects: subjects(c, true), Surroundings: enforce.Surroundings(c.Inventory(true), c.Inventory(false)), Emptied: emptied(ctx, c)})
	if err != nil {
		return report.Findings{}, err
	}
	before := &policy.Result{}
	if !p.Whole {
		if before, err = p.Engine.Check(ctx, policy.Input{Subjects: subjects(c, false), Surroundings: enforce.Surroundings(c.Inventory(false), nil)}); err != nil {
			return report.Findings{}, err
		}
	}
	found := policy.Compare(before.Findings, after.Findings)
	files := sources(c)
	out := report.Findings{Introduced: merge(found.Introduced, files), Resolved: merge(found.Resolved, files), Exempted: len(merge(found.Exempted, files)), Notes: after.Notes}
	for _, f := range merge(found.Existing, files) {
		if out.Existing == nil {
			out.Existing = map[report.Severity]int{}
		}
		out.Existing[f.Severity]++
	}
	return out, nil
}

// emptied returns the clusters that lose everything.
func emptied(ctx context.Context, c *compare.Comparison) []policy.Emptied {
	var out []policy.Emptied
	for _, one := range c.Emptied(ctx) {
		out = append(out, policy.Emptied{Cluster: enforce.Cluster(one.Cluster), Unread: one.Unread != ""})
	}
	return out
}

// subjects returns the targets of one side of the comparison.
func subjects(c *compare.Comparison, after bool) []policy.Subject {
	out := make([]policy.Subject, 0, len(c.Targets))
	clusters := map[*fleet.Cluster]*policy.Cluster{}
	known := map[changed][]policy.Object{}
	apps := map[policy.App]*policy.App{}
	for i := range c.Targets {
		t := &c.Targets[i]
		target, objects := t.Target, t.After
		if !after {
			objects = t.Before
			if t.Old != nil {
				target = *t.Old
			}
		}
		if after && t.Gone || len(objects)+len(t.Same) == 0 {
			continue
		}
		cluster := clusters[target.Cluster]
		if cluster == nil {
			cluster = enforce.Cluster(target.Cluster)
			clusters[target.Cluster] = cluster
		}
		before := t.Before
		if !after {
			before = nil
		}
		key := changed{first(objects), first(before), first(t.Same)}
		list, ok := known[key]
		if !ok {
			list = judged(objects, before, t.Same)
			known[key] = list
		}
		app := policy.App{Name: target.App.Name, Namespace: t.Namespace}
		if apps[app] == nil {
			apps[app] = &app
		}
		out = append(out, policy.Subject{Cluster: cluster, App: apps[app], Objects: list})
	}
	return out
}

// changed identifies the objects of a target by the first one of each list: targets share whole lists.
type changed struct{ objects, before, same *compare.Object }

func first(list []compare.Object) *compare.Object {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// judged returns objects in the form in which the policy reads them, with the equal ones of a cluster whose Kubernetes version changes.
func judged(objects, before, same []compare.Object) []policy.Object {
	out := enforce.Changed(objects, before)
	for i := range same {
		out = append(out, policy.Object{Key: same[i].Key, Object: same[i].Object.Object, OldKey: same[i].Key, Old: same[i].Object.Object})
	}
	return out
}

// sources returns the files of the apps, by app.
func sources(c *compare.Comparison) map[string]string {
	out := map[string]string{}
	for i := range c.Targets {
		if a := c.Targets[i].Target.App; a.File != "" {
			out[a.Name] = a.File
		}
	}
	return out
}

// merge combines findings that differ only in the cluster.
func merge(list []policy.Finding, files map[string]string) []report.Finding {
	type key struct {
		rule, severity, message, path, app, environment string
		object                                          manifest.Identity
	}
	builtIn := map[string]bool{}
	for _, r := range policy.BuiltIn() {
		builtIn[r.ID] = true
	}
	var out []report.Finding
	at := map[key]int{}
	for i := range list {
		f := &list[i]
		k := key{f.Rule, string(f.Severity), f.Message, f.Path, f.App, f.Environment, f.Object}
		n, ok := at[k]
		if !ok {
			n = len(out)
			at[k] = n
			one := report.Finding{
				Rule: f.Rule, Severity: report.Severity(f.Severity), Message: f.Message, Hint: f.Hint, Path: f.Path, Object: f.Object,
				App: f.App, Environment: f.Environment, File: files[f.App],
			}
			if builtIn[f.Rule] {
				one.Docs = docs + f.Rule + ".md"
			}
			if f.Exemption != nil {
				one.Exemption = &report.Exemption{Reason: f.Exemption.Reason, Until: f.Exemption.Until, File: f.Exemption.File}
			}
			out = append(out, one)
		}
		if clusters := out[n].Clusters; len(clusters) == 0 || clusters[len(clusters)-1] != f.Cluster {
			out[n].Clusters = append(clusters, f.Cluster)
		}
	}
	sorting.Func(out, func(a, b report.Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.Rank(), b.Severity.Rank()), strings.Compare(a.Rule, b.Rule), strings.Compare(a.App, b.App))
	})
	return out
}

// docs is the folder of the built-in rules' pages.
const docs = "https://github.com/sluice-gitops/sluice/blob/main/docs/policy/"
