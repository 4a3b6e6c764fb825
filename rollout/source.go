package rollout

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
)

// Source names the source commit of each app of an environment: one commit for all apps, and exceptions by app. An
// entry of Clusters replaces Commit and Apps for that cluster.
type Source struct {
	Commit   string                   `yaml:"commit,omitempty"`
	Apps     map[string]string        `yaml:"apps,omitempty"`
	Clusters map[string]ClusterSource `yaml:"clusters,omitempty"`
}

// ClusterSource names the source commit of each app of one cluster.
type ClusterSource struct {
	Commit string            `yaml:"commit,omitempty"`
	Apps   map[string]string `yaml:"apps,omitempty"`
}

// Of returns the commit of an app on clusters without an entry of their own.
func (s Source) Of(app string) string { return s.common().Of(app) }

// On returns the commits of one cluster.
func (s Source) On(cluster string) ClusterSource {
	if c, ok := s.Clusters[cluster]; ok {
		return c
	}
	return s.common()
}

// common returns the commits of clusters without an entry of their own.
func (s Source) common() ClusterSource { return ClusterSource{Commit: s.Commit, Apps: s.Apps} }

// Of returns the commit of an app.
func (c ClusterSource) Of(app string) string {
	if commit, ok := c.Apps[app]; ok {
		return commit
	}
	return c.Commit
}

// Equal reports whether every app has the same commit.
func (c ClusterSource) Equal(o ClusterSource) bool {
	c, o = c.tidy(), o.tidy()
	return c.Commit == o.Commit && maps.Equal(c.Apps, o.Apps)
}

// tidy drops exceptions whose commit is the common one.
func (c ClusterSource) tidy() ClusterSource {
	out := ClusterSource{Commit: c.Commit}
	for app, commit := range c.Apps {
		if commit == c.Commit {
			continue
		}
		if out.Apps == nil {
			out.Apps = map[string]string{}
		}
		out.Apps[app] = commit
	}
	return out
}

// with returns a copy in which an app has another commit.
func (c ClusterSource) with(app, commit string) ClusterSource {
	out := ClusterSource{Commit: c.Commit, Apps: maps.Clone(c.Apps)}
	if out.Apps == nil {
		out.Apps = map[string]string{}
	}
	out.Apps[app] = commit
	return out
}

// String lists the commit and the exceptions, abbreviated. Apps of one workspace with the same commit are one
// exception.
func (c ClusterSource) String() string {
	c = c.tidy()
	type group struct{ workspace, commit string }
	groups := map[group][]string{}
	for _, app := range slices.Sorted(maps.Keys(c.Apps)) {
		g := group{fleet.WorkspaceOf(app), c.Apps[app]}
		groups[g] = append(groups[g], app)
	}
	parts := []string{short(c.Commit)}
	for _, app := range slices.Sorted(maps.Keys(c.Apps)) {
		switch g := (group{fleet.WorkspaceOf(app), c.Apps[app]}); {
		case g.workspace == "" || len(groups[g]) == 1:
			parts = append(parts, app+"@"+short(g.commit))
		case groups[g][0] == app:
			parts = append(parts, fmt.Sprintf("%s (%s)@%s", g.workspace, countApps(len(groups[g])), short(g.commit)))
		}
	}
	return strings.Join(parts, " ")
}

// Empty reports whether the source names no commit.
func (s Source) Empty() bool { return s.Commit == "" && len(s.Apps) == 0 && len(s.Clusters) == 0 }

// Equal reports whether every app of every cluster has the same commit.
func (s Source) Equal(o Source) bool {
	s, o = s.tidy(), o.tidy()
	return s.common().Equal(o.common()) && maps.EqualFunc(s.Clusters, o.Clusters, ClusterSource.Equal)
}

// equalOn reports whether every app of some clusters has the same commit, whichever entry names it.
func (s Source) equalOn(o Source, clusters []string) bool {
	if len(clusters) == 0 {
		return s.Equal(o)
	}
	return !slices.ContainsFunc(clusters, func(name string) bool { return !s.On(name).Equal(o.On(name)) })
}

