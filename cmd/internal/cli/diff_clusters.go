package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// clusterDiff describes how a cluster differs from another one in one commit.
type clusterDiff struct {
	Cluster       string            `json:"cluster"`
	Against       string            `json:"against"`
	OnlyOnCluster []string          `json:"onlyOnCluster,omitempty"` // apps
	OnlyOnAgainst []string          `json:"onlyOnAgainst,omitempty"` // apps
	Values        []valueDiff       `json:"values"`
	Objects       []objectDiff      `json:"objects"`
	Failures      []hydrate.Failure `json:"failures,omitempty"`
}

// valueDiff is a Helm value that comes from different places, or has different content, on two clusters. An origin is
// nil if nothing sets the value for the cluster.
type valueDiff struct {
	App     string          `json:"app"`
	Source  string          `json:"source,omitempty"`
	Path    string          `json:"path"`
	Cluster *explain.Origin `json:"cluster,omitempty"`
	Against *explain.Origin `json:"against,omitempty"`
}

// objectDiff is an object that differs. Verb is added if only the cluster has it, and removed if only the other one has
// it.
type objectDiff struct {
	App    string             `json:"app"`
	Verb   diff.Verb          `json:"verb"`
	Object string             `json:"object"` // Deployment shop/web
	Fields []diff.FieldChange `json:"fields,omitempty"`
}

// empty reports whether the clusters are equal.
func (c *clusterDiff) empty() bool {
	return len(c.OnlyOnCluster)+len(c.OnlyOnAgainst)+len(c.Values)+len(c.Objects) == 0
}

// clusters compares two clusters of a tree: --cluster with --against.
func (d *diffOptions) clusters(ctx context.Context, o IO, s *app.Session, tree gitstore.Hash, against string) error {
	if d.output != "text" && !d.structured() {
		return usagef("two clusters can be compared as text, json or yaml, not as %s", d.output)
	}
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return err
	}
	left, _ := f.Cluster(d.selection.clusters[0]) // known
	right, _ := f.Cluster(against)                // known
	c := &clusterComparison{
		options: d, session: s, fleet: f, tree: tree, clusters: [2]*fleet.Cluster{right, left}, warn: o.Err,
		mask: diff.NewMasker(s.FingerprintKey()),
		out:  clusterDiff{Cluster: left.Name, Against: right.Name, Values: []valueDiff{}, Objects: []objectDiff{}},
	}
	if err := c.run(ctx); err != nil {
		return err
	}
	if d.structured() {
		err = d.encode(o.Out, &c.out)
	} else {
		err = o.paged(func(w io.Writer) error {
			printClusterDiff(w, &c.out)
			return nil
		})
	}
	switch {
	case err != nil:
		return err
	case len(c.out.Failures) > 0:
		return &exitError{code: ExitFailed}
	case d.exitCode && !c.out.empty():
		return &exitError{code: ExitDiffers}
	}
	return nil
}

// clusterComparison compares two clusters: index 0 is the one of --against, 1 the one of --cluster.
type clusterComparison struct {
	options  *diffOptions
	session  *app.Session
	fleet    *fleet.Fleet
	tree     gitstore.Hash
	clusters [2]*fleet.Cluster
	warn     io.Writer
	mask     *diff.Masker
	out      clusterDiff
}

func (c *clusterComparison) run(ctx context.Context) error {
	var on [2]map[string]fleet.Target
	for i, cluster := range c.clusters {
		on[i] = map[string]fleet.Target{}
		for _, t := range c.fleet.TargetsOf(cluster) {
			if n := c.options.selection.apps; len(n) == 0 || slices.Contains(n, t.App.Name) {
				on[i][t.App.Name] = t
			}
		}
	}
	both := map[string]bool{}
	for _, a := range c.fleet.Apps {
		before, had := on[0][a.Name]
		after, has := on[1][a.Name]
		switch {
		case had && has:
			both[a.Name] = true
			if err := c.values(ctx, before, after); err != nil {
				return err
			}
		case has:
			c.out.OnlyOnCluster = append(c.out.OnlyOnCluster, a.Name)
		case had:
			c.out.OnlyOnAgainst = append(c.out.OnlyOnAgainst, a.Name)
		}
	}
	return c.objects(ctx, both)
}

// values compares the origins of all values of the Helm sources of an app.
func (c *clusterComparison) values(ctx context.Context, before, after fleet.Target) error {
	resolved, err := c.fleet.Resolve(after)
	if err != nil {
		return err
	}
	for _, source := range resolved.Sources {
		if source.Helm == nil {
			continue
		}
		x := &explainer{session: c.session, fleet: c.fleet, tree: c.tree, source: source.Name, warn: c.warn}
		var winners [2]map[string]explain.Origin
		for i, t := range []fleet.Target{before, after} {
			chains, err := x.chains(ctx, t, "")
			if err != nil {
				return err
			}
			winners[i] = map[string]explain.Origin{}
			for _, chain := range chains {
				winners[i][chain.Path] = winner(chain)
			}
		}
		c.compareValues(after.App.Name, source.Name, winners)
	}
	return nil
}

func (c *clusterComparison) compareValues(app, source string, winners [2]map[string]explain.Origin) {
	paths := map[string]bool{}
	for _, side := range winners {
		for path := range side {
			paths[path] = true
		}
	}
	for _, path := range sortedKeys(paths) {
		before, had := winners[0][path]
		after, has := winners[1][path]
		if had && has && inline(before.Set) == inline(after.Set) && before.Deletes == after.Deletes {
			continue
		}
		one := valueDiff{App: app, Source: source, Path: path}
		if had {
			one.Against = &before
		}
		if has {
			one.Cluster = &after
		}
		c.out.Values = append(c.out.Values, one)
	}
}

