package kustomize

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/errors"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/kustomize/kyaml/yaml/merge2"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Chart is an entry of helmCharts in a kustomization. Index is its position there, after the entries of the deprecated
// field helmChartInflationGenerator are appended.
type Chart struct {
	Dir                 string // of the kustomization
	Index               int
	Name, Repo, Version string
	Devel               bool // pre-releases count if Version is empty

	home       string // relative to Dir
	entry      types.HelmChart
	valuesFile []byte // nil: the chart's own values.yaml
	additional [][]byte
	at         place
}

// Release is a chart of a kustomization as `kustomize build --enable-helm` passes it to `helm template`.
type Release struct {
	*Chart

	Name, NameTemplate, Namespace     string
	KubeVersion                       string   // empty: that of the command line
	APIVersions                       []string // empty: those of the command line
	IncludeCRDs, SkipHooks, SkipTests bool
}

// Inflate renders a release to objects.
type Inflate func(ctx context.Context, r *Release) ([]manifest.Object, error)

// chartsFile is the name under which a build lists the objects of a kustomization's charts.
const chartsFile = "sluice-helm-charts.yaml"

// maxCharts is the limit of entries of helmCharts in one kustomization, and in all of a root.
const maxCharts = 100

// Charts makes the walker accept helmCharts instead of refusing them. It returns the walker. Call it before any other
// method.
func (w *Walker) Charts() *Walker {
	w.charts = true
	return w
}

// ChartsOf returns the entries of helmCharts that a build of root renders, by directory and position.
func (w *Walker) ChartsOf(root string) ([]Chart, error) {
	r, err := w.reach(root)
	if err != nil {
		return nil, err
	}
	return r.charts(w), nil
}

func (r *reach) charts(w *Walker) []Chart {
	var out []Chart
	for _, dir := range slices.Sorted(maps.Keys(r.dirs)) {
		out = append(out, w.directory(dir).charts...)
	}
	return out
}

// Locate returns the directory of the tree that Kustomize takes the chart from, and whether it exists. If it does not
// exist, Kustomize takes the chart from its repository.
func (w *Walker) Locate(c *Chart) (dir string, exists bool, err error) {
	dir = path.Join(c.Dir, c.home)
	if c.Version != "" && c.Repo != "" {
		dir = path.Join(dir, c.Name+"-"+c.Version)
	}
	dir = path.Join(dir, c.Name)
	if c.at.leaves(c.Dir, dir) {
		return "", false, c.at.refuse(c.Name, "is looked for outside of %s: correct helmGlobals.chartHome",
			c.at.bounds())
	}
	if err := noLink(w.tree, dir, c.Name, c.at); err != nil {
		return "", false, err
	}
	found, err := lstat(w.tree, dir)
	if err != nil && !absent(err) {
		return "", false, c.at.refuse(c.Name, "cannot be looked up: %w", err)
	}
	exists = err == nil && found.IsDir()
	if !exists && c.Repo == "" {
		return "", false, c.at.refuse(c.Name, "has no repo, and no chart is in %s: add the repo, or the chart", dir)
	}
	return dir, exists, nil
}

// Error returns an error about the chart, with its place.
func (c *Chart) Error(err error) error {
	return fmt.Errorf("%s: %s: %w", c.at.where(c.Name), c.at.field, err)
}

// Place returns the file and the field of the entry.
func (c *Chart) Place() string { return c.at.file + ": " + c.at.field }

// readCharts reads the entries of helmCharts and the values files that they name.
func (s *scan) readCharts(k *types.Kustomization) {
	if k.HelmGlobals != nil && path.IsAbs(k.HelmGlobals.ChartHome) {
		s.fail(s.file.at("helmGlobals.chartHome").refuse(k.HelmGlobals.ChartHome,
			"is an absolute path: write it relative to the kustomization's directory"))
		return
	}
	if len(k.HelmCharts) > maxCharts {
		s.fail(fmt.Errorf("%s: helmCharts has %d entries, more than %d: split the kustomization", s.file.file,
			len(k.HelmCharts), maxCharts))
		return
	}
	for i := range k.HelmCharts {
		c := Chart{
			Dir: s.dir, Index: i, entry: k.HelmCharts[i], home: types.HelmDefaultHome,
			at: s.file.at("helmCharts[%d]", i),
		}
		c.Name, c.Repo, c.Version, c.Devel = c.entry.Name, c.entry.Repo, c.entry.Version, c.entry.Devel
		if k.HelmGlobals != nil {
			c.home = cmp.Or(k.HelmGlobals.ChartHome, c.home)
		}
		if err := c.read(s); err != nil {
			s.fail(err)
			continue
		}
		s.out.charts = append(s.out.charts, c)
	}
}

