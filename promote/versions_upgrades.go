package promote

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

const (
	upgradeStates = 100 // commits of an environment branch, and commands, that are read for its upgrades
	mostUpgrades  = 3   // of an environment that are reported
)

// Upgrade is how the clusters that the branch of one environment upgrades get to a minor version.
type Upgrade struct {
	// Environment is the one whose branch brings the version: that of the management cluster for described clusters.
	Environment string `json:"environment"`
	// Minor is the minor version, such as 1.36.
	Minor string `json:"minor"`
	// Since is the date of the first commit of the trunk that wants it. It is absent if that is older than the commits
	// that were read.
	Since time.Time `json:"since,omitzero"`
	// Began is when the first cluster got it. It is absent if none has it, or if that is too long ago.
	Began time.Time `json:"began,omitzero"`
	// Done is when the last cluster got it. It is absent while some lack it.
	Done time.Time `json:"done,omitzero"`
	// Reached is the number of clusters that have it.
	Reached int `json:"reached"`
	// Total is the number of clusters that are to have it, or have got it.
	Total int `json:"total"`
	// Waves are the clusters by environment and wave.
	Waves []UpgradeWave `json:"waves"`
	// Commands counts the commands of people about Environment from Since, or else Began, until Done, or else now:
	// promotions and rollbacks that landed, merged merge requests of promotions, freezes, halts and what ends them.
	Commands int `json:"commands"`
	// Approvals counts the approvals in that time.
	Approvals int `json:"approvals"`
	// Partial means that not all of that time was read, so that the two are at least these.
	Partial bool `json:"partial,omitempty"`
}

// UpgradeWave are the clusters of a wave.
type UpgradeWave struct {
	// Environment of the clusters.
	Environment string `json:"environment"`
	// Wave of the environment. It is absent if the environment has no waves.
	Wave string `json:"wave,omitempty"`
	// Reached is the number of clusters that have the version.
	Reached int `json:"reached"`
	// Total is the number of clusters.
	Total int `json:"total"`
}

// String describes the upgrade on one line: "mgmt 1.36: 6 of 12 clusters, since 2026-11-02 (4 days)".
func (u Upgrade) String(now time.Time) string {
	out := fmt.Sprintf("%s %s: %d of %s", u.Environment, u.Minor, u.Reached, hydrate.Count(u.Total, "cluster"))
	switch {
	case !u.Done.IsZero() && !u.Since.IsZero():
		return fmt.Sprintf("%s, done %s, %s after the trunk wanted it", out, u.Done.UTC().Format(time.DateOnly),
			hydrate.Count(int(max(0, u.Done.Sub(u.Since)).Hours()/24), "day")) //nolint:mnd // hours of a day
	case !u.Done.IsZero():
		return fmt.Sprintf("%s, done %s", out, u.Done.UTC().Format(time.DateOnly))
	case !u.Since.IsZero():
		return out + ", " + sinceText(u.Since, now)
	}
	return out
}

// WavesText lists the waves: "dev 2 of 2, prod/canary 1 of 2".
func (u Upgrade) WavesText() string {
	var parts []string
	for _, w := range u.Waves {
		parts = append(parts, fmt.Sprintf("%s %d of %d", w.Name(), w.Reached, w.Total))
	}
	return strings.Join(parts, ", ")
}

// Name returns the environment and the wave.
func (w UpgradeWave) Name() string {
	if w.Wave == "" {
		return w.Environment
	}
	return w.Environment + "/" + w.Wave
}

// ToilText says what people did: "hands-on: 1 command and 2 approvals".
func (u Upgrade) ToilText() string {
	atLeast := ""
	if u.Partial {
		atLeast = "at least "
	}
	return fmt.Sprintf("hands-on: %s%s and %s", atLeast, hydrate.Count(u.Commands, "command"), hydrate.Count(u.Approvals, "approval"))
}

func (w UpgradeWave) place() UpgradeWave {
	return UpgradeWave{Environment: w.Environment, Wave: w.Wave}
}