// objects renders both clusters and compares the objects of the apps that both have.
func (c *clusterComparison) objects(ctx context.Context, apps map[string]bool) error {
	var rendered [2]map[string][]diff.Object
	for i, cluster := range c.clusters {
		shown, err := c.session.Show(ctx, c.tree, cluster.Name, "")
		if err != nil {
			return err
		}
		for _, f := range shown.Failures {
			if apps[f.App] {
				c.out.Failures = append(c.out.Failures, f)
			}
		}
		if rendered[i], err = c.decode(shown.Manifests, apps); err != nil {
			return err
		}
	}
	failed := map[string]bool{}
	for _, f := range c.out.Failures {
		failed[f.App] = true
	}
	var targets []diff.Target
	for _, app := range sortedKeys(apps) {
		if !failed[app] { // with only one side, objects would look removed
			targets = append(targets, diff.Target{
				App: app, Cluster: c.clusters[1].Name,
				Environment: c.clusters[1].Environment, Before: c.masked(rendered[0][app]),
				After: c.masked(rendered[1][app]),
			})
		}
	}
	changes := diff.Compare(targets, nil, []string{c.clusters[1].Environment}, onePlacement{})
	for i := range changes.Groups {
		g := &changes.Groups[i]
		for j := range g.Objects {
			one := &g.Objects[j]
			c.out.Objects = append(c.out.Objects, objectDiff{
				App: g.App, Verb: one.Verb, Object: one.Title(),
				Fields: slices.Concat(one.Fields, one.Noise),
			})
		}
	}
	slices.SortStableFunc(c.out.Objects, func(a, b objectDiff) int {
		return strings.Compare(a.App+"\x00"+a.Object, b.App+"\x00"+b.Object)
	})
	return nil
}

// decode decodes manifests by app, and registers the secrets to mask.
func (c *clusterComparison) decode(manifests []hydrate.Manifest, apps map[string]bool) (map[string][]diff.Object,
	error,
) {
	out := map[string][]diff.Object{}
	for _, m := range manifests {
		name := appOf(m)
		if !apps[name] {
			continue
		}
		list, err := manifest.Decode(m.Data, manifest.DefaultBudget())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		for _, one := range list {
			c.mask.Learn(one)
			out[name] = append(out[name], diff.Object{Key: string(m.Data), Object: one})
		}
	}
	return out, nil
}

func (c *clusterComparison) masked(list []diff.Object) []diff.Object {
	out := make([]diff.Object, len(list))
	for i, o := range list {
		out[i] = diff.Object{Key: o.Key, Object: c.mask.Mask(o.Object)}
	}
	return out
}

// onePlacement is a diff.Fleet that knows no clusters: the comparison is about two that are named.
type onePlacement struct{}

func (onePlacement) Placed(string) []diff.Cluster { return nil }

func printClusterDiff(w io.Writer, c *clusterDiff) {
	printFailures(w, c.Failures, "")
	if c.empty() {
		fmt.Fprintf(w, "%s and %s are equal\n", c.Cluster, c.Against)
		return
	}
	gap := "" // before a section that is not the first
	for _, only := range []struct {
		cluster string
		apps    []string
	}{{c.Cluster, c.OnlyOnCluster}, {c.Against, c.OnlyOnAgainst}} {
		if len(only.apps) > 0 {
			fmt.Fprintf(w, "only on %s: %s\n", only.cluster, strings.Join(only.apps, ", "))
			gap = "\n"
		}
	}
	if len(c.Values) > 0 {
		fmt.Fprintf(w, "%sValues (- %s, + %s):\n", gap, c.Against, c.Cluster)
		gap = "\n"
	}
	app := ""
	for _, v := range c.Values {
		if name := strings.TrimSuffix(v.App+" "+v.Source, " "); name != app {
			app = name
			fmt.Fprintf(w, "  %s\n", app)
		}
		fmt.Fprintf(w, "    %s\n", safetext.Line(v.Path))
		printOrigin(w, "-", v.Against)
		printOrigin(w, "+", v.Cluster)
	}
	if len(c.Objects) > 0 {
		fmt.Fprintf(w, "%sObjects (- %s, + %s):\n", gap, c.Against, c.Cluster)
	}
	app = ""
	for _, o := range c.Objects {
		if o.App != app {
			app = o.App
			fmt.Fprintf(w, "  %s\n", app)
		}
		switch o.Verb {
		case diff.Added:
			fmt.Fprintf(w, "    %s: only on %s\n", safetext.Line(o.Object), c.Cluster)
			continue
		case diff.Removed:
			fmt.Fprintf(w, "    %s: only on %s\n", safetext.Line(o.Object), c.Against)
			continue
		}
		fmt.Fprintf(w, "    %s\n", safetext.Line(o.Object))
		for _, field := range o.Fields {
			fmt.Fprintf(w, "      %s: %s → %s\n", safetext.Line(field.Path), side(field.Had, field.Old),
				side(field.Has, field.New))
		}
	}
}

func printOrigin(w io.Writer, sign string, origin *explain.Origin) {
	if origin == nil {
		fmt.Fprintf(w, "      %s not set\n", sign)
		return
	}
	fmt.Fprintf(w, "      %s %s  %s  %s\n", sign, safetext.Shorten(safetext.Line(valueOf(*origin)), fieldWidth),
		layerOf(*origin), safetext.Line(placeOf(*origin)))
}

// fieldWidth is the number of characters of a value that are printed.
const fieldWidth = 100

func side(present bool, v any) string {
	if !present {
		return "not set"
	}
	return safetext.Shorten(safetext.Line(inline(v)), fieldWidth)
}

func sortedKeys(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
