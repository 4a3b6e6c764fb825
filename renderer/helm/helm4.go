package helm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
)

// helm4 is a chart of Helm 4.
type helm4 struct{ chart *chart.Chart }

func unpackHelm4(packed []byte) ([]File, error) {
	files, err := archive.LoadArchiveFiles(bytes.NewReader(packed))
	out := make([]File, len(files))
	for i, f := range files {
		out[i] = File{f.Name, f.Data}
	}
	return out, err
}

func loadHelm4(files []File) (loaded, error) {
	buffered := make([]*archive.BufferedFile, len(files))
	for i, f := range files {
		buffered[i] = &archive.BufferedFile{Name: f.Path, Data: f.Data}
	}
	c, err := loader.LoadFiles(buffered)
	return helm4{c}, err
}

func (h helm4) about() about {
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

func (h helm4) defaults() []byte {
	for _, f := range h.chart.Raw {
		if f.Name == chartutil.ValuesfileName {
			return f.Data
		}
	}
	return nil
}

func (h helm4) add(dependency loaded) {
	h.chart.AddDependency(dependency.(helm4).chart) //nolint:forcetypeassert // of the same version
}

func (h helm4) prepare(o Options) (*prepared, error) {
	work := h.copy(h.chart)
	if err := chartutil.ProcessDependencies(work, o.Values); err != nil {
		return nil, fmt.Errorf("chart %s: dependencies: %w", work.Name(), err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	if o.KubeVersion != "" {
		version, err := common.ParseKubeVersion(o.KubeVersion)
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
	release := common.ReleaseOptions{Name: o.ReleaseName, Namespace: o.Namespace, Revision: 1, IsInstall: true}
	top, err := commonutil.ToRenderValuesWithSchemaValidation(work, o.Values, release, capabilities, true)
	if err != nil {
		return nil, fmt.Errorf("chart %s: values: %w", work.Name(), err)
	}
	values, _ := top["Values"].(common.Values)
	out := &prepared{
		part: h.part(work), values: values, units: map[string]unit{}, functions: functions4,
		split: splitManifests4,
	}
	if err := h.addUnits(out.units, work, top); err != nil {
		return nil, err
	}
	out.render = func() error {
		//nolint:staticcheck // there is no request whose context could end it
		_, err := engine.Engine{}.Render(work, top)
		return inOneLine(err)
	}
	if o.IncludeCRDs {
		for _, crd := range work.CRDObjects() {
			out.crds = append(out.crds, File{crd.Filename, crd.File.Data})
		}
	}
	return out, nil
}

// copy copies the parts of a chart that Helm or templates change, like helm3.copy.
func (h helm4) copy(c *chart.Chart) *chart.Chart {
	out := &chart.Chart{
		Metadata: h.copyMetadata(c.Metadata), Lock: c.Lock, Templates: c.Templates, Values: c.Values,
		Schema: c.Schema, Files: c.Files,
	}
	for _, d := range c.Dependencies() {
		out.AddDependency(h.copy(d))
	}
	return out
}

func (helm4) copyMetadata(m *chart.Metadata) *chart.Metadata {
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
	out.Dependencies = slices.Clone(m.Dependencies)
	for i, d := range out.Dependencies {
		if d != nil {
			dependency := *d
			dependency.Tags, dependency.ImportValues = slices.Clone(d.Tags), copyList(d.ImportValues)
			out.Dependencies[i] = &dependency
		}
	}
	return &out
}

func (h helm4) part(c *chart.Chart) part {
	out := part{name: c.Name(), schema: c.Schema}
	for _, d := range c.Dependencies() {
		out.below = append(out.below, h.part(d))
	}
	return out
}

// addUnits adds the templates of a chart and its subcharts under the names that Helm gives them.
func (h helm4) addUnits(out map[string]unit, work *chart.Chart, top common.Values) error {
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
			out[name] = unit{text: f.Data, dot: common.Values(scope), begin: func() {
				scope["Template"] = common.Values{"Name": name, "BasePath": path.Join(full, "templates")}
			}}
		}
	}
	return nil
}

// list appends a chart and its subcharts in the order in which Helm adds their templates.
func (h helm4) list(out []*chart.Chart, c *chart.Chart) []*chart.Chart {
	for _, d := range c.Dependencies() {
		out = h.list(out, d)
	}
	return append(out, c)
}

// scopes returns what Helm's engine gives the templates of each chart of list as the dot; nothing for libraries. A
// template in place of the chart's own hands it out.
func (h helm4) scopes(work *chart.Chart, top common.Values) ([]map[string]any, error) {
	all := h.list(nil, work)
	bare := make(map[*chart.Chart]*chart.Chart, len(all))
	for i, c := range all {
		file := &common.File{Name: "templates/" + strconv.Itoa(i), Data: []byte("{{ take . .Template.Name }}")}
		bare[c] = &chart.Chart{Metadata: c.Metadata, Files: c.Files, Templates: []*common.File{file}}
		for _, d := range c.Dependencies() {
			bare[c].AddDependency(bare[d])
		}
	}
	out := make([]map[string]any, len(all))
	take := func(scope map[string]any, name string) (string, error) {
		i, err := strconv.Atoi(path.Base(name))
		out[i] = scope
		return "", err
	}
	e := engine.Engine{CustomTemplateFuncs: template.FuncMap{"take": take}}
	//nolint:staticcheck // there is no request whose context could end it
	if _, err := e.Render(bare[work], top); err != nil {
		return nil, err
	}
	for _, scope := range out {
		delete(scope, "Template")
	}
	return out, nil
}

// functions4 returns the functions of Helm 4's templates, like functions.
func functions4() template.FuncMap {
	out := functions()
	for _, name := range []string{
		"mustToYaml", "mustToToml", "mustToJson", "mustToDuration", "durationSeconds", "durationMilliseconds",
		"durationMicroseconds",
		"durationNanoseconds", "durationMinutes", "durationHours", "durationDays", "durationWeeks",
	} {
		out[name] = func(v any) (any, error) { return callHelm4(name, v) }
	}
	for _, name := range []string{"durationRoundTo", "durationTruncateTo"} {
		out[name] = func(v, m any) (any, error) { return callHelm4(name, v, m) }
	}
	return out
}

// callHelm4 calls a function of Helm 4 that it does not export, in a template of its own.
func callHelm4(name string, args ...any) (out any, err error) {
	call := []string{name}
	for i := range args {
		call = append(call, fmt.Sprintf("(index .Values.args %d)", i))
	}
	text := "{{ take (" + strings.Join(call, " ") + ") }}"
	c := &chart.Chart{
		Metadata:  &chart.Metadata{Name: "call"},
		Templates: []*common.File{{Name: "templates/call", Data: []byte(text)}},
	}
	e := engine.Engine{CustomTemplateFuncs: template.FuncMap{"take": func(v any) string {
		out = v
		return ""
	}}}
	//nolint:staticcheck // there is no request whose context could end it
	_, err = e.Render(c, common.Values{"Values": common.Values{"args": args}})
	return out, err
}

// tracedPlace matches a place in an error of Helm 4, which prints each place in a line, and what it executed there in
// the next one.
var tracedPlace = regexp.MustCompile(`(?m)^(\S+:\d+(?::\d+)?)\n {2}(?:(executing "[^"]*" at <.*>:)\n {4})?`)

// inOneLine returns the error of a template with its places as text/template and Helm 3 print them.
func inOneLine(err error) error {
	if err == nil {
		return nil
	}
	text := tracedPlace.ReplaceAllString(err.Error(), "template: $1: $2 ")
	if text == err.Error() {
		return err
	}
	return errors.New(strings.ReplaceAll(text, ":\ntemplate: ", ": template: "))
}

// splitManifests4 splits rendered text into YAML documents like Helm 4, without its regular expression, which takes
// most of a rendering's time. A separator is `---` at the start of a line, with the blanks after it. White space at the
// end of a document stays.
func splitManifests4(text string) []string {
	var out []string
	add := func(document string) {
		if strings.TrimSpace(document) != "" {
			out = append(out, strings.TrimLeftFunc(document, unicode.IsSpace))
		}
	}
	text = strings.TrimLeftFunc(text, unicode.IsSpace)
	begin := 0 // of the document
	for at := 0; at < len(text); {
		if strings.HasPrefix(text[at:], "---") {
			add(text[begin:at])
			at += len("---")
			begin = at + len(text[at:]) - len(strings.TrimLeft(text[at:], " \t"))
			at = begin
		}
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	add(text[begin:])
	return out
}
