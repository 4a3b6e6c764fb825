package promote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/rollout"
)

// mostVersions bounds the commits of the trunk that are read to find out since when a cluster is behind.
const mostVersions = 200

// FleetVersions are the versions of Kubernetes in a fleet, and how its upgrades go.
type FleetVersions struct {
	// Clusters are those that are not retired, by environment in the order of promotions, and by name.
	Clusters []ClusterVersion `json:"clusters"`
	// Upgrades are those under way and the newest ones before, by the environment whose branch brings the versions, the
	// newest version first.
	Upgrades []Upgrade `json:"upgrades"`
	// Known is what was read of commits, for a later call.
	Known KnownVersions `json:"-"`
}

// KnownVersions are the versions that commits of the source give clusters, by commit and by cluster. They never change;
// commits with equal versions share a map. A commit that cannot be read has none.
type KnownVersions map[string]map[string]string

// ClusterVersion is the version of Kubernetes of a cluster, as the environment branches have it: of a described cluster
// the version that the objects on the branch of its management cluster ask for, of another one the declaration at the
// commit that its environment runs.
type ClusterVersion struct {
	// Cluster is its name.
	Cluster string `json:"cluster"`
	// Environment of the cluster.
	Environment string `json:"environment"`
	// Wave of the environment.
	Wave string `json:"wave,omitempty"`
	// Runs is the version. It is absent if it is not known.
	Runs string `json:"runs,omitempty"`
	// Wants is the version on the trunk. It is absent if the trunk names none.
	Wants string `json:"wants,omitempty"`
	// Since is the date of the first commit of the trunk that wants a newer minor version than Runs. It is absent if none
	// does, or if it is older than the commits that were read.
	Since time.Time `json:"since,omitzero"`
	// Blocked says in one sentence what the newer minor version waits for. It is absent if the trunk wants none, and while
	// nothing is in the way.
	Blocked string `json:"blocked,omitempty"`
}

// Behind reports whether the trunk wants a newer minor version.
func (v ClusterVersion) Behind() bool {
	return v.Runs != "" && v.Wants != "" && fleet.OlderMinor(v.Runs, v.Wants)
}

// Versions lists the versions of clusters. It reads the environment branches, and not whether the cluster branches follow
// them. The statuses are those of a dry run over all environments: what they do not say blocks no cluster.
// known is of an earlier call, or nil, and is not changed.
func Versions(ctx context.Context, h *hydrate.Hydrator, trunk gitstore.Commit, statuses []Status, now time.Time,
	known KnownVersions,
) (*FleetVersions, error) {
	f, _, err := h.Fleet(ctx, trunk.Tree)
	if err != nil {
		return nil, err
	}
	v := newVersions(h, f, known)
	if err := v.read(ctx); err != nil {
		return nil, err
	}
	out := &FleetVersions{Clusters: []ClusterVersion{}, Upgrades: []Upgrade{}}
	for _, e := range f.Spec.Environments {
		waves, err := v.waves(e)
		if err != nil {
			return nil, err
		}
		for _, c := range f.ClustersOf(e.Name) {
			if c.Retired() {
				continue
			}
			one := ClusterVersion{Cluster: c.Name, Environment: e.Name, Wave: waves[c.Name], Wants: c.KubeVersion}
			if one.Runs, err = v.runs(ctx, c, v.sources); err != nil {
				return nil, err
			}
			if one.Behind() {
				if one.Blocked, err = v.blocked(ctx, c, one, statuses); err != nil {
					return nil, err
				}
			}
			out.Clusters = append(out.Clusters, one)
		}
	}
	if err := v.since(ctx, trunk, out.Clusters); err != nil {
		return nil, err
	}
	out.Upgrades, err = v.upgrades(ctx, trunk, out.Clusters, now)
	out.Known = v.commits
	return out, err
}

// Of returns what concerns the clusters of one environment.
func (v *FleetVersions) Of(environment string) *FleetVersions {
	out := &FleetVersions{Clusters: []ClusterVersion{}, Upgrades: []Upgrade{}}
	for _, c := range v.Clusters {
		if c.Environment == environment {
			out.Clusters = append(out.Clusters, c)
		}
	}
	for _, u := range v.Upgrades {
		if u.Environment == environment || slices.ContainsFunc(u.Waves, func(w UpgradeWave) bool { return w.Environment == environment }) {
			out.Upgrades = append(out.Upgrades, u)
		}
	}
	return out
}

