package kustomize

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Walker finds what Kustomize roots read in one tree. It remembers every directory, so that a base shared by a thousand
// overlays is looked at once. Safe for concurrent use.
type Walker struct {
	tree   Tree
	budget manifest.Budget

	mu   sync.Mutex
	dirs map[string]*directory
}

// NewWalker makes a walker for a tree. Every file that may be YAML is held against the budget.
func NewWalker(tree Tree, budget manifest.Budget) *Walker {
	return &Walker{tree: tree, budget: budget, dirs: map[string]*directory{}}
}

// directory is what one directory's kustomization reads by itself.
type directory struct {
	files    []string
	children []string
	openAPI  bool
	err      error
}

// Closure lists, sorted, every file that a build of root can read. The build of a bundle of just these files equals the
// build in the whole tree, and no other file can change it. An error names the kustomization, the field and the
// reference that is refused or missing.
func (w *Walker) Closure(root string) ([]string, error) {
	files, _, err := w.closure(root)
	return files, err
}

func (w *Walker) closure(root string) (files []string, openAPI bool, err error) {
	seen := map[string]bool{}
	found := map[string]bool{}
	var visit func(dir string, stack []string) error
	visit = func(dir string, stack []string) error {
		if slices.Contains(stack, dir) {
			return fmt.Errorf("%s: a cycle of kustomizations: %s", dir, strings.Join(append(stack, dir), " → "))
		}
		if seen[dir] {
			return nil
		}
		d := w.directory(dir)
		if d.err != nil {
			return d.err
		}
		openAPI = openAPI || d.openAPI
		for _, f := range d.files {
			found[f] = true
		}
		for _, child := range d.children {
			if err := visit(child, append(stack, dir)); err != nil {
				return err
			}
		}
		seen[dir] = true
		return nil
	}
	if err := visit(path.Clean(root), nil); err != nil {
		return nil, false, err
	}
	return slices.Sorted(maps.Keys(found)), openAPI, nil
}

func (w *Walker) directory(dir string) *directory {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d, ok := w.dirs[dir]; ok {
		return d
	}
	d := &directory{}
	d.err = w.read(dir, d)
	w.dirs[dir] = d
	return d
}

// FileNames are the names that a kustomization may have.
func FileNames() []string {
	return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
}

func (w *Walker) read(dir string, d *directory) error {
	var name string
	for _, candidate := range FileNames() {
		i, err := w.tree.Stat(path.Join(dir, candidate))
		if err != nil || i.IsDir() {
			continue
		}
		if !i.Mode().IsRegular() {
			return fmt.Errorf("%s is a link: links are not followed", path.Join(dir, candidate))
		}
		if name != "" {
			return fmt.Errorf("%s has both %s and %s: keep one", dir, path.Base(name), candidate)
		}
		name = path.Join(dir, candidate)
	}
	if name == "" {
		return fmt.Errorf("%s has no kustomization.yaml", dir)
	}
	data, err := w.tree.ReadFile(name)
	if err != nil {
		return err
	}
	if err := manifest.Check(data, w.budget); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var k types.Kustomization
	if err := k.Unmarshal(data); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	k.FixKustomization()
	d.files = append(d.files, name)
	s := scan{walker: w, dir: dir, out: d, at: place{file: name, data: data}}
	return s.kustomization(&k)
}

// scan follows the references of one kustomization.
type scan struct {
	walker *Walker
	dir    string
	out    *directory
	at     place
}

func (s scan) kustomization(k *types.Kustomization) error {
	if len(k.HelmCharts) > 0 || len(k.HelmChartInflationGenerator) > 0 || k.HelmGlobals != nil {
		return fmt.Errorf("%s: helmCharts are not taken: make the chart a source of the app", s.at.file)
	}
	s.out.openAPI = len(k.OpenAPI) > 0
	return errors.Join(
		s.each("resources", k.Resources, s.resource),
		s.each("components", k.Components, s.child),
		s.each("crds", k.Crds, s.file),
		s.each("configurations", k.Configurations, s.file),
		s.each("openapi.path", values(k.OpenAPI, "path"), s.file),
		s.each("generators", k.Generators, s.plugin),
		s.each("transformers", k.Transformers, s.plugin),
		s.each("validators", k.Validators, s.plugin),
		s.each("patches", patchPaths(k), s.file),
		s.each("patchesStrategicMerge", strategic(k), s.patch),
		s.each("replacements", replacementPaths(k), s.file),
		s.each("configMapGenerator/secretGenerator", generated(k), s.file),
	)
}

func (s scan) each(field string, refs []string, follow func(string, place) error) error {
	at := s.at
	at.field = field
	for _, ref := range refs {
		if err := follow(ref, at); err != nil {
			return err
		}
	}
	return nil
}

// file takes a reference to one file.
func (s scan) file(ref string, at place) error {
	full, i, err := locate(s.walker.tree, s.dir, ref, at)
	if err != nil {
		return err
	}
	if i.IsDir() {
		return at.errorf(ref, "is a directory: a file is needed here")
	}
	_, err = s.take(full)
	return err
}

