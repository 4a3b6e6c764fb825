package fleet

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // containers may lack zone files

	"github.com/sluice-gitops/sluice/fleet/expression"
	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/internal/nearest"
)

// environmentChecks checks spec.environments of sluice.yaml.
type environmentChecks struct {
	*findings
	file         document // sluice.yaml
	environments []Environment
}

// otherStatus tells which commit status that Sluice writes for another purpose an environment of this name would have;
// "" if none. The service believes the status of trust: an environment of that name would have it trust each commit
// that it hydrates.
func otherStatus(name string) string {
	switch name {
	case "trust":
		return "records who trusts the head of a merge request"
	case "hydrate":
		return "says that a commit cannot be hydrated"
	case "fleets":
		return "shows what a merge request changes in other fleets"
	case "routine":
		return "says that a change may be merged without a reader"
	case "follow":
		return "says that the pin of another repository cannot be moved"
	}
	return ""
}

func (ec environmentChecks) all(environments []Environment) {
	after, first := map[string][]string{}, map[string]int{}
	for i, e := range environments {
		at := []string{"spec", "environments", strconv.Itoa(i)}
		if !ec.checkName(ec.file, e.Name, append(at, "name")...) {
			continue
		}
		if use := otherStatus(e.Name); use != "" {
			ec.errorf(ec.file, append(at, "name"), "choose another name",
				"no environment can have the name %q: its status on a commit would be the one that %s", e.Name, use)
			continue
		}
		if j, ok := first[e.Name]; ok {
			other := yamlnode.Child(ec.file.root, "spec", "environments", strconv.Itoa(j))
			ec.errorf(ec.file, append(at, "name"), "rename one", "the environment %s appears twice, first in line %d",
				e.Name, other.Line)
			continue
		}
		first[e.Name], after[e.Name] = i, e.After
		ec.promotion(e, at)
		ec.isolated(e, at)
	}
	seen, names := map[string]bool{}, slices.Sorted(maps.Keys(after))
	for i, e := range environments {
		at := []string{"spec", "environments", strconv.Itoa(i), "after"}
		for j, before := range e.After {
			if _, ok := after[before]; !ok {
				ec.errorf(ec.file, append(at, strconv.Itoa(j)), "known: "+strings.Join(names, ", "),
					"environment %s comes after %q, which does not exist%s", e.Name, before,
					nearest.DidYouMean(before, names))
			}
		}
		if cycle := findCycle(e.Name, after, seen); cycle != nil {
			ec.errorf(ec.file, at, "remove one `after`", "environments wait for each other: %s",
				strings.Join(cycle, " → "))
			return
		}
	}
}

// inPromotionOrder returns environments in the order of the promotion graph: each after all that it comes after, and
// otherwise as in the file. All that shows or goes through environments keeps this order.
func inPromotionOrder(list []Environment) []Environment {
	out := make([]Environment, 0, len(list))
	placed := map[string]bool{}
	for len(out) < len(list) {
		next := slices.IndexFunc(list, func(e Environment) bool {
			return !placed[e.Name] && !slices.ContainsFunc(e.After, func(name string) bool { return !placed[name] })
		})
		if next < 0 { // only an invalid fleet has a cycle
			return list
		}
		out, placed[list[next].Name] = append(out, list[next]), true
	}
	return out
}

func (ec environmentChecks) promotion(e Environment, at []string) {
	p := e.Promotion
	at = append(slices.Clone(at), "promotion")
	ec.duration(p.Bake, e.Name, append(slices.Clone(at), "bake"))
	ec.duration(p.Settle, e.Name, append(slices.Clone(at), "settle"))
	for i, w := range p.Windows {
		ec.window(w, append(at, "windows", strconv.Itoa(i)))
	}
	for i, f := range p.Freezes {
		ec.freeze(f, append(slices.Clone(at), "freezes", strconv.Itoa(i)))
	}
	if h := p.Health.Healthy; h != "" {
		digits, ok := strings.CutSuffix(h, "%")
		if n, err := strconv.Atoi(digits); !ok || err != nil || n < 0 || n > 100 {
			ec.errorf(ec.file, append(at, "health", "healthy"), "such as 100%", "%q is not a percentage of clusters", h)
		}
	}
	ec.waves(e, at)
	ec.conditions(p, at)
	ec.checks(p.Checks, at)
	ec.gates(e, at)
	ec.rights(p.Rights, at)
}

