package flux

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"go.yaml.in/yaml/v3"
	kustypes "sigs.k8s.io/kustomize/api/types"
	kyaml "sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/internal/treefs"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Root is a directory that Flux applies on a cluster before anything else: the path of a FluxInstance, the directory
// that `flux bootstrap` has set up, or one whose Kustomizations no other Kustomization reaches.
type Root struct {
	Cluster     string // a name made of the path; several roots can have the same
	Environment string // a name made of the path clusters/<environment>/<cluster>; "" if the path has none
	Path        string
	Origin      Origin // of what makes the directory a root
	// Installed is what the files say about the version of Flux on the cluster, in their order.
	Installed []Installed
}

// Detect finds the roots of a repository, by path. It fails if a file cannot be read.
//
// It builds nothing: it follows spec.path of Kustomizations and the files that kustomizations name. A path that a
// variable or a template completes reaches every directory that it can mean.
func (i *Importer) Detect() ([]Root, error) {
	s, err := newSurvey(i)
	if err != nil {
		return nil, err
	}
	s.find()
	var out []Root
	versions := s.versions()
	for _, dir := range slices.Sorted(maps.Keys(s.roots)) {
		name, environment := clusterName(dir)
		out = append(out, Root{
			Cluster: name, Environment: environment, Path: dir, Origin: s.roots[dir], Installed: versions[dir],
		})
	}
	return out, nil
}

// applying is a Kustomization object, as Detect needs it.
type applying struct {
	Name, Namespace string
	Path            string // as it is written; "" for the source's root
	Components      []string
	Source          string // its kind and name
	Remote          bool   // it is for another cluster
	Line            int
}

// sourceName is the text of applying.Source.
func sourceName(kind, name string) string { return kind + "/" + name }

// applications finds the Kustomization objects of a file, and the names of the sources in it. Patches of Kustomizations
// are left out: they name no source. A file that does not decode has none.
func applications(data []byte) (out []applying, sources []string) {
	if !bytes.Contains(data, []byte(".toolkit.fluxcd.io")) || manifest.Check(data, manifest.DefaultBudget()) != nil {
		return nil, nil
	}
	add := func(o *appliedObject, line int) {
		switch manifest.GroupOf(o.APIVersion) {
		case groupSource:
			sources = append(sources, sourceName(o.Kind, o.Metadata.Name))
		case groupKustomize:
			if o.Kind != kindKustomization || o.Spec.SourceRef.Kind == "" {
				return
			}
			out = append(out, applying{
				Name: o.Metadata.Name, Namespace: o.Metadata.Namespace, Path: o.Spec.Path,
				Components: o.Spec.Components,
				Source:     sourceName(o.Spec.SourceRef.Kind, o.Spec.SourceRef.Name),
				Remote:     o.Spec.KubeConfig.Kind != 0,
				Line:       line,
			})
		}
	}
	for node := range documents(data) {
		var o appliedObject
		if node.Decode(&o) != nil {
			continue
		}
		line := node.Content[0].Line
		if add(&o, line); manifest.GroupOf(o.APIVersion) != groupOperator {
			continue
		}
		for n := range o.Spec.Resources { // of a ResourceSet
			add(&o.Spec.Resources[n], line)
		}
		for text := range strings.SplitSeq(o.Spec.ResourcesTemplate, "\n---") {
			var inner appliedObject
			if yaml.Unmarshal([]byte(text), &inner) == nil { // with its templates, a text need not be YAML
				add(&inner, line)
			}
		}
	}
	return out, sources
}

