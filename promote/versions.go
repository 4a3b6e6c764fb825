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
	"github.com/sluice-gitops/sluice/rollout"
)

// mostVersions bounds the commits of the trunk that are read to find out since when a cluster is behind.
const mostVersions = 200

// ClusterVersion is the version of Kubernetes of a cluster, as the environment branches have it: of a described cluster
// the version that the objects on the branch of its management cluster ask for, of another one the declaration at the
// commit that its environment runs.
type ClusterVersion struct {
	Cluster     string `json:"cluster"`
	Environment string `json:"environment"`
	Runs        string `json:"runs,omitempty"`  // empty: not known
	Wants       string `json:"wants,omitempty"` // on the trunk
	// Since is the date of the first commit of the trunk that wants a newer minor version than Runs; zero if none does, or
	// if it is older than the commits that were read.
	Since time.Time `json:"since,omitzero"`
}

// Behind reports whether the trunk wants a newer minor version.
func (v ClusterVersion) Behind() bool {
	return v.Runs != "" && v.Wants != "" && fleet.OlderMinor(v.Runs, v.Wants)
}

// Versions lists the versions of the clusters that are not retired, by environment in the order of promotions, and by
// name. It reads the environment branches, and not whether the cluster branches follow them.
func Versions(ctx context.Context, h *hydrate.Hydrator, trunk gitstore.Commit) ([]ClusterVersion, error) {
	f, _, err := h.Fleet(ctx, trunk.Tree)
	if err != nil {
		return nil, err
	}
	v := &versions{h: h, fleet: f, sources: map[string]rollout.Source{}, fleets: map[string]*fleet.Fleet{}}
	if err := v.read(ctx); err != nil {
		return nil, err
	}
	var out []ClusterVersion
	for _, e := range f.Spec.Environments {
		for _, c := range f.ClustersOf(e.Name) {
			if c.Retired() {
				continue
			}
			one := ClusterVersion{Cluster: c.Name, Environment: e.Name, Wants: c.KubeVersion}
			if one.Runs, err = v.runs(ctx, c); err != nil {
				return nil, err
			}
			out = append(out, one)
		}
	}
	return out, v.since(ctx, trunk, out)
}

// versions reads versions of clusters at commits.
type versions struct {
	h         *hydrate.Hydrator
	fleet     *fleet.Fleet // of the trunk
	sources   map[string]rollout.Source
	fleets    map[string]*fleet.Fleet // by commit; nil if it cannot be read
	described map[string][]fleet.Target
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
	v.described = map[string][]fleet.Target{}
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

// runs returns the oldest version that something on the branches asks for.
func (v *versions) runs(ctx context.Context, c *fleet.Cluster) (string, error) {
	commits := []string{v.sources[c.Environment].On(c.Name).Commit}
	if targets := v.described[c.Name]; len(targets) > 0 {
		commits = nil
		for _, t := range targets {
			commits = append(commits, v.sources[t.Cluster.Environment].On(t.Cluster.Name).Of(t.App.Name))
		}
	}
	oldest := ""
	for _, commit := range commits {
		f, err := v.at(ctx, commit)
		if err != nil {
			return "", err
		}
		if f == nil {
			return "", nil
		}
		if was, ok := f.Cluster(c.Name); ok && (oldest == "" || fleet.OlderMinor(was.KubeVersion, oldest)) {
			oldest = was.KubeVersion
		}
	}
	return oldest, nil
}

// at returns the fleet of a commit; nil if there is none, or if it cannot be read.
func (v *versions) at(ctx context.Context, commit string) (*fleet.Fleet, error) {
	if known, ok := v.fleets[commit]; ok {
		return known, nil
	}
	hash, err := gitstore.ParseHash(commit)
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // nothing runs
	}
	c, err := v.h.Store.Commit(ctx, hash)
	if unknownHistory(err) {
		return nil, nil //nolint:nilnil // a shallow clone
	} else if err != nil {
		return nil, err
	}
	f, _, err := v.h.Fleet(ctx, c.Tree)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	v.fleets[commit] = f
	return f, nil
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
				if c, ok := f.Cluster(one.Cluster); ok {
					wants = c.KubeVersion
				}
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

// WriteVersions writes how many clusters of each environment have which minor version, the newest first, and which are
// behind since when.
func WriteVersions(w io.Writer, list []ClusterVersion, now time.Time) error {
	if len(list) == 0 {
		return errors.New("the fleet has no clusters")
	}
	var environments, minors []string
	count := map[[2]string]int{}
	for _, v := range list {
		minor := minorOf(v.Runs)
		if !slices.Contains(environments, v.Environment) {
			environments = append(environments, v.Environment)
		}
		if !slices.Contains(minors, minor) {
			minors = append(minors, minor)
		}
		count[[2]string{minor, v.Environment}]++
	}
	slices.SortFunc(minors, func(a, b string) int { // the newest first, unknown last
		switch {
		case fleet.OlderMinor(a, b), a == unknownMinor:
			return 1
		case fleet.OlderMinor(b, a), b == unknownMinor:
			return -1
		}
		return 0
	})
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) //nolint:mnd // two spaces
	fmt.Fprintln(t, "KUBERNETES\t"+strings.Join(environments, "\t"))
	for _, minor := range minors {
		row := []string{minor}
		for _, e := range environments {
			row = append(row, fmt.Sprint(count[[2]string{minor, e}]))
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, v := range list {
		if !v.Behind() {
			continue
		}
		since := fmt.Sprintf("since more than %d commits", mostVersions)
		if !v.Since.IsZero() {
			days := int(now.Sub(v.Since).Hours() / 24) //nolint:mnd // hours of a day
			since = fmt.Sprintf("since %s (%s)", v.Since.UTC().Format(time.DateOnly), hydrate.Count(days, "day"))
		}
		fmt.Fprintf(t, "behind\t%s/%s\t%s → %s\t%s\n", v.Environment, v.Cluster, minorOf(v.Runs), minorOf(v.Wants), since)
	}
	return t.Flush()
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