func (ec environmentChecks) waves(e Environment, at []string) {
	names, rest := map[string]bool{}, ""
	for i, w := range e.Promotion.Waves {
		place := append(slices.Clone(at), "waves", strconv.Itoa(i))
		switch {
		case names[w.Name]:
			ec.errorf(ec.file, place, "rename one", "environment %s has two waves %s", e.Name, w.Name)
		case rest != "":
			ec.errorf(ec.file, place, "put it before "+rest, "wave %s comes after %s, which takes all that is left",
				w.Name, rest)
		}
		names[w.Name] = true
		if w.Clusters == nil && w.Percent == 0 && w.Count == 0 {
			rest = w.Name
		}
		ec.wave(e.Name, w, place)
	}
}

func (ec environmentChecks) wave(environment string, w Wave, at []string) {
	switch {
	case w.Percent != 0 && w.Count != 0:
		ec.errorf(ec.file, at, "keep one of them", "wave %s has both percent and count", w.Name)
	case w.Percent < 0 || w.Percent > 100:
		ec.errorf(ec.file, append(at, "percent"), "1 to 100", "wave %s: %d is not a percentage", w.Name, w.Percent)
	case w.Count < 0 || w.MaxParallel < 0:
		ec.errorf(ec.file, at, "leave it out for no bound", "wave %s: a count cannot be negative", w.Name)
	}
	ec.duration(w.Bake, environment, append(at, "bake"))
	if w.Clusters != nil {
		if _, err := compileSelector(w.Clusters); err != nil {
			ec.errorf(ec.file, append(at, "clusters"), "as in a Kubernetes label selector",
				"environment %s, wave %s: %v", environment, w.Name, err)
		}
	}
}

func (ec environmentChecks) conditions(p Promotion, at []string) {
	if p.Approvers.Count < 0 {
		ec.errorf(ec.file, append(at, "approvers", "count"), "1 or more", "%d approvals cannot be asked for",
			p.Approvers.Count)
	}
	for i, pattern := range p.Health.CommitStatuses {
		if pattern == "" {
			ec.errorf(ec.file, append(slices.Clone(at), "health", "commitStatuses", strconv.Itoa(i)),
				"such as kustomization/*", "a pattern of a status's name is empty")
		}
		if strings.Contains(strings.ReplaceAll(pattern, "${app}", ""), "${") {
			ec.errorf(ec.file, append(slices.Clone(at), "health", "commitStatuses", strconv.Itoa(i)),
				"only ${app} can stand here, for each app of a cluster", "%q has a reference that does not exist",
				pattern)
		}
	}
	if why := p.workspacesTogether(); p.OnWorkspaceFailure != "" && why != "" {
		ec.errorf(ec.file, append(slices.Clone(at), "onWorkspaceFailure"), "remove it, or what it cannot stand beside",
			"%s", why)
	}
	for i, key := range p.AvoidTogether {
		if !validLabelKey(key) {
			ec.errorf(ec.file, append(slices.Clone(at), "avoidTogether", strconv.Itoa(i)),
				"the key of a label that clusters have", "%q is not a label key", key)
		}
	}
}

func (ec environmentChecks) checks(checks []Check, at []string) {
	seen := map[string]bool{}
	for i, c := range checks {
		place := append(slices.Clone(at), "checks", strconv.Itoa(i))
		if !ec.checkName(ec.file, c.Name, append(place, "name")...) {
			continue
		}
		address := ""
		switch {
		case seen[c.Name]:
			ec.errorf(ec.file, place, "rename one", "there are two checks %s", c.Name)
		case (c.HTTP == nil) == (c.Prometheus == nil):
			ec.errorf(ec.file, place, "write http or prometheus", "check %s must ask exactly one of them", c.Name)
		case c.HTTP != nil:
			address = c.HTTP.URL
			if s := c.HTTP.Status; s != 0 && (s < 100 || s > 599) {
				ec.errorf(ec.file, append(place, "http", "status"), "such as 200", "%d is not an HTTP status", s)
			}
			place = append(place, "http", "url")
		default:
			address = c.Prometheus.URL
			place = append(place, "prometheus", "url")
		}
		seen[c.Name] = true
		if address == "" {
			continue
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
			// not quoted: it may hold a credential
			ec.errorf(ec.file, place, "http or https, without credentials", "check %s: its URL is not valid", c.Name)
		}
	}
}