func (s scan) take(full string) ([]byte, error) {
	data, err := s.walker.tree.ReadFile(full)
	if err != nil {
		return nil, err
	}
	if mayBeYAML(full) {
		if err := manifest.Check(data, s.walker.budget); err != nil {
			return nil, fmt.Errorf("%s: %w", full, err)
		}
	}
	s.out.files = append(s.out.files, full)
	return data, nil
}

// child takes a reference to a directory with a kustomization of its own.
func (s scan) child(ref string, at place) error {
	full, i, err := locate(s.walker.tree, s.dir, ref, at)
	if err != nil {
		return err
	}
	if !i.IsDir() {
		return at.errorf(ref, "is a file: a directory with a kustomization.yaml is needed here")
	}
	s.out.children = append(s.out.children, full)
	return nil
}

// resource takes a reference to either.
func (s scan) resource(ref string, at place) error {
	_, i, err := locate(s.walker.tree, s.dir, ref, at)
	if err != nil {
		return err
	}
	if i.IsDir() {
		return s.child(ref, at)
	}
	return s.file(ref, at)
}

// patch takes a path or the patch itself.
func (s scan) patch(ref string, at place) error {
	if inline(ref) {
		return manifest.Check([]byte(ref), s.walker.budget)
	}
	return s.file(ref, at)
}

// plugin takes the configuration of a built-in generator, transformer or validator: inline, a file, or a directory.
func (s scan) plugin(ref string, at place) error {
	if inline(ref) {
		return s.configuration([]byte(ref), at)
	}
	full, i, err := locate(s.walker.tree, s.dir, ref, at)
	if err != nil {
		return err
	}
	if i.IsDir() {
		return s.child(ref, at)
	}
	data, err := s.take(full)
	if err != nil {
		return err
	}
	at.file, at.data = full, data
	return s.configuration(data, at)
}

func (s scan) configuration(data []byte, at place) error {
	if err := manifest.Check(data, s.walker.budget); err != nil {
		return fmt.Errorf("%s: %w", at.file, err)
	}
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	for {
		var doc any
		if err := dec.Decode(&doc); err != nil {
			return nil //nolint:nilerr // the end, or no YAML: the library names the place
		}
		if err := s.pluginValue(doc, "", at); err != nil {
			return err
		}
	}
}

// pluginValue refuses functions and follows every path that a built-in plugin can read.
func (s scan) pluginValue(v any, key string, at place) error {
	switch x := v.(type) {
	case map[string]any:
		if x["kind"] == "HelmChartInflationGenerator" {
			return fmt.Errorf("%s: HelmChartInflationGenerator is not taken: make the chart a source of the app", at.file)
		}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if strings.HasPrefix(k, "config.kubernetes.io/function") || strings.HasPrefix(k, "config.k8s.io/function") {
				return fmt.Errorf("%s: exec and container functions are not taken: render what they make into files", at.file)
			}
			if err := s.pluginValue(x[k], k, at); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range x {
			if err := s.pluginValue(item, key, at); err != nil {
				return err
			}
		}
	case string:
		switch key {
		case "path", "files", "envs", "env", "paths":
			if strings.HasPrefix(x, "/") || strings.Contains(x, "\n") || key == "path" && looksLikeFieldPath(x) {
				return nil // a JSON pointer or a field path
			}
			at.field = key
			return s.file(afterKey(x), at)
		}
		if why := remote(x); why == "a URL" && key != "image" {
			return at.errorf(x, "is a URL in a plugin's configuration: only paths inside the repository are taken")
		}
	}
	return nil
}

// looksLikeFieldPath tells metadata/name and spec.replicas, which transformers call `path`, from files, which have an
// extension that Kustomize reads.
func looksLikeFieldPath(s string) bool {
	switch path.Ext(s) {
	case ".yaml", ".yml", ".json":
		return false
	}
	return remote(s) == ""
}

func inline(ref string) bool { return strings.Contains(ref, "\n") || strings.HasPrefix(ref, "{") }

func mayBeYAML(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func values(m map[string]string, key string) []string {
	if v, ok := m[key]; ok {
		return []string{v}
	}
	return nil
}

func patchPaths(k *types.Kustomization) []string {
	var out []string
	for _, p := range slices.Concat(k.Patches, k.PatchesJson6902) {
		if p.Path != "" {
			out = append(out, p.Path)
		}
	}
	return out
}

func strategic(k *types.Kustomization) []string {
	var out []string
	for _, p := range k.PatchesStrategicMerge {
		out = append(out, string(p))
	}
	return out
}

func replacementPaths(k *types.Kustomization) []string {
	var out []string
	for _, r := range k.Replacements {
		if r.Path != "" {
			out = append(out, r.Path)
		}
	}
	return out
}

func generated(k *types.Kustomization) []string {
	var out []string
	add := func(s types.KvPairSources) {
		for _, f := range s.FileSources {
			out = append(out, afterKey(f))
		}
		out = append(out, s.EnvSources...)
		if s.EnvSource != "" {
			out = append(out, s.EnvSource)
		}
	}
	for _, g := range k.ConfigMapGenerator {
		add(g.KvPairSources)
	}
	for _, g := range k.SecretGenerator {
		add(g.KvPairSources)
	}
	return out
}

// afterKey takes the path out of `key=path`.
func afterKey(s string) string {
	if _, file, ok := strings.Cut(s, "="); ok {
		return file
	}
	return s
}