// versions reads versions of clusters at commits. It keeps no fleets, of which a long history would need too many.
type versions struct {
	h         *hydrate.Hydrator
	fleet     *fleet.Fleet // of the trunk
	sources   map[string]rollout.Source
	known     KnownVersions // of an earlier call
	commits   KnownVersions
	distinct  []map[string]string // of commits
	order     map[UpgradeWave]int // of environments and waves
	described map[string][]fleet.Target
}

func newVersions(h *hydrate.Hydrator, f *fleet.Fleet, known KnownVersions) *versions {
	return &versions{
		h: h, fleet: f, sources: map[string]rollout.Source{}, known: known, commits: KnownVersions{},
		order: map[UpgradeWave]int{}, described: map[string][]fleet.Target{},
	}
}

func (v *versions) read(ctx context.Context) error {
	refs, err := v.h.Branches.List(ctx, v.fleet.BranchPrefixes()...)
	if err != nil {
		return err
	}
	for _, e := range v.fleet.Spec.Environments {
		st, err := v.h.EnvironmentState(ctx, v.fleet, e.Name, refs[v.fleet.EnvironmentBranch(e.Name)])
		if err != nil {
			return err
		}
		if st.Exists() {
			v.sources[e.Name] = st.Source()
		}
	}
	if !slices.ContainsFunc(v.fleet.Apps, func(a *fleet.App) bool { return a.Describes() != nil }) {
		return nil
	}
	for _, t := range v.fleet.Targets() {
		if c := t.App.Describes(); c != nil {
			v.described[c.Name] = append(v.described[c.Name], t)
		}
	}
	return nil
}

// waves returns the waves of an environment's clusters.
func (v *versions) waves(e fleet.Environment) (map[string]string, error) {
	v.order[UpgradeWave{Environment: e.Name}] = len(v.order)
	var members []rollout.Cluster
	for _, c := range v.fleet.ClustersOf(e.Name) {
		members = append(members, rollout.Cluster{Name: c.Name, Labels: c.Labels, State: c.State})
	}
	list, err := rollout.Waves(e, members)
	if err != nil || len(e.Promotion.Waves) == 0 { // one wave has no name that people know
		return nil, err
	}
	out := map[string]string{}
	for _, w := range list {
		v.order[UpgradeWave{Environment: e.Name, Wave: w.Name}] = len(v.order)
		for _, name := range w.Clusters() {
			out[name] = w.Name
		}
	}
	return out, nil
}

// runs returns the oldest version that something on the branches asks for. sources are what environments run; those that
// are not in it bring nothing.
func (v *versions) runs(ctx context.Context, c *fleet.Cluster, sources map[string]rollout.Source) (string, error) {
	var commits []string
	if source, ok := sources[c.Environment]; ok || len(v.described[c.Name]) == 0 {
		commits = append(commits, source.On(c.Name).Commit)
	}
	if targets := v.described[c.Name]; len(targets) > 0 {
		commits = nil
		for _, t := range targets {
			if source, ok := sources[t.Cluster.Environment]; ok {
				commits = append(commits, source.On(t.Cluster.Name).Of(t.App.Name))
			}
		}
	}
	oldest := ""
	for _, commit := range commits {
		known, err := v.at(ctx, commit)
		if err != nil {
			return "", err
		}
		if known == nil {
			return "", nil
		}
		if was := known[c.Name]; was != "" && (oldest == "" || fleet.OlderMinor(was, oldest)) {
			oldest = was
		}
	}
	return oldest, nil
}

// at returns the versions that a commit gives clusters; nil if it cannot be read.
func (v *versions) at(ctx context.Context, commit string) (map[string]string, error) {
	if known, ok := v.commits[commit]; ok {
		return known, nil
	}
	if known := v.known[commit]; known != nil { // one that could not be read is read again
		v.commits[commit] = known
		return known, nil
	}
	hash, err := gitstore.ParseHash(commit)
	if err != nil {
		return nil, nil //nolint:nilerr // nothing runs
	}
	c, err := v.h.Store.Commit(ctx, hash)
	if unknownHistory(err) {
		return nil, nil // a shallow clone
	} else if err != nil {
		return nil, err
	}
	f, _, err := v.h.Fleet(ctx, c.Tree)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if f == nil {
		v.commits[commit] = nil
		return nil, nil
	}
	out := make(map[string]string, len(f.Clusters))
	for _, one := range f.Clusters {
		out[one.Name] = one.KubeVersion
	}
	if i := slices.IndexFunc(v.distinct, func(o map[string]string) bool { return maps.Equal(o, out) }); i >= 0 {
		out = v.distinct[i]
	} else {
		v.distinct = append(v.distinct, out)
	}
	v.commits[commit] = out
	return out, nil
}