// GatesAsk reports whether an expression among the gates mentions a fact, by its path: `approvals`.
func (p *Promotion) GatesAsk(path string) bool {
	return slices.ContainsFunc(p.Gates, func(g GateExpression) bool {
		e, err := expression.Compile(g.Expr)
		return err == nil && e.Asks(path)
	})
}

// gates checks the expressions of an environment: each must compile, and each `upstreams.NAME` and `checks.NAME` in it
// must name an environment of `after` or a check of the environment.
func (ec environmentChecks) gates(e Environment, at []string) {
	seen := map[string]bool{}
	for i, g := range e.Promotion.Gates {
		place := append(slices.Clone(at), "gates", strconv.Itoa(i))
		if !ec.checkName(ec.file, g.Name, append(slices.Clone(place), "name")...) {
			continue
		}
		if seen[g.Name] {
			ec.errorf(ec.file, place, "rename one", "there are two gates %s", g.Name)
		}
		seen[g.Name] = true
		if len(e.After) == 0 {
			ec.errorf(ec.file, place, "write it for an environment with after",
				"gate %s: environment %s follows the trunk, so nothing is promoted to it", g.Name, e.Name)
			continue
		}
		expr, err := expression.Compile(g.Expr)
		if err != nil {
			ec.errorf(ec.file, append(slices.Clone(place), "expr"), "docs/gates.md lists what an expression can ask for",
				"gate %s: %v", g.Name, err)
			continue
		}
		for _, m := range append(e.gateMistakes(expr), ec.waveMistakes(e, expr)...) {
			ec.errorf(ec.file, append(slices.Clone(place), "expr"), m.hint, "gate %s: %s", g.Name, m.text)
		}
	}
}

// waveMistakes finds names of waves that environments of `after` do not have.
func (ec environmentChecks) waveMistakes(e Environment, expr *expression.Expression) []gateMistake {
	var out []gateMistake
	for _, up := range ec.environments {
		if !slices.Contains(e.After, up.Name) {
			continue
		}
		known := []string{"all"} // of an environment that declares none
		if waves := up.Promotion.Waves; len(waves) > 0 {
			known = nil
			for _, w := range waves {
				known = append(known, w.Name)
			}
		}
		for _, key := range expr.Keys(expression.Path("upstreams", up.Name, "waves")) {
			if !slices.Contains(known, key) {
				out = append(out, gateMistake{
					fmt.Sprintf("upstreams.%s.waves.%s is not a wave of %[1]s%s", up.Name, key, nearest.DidYouMean(key, known)),
					"known: " + strings.Join(known, ", "),
				})
			}
		}
	}
	return out
}

// gateMistake is a name in an expression that the environment does not have.
type gateMistake struct{ text, hint string }

func (e *Environment) gateMistakes(expr *expression.Expression) []gateMistake {
	checks := make([]string, 0, len(e.Promotion.Checks))
	for _, c := range e.Promotion.Checks {
		checks = append(checks, c.Name)
	}
	var out []gateMistake
	for _, one := range []struct {
		variable, noun string
		known          []string
	}{{"upstreams", "an environment of `after`", e.After}, {"checks", "a check of the environment", checks}} {
		for _, key := range expr.Keys(one.variable) {
			if !slices.Contains(one.known, key) {
				out = append(out, gateMistake{
					fmt.Sprintf("%s.%s is not %s%s", one.variable, key, one.noun, nearest.DidYouMean(key, one.known)),
					"known: " + strings.Join(one.known, ", "),
				})
			}
		}
	}
	return out
}

// CheckGate returns an error if an expression does not compile, or names an upstream environment or a check that the
// environment does not have.
func (e *Environment) CheckGate(text string) error {
	expr, err := expression.Compile(text)
	if err != nil {
		return fmt.Errorf("%w (docs/gates.md lists what an expression can ask for)", err)
	}
	for _, m := range e.gateMistakes(expr) {
		return fmt.Errorf("%s (%s)", m.text, m.hint)
	}
	return nil
}

