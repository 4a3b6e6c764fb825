package review

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/enforce"
	"github.com/sluice-gitops/sluice/hydrate/ownpolicy"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
)

// Judge returns the findings of a comparison.
type Judge interface {
	Judge(ctx context.Context, c *compare.Comparison) (report.Findings, error)
}

// Engine checks objects. *policy.Engine implements it.
type Engine interface {
	Check(ctx context.Context, in policy.Input) (*policy.Result, error)
}

// Policy is a Judge that applies the fleet's policy. It checks both sides of a comparison with the same rules and
// counts findings of the base separately.
type Policy struct {
	Engine Engine
	Rules  bool // the fleet has rules of its own
	Entire bool // report the findings of the base as introduced too; for reviews of entire environments
}

// Judge implements Judge.
func (p Policy) Judge(ctx context.Context, c *compare.Comparison) (report.Findings, error) {
	gone, err := emptied(ctx, c)
	if err != nil {
		return report.Findings{}, err
	}
	after, err := p.Engine.Check(ctx, policy.Input{
		Subjects:     subjects(ctx, c, true),
		Surroundings: enforce.Surroundings(c.Inventory(true), c.Inventory(false)), Emptied: gone,
	})
	if err != nil {
		return report.Findings{}, err
	}
	before := &policy.Result{}
	if !p.Entire {
		if before, err = p.Engine.Check(ctx, policy.Input{
			Subjects:     subjects(ctx, c, false),
			Surroundings: enforce.Surroundings(c.Inventory(false), nil),
		}); err != nil {
			return report.Findings{}, err
		}
	}
	found := policy.Compare(before.Findings, after.Findings)
	files, order := sources(c), ownpolicy.Environments(c.HeadFleet())
	out := report.Findings{
		Introduced: merge(found.Introduced, files, order), Resolved: merge(found.Resolved, files, order),
		Exempted: len(onEnvironments(merge(found.Exempted, files, order))), Notes: after.Notes,
		Advisory: p.advisory(c, found.Introduced),
	}
	placed(out.Introduced, c.Changes)
	for _, f := range onEnvironments(merge(found.Existing, files, order)) {
		if out.Existing == nil {
			out.Existing = map[report.Severity]int{}
		}
		out.Existing[f.Severity]++
	}
	return out, nil
}

// advisory reports whether there are errors, and hydration would write the change with all of them.
func (p Policy) advisory(c *compare.Comparison, introduced []policy.Finding) bool {
	errors := 0
	for i := range introduced {
		if f := &introduced[i]; f.Severity == policy.SeverityError {
			if errors++; enforce.Forbids(c.HeadFleet(), f.Environment, p.Rules, f) {
				return false
			}
		}
	}
	return errors > 0
}

// emptied returns the clusters that lose everything.
func emptied(ctx context.Context, c *compare.Comparison) ([]policy.Emptied, error) {
	list, err := c.Emptied(ctx)
	out := make([]policy.Emptied, len(list))
	for i, one := range list {
		out[i] = policy.Emptied{Cluster: enforce.Cluster(one.Cluster), Unread: one.Unread != ""}
	}
	return out, err
}

// subjects returns the targets of one side of the comparison, with the objects that differ and, on clusters whose
// Kubernetes version changes, all others.
func subjects(ctx context.Context, c *compare.Comparison, after bool) policy.Subjects {
	part := func(i int) enforce.Part {
		t := &c.Targets[i]
		target, files := t.Target, len(t.Files.After)
		if !after {
			files = len(t.Files.Before)
			if t.Old != nil {
				target = *t.Old
			}
		}
		if t.Upgraded {
			files += t.Files.Unchanged
		}
		if after && t.Gone {
			files = 0
		}
		return enforce.Part{
			Cluster: target.Cluster, App: policy.App{Name: target.App.Name, Namespace: t.Namespace},
			Objects: enforce.Key{Trees: t.Trees, All: t.Upgraded}, Files: files,
		}
	}
	return enforce.Batches(ctx, len(c.Targets), part, func(ctx context.Context, i int) ([]policy.Object, error) {
		return objectsOf(ctx, c, &c.Targets[i], after)
	})
}

