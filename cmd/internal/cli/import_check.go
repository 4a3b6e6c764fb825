package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// comparison counts what was compared and holds what was not equal.
type comparison struct {
	Objects     int      `json:"objects"` // equal ones
	Apps        int      `json:"apps"`
	Differences []string `json:"differences"`
	NotCompared []string `json:"notCompared"`
	Links       []string `json:"links,omitempty"` // symbolic links, which the tool follows and the reference does not
	Unread      []string `json:"unread"`          // apps that Sluice cannot render, whatever the tool does with them

	tool    string   // of the entry that is compared
	untyped bool     // the tool's numbers went through JSON, where 3.0 is 3
	empty   []string // clusters on which no object was equal
}

// checkImport builds the import again with the reference programs, and compares every object.
func (i *importOptions) checkImport(ctx context.Context, s *app.Session, tree gitstore.Hash, f *fleet.Fleet,
	o IO,
) error {
	result := comparison{Differences: []string{}, NotCompared: []string{}, Unread: []string{}}
	var tools []string
	argocd := false
	for n, entry := range f.Spec.Import {
		if err := i.checkEntry(ctx, s, tree, f, n, &result); err != nil {
			return err
		}
		tools, argocd = append(tools, referenceFor(entry).tool), argocd || entry.ArgoCD != nil
	}
	if argocd { // it follows symbolic links, which the copy for the reference has not
		if err := result.links(s.Store.Snapshot(ctx, tree)); err != nil {
			return err
		}
	}
	if err := i.showComparison(&result, o); err != nil {
		return err
	}
	switch {
	case len(result.Differences) > 0:
		return fmt.Errorf("the import differs from what %s: %s", builds(tools),
			count(len(result.Differences), "difference"))
	case len(result.Unread) > 0:
		return fmt.Errorf("%s cannot be read, so the import cannot be compared with what %s",
			count(len(result.Unread), "app"), builds(tools))
	case len(result.empty) > 0:
		return fmt.Errorf("nothing was compared on %s: no imported object is built by both sides",
			strings.Join(result.empty, ", "))
	case result.Objects == 0:
		return errors.New("nothing was compared: no imported object is built by both sides")
	}
	return nil
}

// builds names tools, each once, as the subject of the verb.
func builds(tools []string) string {
	tools = slices.Compact(slices.Sorted(slices.Values(tools)))
	verb := " builds"
	if len(tools) > 1 {
		verb = " build"
	}
	return strings.Join(tools, " and ") + verb
}

// checkEntry compares one entry of spec.import.
func (i *importOptions) checkEntry(ctx context.Context, s *app.Session, tree gitstore.Hash, f *fleet.Fleet, n int,
	result *comparison,
) error {
	entry := f.Spec.Import[n]
	program := referenceFor(entry)
	result.tool, result.untyped = program.tool, program.untyped
	theirs, err := program.run(ctx, s.Store, tree, f, entry)
	if err != nil {
		return err
	}
	for _, cluster := range clustersOf(f, n, theirs) {
		ours, err := i.sluiceApps(ctx, s, tree, f, n, cluster)
		if err != nil {
			return err
		}
		for _, name := range entry.Exclude { // the fleet describes it
			delete(theirs[cluster], name)
		}
		before := result.Objects
		result.cluster(cluster, ours, theirs[cluster])
		if cluster != "" && result.Objects == before && len(ours) > 0 {
			result.empty = append(result.empty, cluster)
		}
	}
	return nil
}

// clustersOf are the clusters of an entry, sorted: those that it names, and those on which one of the sides has an app.
// What is on no cluster, such as an ApplicationSet, is in "".
func clustersOf(f *fleet.Fleet, entry int, theirs map[string]map[string]referenceApp) []string {
	out := slices.Collect(maps.Keys(theirs))
	if e := f.Spec.Import[entry]; e.ArgoCD != nil {
		out = slices.AppendSeq(out, maps.Keys(e.ArgoCD.Clusters))
	} else {
		out = slices.AppendSeq(out, maps.Keys(e.Flux.Clusters))
	}
	for _, t := range f.Imports() {
		if t.Entry == entry {
			out = append(out, comparedOn(t))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// comparedOn returns the cluster on which a target is compared. A failed ApplicationSet or file is listed on every
// cluster that may lack something, so it is compared once, under "".
func comparedOn(t *fleet.Imported) string {
	if t.Err != nil && (t.Kind == "ApplicationSet" || t.Kind == fleet.KindFile) {
		return ""
	}
	return t.Cluster
}

// links names the symbolic links of a commit.
func (c *comparison) links(tree fs.FS) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSymlink != 0 {
			c.Links = append(c.Links, name+": the reference does not follow symbolic links")
		}
		return err
	})
}

