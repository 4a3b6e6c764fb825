package kustomize

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// maxErrors is the limit of errors that are reported for one kustomization.
const maxErrors = 20

// scan follows the references of one kustomization.
type scan struct {
	walker *Walker
	dir    string
	out    *directory
	file   place
	errs   []error
}

func (s *scan) fail(err error) {
	if err != nil && !s.full() {
		s.errs = append(s.errs, err)
	}
}

// full reports whether maxErrors is reached: finding the line of an error is expensive.
func (s *scan) full() bool { return len(s.errs) > maxErrors }

func (s *scan) err() error {
	if s.full() {
		s.errs[maxErrors] = fmt.Errorf("%s: more errors follow", s.file.file)
	}
	return errors.Join(s.errs...)
}

// kustomization follows every field that names files. The library reads no other files.
func (s *scan) kustomization(k *types.Kustomization) {
	switch {
	case len(k.HelmCharts) == 0 && k.HelmGlobals == nil: // FixKustomization moves helmChartInflationGenerator there
	case s.walker.charts:
		s.readCharts(k)
	default:
		s.fail(fmt.Errorf("%s: helmCharts, helmChartInflationGenerator and helmGlobals start Helm and are not allowed: make the chart a source of the app%s", s.file.file, chartSource(k.HelmCharts)))
	}
	s.each("resources", k.Resources, s.resource)
	s.each("components", k.Components, s.component)
	s.each("configurations", k.Configurations, s.addYAML)
	s.each("crds", k.Crds, s.crd)
	if ref, ok := k.OpenAPI["path"]; ok {
		s.fail(s.description(ref, s.file.at("openapi.path")))
	}
	for i := range k.ConfigMapGenerator {
		s.sources(&k.ConfigMapGenerator[i].KvPairSources, s.file, fmt.Sprintf("configMapGenerator[%d].", i))
	}
	for i := range k.SecretGenerator {
		s.sources(&k.SecretGenerator[i].KvPairSources, s.file, fmt.Sprintf("secretGenerator[%d].", i))
	}
	//nolint:staticcheck // deprecated fields are read as long as the library reads them
	s.each("patchesStrategicMerge", strategicTexts(k.PatchesStrategicMerge), s.strategicPatch)
	s.patches("patches", k.Patches)
	s.patches("patchesJson6902", k.PatchesJson6902) //nolint:staticcheck // as above
	for i := range k.Replacements {
		s.patch(k.Replacements[i].Path, "", s.file.at("replacements[%d].path", i))
	}
	s.each("generators", k.Generators, s.plugin)
	s.each("transformers", k.Transformers, s.plugin)
	s.each("validators", k.Validators, s.plugin)
}

// chartSource returns the source of an app that has the first chart of a kustomization; "" if it comes from no
// repository.
func chartSource(charts []types.HelmChart) string {
	if len(charts) == 0 || charts[0].Name == "" || charts[0].Repo == "" {
		return ""
	}
	c := charts[0]
	chart, repo := "chart: "+shown(c.Name), ", repo: "+shown(c.Repo)
	if strings.HasPrefix(c.Repo, "oci://") { // a registry has no index: the chart is part of the address
		chart, repo = "chart: "+shown(strings.TrimSuffix(c.Repo, "/")+"/"+c.Name), ""
	}
	version := ""
	if c.Version != "" {
		version = ", version: " + shown(c.Version)
	}
	return ": source: {helm: {" + chart + repo + version + "}}"
}

// each follows the references of a field that is a list.
func (s *scan) each(field string, refs []string, follow func(string, place) error) {
	for i, ref := range refs {
		if s.full() {
			return
		}
		s.fail(follow(ref, s.file.at("%s[%d]", field, i)))
	}
}

func (s *scan) patches(field string, patches []types.Patch) {
	for i, p := range patches {
		s.patch(p.Path, "", s.file.at("%s[%d].path", field, i))
		s.patch("", p.Patch, s.file.at("%s[%d].patch", field, i))
	}
}

// sources follows the files from which a ConfigMap or Secret is generated.
func (s *scan) sources(kv *types.KvPairSources, at place, field string) {
	for i, source := range kv.FileSources {
		ref := source
		if _, file, keyed := strings.Cut(source, "="); keyed && !remote.MatchString(source) &&
			!looksRemote.MatchString(source) {
			ref = file
		}
		s.addFile(ref, at.at("%sfiles[%d]", field, i))
	}
	for i, ref := range kv.EnvSources {
		s.addFile(ref, at.at("%senvs[%d]", field, i))
	}
}

// read reads a file that the kustomization may read. The library reads files only from the kustomization's own
// directory and below.
func (s *scan) read(ref string, at place) ([]byte, error) {
	full, found, err := locate(s.walker.tree, s.dir, ref, at)
	if err != nil {
		return nil, err
	}
	return s.readFound(full, found, ref, at)
}

