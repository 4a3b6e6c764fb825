package promote

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/rollout"
)

// checkID returns an error for what cannot name one commit: a branch or a tag, because it can move, and too few digits
// of an id.
func checkID(revision string) error {
	if strings.Trim(revision, "0123456789abcdef") != "" {
		return fmt.Errorf("%q is not the id of a commit: give at least %d of its digits, as `git rev-parse` prints them", revision, leastDigits)
	}
	if len(revision) < leastDigits {
		return fmt.Errorf("%q may mean many commits: give at least %d digits of its id", revision, leastDigits)
	}
	return nil
}

// named finds the state that --to names. The history is newest first. A commit of the branch names its own state. A
// source commit names the newest state in which everything in the scope runs that commit. If there are only states in
// which some apps or clusters run another commit, named returns an error that lists the branch's commits of these
// states.
func named(entries []HistoryEntry, s *rollout.Situation, c Command, read rollout.Contents) (*rollout.PastState, error) {
	revision := c.Revision
	if err := checkID(revision); err != nil {
		return nil, err
	}
	var sources []string // source commits that the revision names
	var partial []HistoryEntry
	var entire *rollout.PastState
	already := false // the environment runs such a state now
	for _, e := range entries {
		running := e.Tree.String() == s.Running.Tree
		if strings.HasPrefix(e.Commit.String(), revision) {
			if to := e.state(); !running {
				return &to, nil
			}
			return nil, fmt.Errorf("%s has the tree of %s already", c.Environment, e.Commit.Short())
		}
		commit := commitNamed(e.Source, revision)
		switch {
		case commit == "":
			continue
		case !slices.Contains(sources, commit):
			sources = append(sources, commit)
		}
		all, err := runsEverywhere(e, commit, s, c, read)
		switch {
		case err != nil:
			return nil, err
		case !all:
			if !running {
				partial = append(partial, e)
			}
		case running:
			already = true
		case entire == nil:
			to := e.state()
			entire = &to
		}
	}
	switch {
	case len(sources) > 1:
		return nil, fmt.Errorf("%s names %d source commits: %s: give more digits", revision, len(sources),
			rollout.Few(sources))
	case already && (entire == nil || len(c.Clusters) > 0 || !scopeOfCommand(c).All()):
		return nil, fmt.Errorf("%s runs %.10s already", c.Environment, sources[0])
	case entire != nil: // if it runs already, this is an earlier rendering of it
		return entire, nil
	case len(partial) > 0:
		return nil, fmt.Errorf("%s never ran %.10s alone; choose a state by its commit on the branch: %s",
			c.Environment, sources[0], choicesOf(partial))
	default:
		return nil, fmt.Errorf("%s never ran %s: `sluice history %s` lists what it ran", c.Environment, revision,
			c.Environment)
	}
}

// commitNamed returns the source commit of a state that a revision names; empty if there is none.
func commitNamed(source rollout.Source, revision string) string {
	for _, c := range append([]string{source.Commit}, source.Commits()...) {
		if strings.HasPrefix(c, revision) {
			return c
		}
	}
	return ""
}

// runsEverywhere reports whether everything in the scope of a command runs one commit in a state.
func runsEverywhere(e HistoryEntry, commit string, s *rollout.Situation, c Command, read rollout.Contents) (bool,
	error,
) {
	clusters := c.Clusters
	if len(clusters) == 0 {
		for _, m := range s.Clusters {
			if m.State != "retired" {
				clusters = append(clusters, m.Name)
			}
		}
	}
	scope := scopeOfCommand(c)
	if scope.All() {
		return !slices.ContainsFunc(clusters, func(name string) bool {
			return !e.Source.On(name).Equal(rollout.ClusterSource{Commit: commit})
		}), nil
	}
	none := true // the state has none of the apps
	for _, name := range clusters {
		apps := slices.Clone(c.Apps)
		if len(c.Workspaces) > 0 {
			has, err := rollout.Scope{Workspaces: c.Workspaces}.Limit(read)(e.Tree.String(), name)
			if err != nil {
				return false, err
			}
			apps = slices.AppendSeq(apps, maps.Keys(has))
		}
		if slices.ContainsFunc(apps, func(app string) bool { return e.Source.On(name).Of(app) != commit }) {
			return false, nil
		}
		none = none && len(apps) == 0
	}
	return !none || !slices.ContainsFunc(clusters,
		func(name string) bool { return e.Source.On(name).Commit != commit }), nil
}

// choicesOf lists states by the commit of the branch, newest first.
func choicesOf(entries []HistoryEntry) string {
	const most = 5
	var parts []string
	for _, e := range entries[:min(most, len(entries))] {
		parts = append(parts, fmt.Sprintf("--to %s (%s since %s)", e.Commit.Short(), e.Source, rollout.Stamp(e.At)))
	}
	if len(entries) > most {
		parts = append(parts, fmt.Sprintf("and %d more", len(entries)-most))
	}
	return strings.Join(parts, ", ")
}