// since finds the first commits that want more than clusters run.
func (v *versions) since(ctx context.Context, trunk gitstore.Commit, list []ClusterVersion) error {
	open := map[int]bool{}
	for i := range list {
		if list[i].Behind() {
			open[i] = true
		}
	}
	if len(open) == 0 {
		return nil
	}
	line, err := Line(ctx, v.h, trunk, mostVersions+1)
	if err != nil {
		return err
	}
	for n, commit := range line[:min(len(line), mostVersions)] {
		f, err := v.at(ctx, commit.Hash.String())
		if err != nil {
			return err
		}
		for _, i := range slices.Sorted(maps.Keys(open)) {
			one := &list[i]
			wants := ""
			if f != nil {
				wants = f[one.Cluster]
			}
			if f != nil && (wants == "" || !fleet.OlderMinor(one.Runs, wants)) {
				delete(open, i)
				continue
			}
			one.Since = commit.Committer.When
			if n == mostVersions-1 && len(line) > mostVersions { // it may be older
				one.Since = time.Time{}
			}
		}
		if len(open) == 0 {
			break
		}
	}
	return nil
}

// WriteVersions writes how many clusters of each environment have which minor version, the newest first, how upgrades go,
// and which clusters are behind since when, and why.
func WriteVersions(w io.Writer, v *FleetVersions, now time.Time) error {
	if len(v.Clusters) == 0 {
		return errors.New("the fleet has no clusters")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) //nolint:mnd // two spaces
	environments, rows := v.Matrix()
	fmt.Fprintln(t, "KUBERNETES\t"+strings.Join(environments, "\t"))
	for _, r := range rows {
		row := []string{r.Minor}
		for _, n := range r.Clusters {
			row = append(row, fmt.Sprint(n))
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range v.Clusters {
		if c.Behind() {
			fmt.Fprintf(t, "behind\t%s/%s\t%s → %s\t%s\t%s\n", c.Environment, c.Cluster, minorOf(c.Runs), minorOf(c.Wants),
				c.SinceText(now), safetext.Line(c.Blocked))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, u := range v.Upgrades {
		fmt.Fprintln(w, "upgrade  "+safetext.Line(u.String(now)))
		for _, text := range []string{u.WavesText(), u.ToilText()} {
			fmt.Fprintln(w, "         "+safetext.Line(text))
		}
	}
	return nil
}

// SinceText says since when the cluster is behind: "since 2026-11-02 (4 days)".
func (v ClusterVersion) SinceText(now time.Time) string {
	if v.Since.IsZero() {
		return fmt.Sprintf("since more than %d commits", mostVersions)
	}
	return sinceText(v.Since, now)
}

func sinceText(at, now time.Time) string {
	days := max(0, int(now.Sub(at).Hours()/24)) //nolint:mnd // hours of a day
	return fmt.Sprintf("since %s (%s)", at.UTC().Format(time.DateOnly), hydrate.Count(days, "day"))
}

// MinorRow counts the clusters that have a minor version.
type MinorRow struct {
	Minor    string // "unknown" for clusters without a known version
	Clusters []int  // by environment
}

// Matrix counts the clusters by minor version, the newest first and those without one last, and by environment.
func (v *FleetVersions) Matrix() (environments []string, rows []MinorRow) {
	var minors []string
	count := map[[2]string]int{}
	for _, c := range v.Clusters {
		minor := minorOf(c.Runs)
		if !slices.Contains(environments, c.Environment) {
			environments = append(environments, c.Environment)
		}
		if !slices.Contains(minors, minor) {
			minors = append(minors, minor)
		}
		count[[2]string{minor, c.Environment}]++
	}
	slices.SortFunc(minors, newestFirst)
	for _, minor := range minors {
		row := MinorRow{Minor: minor}
		for _, e := range environments {
			row.Clusters = append(row.Clusters, count[[2]string{minor, e}])
		}
		rows = append(rows, row)
	}
	return environments, rows
}

// newestFirst orders minor versions; those that are not known are last.
func newestFirst(a, b string) int {
	switch {
	case fleet.OlderMinor(a, b), a == unknownMinor && b != unknownMinor:
		return 1
	case fleet.OlderMinor(b, a), b == unknownMinor && a != unknownMinor:
		return -1
	}
	return 0
}

const unknownMinor = "unknown"

// minorOf returns the minor version of a version.
func minorOf(version string) string {
	v, err := semver.NewVersion(version)
	if err != nil {
		return unknownMinor
	}
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor())
}
