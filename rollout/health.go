package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// AppReference in the pattern of a status stands for each app of a cluster.
const AppReference = "${app}"

// maxWhy is the number of characters of a reason that has the name of a status: whoever posts it chooses the name, and
// records keep reasons.
const maxWhy = 300

// resultAge is how long the result of a check is valid.
const resultAge = 10 * time.Minute

// judged is the health of some clusters, by the statuses on their branches.
type judged struct {
	state  State
	reason string
}

// judge compares the statuses with the patterns. Each pattern must match a status on each cluster. A missing status
// is unknown, which blocks the promotion.
func judge(h fleet.Health, clusters []ClusterState) judged {
	return judgeEach(h, clusters, func(c ClusterState) (State, string) { return ofCluster(h.CommitStatuses, c) })
}

// judgeEach is judge with a judgement of its own for each cluster.
func judgeEach(h fleet.Health, clusters []ClusterState, each func(ClusterState) (State, string)) judged {
	if len(h.CommitStatuses) == 0 || len(clusters) == 0 {
		return judged{state: Green}
	}
	count := map[State]int{}
	var example [2]string // of the first red cluster, and of the first that is not green
	for _, c := range clusters {
		state, why := each(c)
		count[state]++
		i := 1
		if state == Red {
			i = 0
		}
		if state != Green && example[i] == "" {
			example[i] = c.Name + ": " + why
		}
	}
	need := needed(h.Healthy, len(clusters))
	why := fmt.Sprintf("%d of %d clusters are healthy, %d are needed", count[Green], len(clusters), need)
	if example[0] == "" {
		example[0] = example[1]
	}
	if example[0] != "" {
		why += " (" + example[0] + ")"
	}
	switch {
	case count[Green] >= need:
		return judged{Green, why}
	case len(clusters)-count[Red] < need:
		return judged{Red, why}
	case count[Green]+count[Unknown] < need || count[Unknown] == 0:
		return judged{Waiting, why}
	default:
		return judged{Unknown, why}
	}
}

func ofCluster(patterns []string, c ClusterState) (State, string) {
	if c.StatusesUnknown != "" {
		return Unknown, c.StatusesUnknown
	}
	if c.Apps == nil && slices.ContainsFunc(patterns, func(p string) bool {
		return strings.Contains(p,
			AppReference)
	}) {
		return Unknown, "its apps are unknown"
	}
	states, why := []State{}, map[State]string{}
	for _, pattern := range eachApp(patterns, c.Apps) {
		found := false
		for _, s := range c.Statuses {
			if !glob(pattern, s.Name) {
				continue
			}
			found = true
			state := Unknown
			switch s.State {
			case "success":
				state = Green
			case "failure", "error":
				state = Red
			case "pending":
				state = Waiting
			}
			states, why[state] = append(states, state), s.Name+" is "+s.State
		}
		if !found {
			states, why[Unknown] = append(states, Unknown), "no status "+pattern+" yet"
		}
	}
	state := worst(states...)
	return state, safetext.Shorten(why[state], maxWhy)
}

// ObjectName is the name that an app has in a cluster, such as that of its Kustomization: team-a.shop for the app
// team-a/shop.
func ObjectName(app string) string { return strings.ReplaceAll(app, "/", ".") }

// eachApp replaces ${app} by each app in turn, so that each needs its own status.
func eachApp(patterns, apps []string) []string {
	var out []string
	for _, pattern := range patterns {
		if !strings.Contains(pattern, AppReference) {
			out = append(out, pattern)
			continue
		}
		for _, app := range apps {
			out = append(out, strings.ReplaceAll(pattern, AppReference, ObjectName(app)))
		}
	}
	return out
}

// needed returns how many of n must be green; without a share, all.
func needed(share string, n int) int {
	digits, ok := strings.CutSuffix(share, "%")
	percent, err := strconv.Atoi(digits)
	if !ok || err != nil || percent < 0 || percent > 100 {
		return n
	}
	return (n*percent + 99) / 100
}

// glob matches the name of a status: * is any text, including /, and ? is one character.
func glob(pattern, name string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// checks returns the gates of HTTP addresses and Prometheus queries. A result from before since is too old for
// clusters that moved later.
func checks(s Situation, since time.Time) []Gate {
	out := make([]Gate, 0, len(s.Environment.Promotion.Checks))
	for _, c := range s.Environment.Promotion.Checks {
		g := Gate{Name: GateCheck + c.Name, State: Unknown, Reason: "it has not run yet"}
		if i := slices.IndexFunc(s.Checks, func(f CheckResult) bool { return f.Name == c.Name }); i >= 0 {
			f := s.Checks[i]
			g.State, g.Reason, g.Since = f.State, f.Reason, f.At
			switch {
			case f.At.Before(since):
				g.State, g.Reason = Unknown, "its last result is older than the last move of clusters"
			case s.Now.Sub(f.At) > resultAge:
				g.State, g.Reason = Unknown, "its last result is from "+Stamp(f.At)
			case !slices.Contains([]State{Green, Waiting, Red}, f.State):
				g.State = Unknown
			}
		}
		out = append(out, g)
	}
	return out
}