func (i *importOptions) showComparison(c *comparison, o IO) error {
	if i.structured() {
		return i.encode(o.Out, c)
	}
	for _, line := range slices.Concat(c.NotCompared, c.Links) {
		fmt.Fprintf(o.Out, "not compared  %s\n", safetext.Lines(line))
	}
	for _, line := range c.Unread {
		fmt.Fprintf(o.Out, "cannot read   %s\n", safetext.Lines(line))
	}
	for _, line := range c.Differences {
		fmt.Fprintf(o.Out, "differs       %s\n", safetext.Lines(line))
	}
	_, err := fmt.Fprintf(o.Out, "%s of %s equal, %s, %s not compared\n", count(c.Objects, "object"),
		count(c.Apps, "app"), count(len(c.Differences), "difference"), count(len(c.NotCompared), "app"))
	return err
}

// sluiceApps renders the apps of an entry on a cluster. A failed app has its Error, a suspended one is left out.
func (i *importOptions) sluiceApps(ctx context.Context, s *app.Session, tree gitstore.Hash, f *fleet.Fleet, entry int,
	cluster string,
) (map[string]referenceApp, error) {
	out := map[string]referenceApp{}
	for _, t := range f.Imports() { // an app of the fleet's own is not compared
		if t.Entry == entry && comparedOn(t) == cluster && !t.Suspended {
			one := referenceApp{File: t.Located(), foreign: t.Foreign, parent: t.Parent}
			if t.Line > 0 {
				one.File += fmt.Sprintf(":%d", t.Line)
			}
			if t.Err != nil {
				one.Error = t.Err.Error()
			}
			out[t.App] = one
		}
	}
	if cluster == "" || len(out) == 0 {
		return out, nil
	}
	shown, err := s.Show(ctx, tree, cluster, "")
	if err != nil {
		return nil, err
	}
	for _, m := range shown.Manifests {
		one, ok := out[appOf(m)]
		if !ok {
			continue
		}
		objects, err := manifest.Decode(m.Data, manifest.DefaultBudget())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		one.Objects = append(one.Objects, objects...)
		out[appOf(m)] = one
	}
	for _, failure := range shown.Failures {
		if one, ok := out[failure.App]; ok {
			one.Error = failure.Message
			out[failure.App] = one
		}
	}
	return out, nil
}

// cluster compares the apps of one cluster, or those without one.
func (c *comparison) cluster(name string, ours, theirs map[string]referenceApp) {
	names := slices.Concat(slices.Collect(maps.Keys(ours)), slices.Collect(maps.Keys(theirs)))
	slices.Sort(names)
	for _, app := range slices.Compact(names) {
		mine, have := ours[app]
		other, built := theirs[app]
		at := titled(name, app, cmp.Or(mine.File, other.File))
		switch {
		case mine.foreign && (!built || other.Skipped != ""):
			c.NotCompared = append(c.NotCompared, at+": "+mine.Error)
		case have && mine.Error != "" && (!built || other.Skipped != ""):
			c.Unread = append(c.Unread, at+": "+mine.Error)
		case built && other.Skipped != "":
			c.NotCompared = append(c.NotCompared, at+": "+other.Skipped)
		case have && built && mine.Error != "" && other.Error != "":
			c.Unread = append(c.Unread, at+": both sides fail: "+mine.Error)
		case !built:
			c.notBuilt(at, skippedParent(ours, theirs, app))
		case !have:
			c.differ("%s: %s applies it, Sluice does not import it", at, c.tool)
		case mine.Error != "":
			c.differ("%s: %s builds it, Sluice does not: %s", at, c.tool, mine.Error)
		case other.Error != "":
			c.differ("%s: Sluice renders it, %s does not build it: %s", at, c.tool, other.Error)
		default:
			c.Apps++
			c.objects(at, mine.Objects, other.Objects, other.Namespace)
		}
	}
}