// appliedObject has the fields of an object that Detect reads.
type appliedObject struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"metadata"`
	Spec struct {
		Path       string   `yaml:"path"`
		Components []string `yaml:"components"`
		SourceRef  struct {
			Kind string `yaml:"kind"`
			Name string `yaml:"name"`
		} `yaml:"sourceRef"`
		KubeConfig        yaml.Node       `yaml:"kubeConfig"`
		Resources         []appliedObject `yaml:"resources"`
		ResourcesTemplate string          `yaml:"resourcesTemplate"`
	} `yaml:"spec"`
}

// survey is what Detect knows of a commit.
type survey struct {
	*Importer
	artifact *artifact
	facts    map[string]facts           // by file
	files    []string                   // that have Kustomizations
	closures map[string][]string        // see closure; by directory and components
	parents  map[string][]string        // directories whose kustomizations name a path, by the path; see topDirs
	roots    map[string]Origin          // that were found
	within   map[string]map[string]bool // files that a root reaches, by root
	reached  map[string]bool            // files that the roots reach
}

func newSurvey(i *Importer) (*survey, error) {
	a, err := i.repository(i.commit, &sourcev1.GitRepositorySpec{})
	if err != nil {
		return nil, err
	}
	s := &survey{
		Importer: i, artifact: a, facts: map[string]facts{}, closures: map[string][]string{},
		roots: map[string]Origin{}, within: map[string]map[string]bool{}, reached: map[string]bool{},
	}
	for _, name := range i.commit.files {
		if !isYAML(name) {
			continue
		}
		found, err := i.factsOf(name)
		if err != nil {
			return nil, err
		}
		s.facts[name] = found
		if len(found.Applies) > 0 {
			s.files = append(s.files, name)
		}
	}
	slices.Sort(s.files)
	return s, nil
}

func isYAML(name string) bool {
	ext := path.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// find looks for roots by one rule after the other, the certain ones first. The rules for repositories without the
// layouts of Flux's documentation count only if the others find nothing.
func (s *survey) find() {
	for _, name := range s.commit.files { // what a FluxInstance says needs no rule
		for _, sync := range s.facts[name].Syncs {
			for _, dir := range s.directories(sync.Path) {
				s.addRoot(dir, sourceName(sync.Kind, sync.Name), Origin{File: name, Line: sync.Line})
			}
		}
	}
	s.addBy(s.bootstrapped)
	s.addBy(s.amongClusters)
	if len(s.roots) > 0 {
		return
	}
	s.addBy(s.applyingItself)
	s.addBy(s.applyingOthers)
	if len(s.roots) == 0 {
		s.addBy(s.applyingAny)
	}
}

// addBy adds the roots that a rule finds. It asks the rule for the directories of every Kustomization that no root
// reaches yet. A directory becomes a root unless it is in a root, or another directory of the rule reaches it. If two
// directories reach each other, the one with the shorter path becomes the root.
func (s *survey) addBy(rule func(name string, k *applying) []string) {
	type candidate struct {
		dir, source string
		origin      Origin
		reaches     map[string]bool
	}
	var found []candidate
	seen := map[string]bool{}
	for _, name := range s.files {
		if s.reached[name] {
			continue
		}
		for n := range s.facts[name].Applies {
			k := &s.facts[name].Applies[n]
			if k.Remote {
				continue
			}
			for _, dir := range rule(name, k) {
				if !seen[dir] && !s.inRoot(dir) {
					seen[dir] = true
					origin := Origin{File: name, Line: k.Line}
					found = append(found, candidate{dir, k.Source, origin, s.reach(dir, k.Source)})
				}
			}
		}
	}
	depth := func(dir string) int { return strings.Count(dir, "/") }
	for n := range found {
		c := &found[n]
		if !slices.ContainsFunc(found, func(other candidate) bool {
			return other.dir != c.dir && s.reachesDir(other.reaches, c.dir) &&
				(!s.reachesDir(c.reaches, other.dir) || depth(other.dir) < depth(c.dir))
		}) {
			s.addRoot(c.dir, c.source, c.origin)
		}
	}
}

// inRoot reports whether a directory is in a root that was found.
func (s *survey) inRoot(dir string) bool {
	for root := range s.roots {
		if dir == root || strings.HasPrefix(dir, root+"/") {
			return true
		}
	}
	return false
}

// reachesDir reports whether all Kustomizations directly in a directory, or the kustomization of the directory, are
// among files that are reached.
func (s *survey) reachesDir(reached map[string]bool, dir string) bool {
	if file, ok := kustomizationFile(s.artifact, dir); ok {
		return reached[file]
	}
	found := false
	for _, name := range s.files {
		if strings.HasPrefix(name, dir+"/") {
			if found = true; !reached[name] {
				return false
			}
		}
	}
	return found
}

// addRoot registers a root and the files that it reaches.
func (s *survey) addRoot(dir, source string, origin Origin) {
	if _, ok := s.roots[dir]; ok {
		return
	}
	s.roots[dir], s.within[dir] = origin, s.reach(dir, source)
	maps.Copy(s.reached, s.within[dir])
}

// bootstrapped is the rule of `flux bootstrap`: a Kustomization applies the directory that it is written in, from the
// source that it is named after, or that is written in this directory too. One that only names its own directory is set
// up by something else.
func (s *survey) bootstrapped(name string, k *applying) []string {
	dir := clean(k.Path)
	if dir == "." || !selfNaming(name, k) {
		return nil
	}
	if _, source, _ := strings.Cut(k.Source, "/"); source == k.Name {
		return []string{dir}
	}
	for file := range s.reach(dir, k.Source) {
		if strings.HasPrefix(file, dir+"/") && slices.Contains(s.facts[file].Sources, k.Source) {
			return []string{dir}
		}
	}
	return nil
}

// selfNaming reports whether a Kustomization applies the directory that it is written in.
func selfNaming(file string, k *applying) bool {
	dir := clean(k.Path)
	return dir == "." || strings.HasPrefix(file, dir+"/")
}

// amongClusters is the rule of clusters/<name> and clusters/<environment>/<name>, the layouts of Flux's documentation.
// A repository whose clusters were not set up by `flux bootstrap` has no Kustomization that applies these directories.
func (s *survey) amongClusters(name string, _ *applying) []string {
	var out []string
	for _, dir := range s.topDirs(name) {
		parts := strings.Split(dir, "/")
		for len(parts) > 2 && slices.Contains(generic(), parts[len(parts)-1]) && parts[len(parts)-2] != "clusters" {
			parts = parts[:len(parts)-1]
		}
		if at := slices.Index(parts, "clusters"); at >= 0 && at < len(parts)-1 {
			out = append(out, strings.Join(parts, "/"))
		}
	}
	return out
}

// applyingItself is the rule of a Kustomization that was created by hand: it applies the directory that it is written
// in, with other Kustomizations.
func (s *survey) applyingItself(name string, k *applying) []string {
	dir := clean(k.Path)
	if dir == "." || !selfNaming(name, k) {
		return nil
	}
	for file := range s.reach(dir, k.Source) {
		if file != name && len(s.facts[file].Applies) > 0 {
			return []string{dir}
		}
	}
	return nil
}

// applyingOthers is the rule of a repository without the layout of the documentation: a directory that applies
// Kustomizations of other directories.
func (s *survey) applyingOthers(name string, k *applying) []string {
	return slices.DeleteFunc(s.topDirs(name), func(dir string) bool {
		for file := range s.reach(dir, k.Source) {
			if len(s.facts[file].Applies) > 0 && !strings.HasPrefix(file, dir+"/") {
				return false
			}
		}
		return true
	})
}

// applyingAny is the last rule: a directory from which a Kustomization is built that applies another directory.
func (s *survey) applyingAny(name string, k *applying) []string {
	if selfNaming(name, k) {
		return nil
	}
	return s.topDirs(name)
}

// generic are names of directories that say what a directory holds, and not which cluster it is for.
func generic() []string {
	return []string{
		"flux", "flux-system", "cluster", "clusters", "config", "bootstrap", "apps", "infra",
		"infrastructure", "kubernetes",
	}
}

// topDirs returns the directories from which a file is built: those whose kustomizations name it, directly or through
// others, and which none names. It is the file's own directory if no kustomization names the file.
func (s *survey) topDirs(name string) []string {
	if s.parents == nil {
		s.parents = map[string][]string{}
		for _, over := range slices.Sorted(maps.Keys(s.artifact.dirs)) {
			if file, ok := kustomizationFile(s.artifact, over); ok {
				for _, to := range s.named(file) {
					full := path.Join(over, to)
					s.parents[full] = append(s.parents[full], over)
				}
			}
		}
	}
	var out []string
	queue, seen := slices.Clone(s.parents[name]), map[string]bool{}
	for ; len(queue) > 0; queue = queue[1:] {
		if dir := queue[0]; !seen[dir] {
			seen[dir] = true
			if len(s.parents[dir]) == 0 {
				out = append(out, dir)
			}
			queue = append(queue, s.parents[dir]...)
		}
	}
	if len(out) == 0 {
		return []string{path.Dir(name)}
	}
	return out
}

// named returns the files and directories that a kustomization names as its parts.
func (s *survey) named(file string) []string {
	data, err := s.artifact.ReadFile(file)
	if err != nil || manifest.Check(data, manifest.DefaultBudget()) != nil {
		return nil
	}
	var k kustypes.Kustomization
	if kyaml.Unmarshal(data, &k) != nil {
		return nil // whoever builds it reports it
	}
	return slices.Concat(k.Resources, k.Components, k.Bases) //nolint:staticcheck // Kustomize reads it still
}

// reach returns the files that a root reaches. source is what it is applied from.
func (s *survey) reach(dir, source string) map[string]bool {
	out := map[string]bool{}
	queue, seen := []applying{{Path: dir, Source: source}}, map[string]bool{}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, to := range s.directories(at.Path) {
			if to == "." && at.Source != source { // a path in another repository, most likely
				continue
			}
			key := to + "\x00" + strings.Join(at.Components, "\x00")
			if seen[key] {
				continue
			}
			seen[key] = true
			for _, file := range s.closure(to, at.Components) {
				out[file] = true
				for _, k := range s.facts[file].Applies {
					if !k.Remote {
						queue = append(queue, k)
					}
				}
			}
		}
	}
	return out
}

// closure returns the files that the build of a directory reads; all files below a directory that cannot be built.
func (s *survey) closure(dir string, components []string) []string {
	key := dir + "\x00" + strings.Join(components, "\x00")
	if known, ok := s.closures[key]; ok {
		return known
	}
	names, buildable := []string(nil), false
	if name, data, err := generated(s.artifact, dir, &kustomizev1.KustomizationSpec{
		Path: dir, Components: components,
		IgnoreMissingComponents: true,
	}); err == nil {
		names, err = kustomize.NewWalker(treefs.NewOverlay(s.artifact, map[string][]byte{name: data}),
			manifest.DefaultBudget()).AnyFile().Closure(dir)
		buildable = err == nil
	}
	if !buildable {
		for name := range s.artifact.files {
			if dir == "." || strings.HasPrefix(name, dir+"/") {
				names = append(names, name)
			}
		}
	}
	s.closures[key] = names
	return names
}

// directories returns the directories of the repository that a path of a Kustomization means.
func (s *survey) directories(written string) []string {
	pattern := pathPattern(written)
	if pattern == nil {
		if dir := clean(written); s.artifact.isDir(dir) {
			return []string{dir}
		}
		return nil
	}
	var out []string
	for dir := range s.artifact.dirs {
		if pattern.MatchString(dir) {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return out
}

// placeholder is a variable of a Kustomization's postBuild or an expression of a ResourceSet.
var placeholder = regexp.MustCompile(`\$\{[^}]*\}|<<.*?>>|\{\{.*?\}\}`)

// noPath matches no directory.
var noPath = regexp.MustCompile(`^$`)

// pathPattern matches the directories that a path with placeholders can mean; nil for a path without.
func pathPattern(written string) *regexp.Regexp {
	if !placeholder.MatchString(written) {
		return nil
	}
	const mark = "\x00"
	text := regexp.QuoteMeta(clean(placeholder.ReplaceAllString(written, mark)))
	if strings.Trim(text, mark+"/") == "" {
		return noPath // it could be any directory
	}
	pattern, err := regexp.Compile("^" + strings.ReplaceAll(text, mark, `[^/]+`) + "$")
	if err != nil { // not possible: the rest of the text is quoted
		return noPath
	}
	return pattern
}

// selfApplying reports whether an object is a Kustomization that applies the directory it is written in, and gives the
// directory.
func selfApplying(o manifest.Object, file string) (string, bool) {
	k := keyOf(o)
	var ks kustomizev1.Kustomization
	if k.Group != groupKustomize || k.Kind != kindKustomization || decode(o, &ks) != nil ||
		!slices.Contains(sourceKinds(), ks.Spec.SourceRef.Kind) {
		return "", false
	}
	dir := clean(ks.Spec.Path)
	return dir, dir != "." && strings.HasPrefix(file, dir+"/")
}

// clusterName returns the last part of a path that is not generic, such as `main` for kubernetes/main/flux. A number
// gets the environment before it. The environment is that of clusters/<environment>/<cluster>; "" without one.
func clusterName(dir string) (name, environment string) {
	parts := strings.Split(strings.ToLower(dir), "/")
	end := len(parts) - 1
	for end > 0 && slices.Contains(generic(), parts[end]) {
		end--
	}
	name = parts[end]
	if end >= 2 && parts[end-2] == "clusters" {
		environment = parts[end-1]
		if strings.Trim(name, "0123456789") == "" {
			name = environment + "-" + name
		}
	}
	return name, environment
}