// readFound reads a file that locate found, and adds it to the files of the build.
func (s *scan) readFound(full string, found fs.FileInfo, ref string, at place) ([]byte, error) {
	switch {
	case found.IsDir():
		return nil, at.refuse(ref, "is a directory: name a file")
	case !s.walker.anyFile && !within(s.dir, full):
		return nil, at.refuse(ref,
			"is outside of the kustomization's directory %s: Kustomize allows only directories there; move the file, or make a base of it and list that under resources", s.dir)
	}
	data, err := s.walker.tree.ReadFile(full)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", at.where(ref), at.field, err)
	}
	if len(data) > s.walker.budget.Bytes {
		return nil, at.refuse(ref, "is too large: %v", &manifest.BudgetError{
			What: "bytes", Have: len(data),
			Max: s.walker.budget.Bytes,
		})
	}
	s.out.files = append(s.out.files, full)
	s.out.bytes = min(s.out.bytes+len(data), maxFactor*s.walker.budget.Bytes+1)
	return data, nil
}

// addFile adds a file that the library does not parse.
func (s *scan) addFile(ref string, at place) {
	if !s.full() {
		_, err := s.read(ref, at)
		s.fail(err)
	}
}

// addYAML adds a file that the library parses as YAML.
func (s *scan) addYAML(ref string, at place) error {
	_, err := s.readYAML(ref, at)
	return err
}

// readYAML reads a file that the library parses as YAML.
func (s *scan) readYAML(ref string, at place) ([]byte, error) {
	data, err := s.read(ref, at)
	if err != nil {
		return nil, err
	}
	return data, s.checkYAML(data, ref, at)
}

// checkYAML refuses a file that is too large to parse, or a pointer of Git LFS.
func (s *scan) checkYAML(data []byte, ref string, at place) error {
	err := manifest.Check(data, s.walker.budget)
	switch {
	case errors.Is(err, manifest.ErrPointer):
		return at.refuse(ref, "%w", err)
	case err != nil:
		return at.refuse(ref, "exceeds a limit: %w", err)
	}
	return nil
}

// checkText checks YAML that is embedded in a field.
func (s *scan) checkText(data []byte, at place) error {
	if err := manifest.Check(data, s.walker.budget); err != nil {
		return fmt.Errorf("%s: %s: %w", at.file, at.field, err)
	}
	return nil
}

// resource adds a file or a base.
func (s *scan) resource(ref string, at place) error {
	full, found, err := locate(s.walker.tree, s.dir, ref, at)
	if err != nil {
		return err
	}
	if found.IsDir() {
		return s.addChild(full, ref, at, false)
	}
	data, err := s.readFound(full, found, ref, at)
	if err != nil {
		return err
	}
	return s.checkYAML(data, ref, at)
}

// component adds a directory with a component.
func (s *scan) component(ref string, at place) error {
	full, found, err := locate(s.walker.tree, s.dir, ref, at)
	if err != nil {
		return err
	}
	if !found.IsDir() {
		return at.refuse(ref, "is a file: name the component's directory")
	}
	return s.addChild(full, ref, at, true)
}

// addChild adds a reference to another kustomization.
func (s *scan) addChild(full, ref string, at place, component bool) error {
	for part := range strings.SplitSeq(ref, "/") {
		if part != ".." && strings.Contains(part, "..") {
			return at.refuse(ref, "has `..` inside a name, which Kustomize refuses: rename the directory, or separate two entries of the list")
		}
	}
	s.out.children = append(s.out.children, child{dir: full, ref: ref, component: component, at: at})
	return nil
}

// strategicPatch adds a strategic merge patch or the file of one. It distinguishes them as the library does.
func (s *scan) strategicPatch(ref string, at place) error {
	if _, inline, err := s.inline(ref, at); err != nil || inline {
		return err
	}
	return s.addYAML(ref, at)
}

// inline returns the objects that a text holds; false if the library would treat it as a path.
func (s *scan) inline(text string, at place) ([]*resource.Resource, bool, error) {
	if remote.MatchString(text) { // the library treats a text without objects as a path or an address
		_, _, err := locate(s.walker.tree, s.dir, text, at)
		return nil, false, err
	}
	if err := s.checkText([]byte(text), at); err != nil {
		return nil, false, err
	}
	objects, err := provider.NewDepProvider().GetResourceFactory().SliceFromBytes([]byte(text))
	if err != nil {
		if strings.Contains(text, "\n") {
			return nil, false, fmt.Errorf("%s: %s: is neither a path nor a list of objects: %w", at.file, at.field, err)
		}
		return nil, false, nil
	}
	return objects, true, nil
}

// strategicTexts returns the entries of a list of strategic merge patches as strings.
func strategicTexts(patches []types.PatchStrategicMerge) []string {
	out := make([]string, len(patches))
	for i, p := range patches {
		out[i] = string(p)
	}
	return out
}