// notBuilt records an app that the tool does not apply. The reference does not know what a parent brings that it cannot
// build.
func (c *comparison) notBuilt(at, skippedParent string) {
	if skippedParent != "" {
		c.NotCompared = append(c.NotCompared, at+": "+skippedParent+" brings it, which is not compared")
		return
	}
	c.differ("%s: Sluice imports it, %s does not apply it", at, c.tool)
}

// skippedParent returns the nearest parent of an app that the reference cannot build; "" if there is none.
func skippedParent(ours, theirs map[string]referenceApp, app string) string {
	for range ours { // parents of several clusters could form a circle
		if app = ours[app].parent; app == "" {
			return ""
		}
		if theirs[app].Skipped != "" {
			return app
		}
	}
	return ""
}

// titled names an app, its cluster and its file, as far as they are known.
func titled(cluster, app, file string) string {
	if cluster != "" {
		app = cluster + "/" + app
	}
	if file != "" {
		app += " (" + file + ")"
	}
	return app
}

func (c *comparison) differ(format string, args ...any) {
	c.Differences = append(c.Differences, fmt.Sprintf(format, args...))
}

// objects compares object by object. Sluice writes the namespace of every namespaced object, the tool leaves it to the
// API server, which adds the namespace of the app.
func (c *comparison) objects(at string, ours, theirs []manifest.Object, namespace string) {
	left := map[manifest.Identity][]manifest.Object{}
	for _, o := range ours {
		left[o.Identity()] = append(left[o.Identity()], o)
	}
	for _, want := range theirs {
		id, got := taken(left, want, namespace)
		switch {
		case got == nil:
			c.differ("%s: %s applies %s, Sluice does not render it", at, c.tool, want.Identity())
		case !c.equalObjects(got, want):
			c.differ("%s: %s is not equal", at, id)
		default:
			c.Objects++
		}
	}
	for _, id := range slices.SortedStableFunc(maps.Keys(left),
		func(a, b manifest.Identity) int { return strings.Compare(a.String(), b.String()) }) {
		c.differ("%s: Sluice renders %s, %s does not apply it", at, id, c.tool)
	}
}

// taken removes the object of the same identity, or the one to which the app's namespace was added, and returns it.
func taken(left map[manifest.Identity][]manifest.Object, want manifest.Object, namespace string) (manifest.Identity,
	manifest.Object,
) {
	at := want.Identity()
	if len(left[at]) == 0 && at.Namespace == "" {
		at.Namespace = namespace
	}
	list := left[at]
	if len(list) == 0 {
		return at, nil
	}
	if left[at] = list[1:]; len(list) == 1 {
		delete(left, at)
	}
	return at, list[0]
}

// equalObjects compares the values with their types: 3 is not 3.0, and neither is "3".
func (c *comparison) equalObjects(ours, theirs manifest.Object) bool {
	if theirs.Namespace() == "" && ours.Namespace() != "" {
		metadata, _ := ours["metadata"].(map[string]any) // a map: Namespace read a value of it
		metadata = maps.Clone(metadata)
		delete(metadata, "namespace")
		ours = maps.Clone(ours)
		ours["metadata"] = metadata
	}
	return c.equal(map[string]any(ours), map[string]any(theirs))
}

func (c *comparison) equal(ours, theirs any) bool {
	switch x := ours.(type) {
	case map[string]any:
		y, ok := theirs.(map[string]any)
		return ok && maps.EqualFunc(x, y, c.equal)
	case []any:
		y, ok := theirs.([]any)
		return ok && slices.EqualFunc(x, y, c.equal)
	}
	if number, ok := theirs.(json.Number); ok {
		theirs = typed(number)
		if _, isFloat := theirs.(float64); c.untyped && !isFloat {
			if float, ok := ours.(float64); ok && float == math.Trunc(float) {
				text, err := json.Marshal(float)
				return err == nil && string(text) == number.String()
			}
		}
	}
	if number, ok := ours.(json.Number); ok {
		ours = typed(number)
	}
	return ours == theirs
}

// typed returns a number of JSON as manifest.Decode returns it: a number with a point or an exponent is a float, and so
// is an integer of more than 64 bits.
func typed(n json.Number) any {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return u
	}
	f, err := n.Float64()
	if err != nil {
		return n.String() // out of range, so it equals nothing that YAML has
	}
	return f
}