// read checks the entry and reads its values files.
func (c *Chart) read(s *scan) error {
	e := &c.entry
	switch {
	case e.Name == "":
		return fmt.Errorf("%s: %s: the entry has no name: add the chart's name", c.at.file, c.at.field)
	case strings.HasPrefix(e.Name, "-") || path.IsAbs(e.Name) || strings.ContainsAny(e.Name+e.Version, "\\\x00\n"):
		return c.at.refuse(e.Name, "is not the name of a chart: correct it")
	case strings.Contains(e.Version, "/"):
		return c.at.refuse(e.Version, "is neither a version nor a range: correct it")
	case !slices.Contains([]string{"", "merge", "override", "replace"}, e.ValuesMerge):
		return c.at.refuse(e.ValuesMerge, "must be merge, override or replace: correct valuesMerge")
	}
	// otherwise Kustomize does not read the file
	if e.ValuesFile != "" && (len(e.ValuesInline) == 0 || e.ValuesMerge != "replace") {
		data, err := s.readYAML(e.ValuesFile, s.file.at("helmCharts[%d].valuesFile", c.Index))
		if err != nil {
			return err
		}
		c.valuesFile = append([]byte{}, data...) // an empty file is not nil
	}
	for i, ref := range e.AdditionalValuesFiles {
		data, err := s.readYAML(ref, s.file.at("helmCharts[%d].additionalValuesFiles[%d]", c.Index, i))
		if err != nil {
			return err
		}
		c.additional = append(c.additional, data)
	}
	return nil
}

// Values returns the values that Kustomize passes to Helm. defaults is the chart's own values.yaml, which Kustomize
// passes as a values file if the entry names none.
func (r *Release) Values(defaults []byte) (map[string]any, error) {
	base := defaults
	if r.valuesFile != nil {
		base = r.valuesFile
	}
	if len(r.entry.ValuesInline) > 0 {
		merged, err := r.mergeInline(base)
		if err != nil {
			return nil, err
		}
		base = merged
	}
	out := map[string]any{}
	for _, text := range append([][]byte{base}, r.additional...) {
		values := map[string]any{}
		if err := yaml.Unmarshal(text, &values); err != nil {
			return nil, fmt.Errorf("a values file does not decode: %w", err)
		}
		out = mergeValues(out, values)
	}
	return out, nil
}

// mergeInline merges valuesInline into a values file with the functions that the library's own generator calls. Its
// result differs from Helm's merge: null in valuesInline removes the key from the values file, not from the chart's
// defaults.
func (r *Release) mergeInline(file []byte) ([]byte, error) {
	inline := r.entry.ValuesInline
	if r.entry.ValuesMerge == "replace" {
		return yaml.Marshal(inline)
	}
	leave := library.enter(false)
	defer leave()
	base, err := kyaml.Parse(string(file))
	if errors.Is(err, io.EOF) { // no values at all
		base, err = kyaml.NewMapRNode(nil), nil
	}
	if err != nil {
		return nil, fmt.Errorf("the values file does not decode: %w", err)
	}
	own, err := kyaml.FromMap(inline)
	if err != nil {
		return nil, fmt.Errorf("valuesInline does not decode: %w", err)
	}
	from, into := own, base
	if r.entry.ValuesMerge == "merge" {
		from, into = base, own
	}
	result, err := merge2.Merge(from, into, kyaml.MergeOptions{})
	if err != nil {
		return nil, fmt.Errorf("valuesInline cannot be merged: %w", err)
	}
	values, err := result.Map()
	if err != nil {
		return nil, fmt.Errorf("valuesInline cannot be merged: %w", err)
	}
	return yaml.Marshal(values)
}

// mergeValues merges values files as Helm does: maps merge, everything else is replaced.
func mergeValues(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	for key, v := range over {
		below, isMap := v.(map[string]any)
		if was, ok := out[key].(map[string]any); ok && isMap {
			v = mergeValues(was, below)
		}
		out[key] = v
	}
	return out
}

// release returns the arguments of `helm template`. inherited is the namespace of the kustomizations above.
func (c *Chart) release(inherited string) *Release {
	e := &c.entry
	return &Release{
		Chart: c, Name: e.ReleaseName, NameTemplate: e.NameTemplate,
		Namespace:   cmp.Or(e.Namespace, inherited, "default"),
		KubeVersion: e.KubeVersion, APIVersions: e.ApiVersions,
		IncludeCRDs: e.IncludeCRDs, SkipHooks: e.SkipHooks, SkipTests: e.SkipTests,
	}
}

