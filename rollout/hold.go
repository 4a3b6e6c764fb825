package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
)

// HoldCause is the reason of a hold.
type HoldCause string

// The causes.
const (
	CauseFailed     HoldCause = "failed"     // its health turned red, and Sluice rolled it back
	CauseRolledBack HoldCause = "rolledBack" // a person rolled it back
	CauseStopped    HoldCause = "stopped"    // its rollout stopped because a part of it was rolled back
)

// Hold keeps a source commit out of a scope: automatic promotions leave out its apps as long as a new commit renders
// the same manifests for them.
type Hold struct {
	Cause  HoldCause `yaml:"cause"`
	Source Source    `yaml:"source"` // the held source
	// Tree is the tree of the environment branch with the held manifests. Without it, the hold covers Source and
	// older commits.
	Tree string `yaml:"tree,omitempty"`
	// all apps of the scope were rolled back, so Source and older ones are not offered there
	Whole    bool     `yaml:"whole,omitempty"`
	Wave     string   `yaml:"wave,omitempty"`     // wave that Clusters belong to
	Clusters []string `yaml:"clusters,omitempty"` // none: all of the environment
	Apps     []string `yaml:"apps,omitempty"`     // empty: not determined yet, so all are held
	// Workspaces are those whose apps were rolled back as a whole. Apps contains the apps that the rollback changed.
	Workspaces []string  `yaml:"workspaces,omitempty"`
	By         string    `yaml:"by,omitempty"` // empty: Sluice
	Reason     string    `yaml:"reason,omitempty"`
	Since      time.Time `yaml:"since"`
}

func (h Hold) validate() error {
	switch {
	case !slices.Contains([]HoldCause{CauseFailed, CauseRolledBack, CauseStopped}, h.Cause):
		return fmt.Errorf("cause %q is not one of failed, rolledBack and stopped", h.Cause)
	case h.Since.IsZero():
		return errors.New("since is missing")
	default:
		return h.Source.Validate()
	}
}

// Actor returns who caused the hold: a person, or Sluice.
func (h Hold) Actor() string { return actor(h.By) }

func actor(by string) string {
	if by == "" {
		return "Sluice"
	}
	return by
}

// Scope names what the hold covers: "shop, web on eu-1", "wave canary", "all of prod".
func (h Hold) Scope(environment string) string {
	where := "all of " + environment
	switch {
	case h.Wave != "":
		where = "wave " + h.Wave
	case len(h.Clusters) > 0:
		where = Few(h.Clusters)
	}
	if len(h.Apps) == 0 {
		return where
	}
	return h.appsText() + " on " + where
}

// appsText names the held apps, and the workspaces that are held as a whole by their names.
func (h Hold) appsText() string {
	scope := h.scope()
	others := scope.others()
	var parts []string
	if n := len(h.Apps) - len(others); n > 0 {
		parts = append(parts, fmt.Sprintf("%s%s (%s)", workspaceNoun(scope.Workspaces), Few(scope.Workspaces),
			countApps(n)))
	}
	if len(others) > 0 {
		parts = append(parts, Few(others))
	}
	return strings.Join(parts, ", ")
}

// scope returns the held apps, with the workspaces that some of them belong to.
func (h Hold) scope() Scope {
	out := Scope{Apps: h.Apps}
	for _, w := range h.Workspaces {
		if hasAppOf(h.Apps, w) {
			out.Workspaces = append(out.Workspaces, w)
		}
	}
	return out
}

func countApps(n int) string {
	if n == 1 {
		return "1 app"
	}
	return fmt.Sprintf("%d apps", n)
}

// What describes the cause in a few words.
func (h Hold) What() string {
	verb := map[HoldCause]string{
		CauseFailed: "failed and was rolled back", CauseRolledBack: "was rolled back",
		CauseStopped: "was stopped",
	}[h.Cause]
	out := fmt.Sprintf("%s by %s", verb, h.Actor())
	if h.Reason != "" {
		out += ": " + h.Reason
	}
	return out
}

// String describes the hold on one line, without what ends it.
func (h Hold) String() string {
	apps := "all apps"
	if len(h.Apps) > 0 {
		apps = h.appsText()
	}
	where := ""
	switch {
	case h.Wave != "":
		where = " on wave " + h.Wave
	case len(h.Clusters) > 0:
		where = " on " + Few(h.Clusters)
	}
	return fmt.Sprintf("%s of %s%s since %s: it %s", apps, short(h.Source.Commit), where, Stamp(h.Since), h.What())
}