// objectsOf reads the objects of one side of a target.
func objectsOf(ctx context.Context, c *compare.Comparison, t *compare.Target, after bool) ([]policy.Object, error) {
	before, err := c.Read(ctx, t, t.Files.Before)
	if err != nil {
		return nil, err
	}
	list, old := before, []compare.Object(nil)
	if after {
		old = before
		if list, err = c.Read(ctx, t, t.Files.After); err != nil {
			return nil, err
		}
	}
	out := enforce.Changed(list, old)
	if !t.Upgraded {
		return out, nil
	}
	files, err := c.Unchanged(ctx, t)
	if err != nil {
		return nil, err
	}
	same, err := c.Read(ctx, t, files)
	if err != nil {
		return nil, err
	}
	for i := range same {
		out = append(out, policy.Object{
			Key: same[i].Key, Object: same[i].Object.Object, OldKey: same[i].Key,
			Old: same[i].Object.Object,
		})
	}
	return out, nil
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

// merge combines findings that differ only in the cluster. Environments have the given order.
func merge(list []policy.Finding, files map[string]string, environments []string) []report.Finding {
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
				Rule: f.Rule, Severity: report.Severity(f.Severity), Message: f.Message, Hint: f.Hint, Path: f.Path,
				Object: f.Object, App: f.App, Environment: f.Environment, File: files[f.App],
			}
			if builtIn[f.Rule] {
				one.Docs = docs + f.Rule + ".md"
			}
			if f.Exemption != nil {
				one.Exemption = &report.Exemption{
					Reason: f.Exemption.Reason, Until: f.Exemption.Until, File: f.Exemption.File,
				}
			}
			out = append(out, one)
		}
		if clusters := out[n].Clusters; len(clusters) == 0 || clusters[len(clusters)-1] != f.Cluster {
			out[n].Clusters = append(clusters, f.Cluster)
		}
	}
	slices.SortStableFunc(out, func(a, b report.Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.Rank(), b.Severity.Rank()), strings.Compare(a.Rule, b.Rule),
			strings.Compare(a.App, b.App),
			cmp.Compare(slices.Index(environments, a.Environment), slices.Index(environments, b.Environment)))
	})
	return out
}

// onEnvironments returns the findings of which the list has none of another environment before.
func onEnvironments(list []report.Finding) []report.Finding {
	type key struct {
		rule, message, path, app string
		severity                 report.Severity
		object                   manifest.Identity
	}
	seen := map[key]bool{}
	var out []report.Finding
	for i := range list {
		f := &list[i]
		if k := (key{f.Rule, f.Message, f.Path, f.App, f.Severity, f.Object}); !seen[k] {
			seen[k] = true
			out = append(out, *f)
		}
	}
	return out
}

// placed sets the places of findings about objects whose changes have a known cause. The others have the file of their
// app.
func placed(list []report.Finding, changes *diff.ChangeSet) {
	if changes == nil {
		return
	}
	type object struct {
		app string
		id  manifest.Identity
	}
	groups := map[object][]*diff.Group{}
	for i := range changes.Groups {
		g := &changes.Groups[i]
		for j := range g.Objects {
			if g.Cause != nil && g.Objects[j].Verb != diff.Removed {
				key := object{g.App, g.Objects[j].ID}
				groups[key] = append(groups[key], g)
			}
		}
	}
	for i := range list {
		f := &list[i]
		for _, g := range groups[object{f.App, f.Object}] {
			if len(f.Clusters) > 0 && slices.Contains(g.Clusters, f.Clusters[0]) {
				f.File, f.Line = g.Cause.File, g.Cause.Line
			}
		}
	}
}

// docs is the folder of the built-in rules' pages.
const docs = "https://github.com/sluice-gitops/sluice/blob/main/docs/policy/"
