package promote

import (
	"maps"
	"slices"
	"strings"
)

// Source says which source commit an environment runs: one for all apps, and others for the apps where it differs.
type Source struct {
	Commit string            `yaml:"commit,omitempty"`
	Apps   map[string]string `yaml:"apps,omitempty"`
}

// Of is the commit of an app.
func (s Source) Of(app string) string {
	if c, ok := s.Apps[app]; ok {
		return c
	}
	return s.Commit
}

// Empty says that nothing runs.
func (s Source) Empty() bool { return s.Commit == "" && len(s.Apps) == 0 }

// Equal says that every app has the same commit.
func (s Source) Equal(o Source) bool {
	s, o = s.tidy(), o.tidy()
	return s.Commit == o.Commit && maps.Equal(s.Apps, o.Apps)
}

func (s Source) tidy() Source {
	out := Source{Commit: s.Commit}
	for app, c := range s.Apps {
		if c != s.Commit {
			if out.Apps == nil {
				out.Apps = map[string]string{}
			}
			out.Apps[app] = c
		}
	}
	return out
}

// String is the source in a few words.
func (s Source) String() string {
	s = s.tidy()
	parts := []string{short(s.Commit)}
	for _, app := range slices.Sorted(maps.Keys(s.Apps)) {
		parts = append(parts, app+"@"+short(s.Apps[app]))
	}
	return strings.Join(parts, " ")
}

func short(commit string) string {
	switch {
	case commit == "":
		return "nothing"
	case len(commit) > 8:
		return commit[:8]
	default:
		return commit
	}
}

// Trunk are the trunk's commits in its order, oldest first.
type Trunk []string

// order gives a commit's place on the trunk; what is not there has none.
type order map[string]int

func (t Trunk) order() order {
	out := make(order, len(t))
	for i, c := range t {
		out[c] = i
	}
	return out
}

// knows says whether all commits of a source stand on the trunk.
func (o order) knows(s Source) bool {
	if _, ok := o[s.Commit]; s.Commit != "" && !ok {
		return false
	}
	for _, c := range s.Apps {
		if _, ok := o[c]; !ok {
			return false
		}
	}
	return true
}

// at is a commit's place; nothing is older than everything.
func (o order) at(commit string) int {
	if i, ok := o[commit]; ok {
		return i
	}
	return -1
}

func (o order) newer(a, b string) string {
	if o.at(a) > o.at(b) {
		return a
	}
	return b
}

func (o order) older(a, b string) string {
	if o.at(a) < o.at(b) {
		return a
	}
	return b
}

// contains says whether every app runs in have the commit that want asks for, or a newer one.
func (o order) contains(have, want Source, apps []string) bool {
	if len(apps) == 0 {
		if o.at(have.Commit) < o.at(want.Commit) {
			return false
		}
		apps = appsOf(have, want)
	}
	return !slices.ContainsFunc(apps, func(a string) bool { return o.at(have.Of(a)) < o.at(want.Of(a)) })
}

// meet is what all of them run, or have left behind: of each app the oldest commit.
func (o order) meet(sources ...Source) Source {
	if len(sources) == 0 {
		return Source{}
	}
	return o.fold(o.older, sources...)
}

func (o order) fold(pick func(a, b string) string, sources ...Source) Source {
	out := Source{Commit: sources[0].Commit, Apps: map[string]string{}}
	for _, app := range appsOf(sources...) {
		out.Apps[app] = sources[0].Of(app)
	}
	for _, s := range sources[1:] {
		out.Commit = pick(out.Commit, s.Commit)
		for app, c := range out.Apps {
			out.Apps[app] = pick(c, s.Of(app))
		}
	}
	return out.tidy()
}

// compose brings want, or only some apps of it, into what runs. No app goes back.
func (o order) compose(runs, want Source, apps []string) Source {
	if len(apps) == 0 {
		return o.fold(o.newer, runs, want)
	}
	out := Source{Commit: runs.Commit, Apps: maps.Clone(runs.Apps)}
	if out.Apps == nil {
		out.Apps = map[string]string{}
	}
	for _, app := range apps {
		out.Apps[app] = o.newer(runs.Of(app), want.Of(app))
	}
	return out.tidy()
}

func appsOf(sources ...Source) []string {
	set := map[string]bool{}
	for _, s := range sources {
		for app := range s.Apps {
			set[app] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}