// Validate refuses a source that names an app or a cluster without a commit.
func (s Source) Validate() error {
	check := func(where string, c ClusterSource) error {
		if c.Commit == "" {
			return errors.New(where + " names no source commit")
		}
		for _, app := range slices.Sorted(maps.Keys(c.Apps)) {
			if c.Apps[app] == "" {
				return fmt.Errorf("%s names no source commit for app %s", where, app)
			}
		}
		return nil
	}
	if err := check("the environment", s.common()); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Clusters)) {
		if err := check("cluster "+name, s.Clusters[name]); err != nil {
			return err
		}
	}
	return nil
}

// WithoutGaps replaces missing commits, which damaged records have, by the environment's commit.
func (s Source) WithoutGaps() Source {
	fill := func(c ClusterSource) ClusterSource {
		if c.Commit == "" {
			c.Commit = s.Commit
		}
		c.Apps = maps.Clone(c.Apps)
		maps.DeleteFunc(c.Apps, func(_, commit string) bool { return commit == "" })
		return c
	}
	common := fill(s.common())
	out := Source{Commit: common.Commit, Apps: common.Apps, Clusters: map[string]ClusterSource{}}
	for name, c := range s.Clusters {
		out.Clusters[name] = fill(c)
	}
	return out.tidy()
}

// Commits lists each commit once, sorted.
func (s Source) Commits() []string {
	set := map[string]bool{}
	for _, c := range append(slices.Collect(maps.Values(s.Clusters)), s.common()) {
		set[c.Commit] = true
		for _, commit := range c.Apps {
			set[commit] = true
		}
	}
	delete(set, "")
	return slices.Sorted(maps.Keys(set))
}

func (s Source) tidy() Source {
	common := s.common().tidy()
	out := Source{Commit: common.Commit, Apps: common.Apps}
	for name, c := range s.Clusters {
		if c = c.tidy(); c.Equal(common) {
			continue
		}
		if out.Clusters == nil {
			out.Clusters = map[string]ClusterSource{}
		}
		out.Clusters[name] = c
	}
	return out
}

// Among returns the source in its normal form for the clusters of an environment: it drops exceptions of other
// clusters, and an exception that every cluster has becomes the environment's own entry.
func (s Source) Among(clusters []string) Source {
	s = s.tidy()
	out := Source{Commit: s.Commit, Apps: s.Apps, Clusters: map[string]ClusterSource{}}
	count, sample := map[string]int{}, map[string]ClusterSource{}
	for _, name := range clusters {
		c := s.On(name)
		out.Clusters[name] = c
		count[c.key()]++
		sample[c.key()] = c
	}
	if len(clusters) > 0 && count[s.common().key()] == 0 { // no cluster runs the environment's own entry
		best := ""
		for _, key := range slices.Sorted(maps.Keys(count)) {
			if best == "" || count[key] > count[best] {
				best = key
			}
		}
		out.Commit, out.Apps = sample[best].Commit, sample[best].Apps
	}
	return out.tidy()
}

// key returns a text that equal sources share.
func (c ClusterSource) key() string {
	c = c.tidy()
	parts := []string{c.Commit}
	for _, app := range slices.Sorted(maps.Keys(c.Apps)) {
		parts = append(parts, app+"@"+c.Apps[app])
	}
	return strings.Join(parts, " ")
}

// Key returns a text that equal sources share.
func (s Source) Key() string {
	s = s.tidy()
	parts := []string{s.common().key()}
	for _, name := range slices.Sorted(maps.Keys(s.Clusters)) {
		parts = append(parts, name+": "+s.Clusters[name].key())
	}
	return strings.Join(parts, ", ")
}

