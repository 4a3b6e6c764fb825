package upgrade

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/policy/lifecycle"
	"github.com/sluice-gitops/sluice/report"
)

// Of returns what a change means for the clusters that it gives a newer minor version of Kubernetes; nil if it gives
// none, or if only a part of the fleet is compared. The comparison has rendered the clusters before and after, and nothing between.
func Of(ctx context.Context, c *compare.Comparison) (*report.Upgrade, error) {
	base := c.BaseFleet()
	if base == nil || c.Partial() {
		return nil, nil //nolint:nilnil // nobody knows all that the clusters have
	}
	o := &comparison{
		Comparison: c, out: &report.Upgrade{}, table: Table(c.Rulebook()), now: map[string]step{}, then: map[string]step{},
		facts: map[gitstore.Hash][]*lifecycle.Facts{},
	}
	o.clusters(base)
	if len(o.out.Clusters) == 0 {
		return nil, nil //nolint:nilnil // it is no upgrade
	}
	if err := o.read(ctx); err != nil {
		return nil, err
	}
	j := newJudge(c.HeadFleet(), o.table, func(tree gitstore.Hash) []*lifecycle.Facts { return o.facts[tree] })
	for i := range o.out.Clusters {
		name := o.out.Clusters[i].Name
		if cluster, ok := c.HeadFleet().Cluster(name); ok {
			j.cluster(cluster, o.now[name], []step{o.then[name]})
			o.skipped(j, cluster)
		}
	}
	o.out.Issues = j.issues
	o.out.Settle(c.Changes)
	return o.out, nil
}

type comparison struct {
	*compare.Comparison
	out       *report.Upgrade
	table     *lifecycle.Table
	now, then map[string]step // by cluster
	facts     map[gitstore.Hash][]*lifecycle.Facts
}

// clusters finds the clusters whose version rises.
func (o *comparison) clusters(base *fleet.Fleet) {
	head := o.HeadFleet()
	one := map[lifecycle.Minor]bool{}
	skips := false
	for _, c := range head.Clusters {
		before, ok := base.Cluster(c.Name)
		if !ok || c.Retired() || c.Frozen() || before.KubeVersion == "" {
			continue
		}
		from, known := lifecycle.ParseMinor(before.KubeVersion)
		to, valid := lifecycle.ParseMinor(c.KubeVersion)
		if !known || !valid || !from.Before(to) {
			continue
		}
		o.now[c.Name], o.then[c.Name] = step{from, newSide()}, step{to, newSide()}
		one[to] = true
		skips = skips || from.Next().Before(to)
		o.out.Clusters = append(o.out.Clusters, report.UpgradeCluster{
			Name: c.Name, Environment: c.Environment, From: from.String(), To: to.String(),
		})
	}
	order(head, o.out.Clusters)
	for to := range one {
		if len(one) == 1 {
			o.out.To = "Kubernetes " + to.String()
		}
	}
	if skips {
		o.out.Notes = append(o.out.Notes, "the versions between were not rendered: `sluice upgrade plan` does it")
	}
}

// skipped adds an issue if objects that describe a cluster would upgrade it by more than one minor version.
func (o *comparison) skipped(j *judge, c *fleet.Cluster) {
	first, to := o.now[c.Name].at.Next(), o.then[c.Name].at
	i := slices.IndexFunc(o.HeadFleet().Apps, func(a *fleet.App) bool { return a.Describes() == c })
	if i < 0 || !first.Before(to) {
		return
	}
	a := o.HeadFleet().Apps[i]
	j.add(c, report.UpgradeIssue{At: to.String(), Finding: report.Finding{
		Rule: RuleSkip, Severity: report.SeverityError, App: a.Declared(), File: a.File,
		Message: fmt.Sprintf("the objects of Cluster API would go from %s to %s, and Kubernetes skips no minor version",
			o.now[c.Name].at, to),
		Hint: fmt.Sprintf("set kubeVersion to %s first", first),
	}})
}

// read reads what the clusters have. The hash of a tree stands for its facts.
func (o *comparison) read(ctx context.Context) error {
	for i := range o.Targets {
		t := &o.Targets[i]
		name, app := t.Target.Cluster.Name, t.Target.App.Name
		if _, ok := o.now[name]; !ok {
			continue
		}
		same, err := o.Unchanged(ctx, t)
		if err != nil {
			return err
		}
		for n, side := range []*side{o.now[name].side, o.then[name].side} {
			tree := t.Trees[n]
			if tree.IsZero() {
				continue
			}
			side.apps[app] = tree
			if _, known := o.facts[tree]; known {
				continue
			}
			files := t.Files.Before
			if n == 1 {
				files = t.Files.After
			}
			o.facts[tree] = nil
			for _, list := range [][]compare.File{files, same} {
				read, err := o.Read(ctx, t, list)
				if err != nil {
					return err
				}
				for k := range read {
					if f := o.table.Read(read[k].Object.Object); f != nil {
						o.facts[tree] = append(o.facts[tree], f)
					}
				}
			}
		}
	}
	for _, w := range o.Changes.Withheld {
		if _, ok := o.now[w.Cluster]; !ok {
			continue
		}
		side := o.then[w.Cluster].side
		if w.Before {
			side = o.now[w.Cluster].side
		}
		side.failed[w.App] = failure{w.Message, w.File, w.Line}
	}
	return nil
}
