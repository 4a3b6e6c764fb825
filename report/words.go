package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// naming writes text from outside: code for Markdown, safetext.Line for the terminal.
type naming func(string) string

// Number writes 10000 as 10,000.
func Number(n int) string {
	s := strconv.Itoa(n)
	const group = 3
	for i := len(s) - group; i > 0 && s[i-1] != '-'; i -= group {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count writes `1 app`, `3 apps`.
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + one + "s"
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

// Changes writes the number of targets whose inputs a pin changes; "" if it is not known.
func (p *Pin) Changes() string {
	if p.Targets == nil {
		return ""
	}
	return Count(*p.Targets, "target")
}

// ChangeCounts writes the number of objects: `2 added, 240 changed, 1 no longer managed`.
func ChangeCounts(c diff.Counts) string {
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{c.Added, "added"}, {c.Changed, "changed"}, {c.Deleted(), "removed"}, {c.Orphaned, "no longer managed"}} {
		if p.n > 0 {
			parts = append(parts, Number(p.n)+" "+p.word)
		}
	}
	return joined(parts...)
}

// Rolls counts the workloads whose pods are replaced; "" for none.
func Rolls(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 workload rolls"
	}
	return Number(n) + " workloads roll"
}

func total(c diff.Counts) int { return c.Added + c.Changed + c.Removed }

// quietGroup reports whether a group has only noise and rolls nothing.
func quietGroup(g *diff.Group) bool { return total(g.Counts) == 0 && g.Counts.Workloads == 0 }

// scope is what the changes of a set reach.
type scope struct {
	apps     []string // with a change, in the set's order
	clusters int      // with a change
	one      string   // the cluster with a change, if there is only one
	noisy    int      // clusters with noise
	quiet    []string // apps with only noise
}

func scopeOf(c *diff.ChangeSet) scope {
	real, noisy := map[string]bool{}, map[string]bool{}
	var out scope
	for i := range c.Groups {
		g := &c.Groups[i]
		if g.Counts.Noise > 0 {
			for _, name := range g.Clusters {
				noisy[name] = true
			}
		}
		if total(g.Counts) == 0 {
			continue
		}
		for _, name := range g.Clusters {
			real[name] = true
		}
		if len(real) == 1 && len(g.Where) == 1 {
			out.one = g.Where[0].Pattern
		}
	}
	out.clusters, out.noisy = len(real), len(noisy)
	if out.clusters != 1 {
		out.one = ""
	}
	for i := range c.Apps {
		switch a := &c.Apps[i]; {
		case total(a.Counts) > 0:
			out.apps = append(out.apps, a.Name)
		case a.Counts.Noise > 0:
			out.quiet = append(out.quiet, a.Name)
		}
	}
	return out
}

// headline answers on one line what a merge changes.
func headline(r *Review, name naming) string {
	c := r.Changes
	if c == nil {
		return cmp.Or(firstError(r, name), "no review — the base and the head cannot be compared")
	}
	s := scopeOf(c)
	withheld, held := "", withheldCount(c)
	if held > 0 {
		withheld = Count(held, "target") + " cannot be rendered"
	}
	switch {
	case len(s.apps) > 0:
		what := Count(len(s.apps), "app") + " change"
		if len(s.apps) == 1 {
			what = name(safetext.Shorten(s.apps[0], maxHeadName)) + " changes"
		}
		where := "on " + Count(s.clusters, "cluster")
		if s.one != "" {
			where = "on " + name(safetext.Shorten(s.one, maxHeadName))
		}
		return what + " " + where + " — " + joined(ChangeCounts(c.Totals), Rolls(c.Totals.Workloads), withheld, uncertain(c))
	case c.Totals.Noise > 0:
		effect := Rolls(c.Totals.Workloads)
		if effect == "" {
			effect = "nothing rolls"
		}
		return "only noise on " + Count(s.noisy, "cluster") + " — " +
			joined(Count(c.Totals.Noise, "object")+" with only new version labels, checksums or equal values", effect,
				withheld, uncertain(c))
	case withheld != "":
		if held == 1 {
			return withheld + " — its changes are unknown"
		}
		return withheld + " — their changes are unknown"
	}
	if text := uncertain(c); text != "" {
		return cmp.Or(firstError(r, name), text+" — "+unknownReaders(c, name))
	}
	if n := len(c.Unread); n > 0 {
		what := name(safetext.Shorten(c.Unread[0], maxHeadName))
		if n > 1 {
			what = Count(n, "target")
		}
		return "no effect on what can be read — " + what +
			" cannot be rendered; other targets that depend on it are not compared"
	}
	unclaimed := ""
	switch n := c.Unclaimed(); n {
	case 0:
	case 1:
		unclaimed = "1 changed file is read by none"
	default:
		unclaimed = Number(n) + " changed files are read by none"
	}
	switch n := len(c.Declarations); {
	case n > 0:
		what := Count(n, "declaration") + " change"
		if n == 1 {
			what += "s"
		}
		return cmp.Or(firstError(r, name), "no rendered object changes — "+
			joined(what, strings.Replace(unclaimed, "by none", "by no target", 1)))
	case unclaimed != "":
		return cmp.Or(firstError(r, name), "no effect on the targets that Sluice reads — "+unclaimed)
	}
	return cmp.Or(firstError(r, name), "no effect — the clusters keep what they run")
}

