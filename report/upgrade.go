package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/diff"
)

// Upgrade is what a new version of Kubernetes, or of a tool that renders, means for the clusters of a fleet.
type Upgrade struct {
	Repository string `json:"repository,omitempty"` // its folder or address
	Commit     string `json:"commit,omitempty"`     // in full; empty for a working tree
	Version    string `json:"version,omitempty"`    // of Sluice
	// To is the new version, such as `Kubernetes 1.37` or `Helm 4`; empty if the clusters get different ones.
	To       string           `json:"to,omitempty"`
	Steps    []string         `json:"steps,omitempty"` // the versions that were rendered, the lowest first
	Clusters []UpgradeCluster `json:"clusters"`        // blocked ones first, then by environment and name
	Issues   []UpgradeIssue   `json:"issues"`          // by weight: what blocks, what is deprecated, what is not known, what is so already
	Notes    []string         `json:"notes,omitempty"` // what was not checked, and why
	// Changes are those between the present version and the new one; absent in a review, which has them itself.
	Changes *diff.ChangeSet `json:"changes,omitempty"`
	Took    time.Duration   `json:"took,omitempty"` // nanoseconds
}

// UpgradeVerdict says whether a cluster can be upgraded.
type UpgradeVerdict string

// The verdicts, the gravest first.
const (
	UpgradeBlocked UpgradeVerdict = "blocked"
	UpgradeChanges UpgradeVerdict = "changes" // nothing blocks it, and objects change
	UpgradeReady   UpgradeVerdict = "ready"   // nothing blocks it, and no object changes
	UpgradeCurrent UpgradeVerdict = "current" // the cluster has the version, or a newer one
)

func (v UpgradeVerdict) rank() int {
	return slices.Index([]UpgradeVerdict{UpgradeBlocked, UpgradeChanges, UpgradeReady, UpgradeCurrent}, v)
}

// UpgradeCluster is one cluster with its verdict.
type UpgradeCluster struct {
	Name        string `json:"name"`
	Environment string `json:"environment"`
	From        string `json:"from"` // versions, such as 1.35
	To          string `json:"to"`
	// Assumed says that the fleet does not have the version of the cluster, so that From is a guess.
	Assumed   bool           `json:"assumed,omitempty"`
	Verdict   UpgradeVerdict `json:"verdict"`
	BlockedBy []string       `json:"blockedBy,omitempty"` // messages of the issues that block it, each once
	Warnings  int            `json:"warnings"`            // issues that do not block it
	Changed   int            `json:"changed"`             // number of objects that differ after the upgrade
}

// UpgradeIssue is a problem of an upgrade on some clusters of one environment.
type UpgradeIssue struct {
	Finding
	At string `json:"at"` // the first version with the problem
	// Existing says that the clusters have the problem now, so that the upgrade does not wait for it.
	Existing bool `json:"existing,omitempty"`
	// Unknown says that the target cannot be rendered at the present version, so that nothing is known of it.
	Unknown bool `json:"unknown,omitempty"`
}

// Blocks reports whether clusters must not be upgraded before the issue is solved.
func (i *UpgradeIssue) Blocks() bool { return i.Severity == SeverityError }

// weight is 0 for issues that a reader must see first.
func (i *UpgradeIssue) weight() int {
	switch {
	case i.Existing:
		return 3 //nolint:mnd // the last
	case i.Unknown:
		return 2 //nolint:mnd // below what the upgrade itself brings
	case i.Blocks():
		return 0
	}
	return 1
}

// Settle sets the verdicts from the issues and what changes, and the order of issues and clusters.
func (u *Upgrade) Settle(changes *diff.ChangeSet) {
	at := map[string]*UpgradeCluster{}
	for i := range u.Clusters {
		at[u.Clusters[i].Name] = &u.Clusters[i]
	}
	if changes != nil {
		for i := range changes.Groups {
			g := &changes.Groups[i]
			for _, name := range g.Clusters {
				if c := at[name]; c != nil {
					c.Changed += total(g.Counts) + g.Counts.Noise
				}
			}
		}
	}
	slices.SortStableFunc(u.Issues, func(a, b UpgradeIssue) int {
		return cmp.Or(cmp.Compare(a.weight(), b.weight()), compareVersions(a.At, b.At), strings.Compare(a.Rule, b.Rule),
			strings.Compare(a.Message, b.Message), strings.Compare(a.App, b.App))
	})
	unknown := map[string]int{}
	for i := range u.Issues {
		issue := &u.Issues[i]
		for _, name := range issue.Clusters {
			if issue.Unknown {
				unknown[name]++
				continue
			}
			c := at[name]
			switch {
			case c == nil:
			case !issue.Blocks():
				c.Warnings++
			case !slices.Contains(c.BlockedBy, issue.Message):
				c.BlockedBy = append(c.BlockedBy, issue.Message)
			}
		}
	}
	for i := range u.Clusters {
		if c := &u.Clusters[i]; unknown[c.Name] > 0 {
			c.BlockedBy = append(c.BlockedBy, Count(unknown[c.Name], "target")+" cannot be rendered now")
		}
		switch c := &u.Clusters[i]; {
		case len(c.BlockedBy) > 0:
			c.Verdict = UpgradeBlocked
		case c.Verdict == UpgradeCurrent:
		case c.Changed > 0:
			c.Verdict = UpgradeChanges
		default:
			c.Verdict = UpgradeReady
		}
	}
	slices.SortStableFunc(u.Clusters, func(a, b UpgradeCluster) int {
		return cmp.Compare(a.Verdict.rank(), b.Verdict.rank())
	})
}