// String lists the commit and the exceptions, abbreviated: "9f3c1d22 shop@41aa07b9, eu-1: 41aa07b9".
func (s Source) String() string {
	s = s.tidy()
	if s.Empty() {
		return short("")
	}
	parts := []string{s.common().String()}
	for _, name := range slices.Sorted(maps.Keys(s.Clusters)) {
		parts = append(parts, name+": "+s.Clusters[name].String())
	}
	const most = 5
	if len(parts) > most+1 {
		parts = append(parts[:most+1], fmt.Sprintf("and %d more clusters", len(s.Clusters)-most))
	}
	return strings.Join(parts, ", ")
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

// Trunk lists the commits of the trunk, oldest first.
type Trunk []string

// order returns the place of each commit on the trunk.
type order map[string]int

func (t Trunk) order() order {
	out := make(order, len(t))
	for i, c := range t {
		out[c] = i
	}
	return out
}

// knows reports whether all commits of a source are on the trunk.
func (o order) knows(s Source) bool {
	return !slices.ContainsFunc(s.Commits(), func(c string) bool { _, ok := o[c]; return !ok })
}

// at returns the place of a commit. An empty or unknown commit counts as older than every other.
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

// contains reports whether every app has the commit of want or a newer one on every cluster. With apps, it compares
// only those.
func (o order) contains(have, want Source, apps []string) bool {
	if !o.includes(have.common(), want.common(), apps) {
		return false
	}
	for name := range have.Clusters {
		if !o.includes(have.On(name), want.On(name), apps) {
			return false
		}
	}
	for name := range want.Clusters {
		if !o.includes(have.On(name), want.On(name), apps) {
			return false
		}
	}
	return true
}

func (o order) includes(have, want ClusterSource, apps []string) bool {
	if len(apps) == 0 {
		if o.at(have.Commit) < o.at(want.Commit) {
			return false
		}
		apps = appsOf(have, want)
	}
	return !slices.ContainsFunc(apps, func(a string) bool { return o.at(have.Of(a)) < o.at(want.Of(a)) })
}

// containsWorkspace reports whether every app of a workspace has the commit of want or a newer one in every entry of
// have. want has one entry.
func (o order) containsWorkspace(have, want Source, workspace string) bool {
	return !slices.ContainsFunc(append(slices.Collect(maps.Values(have.Clusters)), have.common()),
		func(c ClusterSource) bool {
			return o.at(c.Commit) < o.at(want.Commit) || slices.ContainsFunc(appsOf(c, want.common()),
				func(app string) bool {
					return fleet.WorkspaceOf(app) == workspace && o.at(c.Of(app)) < o.at(want.Of(app))
				})
		})
}

// oldest returns, for each app, the newest commit that all sources have reached on all of their clusters.
func (o order) oldest(sources ...Source) Source {
	var all []ClusterSource
	for _, s := range sources {
		all = append(all, s.common())
		for _, name := range slices.Sorted(maps.Keys(s.Clusters)) {
			all = append(all, s.Clusters[name])
		}
	}
	if len(all) == 0 {
		return Source{}
	}
	c := o.fold(o.older, all...)
	return Source{Commit: c.Commit, Apps: c.Apps}
}

func (o order) fold(pick func(a, b string) string, sources ...ClusterSource) ClusterSource {
	out := ClusterSource{Commit: sources[0].Commit, Apps: map[string]string{}}
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

// compose returns runs with the commits of want, for all apps or only some. It moves no app of any cluster to an older
// commit. An app without a commit, which damaged records have, gets its cluster's commit.
func (o order) compose(runs, want Source, apps []string) Source {
	one := func(have, want ClusterSource) ClusterSource {
		if len(apps) == 0 {
			return o.fold(o.newer, have, want)
		}
		for _, app := range apps {
			have = have.with(app, o.newer(have.Of(app), want.Of(app)))
		}
		return have
	}
	common := one(runs.common(), want.common())
	out := Source{Commit: common.Commit, Apps: common.Apps, Clusters: map[string]ClusterSource{}}
	for name := range runs.Clusters {
		out.Clusters[name] = one(runs.On(name), want.On(name))
	}
	for name := range want.Clusters {
		out.Clusters[name] = one(runs.On(name), want.On(name))
	}
	return out.WithoutGaps()
}

func appsOf(sources ...ClusterSource) []string {
	set := map[string]bool{}
	for _, s := range sources {
		for app := range s.Apps {
			set[app] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}
