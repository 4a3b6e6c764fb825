// Package upgrade finds out what a newer version of Kubernetes means for the clusters of a fleet. Plan renders the fleet
// at each minor version between the present one and the new one. Of reads a comparison, which has both sides rendered
// already.
//
// Both judge objects by package lifecycle, and return the same form. They write no branch and decide nothing: a blocked
// cluster is a verdict, which a person or a job acts on.
//
// The package is not API: it can change in every release.
package upgrade

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/policy/lifecycle"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
)

// The rules beside those of package lifecycle.
const (
	RuleChart  = "chart-refuses" // a chart demands other versions of Kubernetes
	RuleImage  = "image-exists"  // a registry does not have an image
	RuleRender = "not-rendered"  // a target cannot be rendered, so that nothing is known of it
	RuleSkip   = "minor-skipped" // objects of Cluster API would upgrade a cluster by more than one minor version
)

// Table returns what Sluice knows of versions, and before it what a fleet adds.
func Table(f *fleet.Fleet) *lifecycle.Table {
	out := &lifecycle.Table{APIs: map[string]lifecycle.API{}}
	for _, a := range f.Spec.Upgrades.APIs {
		one := lifecycle.API{Replacement: a.Replacement}
		one.Deprecated, _ = lifecycle.ParseMinor(a.DeprecatedIn) // the fleet's checks have read both
		one.Removed, _ = lifecycle.ParseMinor(a.RemovedIn)
		out.APIs[a.APIVersion+"/"+a.Kind] = one
	}
	for i := range f.Spec.Upgrades.Addons {
		a := &f.Spec.Upgrades.Addons[i]
		one := lifecycle.Addon{
			Name: a.Name, Images: a.Images, Versions: a.Versions, Kubernetes: a.Kubernetes, Advice: a.Advice,
			Source: a.Source,
		}
		if a.Skew != nil {
			one.Skew = &lifecycle.Skew{Older: a.Skew.Older, Newer: a.Skew.Newer}
		}
		out.Addons = append(out.Addons, one)
	}
	out.Addons = append(out.Addons, lifecycle.Addons()...)
	return out
}

// side is what a cluster has at a version: the facts of its apps, and why others cannot be rendered.
type side struct {
	apps   map[string]gitstore.Hash // trees, by app
	failed map[string]failure       // by app
}

func newSide() *side { return &side{map[string]gitstore.Hash{}, map[string]failure{}} }

type failure struct {
	message, file string
	line          int
}