// compareVersions compares 1.9 and 1.10 by their numbers.
func compareVersions(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// Blocked returns the number of clusters that are blocked.
func (u *Upgrade) Blocked() int { return u.verdicts()[UpgradeBlocked] }

func (u *Upgrade) verdicts() map[UpgradeVerdict]int {
	out := map[UpgradeVerdict]int{}
	for i := range u.Clusters {
		out[u.Clusters[i].Verdict]++
	}
	return out
}

// Summary says on one line what the plan came to: `Kubernetes 1.37: 2 clusters blocked, 5 change, 3 ready`.
func (u *Upgrade) Summary() string {
	n := u.verdicts()
	var parts []string
	for _, v := range []struct {
		verdict UpgradeVerdict
		one     string
		many    string
	}{
		{UpgradeBlocked, "is blocked", "are blocked"},
		{UpgradeChanges, "changes", "change"},
		{UpgradeReady, "is ready", "are ready"},
		{UpgradeCurrent, "has the version", "have the version"},
	} {
		switch n[v.verdict] {
		case 0:
		case 1:
			parts = append(parts, "1 cluster "+v.one)
		default:
			parts = append(parts, Count(n[v.verdict], "cluster")+" "+v.many)
		}
	}
	if len(parts) == 0 {
		parts = []string{"no clusters"}
	}
	return cmp.Or(u.To, "Upgrade") + ": " + joined(parts...)
}

// UpgradeGroup has clusters with equal verdicts, versions and reasons.
type UpgradeGroup struct {
	*UpgradeCluster // the first
	Clusters        []string
	Where           string // the clusters: each of a few, else their number by environment
}

// Groups groups the clusters, in their order. Clusters that change or are ready are not told apart by what changes.
func (u *Upgrade) Groups() []*UpgradeGroup {
	find := map[string]*UpgradeGroup{}
	var out []*UpgradeGroup
	for i := range u.Clusters {
		c := &u.Clusters[i]
		assumed := ""
		if c.Assumed {
			assumed = "assumed"
		}
		key := strings.Join(append([]string{string(c.Verdict), c.From, c.To, assumed}, c.BlockedBy...), "\x00")
		g := find[key]
		if g == nil {
			g = &UpgradeGroup{UpgradeCluster: c}
			find[key] = g
			out = append(out, g)
		}
		g.Clusters = append(g.Clusters, c.Name)
	}
	environment := map[string]string{}
	for i := range u.Clusters {
		environment[u.Clusters[i].Name] = u.Clusters[i].Environment
	}
	for _, g := range out {
		g.Where = byEnvironment(g.Clusters, environment)
	}
	return out
}

// byEnvironment names clusters of several environments: `prod (40), staging/eu-1`.
func byEnvironment(clusters []string, environment map[string]string) string {
	var order []string
	of := map[string][]string{}
	for _, name := range clusters {
		e := environment[name]
		if of[e] == nil {
			order = append(order, e)
		}
		of[e] = append(of[e], name)
	}
	parts := make([]string, len(order))
	for i, e := range order {
		parts[i] = places(e, of[e])
	}
	return strings.Join(parts, ", ")
}

// Words says what happens to the clusters of a group: `1.35 → 1.37`.
func (g *UpgradeGroup) Words() string {
	if g.From == "" {
		return g.To
	}
	from := g.From
	if g.Assumed {
		from += " (assumed)"
	}
	if g.Verdict == UpgradeCurrent {
		return from
	}
	return from + " → " + g.To
}

// UpgradeIssues are the issues of one version with one weight, in groups.
type UpgradeIssues struct {
	Title  string // `Blocked by, at 1.36`
	Blocks bool
	Groups []*FindingGroup
}

// Sections groups the issues by weight and version, in their order.
func (u *Upgrade) Sections() []UpgradeIssues {
	type key struct {
		severity          Severity
		at                string
		existing, unknown bool
	}
	var order []key
	of := map[key][]Finding{}
	for i := range u.Issues {
		issue := &u.Issues[i]
		k := key{issue.Severity, issue.At, issue.Existing, issue.Unknown}
		if issue.Existing || issue.Unknown {
			k.at = ""
		}
		if of[k] == nil {
			order = append(order, k)
		}
		of[k] = append(of[k], issue.Finding)
	}
	out := make([]UpgradeIssues, 0, len(order))
	for _, k := range order {
		title := "Blocked by"
		switch {
		case k.unknown:
			title = "Not known, because it cannot be rendered now"
		case k.existing:
			title = "Already so at the present version"
		case k.severity != SeverityError:
			title = "To look at"
		}
		if k.at != "" {
			title += ", at " + k.at
		}
		out = append(out, UpgradeIssues{title, k.severity == SeverityError && !k.unknown, GroupFindings(of[k], nil)})
	}
	return out
}