func (ec environmentChecks) rights(rights []Rights, at []string) {
	verbs := []string{"approve", "promote", "now", "rollback", "freeze", "unfreeze", "halt", "resume"}
	roles := []string{"read", "write", "maintain", "admin"}
	for i, r := range rights {
		place := append(slices.Clone(at), "rights", strconv.Itoa(i))
		for j, v := range r.Verbs {
			if !slices.Contains(verbs, v) {
				ec.errorf(ec.file, append(slices.Clone(place), "verbs", strconv.Itoa(j)), "one of "+
					strings.Join(verbs, ", "), "the verb %q does not exist%s", v, nearest.DidYouMean(v, verbs))
			}
		}
		for j, v := range r.Roles {
			if !slices.Contains(roles, v) {
				ec.errorf(ec.file, append(slices.Clone(place), "roles", strconv.Itoa(j)), "one of "+
					strings.Join(roles, ", "), "the role %q does not exist%s", v, nearest.DidYouMean(v, roles))
			}
		}
		if len(r.Users)+len(r.Teams)+len(r.Roles) == 0 {
			ec.errorf(ec.file, place, "write users, teams or roles", "the right names no user, team or role")
		}
	}
}

var timeOfDay = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$`)

func (ec environmentChecks) window(w Window, at []string) {
	days := []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	for i, day := range w.Days {
		if !slices.Contains(days, day) {
			ec.errorf(ec.file, append(slices.Clone(at), "days", strconv.Itoa(i)), "one of "+strings.Join(days, ", "),
				"%q is not a day%s", day, nearest.DidYouMean(day, days))
		}
	}
	for i, date := range w.Dates {
		if _, err := time.Parse(time.DateOnly, date); err != nil {
			ec.errorf(ec.file, append(slices.Clone(at), "dates", strconv.Itoa(i)), "such as 2026-12-24",
				"%q is not a date", date)
		}
	}
	for key, value := range map[string]string{"from": w.From, "to": w.To} {
		if !timeOfDay.MatchString(value) {
			ec.errorf(ec.file, append(slices.Clone(at), key), `such as "09:00"`, "%q is not a time of day", value)
		}
	}
	if w.From == w.To {
		ec.errorf(ec.file, append(slices.Clone(at), "to"), `a whole day is from "00:00" to "24:00"`,
			"the window closes when it opens")
	}
	// The zone "Local" would differ between machines.
	if _, err := time.LoadLocation(w.TimeZone); err != nil || w.TimeZone == "Local" {
		ec.errorf(ec.file, append(slices.Clone(at), "timeZone"), "an IANA name such as Europe/Berlin",
			"%q is not a time zone", w.TimeZone)
	}
}

func (ec environmentChecks) freeze(f Freeze, at []string) {
	from, err := time.Parse(time.RFC3339, f.From)
	if err != nil {
		ec.errorf(ec.file, append(at, "from"), "such as 2026-12-20T00:00:00Z", "%q is not a time", f.From)
		return
	}
	to, err := time.Parse(time.RFC3339, f.To)
	if err != nil || !to.After(from) {
		ec.errorf(ec.file, append(at, "to"), "a later time, such as 2027-01-02T00:00:00Z",
			"%q is not a time after the beginning of the freeze", f.To)
	}
}

func (ec environmentChecks) duration(d Duration, environment string, at []string) {
	if d == "" {
		return
	}
	if _, err := d.Parse(); err != nil {
		ec.errorf(ec.file, at, "such as 30m or 2h", "environment %s: %v", environment, err)
	}
}

// hasPassword reports whether a URL contains credentials. An ssh:// URL may contain a user name.
func hasPassword(s string) bool {
	if !strings.Contains(s, "://") {
		return false
	}
	u, err := url.Parse(s)
	if err != nil {
		host, _, _ := strings.Cut(s[strings.Index(s, "://")+3:], "/")
		return strings.Contains(host, "@")
	}
	if u.User == nil {
		return false
	}
	_, password := u.User.Password()
	return password || u.Scheme != "ssh"
}