// Ends lists the events that end the hold. prefix is the beginning of a command: "sluice" or "/sluice".
func (h Hold) Ends(environment, prefix string) string {
	newer := "a newer commit that changes " + Few(h.Apps)
	if len(h.Apps) == 0 {
		newer = "a newer commit"
	}
	return fmt.Sprintf("%s ends it, or `%s resume %s%s`", newer, prefix, environment, h.flags())
}

// flags returns the flags with which `resume` names the hold. They name at least all of it.
func (h Hold) flags() string {
	var b strings.Builder
	workspace, app := "--hold", "--hold"
	switch {
	case h.Wave != "":
		b.WriteString(" --wave " + h.Wave)
		workspace, app = "--workspace", "--app"
	case len(h.Clusters) > 0 && len(h.Clusters) <= 3:
		b.WriteString(" --cluster " + strings.Join(h.Clusters, " --cluster "))
		workspace, app = "--workspace", "--app"
	}
	if h.Whole && b.Len() > 0 {
		return b.String()
	}
	scope := h.scope()
	others := scope.others()
	if n := len(scope.Workspaces) + len(others); n == 0 || len(scope.Workspaces) > 3 || len(others) > 3 {
		if h.Source.Commit == "" {
			return " --hold " + allHolds
		}
		return " --hold " + short(h.Source.Commit)
	}
	for _, w := range scope.Workspaces {
		b.WriteString(" " + workspace + " " + w)
	}
	for _, name := range others {
		b.WriteString(" " + app + " " + name)
	}
	return b.String()
}

// allHolds is the name that means every hold.
const allHolds = "all"

// covers reports whether h holds everything that o holds.
func (h Hold) covers(o Hold) bool {
	within := func(all, part []string) bool {
		return len(all) == 0 || len(part) > 0 && !slices.ContainsFunc(part,
			func(s string) bool { return !slices.Contains(all, s) })
	}
	return h.Tree == o.Tree && h.Source.equalOn(o.Source, o.Clusters) && within(h.Clusters, o.Clusters) &&
		within(h.Apps, o.Apps)
}

// is reports whether o is the same hold, possibly for other apps.
func (h Hold) is(o Hold) bool {
	return h.Cause == o.Cause && h.Tree == o.Tree && h.Since.Equal(o.Since) && h.Source.Equal(o.Source) &&
		slices.Equal(h.Clusters, o.Clusters)
}

// without returns the parts of the hold that remain when some apps on some clusters are no longer held. No apps, or
// no clusters, means all of them. members are the environment's clusters.
func (h Hold) without(clusters, apps, members []string) []Hold {
	scope := h.Clusters
	if len(scope) == 0 {
		scope = members
	}
	released, remaining := split(scope, clusters)
	if len(released) == 0 {
		return []Hold{h}
	}
	gone, rest := split(h.Apps, apps)
	if len(h.Apps) == 0 && len(apps) > 0 {
		return []Hold{h} // its apps are not determined yet
	}
	var out []Hold
	if len(remaining) > 0 {
		one := h
		one.Clusters, one.Wave = remaining, ""
		out = append(out, one)
	}
	if len(rest) > 0 && len(apps) > 0 {
		one := h
		one.Whole, one.Apps, one.Workspaces = false, rest, slices.DeleteFunc(slices.Clone(h.Workspaces),
			func(w string) bool { return hasAppOf(gone, w) })
		if len(remaining) > 0 {
			one.Clusters, one.Wave = released, ""
		}
		out = append(out, one)
	}
	return out
}

// split divides all into chosen ones and others. No chosen ones means all.
func split(all, chosen []string) (in, out []string) {
	for _, s := range all {
		if len(chosen) == 0 || slices.Contains(chosen, s) {
			in = append(in, s)
		} else {
			out = append(out, s)
		}
	}
	return in, out
}

// withHolds adds holds, and drops those that they cover.
func withHolds(all []Hold, more ...Hold) []Hold {
	out := slices.Clone(all)
	for _, h := range more {
		out = append(slices.DeleteFunc(out, h.covers), h)
	}
	return out
}

