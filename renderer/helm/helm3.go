package helm

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// helm3 is a chart of Helm 3.
type helm3 struct{ chart *chart.Chart }

func unpackHelm3(packed []byte) ([]File, error) {
	files, err := loader.LoadArchiveFiles(bytes.NewReader(packed))
	out := make([]File, len(files))
	for i, f := range files {
		out[i] = File{f.Name, f.Data}
	}
	return out, err
}

func loadHelm3(files []File) (loaded, error) {
	buffered := make([]*loader.BufferedFile, len(files))
	for i, f := range files {
		buffered[i] = &loader.BufferedFile{Name: f.Path, Data: f.Data}
	}
	c, err := loader.LoadFiles(buffered)
	return helm3{c}, err
}

func (h helm3) about() about {
	m := h.chart.Metadata
	out := about{name: m.Name, version: m.Version, kind: m.Type}
	for _, d := range m.Dependencies {
		if d != nil {
			out.dependencies = append(out.dependencies, Dependency{d.Name, d.Version, d.Repository})
		}
	}
	for _, sub := range h.chart.Dependencies() {
		out.subcharts = append(out.subcharts, sub.Name())
	}
	return out
}

func (h helm3) defaults() []byte {
	for _, f := range h.chart.Raw {
		if f.Name == chartutil.ValuesfileName {
			return f.Data
		}
	}
	return nil
}

func (h helm3) add(dependency loaded) {
	h.chart.AddDependency(dependency.(helm3).chart) //nolint:forcetypeassert // of the same version
}

func (h helm3) prepare(o Options) (*prepared, error) {
	work := h.copy(h.chart)
	if err := chartutil.ProcessDependenciesWithMerge(work, o.Values); err != nil {
		return nil, fmt.Errorf("chart %s: dependencies: %w", work.Name(), err)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	if o.KubeVersion != "" {
		version, err := chartutil.ParseKubeVersion(o.KubeVersion)
		if err != nil {
			return nil, fmt.Errorf("kubeVersion %q of the cluster: %w", o.KubeVersion, err)
		}
		capabilities.KubeVersion = *version
	}
	// A copy even without more versions: Sprig's sortAlpha sorts a list in place.
	capabilities.APIVersions = slices.Concat(capabilities.APIVersions, o.APIVersions)
	if want := work.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want,
		capabilities.KubeVersion.String()) {
		return nil, kubeVersionError(work.Name(), want, capabilities.KubeVersion.String())
	}
	release := chartutil.ReleaseOptions{Name: o.ReleaseName, Namespace: o.Namespace, Revision: 1, IsInstall: true}
	top, err := chartutil.ToRenderValuesWithSchemaValidation(work, o.Values, release, capabilities, true)
	if err != nil {
		return nil, fmt.Errorf("chart %s: values: %w", work.Name(), err)
	}
	values, _ := top["Values"].(chartutil.Values)
	out := &prepared{
		part: h.part(work), values: values, units: map[string]unit{}, functions: functions,
		split: splitManifests,
	}
	if err := h.addUnits(out.units, work, top); err != nil {
		return nil, err
	}
	out.render = func() error {
		_, err := engine.Engine{}.Render(work, top)
		return err
	}
	if o.IncludeCRDs {
		for _, crd := range work.CRDObjects() {
			out.crds = append(out.crds, File{crd.Filename, crd.File.Data})
		}
	}
	return out, nil
}

// copy copies the parts of a chart that Helm or templates change. The copies share the files, and the default values,
// which Helm copies before it merges them.
func (h helm3) copy(c *chart.Chart) *chart.Chart {
	out := &chart.Chart{
		Metadata: h.copyMetadata(c.Metadata), Lock: c.Lock, Templates: c.Templates, Values: c.Values,
		Schema: c.Schema, Files: c.Files,
	}
	for _, d := range c.Dependencies() {
		out.AddDependency(h.copy(d))
	}
	return out
}

// copyMetadata copies what a template or Helm can change in place: sortAlpha sorts lists of texts, and mergo changes
// maps of all kinds.
func (helm3) copyMetadata(m *chart.Metadata) *chart.Metadata {
	out := *m
	out.Keywords, out.Sources, out.Annotations = slices.Clone(m.Keywords), slices.Clone(m.Sources),
		maps.Clone(m.Annotations)
	out.Maintainers = slices.Clone(m.Maintainers)
	for i, maintainer := range out.Maintainers {
		if maintainer != nil {
			person := *maintainer
			out.Maintainers[i] = &person
		}
	}
	out.Dependencies = slices.Clone(m.Dependencies) // without any, Helm has nothing to process
	for i, d := range out.Dependencies {
		if d != nil {
			dependency := *d
			dependency.Tags, dependency.ImportValues = slices.Clone(d.Tags), copyList(d.ImportValues)
			out.Dependencies[i] = &dependency
		}
	}
	return &out
}

func (h helm3) part(c *chart.Chart) part {
	out := part{name: c.Name(), schema: c.Schema}
	for _, d := range c.Dependencies() {
		out.below = append(out.below, h.part(d))
	}
	return out
}

// addUnits adds the templates of a chart and its subcharts under the names that Helm gives them.
func (h helm3) addUnits(out map[string]unit, work *chart.Chart, top chartutil.Values) error {
	scopes, err := h.scopes(work, top)
	if err != nil {
		return err
	}
	for i, c := range h.list(nil, work) {
		scope, full := scopes[i], c.ChartFullPath()
		for _, f := range c.Templates {
			if f == nil || strings.EqualFold(c.Metadata.Type, "library") && !partial(f.Name) {
				continue
			}
			name := path.Join(full, f.Name)
			out[name] = unit{text: f.Data, dot: chartutil.Values(scope), begin: func() {
				scope["Template"] = chartutil.Values{"Name": name, "BasePath": path.Join(full, "templates")}
			}}
		}
	}
	return nil
}

// list appends a chart and its subcharts in the order in which Helm adds their templates.
func (h helm3) list(out []*chart.Chart, c *chart.Chart) []*chart.Chart {
	for _, d := range c.Dependencies() {
		out = h.list(out, d)
	}
	return append(out, c)
}

// scopes returns what Helm's engine gives the templates of each chart of list as the dot; nothing for libraries. The
// engine does not export it, so that a template in place of the chart's own hands it out, through the one value that
// Helm passes on unseen.
func (h helm3) scopes(work *chart.Chart, top chartutil.Values) ([]map[string]any, error) {
	all := h.list(nil, work)
	bare := make(map[*chart.Chart]*chart.Chart, len(all))
	for i, c := range all {
		file := &chart.File{
			Name: "templates/" + strconv.Itoa(i),
			Data: []byte("{{ call .Capabilities . .Template.Name }}"),
		}
		bare[c] = &chart.Chart{Metadata: c.Metadata, Files: c.Files, Templates: []*chart.File{file}}
		for _, d := range c.Dependencies() {
			bare[c].AddDependency(bare[d])
		}
	}
	out := make([]map[string]any, len(all))
	with := maps.Clone(top)
	with["Capabilities"] = func(scope map[string]any, name string) (string, error) {
		i, err := strconv.Atoi(path.Base(name))
		out[i] = scope
		return "", err
	}
	if _, err := (engine.Engine{}).Render(bare[work], with); err != nil {
		return nil, err
	}
	for _, scope := range out {
		delete(scope, "Template")
		eachScope(scope, func(scope map[string]any) { scope["Capabilities"] = top["Capabilities"] })
	}
	return out, nil
}