// upgradeFinder finds the upgrades that the branch of one environment brings.
type upgradeFinder struct {
	*versions
	environment string
	clusters    []*fleet.Cluster
	list        map[string]ClusterVersion
	found       map[string]*Upgrade // by minor version
}

// upgrades finds the upgrades of all environments.
func (v *versions) upgrades(ctx context.Context, trunk gitstore.Commit, list []ClusterVersion, now time.Time) ([]Upgrade, error) {
	out := []Upgrade{}
	by := map[string]ClusterVersion{}
	for _, c := range list {
		by[c.Cluster] = c
	}
	for _, e := range v.fleet.Spec.Environments {
		f := &upgradeFinder{versions: v, environment: e.Name, list: by, found: map[string]*Upgrade{}}
		for _, c := range list {
			config, ok := v.fleet.Cluster(c.Cluster)
			if ok && c.Wants != "" && v.brings(e.Name, config) {
				f.clusters = append(f.clusters, config)
			}
		}
		if len(f.clusters) == 0 {
			continue
		}
		some, err := f.find(ctx, trunk, now)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// brings reports whether the branch of an environment brings the version of a cluster.
func (v *versions) brings(environment string, c *fleet.Cluster) bool {
	targets := v.described[c.Name]
	if len(targets) == 0 {
		return c.Environment == environment
	}
	return slices.ContainsFunc(targets, func(t fleet.Target) bool { return t.Cluster.Environment == environment })
}

func (f *upgradeFinder) upgrade(minor string) *Upgrade {
	u := f.found[minor]
	if u == nil {
		u = &Upgrade{Environment: f.environment, Minor: minor, Waves: []UpgradeWave{}}
		f.found[minor] = u
	}
	return u
}

func (f *upgradeFinder) find(ctx context.Context, trunk gitstore.Commit, now time.Time) ([]Upgrade, error) {
	past, err := ReadHistory(ctx, f.h, trunk.Tree, f.environment, upgradeStates)
	if err != nil {
		return nil, err
	}
	reached, err := f.reached(ctx, past)
	if err != nil {
		return nil, err
	}
	for _, c := range f.clusters {
		if one := f.list[c.Name]; one.Behind() {
			f.upgrade(minorOf(one.Wants))
		}
	}
	minors := slices.SortedFunc(maps.Keys(f.found), newestFirst)
	minors = minors[:min(len(minors), mostUpgrades)]
	if err := f.wanted(ctx, trunk, minors); err != nil {
		return nil, err
	}
	var out []Upgrade
	for _, minor := range minors {
		u := f.found[minor]
		f.progress(u, reached[minor])
		f.toil(u, past, now)
		out = append(out, *u)
	}
	return out, nil
}

// reached finds out when clusters got a minor version after an older one, from the states of the environment, newest
// first. It returns when each of them did, by minor version.
func (f *upgradeFinder) reached(ctx context.Context, past []HistoryEntry) (map[string]map[string]time.Time, error) {
	out, before := map[string]map[string]time.Time{}, map[string]string{}
	for _, h := range slices.Backward(past) {
		if h.Command != nil {
			continue
		}
		for _, c := range f.clusters {
			version, err := f.runs(ctx, c, map[string]rollout.Source{f.environment: h.Source})
			if err != nil {
				return nil, err
			}
			if version == "" {
				continue
			}
			if was := before[c.Name]; was != "" && was != version && fleet.OlderMinor(was, version) {
				minor := minorOf(version)
				if out[minor] == nil {
					out[minor] = map[string]time.Time{}
				}
				out[minor][c.Name] = h.At
				if u := f.upgrade(minor); u.Began.IsZero() {
					u.Began = h.At
				}
			}
			before[c.Name] = version
		}
	}
	return out, nil
}

// wanted finds the first commits of the trunk that want minor versions.
func (f *upgradeFinder) wanted(ctx context.Context, trunk gitstore.Commit, minors []string) error {
	open := slices.Clone(minors)
	if len(open) == 0 {
		return nil
	}
	line, err := Line(ctx, f.h, trunk, mostVersions+1)
	if err != nil {
		return err
	}
	at, newer := map[string]time.Time{}, map[[2]string]bool{}
	reaches := func(version, minor string) bool { // clusters have few versions
		key := [2]string{version, minor}
		is, ok := newer[key]
		if !ok {
			is = version != "" && !fleet.OlderMinor(version, minor)
			newer[key] = is
		}
		return is
	}
	for n, commit := range line[:min(len(line), mostVersions)] {
		one, err := f.at(ctx, commit.Hash.String())
		if err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(minor string) bool {
			wants := one == nil || slices.ContainsFunc(f.clusters, func(c *fleet.Cluster) bool {
				return reaches(one[c.Name], minor)
			})
			if wants {
				at[minor] = commit.Committer.When
				if n == mostVersions-1 && len(line) > mostVersions { // it may be older
					delete(at, minor)
				}
			}
			return !wants
		})
		if len(open) == 0 {
			break
		}
	}
	for _, minor := range minors {
		f.found[minor].Since = at[minor]
	}
	return nil
}

// progress counts the clusters of an upgrade: those that are to have the version, also on the way to a newer one, and
// those that got it.
func (f *upgradeFinder) progress(u *Upgrade, got map[string]time.Time) {
	last := time.Time{}
	for _, c := range f.clusters {
		one := f.list[c.Name]
		at, was := got[c.Name]
		wants := minorOf(one.Wants) == u.Minor || one.Behind() && fleet.OlderMinor(one.Runs, u.Minor) && !fleet.OlderMinor(one.Wants, u.Minor)
		if !wants && !was {
			continue
		}
		i := slices.IndexFunc(u.Waves, func(w UpgradeWave) bool { return w.Environment == one.Environment && w.Wave == one.Wave })
		if i < 0 {
			i = len(u.Waves)
			u.Waves = append(u.Waves, UpgradeWave{Environment: one.Environment, Wave: one.Wave})
		}
		u.Total++
		u.Waves[i].Total++
		if one.Runs != "" && !fleet.OlderMinor(one.Runs, u.Minor) {
			u.Reached++
			u.Waves[i].Reached++
			last = later(last, at)
		}
	}
	slices.SortStableFunc(u.Waves, func(a, b UpgradeWave) int { // clusters are by environment, and then by name
		return f.order[a.place()] - f.order[b.place()]
	})
	if u.Reached == u.Total {
		u.Done = last
	}
}

// toil counts what people did about the environment during an upgrade.
func (f *upgradeFinder) toil(u *Upgrade, past []HistoryEntry, now time.Time) {
	from, until := u.Since, u.Done
	if from.IsZero() {
		from = u.Began
	}
	if until.IsZero() {
		until = now
	}
	u.Partial = len(past) == upgradeStates && past[len(past)-1].At.After(from) || u.Since.IsZero()
	last := ""
	var ran []string // source commits of the state before
	for _, h := range slices.Backward(past) {
		asked, again := h.asked(), false
		if h.Command == nil {
			commits := h.Source.Commits()
			brings := slices.ContainsFunc(commits, func(c string) bool { return !slices.Contains(ran, c) })
			again = asked != "" && asked == last && !brings
			last, ran = asked, commits
		}
		switch {
		case h.At.Before(from) || h.At.After(until):
		case h.Command != nil && h.Command.By == "":
		case h.Command != nil && h.Command.Verb == rollout.EventApprove:
			u.Approvals++
		case h.Command != nil, h.merged != nil, asked != "" && !again:
			u.Commands++
		}
	}
}

// asked identifies the command of a person that made a state; "" if nobody asked. One promotion of several waves makes
// several states, one after another, with the same trailers. The first of them has the source commits of all.
func (e HistoryEntry) asked() string {
	by := e.trailer(branch.TrailerBy)
	if e.Command != nil || by == "" {
		return ""
	}
	return strings.Join([]string{
		by, e.trailer(branch.TrailerApps), e.trailer(branch.TrailerWorkspaces), e.trailer(branch.TrailerReason),
		e.trailer(branch.TrailerNow), e.trailer(branch.TrailerRollback), e.trailer(branch.TrailerRenderedAgain),
	}, "\x00")
}