// holds returns the holds on what the rollback took back, and on the clusters that it stopped.
func (b Rollback) holds(at time.Time) []Hold {
	cause := CauseRolledBack
	if b.By == "" {
		cause = CauseFailed
	}
	if b.From.Empty() || b.From.Equal(b.To) { // the latter: what went away is not Sluice's
		return nil
	}
	from := b.From.WithoutGaps()
	if len(b.Clusters) > 0 && len(from.Clusters) > 0 { // the state of other clusters does not matter
		from = from.Among(b.Clusters)
	}
	one := Hold{
		Cause: cause, Source: from, Tree: b.FromTree, Whole: len(b.Apps) == 0, Wave: b.Wave,
		Clusters: b.Clusters, Apps: b.Apps, Workspaces: b.Workspaces, By: b.By, Reason: b.Reason, Since: at,
	}
	if len(b.Stopped) == 0 {
		return []Hold{one}
	}
	stopped := Hold{
		Cause: CauseStopped, Source: b.From.WithoutGaps(), Tree: b.FromTree, Whole: true,
		Clusters: b.Stopped, By: b.By, Reason: b.Reason, Since: at,
	}
	if len(b.From.Clusters) > 0 {
		stopped.Source = stopped.Source.Among(b.Stopped)
	}
	return []Hold{one, stopped}
}

// resume lifts a halt, or ends the holds that it names. A hold is never ended by a command that does not name it.
func (r *Record) resume(e Event) error {
	switch {
	case len(e.Named) > 0 && len(e.Clusters)+len(e.Apps) > 0:
		return errors.New("--hold names a whole hold, or an app, a workspace or a cluster of it: leave out --wave, --cluster, --app and --workspace")
	case len(e.Named) > 0:
		return r.endNamed(e)
	case len(e.Clusters)+len(e.Apps) > 0:
		return r.release(e)
	case r.Halt != nil:
		r.Halt = nil
		if p := r.Progress; p != nil { // the bake of waves starts again when they are next seen healthy
			for i := range p.Waves {
				p.Waves[i].Healthy = time.Time{}
			}
		}
	case len(r.Holds) == 0:
		return fmt.Errorf("%s is not halted, and nothing is held back", r.Environment)
	default:
		return fmt.Errorf("%s is not halted; what is held back stays so until it is named: %s", r.Environment,
			r.named())
	}
	return nil
}

// named lists the holds, each with the command that ends it.
func (r *Record) named() string {
	const most = 3
	var parts []string
	for i, h := range r.Holds {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(r.Holds)-most))
			break
		}
		parts = append(parts, fmt.Sprintf("`resume %s%s` for %s", r.Environment, h.flags(), h))
	}
	return strings.Join(parts, "; ")
}

// endNamed ends, of each hold that a name means, the part that it names.
func (r *Record) endNamed(e Event) error {
	if len(r.Holds) == 0 {
		return fmt.Errorf("nothing is held back in %s", r.Environment)
	}
	left := r.Holds
	for _, name := range e.Named {
		named := func(h Hold) bool { _, named := h.withoutNamed(name, e.Members); return named }
		if !slices.ContainsFunc(r.Holds, named) {
			return fmt.Errorf("no hold of %s is named %q: %s", r.Environment, name, r.named())
		}
		var rest []Hold
		for _, h := range left {
			part, _ := h.withoutNamed(name, e.Members)
			rest = append(rest, part...)
		}
		left = rest
	}
	r.Holds = left
	return nil
}

// withoutNamed returns what remains of a hold without the part that a name means: an app, a workspace, a cluster or a
// wave of it, or all of it by its commit (at least seven digits) or by "all". It reports whether the name means a part.
func (h Hold) withoutNamed(name string, members []string) ([]Hold, bool) {
	inWorkspace := slices.DeleteFunc(slices.Clone(h.Apps),
		func(app string) bool { return name == "" || fleet.WorkspaceOf(app) != name })
	switch {
	case slices.Contains(h.Apps, name):
		return h.without(nil, []string{name}, members), true
	case len(inWorkspace) > 0:
		return h.without(nil, inWorkspace, members), true
	case name == allHolds, h.Wave != "" && h.Wave == name, len(name) >= 7 && strings.HasPrefix(h.Source.Commit, name):
		return nil, true
	case slices.Contains(h.Clusters, name), len(h.Clusters) == 0 && slices.Contains(members, name):
		return h.without([]string{name}, nil, members), true
	}
	return []Hold{h}, false
}

func (r *Record) release(e Event) error {
	var left []Hold
	for _, h := range r.Holds {
		left = append(left, h.without(e.Clusters, e.Apps, e.Members)...)
	}
	if slices.EqualFunc(left, r.Holds, func(a, b Hold) bool { return a.covers(b) && b.covers(a) }) {
		return fmt.Errorf("%s holds back nothing of that scope", r.Environment)
	}
	r.Holds = left
	return nil
}