// unknownReaders says why it is not known who reads the files that no known target reads.
func unknownReaders(c *diff.ChangeSet, name naming) string {
	them := "it"
	if c.Unclaimed() > 1 {
		them = "them"
	}
	switch n := len(c.Unread); n {
	case 0:
		return "Sluice finds no target in this repository"
	case 1:
		return "no known target reads " + them + ", and " + name(safetext.Shorten(c.Unread[0], maxHeadName)) + " cannot be rendered"
	default:
		return "no known target reads " + them + ", and " + Count(n, "target") + " cannot be rendered"
	}
}

// uncertain says how many changed files may have an effect that nobody knows; "" if there are none.
func uncertain(c *diff.ChangeSet) string {
	n := c.Uncertain()
	if n == 0 {
		return ""
	}
	return Count(n, "changed file") + " of unknown effect"
}

// withheldCount is the number of targets whose objects the report leaves out.
func withheldCount(c *diff.ChangeSet) int {
	n := 0
	for i := range c.Withheld {
		if !c.Withheld[i].Before {
			n++
		}
	}
	return n
}

// UnclaimedWords introduces the changed files that no known target reads.
func UnclaimedWords(n int) string {
	if n == 1 {
		return "1 changed file that no known target reads"
	}
	return Number(n) + " changed files that no known target reads"
}

// InertWords introduces the changed files that are read and change nothing.
func InertWords(n int) string {
	if n == 1 {
		return "1 changed file without an effect on rendered objects"
	}
	return Number(n) + " changed files without an effect on rendered objects"
}

// FilesOf returns the changed files of a set that are, or are not, read.
func FilesOf(c *diff.ChangeSet, read bool) []diff.File {
	var out []diff.File
	for _, f := range c.Files {
		if f.Read == read {
			out = append(out, f)
		}
	}
	return out
}

// BaseUnknownWords follow the counts of a group whose targets cannot be rendered at the base.
const BaseUnknownWords = "new or changed, the base is unknown"

// firstError returns the first of the errors that make a review incomplete; "" if there is none.
func firstError(r *Review, name naming) string {
	n := len(r.Errors)
	if n == 0 {
		return ""
	}
	text := "incomplete review — " + name(safetext.Shorten(strings.Join(strings.Fields(r.Errors[0]), " "),
		maxHeadError))
	if n > 1 {
		text += ", and " + Count(n-1, "other error")
	}
	return text
}

const (
	maxHeadName  = 80
	maxHeadError = 120
)

// policyWords counts the findings: `2 new errors, 1 new warning, 17 existing`. An object counts once for a message, in
// all environments, as in the list of findings.
func policyWords(f *Findings) string {
	fresh := ""
	if len(f.Introduced) > 0 {
		count := map[Severity]int{}
		for _, g := range GroupFindings(f.Introduced, nil) {
			count[g.Severity] += len(g.Breaches)
		}
		var parts []string
		for _, s := range []Severity{SeverityError, SeverityWarning} {
			if count[s] > 0 {
				parts = append(parts, Count(count[s], "new "+string(s)))
			}
		}
		if n := count[SeverityInfo]; n > 0 {
			parts = append(parts, Count(n, "new note"))
		}
		fresh = joined(parts...)
	}
	before := 0
	for _, n := range f.Existing {
		before += n
	}
	parts := []string{fresh}
	if fresh == "" {
		parts[0] = "nothing new"
	}
	if n := breaches(GroupFindings(f.Resolved, nil)); n > 0 {
		parts = append(parts, Number(n)+" resolved")
	}
	if f.Exempted > 0 {
		parts = append(parts, Number(f.Exempted)+" exempted")
	}
	if before > 0 {
		parts = append(parts, Number(before)+" existing")
	}
	return joined(parts...)
}