// inflateCharts returns the tree with the objects of charts as resources of the kustomizations that list them, and adds
// them to r.files. The library adds what a generator returns and what a resource has in the same way; the order of
// objects differs, which a build does not depend on.
func (w *Walker) inflateCharts(ctx context.Context, tree *memory, r *reach, root string,
	inflate Inflate,
) (*memory, error) {
	charts := r.charts(w)
	if len(charts) == 0 {
		return tree, nil
	}
	namespaces, err := w.namespaces(root)
	if err != nil {
		return nil, err
	}
	texts := map[string][]byte{}
	for i := range charts {
		c := &charts[i]
		if d := w.directory(c.Dir); d.origins || w.directory(root).origins {
			return nil, fmt.Errorf("%s: buildMetadata has originAnnotations, which Sluice does not write for helmCharts: remove it", w.directory(root).file)
		}
		objects, err := inflate(ctx, c.release(namespaces[c.Dir]))
		if err != nil {
			return nil, err
		}
		if err := markGenerated(objects); err != nil {
			return nil, c.Error(err)
		}
		text, err := stream(objects)
		if err != nil {
			return nil, c.Error(err)
		}
		texts[c.Dir] = append(texts[c.Dir], text...)
	}
	files := maps.Clone(tree.files)
	for dir, text := range texts {
		name := path.Join(dir, chartsFile)
		if _, taken := files[name]; taken {
			return nil, fmt.Errorf("%s: rename the file: Sluice uses this name for the objects of helmCharts",
				w.name(name))
		}
		if err := manifest.Check(text, w.budget); err != nil {
			return nil, fmt.Errorf("%s: the objects of helmCharts exceed a limit: %w", w.directory(dir).file, err)
		}
		files[name], r.files[name] = text, true
		of := w.directory(dir).path
		if files[of], err = withoutCharts(files[of]); err != nil {
			return nil, fmt.Errorf("%s: %w", w.directory(dir).file, err)
		}
	}
	list := make([]File, 0, len(files))
	for name, data := range files {
		list = append(list, File{Path: name, Data: data})
	}
	return newMemory(list)
}

// markGenerated adds the annotation of the library's own generator. The library does not apply the namespace of a
// kustomization to such objects, and removes the annotation at the end.
func markGenerated(objects []manifest.Object) error {
	for _, o := range objects {
		metadata, ok := o["metadata"].(map[string]any)
		if !ok {
			return fmt.Errorf("%s has no metadata", o.Identity())
		}
		annotations, ok := metadata["annotations"].(map[string]any)
		if !ok && metadata["annotations"] != nil {
			return fmt.Errorf("%s has annotations that are not a map", o.Identity())
		}
		if annotations == nil {
			annotations = map[string]any{}
		}
		annotations[konfig.HelmGeneratedAnnotation] = "true"
		metadata["annotations"] = annotations
	}
	return nil
}

// withoutCharts returns a kustomization that lists chartsFile as a resource instead of charts. It reads the text as the
// library does, with the case of keys ignored and aliases expanded.
func withoutCharts(data []byte) ([]byte, error) {
	var k types.Kustomization
	if err := k.Unmarshal(data); err != nil {
		return nil, err
	}
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	for key := range fields {
		for _, gone := range []string{"helmCharts", "helmGlobals", "helmChartInflationGenerator", "resources"} {
			if strings.EqualFold(key, gone) {
				delete(fields, key)
			}
		}
	}
	resources, err := json.Marshal(append(slices.Clip(k.Resources), chartsFile))
	if err != nil {
		return nil, err
	}
	fields["resources"] = resources
	return json.Marshal(fields)
}

// namespaces returns the namespace that each directory with charts passes to Helm: its own, or that of the nearest
// kustomization above it with one. A directory that inherits two is an error.
func (w *Walker) namespaces(root string) (map[string]string, error) {
	type visit struct{ dir, inherited string }
	out := map[string]string{}
	seen := map[visit]bool{}
	next := []visit{{dir: root}}
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		if len(seen) > maxVisits {
			return nil, fmt.Errorf("the Kustomize root %s has more than %d combinations of kustomizations and namespaces: split the root", root, maxVisits)
		}
		d := w.directory(at.dir)
		namespace := cmp.Or(d.namespace, at.inherited)
		if len(d.charts) > 0 {
			inherits := func(c Chart) bool { return c.entry.Namespace == "" }
			was, twice := out[at.dir]
			if twice && was != namespace && slices.ContainsFunc(d.charts, inherits) {
				return nil, fmt.Errorf("%s: helmCharts are rendered in the namespaces %q and %q, which overlays of %s set: set the namespace of each chart here", d.file, was, namespace, root)
			}
			out[at.dir] = namespace
		}
		for _, c := range d.children {
			next = append(next, visit{c.dir, namespace})
		}
	}
	return out, nil
}