// sum identifies what a side has.
func (s *side) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, app := range slices.Sorted(maps.Keys(s.apps)) {
		tree := s.apps[app]
		_, _ = fmt.Fprintf(h, "%d %s", len(app), app)
		_, _ = h.Write(tree[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// judge collects the issues of clusters.
type judge struct {
	table *lifecycle.Table
	facts func(tree gitstore.Hash) []*lifecycle.Facts
	files map[string]string // of apps
	known map[assessed][]lifecycle.Issue

	issues []report.UpgradeIssue
	at     map[issueKey]int // in issues
}

type assessed struct {
	at  lifecycle.Minor
	sum [sha256.Size]byte
}

type issueKey struct {
	rule, app, environment, path, message, hint, at, file string
	object                                                manifest.Identity
	severity                                              report.Severity
	line                                                  int
	unknown, existing                                     bool
}

// assess returns the issues of what a cluster has at a version. Most clusters of a large fleet have the same.
func (j *judge) assess(at lifecycle.Minor, s *side) []lifecycle.Issue {
	key := assessed{at, s.sum()}
	if known, ok := j.known[key]; ok {
		return known
	}
	apps := make([]lifecycle.App, 0, len(s.apps))
	for _, app := range slices.Sorted(maps.Keys(s.apps)) {
		apps = append(apps, lifecycle.App{Name: app, Facts: j.facts(s.apps[app])})
	}
	out := j.table.Assess(at, apps)
	j.known[key] = out
	return out
}

// step is what a cluster has at one version.
type step struct {
	at lifecycle.Minor
	*side
}

// cluster judges a cluster by what it has now and at each step.
func (j *judge) cluster(c *fleet.Cluster, now step, steps []step) {
	has := map[[3]string]bool{}
	for _, i := range j.assess(now.at, now.side) {
		has[i.Key()] = true
	}
	last := map[[3]string]bool{}
	if len(steps) > 0 {
		s := steps[len(steps)-1]
		for _, i := range j.assess(s.at, s.side) {
			last[i.Key()] = true
		}
	}
	found := map[[3]string]bool{}
	removed := map[[3]string]bool{} // the deprecations of these objects say less
	for _, s := range steps {
		for _, i := range j.assess(s.at, s.side) {
			if i.Rule == lifecycle.RuleRemoved {
				i.Rule = lifecycle.RuleDeprecated
				removed[i.Key()] = true
			}
		}
	}
	for _, s := range steps {
		for _, i := range j.assess(s.at, s.side) {
			key := i.Key()
			if found[key] || i.Rule == lifecycle.RuleDeprecated && removed[key] {
				continue
			}
			found[key] = true
			// a skew that remains grows with the version
			severity, existing := report.SeverityWarning, has[key] && (i.Rule != lifecycle.RuleSkew || !last[key])
			switch {
			case existing:
				severity = report.SeverityInfo
			case i.Blocks:
				severity = report.SeverityError
			}
			j.add(c, report.UpgradeIssue{At: s.at.String(), Existing: existing, Finding: report.Finding{
				Rule: i.Rule, Severity: severity, Message: i.Message, Hint: i.Hint, Path: i.Path, Object: i.Object,
				App: i.App, File: j.files[i.App],
			}})
		}
	}
	if len(steps) > 0 {
		j.failures(c, now, steps)
	}
}

// refusal is the message of the renderer about a chart whose kubeVersion excludes that of the cluster.
var refusal = regexp.MustCompile(`chart (\S+) needs Kubernetes (.+), the cluster has (\S+): `)

// failures adds what cannot be rendered. A target that fails now blocks nothing if the new version renders it.
func (j *judge) failures(c *fleet.Cluster, now step, steps []step) {
	told := map[string]bool{}
	last := steps[len(steps)-1]
	for _, s := range append([]step{now}, steps...) {
		for _, app := range slices.Sorted(maps.Keys(s.failed)) {
			if told[app] {
				continue
			}
			told[app] = true
			f := s.failed[app]
			_, present := now.failed[app]
			_, fails := last.failed[app]
			issue := report.UpgradeIssue{
				At: s.at.String(), Existing: present && !fails, Unknown: present && fails,
				Finding: report.Finding{
					Rule: RuleRender, Severity: report.SeverityError, Message: f.message, App: app,
					File: cmp.Or(f.file, j.files[app]), Line: f.line,
				},
			}
			if issue.Existing {
				issue.Severity, issue.Hint = report.SeverityInfo, "the new version renders it"
			}
			if m := refusal.FindStringSubmatch(f.message); m != nil {
				issue.Rule, issue.Message = RuleChart, fmt.Sprintf("the chart %s needs Kubernetes %s", m[1], m[2])
				if !issue.Existing {
					issue.Hint = "upgrade the chart first"
				}
			}
			j.add(c, issue)
		}
	}
}

// add adds an issue of a cluster to the equal one of other clusters.
func (j *judge) add(c *fleet.Cluster, i report.UpgradeIssue) {
	i.Environment = c.Environment
	key := issueKey{
		i.Rule, i.App, i.Environment, i.Path, i.Message, i.Hint, i.At, i.File, i.Object, i.Severity, i.Line, i.Unknown, i.Existing,
	}
	n, ok := j.at[key]
	if !ok {
		n = len(j.issues)
		j.at[key], j.issues = n, append(j.issues, i)
	}
	j.issues[n].Clusters = append(j.issues[n].Clusters, c.Name)
}

func newJudge(f *fleet.Fleet, table *lifecycle.Table, facts func(gitstore.Hash) []*lifecycle.Facts) *judge {
	j := &judge{
		table: table, facts: facts, files: map[string]string{}, known: map[assessed][]lifecycle.Issue{},
		issues: []report.UpgradeIssue{}, at: map[issueKey]int{},
	}
	for _, a := range f.Apps {
		j.files[a.Name] = a.File
	}
	return j
}

// order sorts clusters by environment, in the order of the promotion graph, and by name.
func order(f *fleet.Fleet, list []report.UpgradeCluster) {
	rank := map[string]int{}
	for i, e := range f.Spec.Environments {
		rank[e.Name] = i
	}
	slices.SortFunc(list, func(a, b report.UpgradeCluster) int {
		return cmp.Or(cmp.Compare(rank[a.Environment], rank[b.Environment]), strings.Compare(a.Name, b.Name))
	})
}