// criticals counts the objects of critical risk, each once, and the losses.
func criticals(c *diff.ChangeSet) int {
	n := 0
	if c == nil {
		return 0
	}
	n += criticalLosses(c)
	for i := range c.Groups {
		for j := range c.Groups[i].Objects {
			if c.Groups[i].Objects[j].Risk == diff.RiskCritical {
				n++
			}
		}
	}
	return n
}

// Critical reports whether a change set has a change of critical risk: the verdict is then never pass or warn.
func Critical(c *diff.ChangeSet) bool { return criticals(c) > 0 }

// VerdictWords returns the verdict in words, with a sign.
func VerdictWords(r *Review) (sign, words string) {
	switch r.Verdict {
	case VerdictPass:
		return "✅", "Policy passes"
	case VerdictWarn:
		return "⚠️", "Policy passes with warnings"
	case VerdictCaution:
		if r.Unjudged && (r.Changes == nil || !Critical(r.Changes)) {
			return "🟠", "No policy judged it here"
		}
		if r.Changes != nil && !Critical(r.Changes) {
			return "🟠", "What the change removes is not known completely"
		}
		return "🔴", "Critical changes"
	case VerdictFail:
		if r.Findings.Advisory {
			return "❌", "Policy advises against it"
		}
		return "❌", "Policy fails"
	case VerdictError:
		return "⛔", "Incomplete"
	}
	return "", ""
}

// sign returns the sign of a risk.
func sign(r diff.Risk) string {
	switch r {
	case diff.RiskCritical:
		return "🔴"
	case diff.RiskHigh:
		return "🟠"
	case diff.RiskMedium:
		return "🟡"
	case diff.RiskLow:
		return "🔵"
	}
	return "⚪"
}

// patterns joins at most n reaches and counts the clusters of the others.
func patterns(where []diff.Reach, n int) string {
	if len(where) <= n {
		return diff.Patterns(where)
	}
	rest := 0
	for _, r := range where[n-1:] {
		rest += r.Clusters
	}
	return diff.Patterns(where[:n-1]) + fmt.Sprintf(" and %s more", Number(rest))
}

// places names clusters of one environment: each of a few, else the environment with their number.
func places(environment string, clusters []string) string {
	const most = 3
	if len(clusters) > most && environment == "" {
		return Count(len(clusters), "cluster")
	}
	if len(clusters) > most {
		return fmt.Sprintf("%s (%s)", environment, Number(len(clusters)))
	}
	names := make([]string, len(clusters))
	for i, c := range clusters {
		names[i] = diff.Place(environment, c)
	}
	return strings.Join(names, ", ")
}

// Command returns the command that prints the complete report.
func Command(r *Review) string {
	switch {
	case r.Links.Command != "":
		return r.Links.Command
	case r.Against != "":
		return "sluice diff --full --against " + r.Against + " " + abbreviated(r.Head)
	case r.Helm != 0 && r.Base == "":
		return fmt.Sprintf("sluice diff --full --helm %d", r.Helm)
	case r.Helm != 0:
		return fmt.Sprintf("sluice diff --full --helm %d %s", r.Helm, abbreviated(r.Base))
	case r.Head == "":
		return "sluice diff --full " + abbreviated(r.Base)
	}
	return "sluice diff --full " + abbreviated(r.Base) + ".." + abbreviated(r.Head)
}

// head names the head.
func (r *Review) head() string {
	if r.Helm != 0 {
		return fmt.Sprintf("%s with Helm %d", abbreviated(r.Base), r.Helm)
	}
	return abbreviated(r.Head)
}

// abbreviated returns the first 12 digits of a commit; "" stands for the working tree.
func abbreviated(commit string) string {
	if commit == "" {
		return "working tree"
	}
	const length = 12
	if len(commit) > length {
		return commit[:length]
	}
	return commit
}
