package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

const (
	catalogDir  = "catalog"
	catalogFile = "catalog.yaml"
)

// CatalogApp is one version of an app of the catalog.
type CatalogApp struct {
	Name       string
	Spec       CatalogSpec
	File       string // in the fleet's tree
	Repository string // that has it; "" for the fleet's own

	dir     string
	schema  *parameterSchema // nil if it has a mistake
	sources []Source
	doc     document
}

// Version of the app of the catalog.
func (c *CatalogApp) Version() string { return string(c.Spec.Version) }

// String names the version, such as "catalog/postgres 3". No chart has such a name.
func (c *CatalogApp) String() string { return catalogDir + "/" + c.Name + " " + c.Version() }

// Place names the file for people.
func (c *CatalogApp) Place() string {
	if c.Repository == "" {
		return c.File
	}
	return strings.TrimPrefix(c.File, mounted(c.Repository, "")+"/") + " of repository " + c.Repository
}

// Parameter is a value that apps give to an app of the catalog.
type Parameter struct {
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"` // as JSON Schema names it; "" for any
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
	Default     any    `json:"default,omitempty"` // nil for none
	Allowed     []any  `json:"allowed,omitempty"` // nil for all values of the type
}

// Kind says for people what a value must be: a type, or the allowed values.
func (p Parameter) Kind() string {
	if len(p.Allowed) == 0 {
		return cmp.Or(p.Type, "any")
	}
	texts := make([]string, len(p.Allowed))
	for i, v := range p.Allowed {
		texts[i] = inJSON(v)
	}
	return strings.Join(texts, " or ")
}

// Preset says for people what holds without a value: the default, required, or nothing.
func (p Parameter) Preset() string {
	switch {
	case p.Default != nil:
		return "default " + inJSON(p.Default)
	case p.Required:
		return "required"
	}
	return ""
}

// inJSON returns a value that came from YAML on one line.
func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // a number that JSON does not have
		return fmt.Sprint(v)
	}
	return string(text)
}

// Parameters returns the parameters at the top of the schema, by name.
func (c *CatalogApp) Parameters() []Parameter {
	properties, _ := c.Spec.Parameters["properties"].(map[string]any) // nil if there are none
	required, _ := c.Spec.Parameters["required"].([]any)
	out := []Parameter{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p := Parameter{Name: name, Required: slices.Contains(required, any(name))}
		if s, ok := properties[name].(map[string]any); ok {
			p.Type, _ = s["type"].(string) // a list of types is shown as any
			p.Description, _ = s["description"].(string)
			p.Allowed, _ = s["enum"].([]any)
			p.Default = s["default"]
		}
		out = append(out, p)
	}
	return out
}

// inAny reports whether the version or one of its sources is in one of some repositories.
func (c *CatalogApp) inAny(repositories map[string]bool) bool {
	return c != nil && (repositories[c.Repository] || slices.ContainsFunc(c.sources, func(s Source) bool {
		return repositories[s.repository()]
	}))
}

// holds reports whether a file of the fleet's tree is a part of what the version is made of.
func (c *CatalogApp) holds(name string) bool {
	if c == nil {
		return false
	}
	if within(c.dir, name) {
		return true
	}
	return slices.ContainsFunc(c.sources, func(s Source) bool {
		return slices.ContainsFunc(s.paths(), func(p sourcePath) bool { return within(mounted(*p.repository, path.Clean(*p.path)), name) })
	})
}

// equal reports whether two versions render the same with the same files; nil equals only nil.
func (c *CatalogApp) equal(other *CatalogApp) bool {
	if c == nil || other == nil {
		return c == other
	}
	return c.dir == other.dir && reflect.DeepEqual(c.sources, other.sources)
}

// sameCatalog reports whether two versions are equal without a comparison, because they were decoded once.
func sameCatalog(x, y *CatalogApp) bool {
	return x == y || x != nil && y != nil && x.doc.root == y.doc.root && x.doc.root != nil
}

// dirs are the folders whose layers are the app's own.
func (a *App) dirs() []string {
	var out []string
	if a.Dir != "" {
		out = append(out, a.Dir)
	}
	if a.catalog != nil {
		out = append(out, a.catalog.dir)
	}
	return out
}

// From returns the version of the catalog's app that the app is; nil if it is none.
func (a *App) From() *CatalogApp { return a.catalog }

// catalogFrom reads the catalog of the fleet, and those of spec.catalog.
func (l *loader) catalogFrom(own []document) {
	for _, doc := range own {
		l.catalogApp(doc, "")
	}
	for i, from := range l.fleet.Spec.Catalog {
		at := []string{"spec", "catalog", fmt.Sprint(i)}
		before := len(l.problems)
		sourceChecks{findings: l.findings, fleet: l.fleet}.mounted(l.file, append(slices.Clone(at), "repository"), from.Repository)
		if leavesRepository(from.Path) {
			l.errorf(l.file, append(slices.Clone(at), "path"), "a folder of the repository", "the path %q leaves the repository",
				from.Path)
		}
		if len(l.problems) == before {
			l.mountedCatalog(from, at)
		}
	}
	slices.SortFunc(l.fleet.Catalog, func(a, b *CatalogApp) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), compareVersions(a.Version(), b.Version()))
	})
}

// misplacedCatalog warns about files of Sluice's in the folder of the catalog that nothing reads.
func (l *loader) misplacedCatalog(ctx context.Context) {
	var globs []glob
	for _, text := range []string{"/*.yaml", "/*.yml", "/*/*.yaml", "/*/*.yml", "/*/*/catalog.yml"} {
		if g, err := parseGlob(catalogDir + text); err == nil { // the patterns are constants
			globs = append(globs, g)
		}
	}
	names, err := walkGlobs(ctx, l.tree, globs)
	if err != nil {
		return // nothing needs these files
	}
	for _, name := range names[:min(len(names), maxUnread)] {
		if data, err := l.tree.ReadFile(name); err == nil && bytes.Contains(data, []byte("apiVersion: sluice.dev/")) {
			l.warnf(document{file: name}, nil, "the catalog is in catalog/NAME/VERSION/catalog.yaml", "%s is not read", name)
		}
	}
}

// mountedCatalog reads a catalog of another repository. If that cannot be read, the apps that use it fail, and no others.
func (l *loader) mountedCatalog(from CatalogFrom, at []string) {
	if err := l.fleet.unavailable[from.Repository]; err != nil {
		l.warnf(l.file, at, "the apps that use it cannot be rendered until it can be read", "catalog: repository %s cannot be read: %v",
			from.Repository, err)
		return
	}
	root := mounted(from.Repository, from.folder())
	names, err := fs.ReadDir(l.fleet.tree, root)
	if errors.Is(err, fs.ErrNotExist) {
		l.errorf(l.file, at, "correct the path", "catalog: repository %s has no folder %s", from.Repository, from.folder())
		return
	}
	for _, name := range names {
		if err != nil || !name.IsDir() {
			continue
		}
		var versions []fs.DirEntry
		versions, err = fs.ReadDir(l.fleet.tree, path.Join(root, name.Name()))
		for _, version := range versions {
			file := path.Join(root, name.Name(), version.Name(), catalogFile)
			if !version.IsDir() || !l.fleet.Has(file) {
				continue
			}
			data, err := readBounded(l.fleet.tree, file)
			if err != nil {
				l.errorf(l.file, at, "", "catalog: %s of repository %s cannot be read: %v", file, from.Repository, readError(err))
				continue
			}
			decoded := decodeFile(file, data)
			l.problems = append(l.problems, decoded.problems...)
			for _, doc := range decoded.documents {
				l.catalogApp(doc, from.Repository)
			}
		}
	}
	if err != nil {
		l.errorf(l.file, at, "run it again", "catalog: repository %s cannot be listed: %v", from.Repository, err)
	}
}

func (c CatalogFrom) folder() string { return path.Clean(cmp.Or(c.Path, catalogDir)) }

// catalogApp adds one version.
func (l *loader) catalogApp(doc document, repository string) {
	file, ok := doc.value.(*CatalogFile)
	if !ok {
		l.errorf(doc, []string{"kind"}, "move it", "only CatalogApp belongs here")
		return
	}
	if !l.checkName(doc, file.Metadata.Name, "metadata", "name") {
		return
	}
	c := &CatalogApp{
		Name: file.Metadata.Name, Spec: file.Spec, File: doc.file, Repository: repository, dir: dirOf(doc.file), doc: doc,
	}
	if want := path.Join(c.Name, c.Version(), catalogFile); !strings.HasSuffix("/"+doc.file, "/"+want) {
		l.errorf(doc, []string{"metadata", "name"}, "move the file, or correct name and version", "version %s of %s belongs into %s",
			c.Version(), c.Name, path.Join(path.Dir(path.Dir(path.Dir(doc.file))), want))
		return
	}
	if first := l.fleet.catalogApp(c.Name, c.Spec.Version); first != nil {
		l.errorf(doc, []string{"spec", "version"}, "rename one", "version %s of %s is also in %s", c.Version(), c.Name,
			place(first.doc))
		return
	}
	if c.Version() == "" || !validLabelValue(c.Version()) {
		l.errorf(doc, []string{"spec", "version"}, "letters, digits, -, _ and ., at most 63", "%q cannot be a version", c.Version())
		return
	}
	c.sources = l.catalogSources(c)
	var err error
	at := []string{"spec", "parameters"}
	if c.schema, err = compileParameters(c.Spec.Parameters); err != nil {
		l.errorf(doc, at, "a JSON schema of an object, with properties", "%v", err)
	} else {
		for _, p := range c.schema.presets() {
			l.errorf(doc, append(append(at, "properties"), p.at...), "correct the default or the schema", "the default of %s: %s",
				strings.Join(p.at, "."), p.text)
		}
	}
	l.fleet.Catalog = append(l.fleet.Catalog, c)
}

// catalogSources checks the sources, and makes their paths those of the catalog's repository.
func (l *loader) catalogSources(c *CatalogApp) []Source {
	many, at := c.Spec.Sources, []string{"spec", "sources"}
	switch one := c.Spec.Source; {
	case one != nil && len(many) > 0:
		l.errorf(c.doc, at, "keep one of them", "spec has both source and sources")
		return nil
	case one != nil:
		many, at = []Source{*one}, []string{"spec", "source"}
	case len(many) == 0:
		l.errorf(c.doc, []string{"spec"}, "source: {helm: …} or {kustomize: …} or {manifests: …}", "the app has no source")
	}
	checks := sourceChecks{findings: l.findings, fleet: l.fleet}
	var out []Source
	for i, s := range many {
		s = s.clone()
		s.shared = true
		place := at
		if c.Spec.Source == nil {
			place = append(slices.Clone(at), fmt.Sprint(i))
		}
		checks.check(c.doc, &s, place)
		if s.Helm != nil && s.Helm.VersionFrom != nil {
			l.errorf(c.doc, place, "write version", "versionFrom cannot be in a catalog")
		}
		l.fixedPlaces(c, &s, place)
		for _, p := range s.paths() {
			if *p.repository != "" {
				continue
			}
			*p.repository = c.Repository
			*p.path = cmp.Or(*p.path, strings.TrimPrefix(c.dir, mounted(c.Repository, "")+"/"))
		}
		out = append(out, s)
	}
	return out
}

// fixedPlaces refuses sources whose place an app could choose: an app of a workspace may read them.
func (l *loader) fixedPlaces(c *CatalogApp, s *Source, at []string) {
	var texts []string
	if s.Helm != nil {
		texts = append(texts, s.Helm.Chart, s.Helm.Repo)
	}
	for _, p := range s.paths() {
		texts = append(texts, *p.path)
	}
	for _, text := range texts {
		if strings.Contains(text, "${") {
			l.errorf(c.doc, at, "declare several versions", "the place of a source of the catalog cannot have references: %.100q", text)
		}
	}
}

// sourcePath is where a source is, if it is no chart from elsewhere.
type sourcePath struct{ repository, path *string }

func (s *Source) paths() []sourcePath {
	switch {
	case s.Helm != nil && s.Helm.Chart == "":
		return []sourcePath{{&s.Helm.Repository, &s.Helm.Path}}
	case s.Kustomize != nil:
		return []sourcePath{{&s.Kustomize.Repository, &s.Kustomize.Path}}
	case s.Manifests != nil:
		return []sourcePath{{&s.Manifests.Repository, &s.Manifests.Path}}
	}
	return nil
}

func (f *Fleet) catalogApp(name string, version CatalogVersion) *CatalogApp {
	i := slices.IndexFunc(f.Catalog, func(c *CatalogApp) bool { return c.Name == name && c.Spec.Version == version })
	if i < 0 {
		return nil
	}
	return f.Catalog[i]
}

// fromCatalog makes an app that has spec.from what the catalog says.
func (l *loader) fromCatalog(a *App) {
	from := a.Spec.From
	if from == nil {
		return
	}
	at := func(parts ...string) []string { return append([]string{"spec", "from"}, parts...) }
	own := a.Spec.Source != nil || len(a.Spec.Sources) > 0
	for _, e := range a.Spec.Environments {
		own = own || e.Source != nil || len(e.Sources) > 0
	}
	if own {
		l.errorf(a.doc, at(), "remove from, or the app's own source and sources", "the app has both from and a source of its own")
		return
	}
	c := l.fleet.catalogApp(from.Catalog, from.Version)
	if c == nil {
		l.notInCatalog(a, from, at)
		return
	}
	a.catalog = c
	a.Spec.Helm, a.Spec.Unstable = cmp.Or(a.Spec.Helm, c.Spec.Helm), cmp.Or(a.Spec.Unstable, c.Spec.Unstable)
	for _, s := range c.sources {
		if s.Helm != nil {
			checks := sourceChecks{findings: l.findings, fleet: l.fleet, workspace: a.workspace}
			checks.release(a.doc, cmp.Or(s.Helm.ReleaseName, a.localName()))
		}
	}
	if c.Spec.Deprecated != "" {
		l.warnf(a.doc, at("version"), "move to another version", "version %s of %s is deprecated: %s", c.Version(), c.Name,
			c.Spec.Deprecated)
	}
	if c.schema == nil {
		return // reported
	}
	if text := firstReference(from.Values); text != "" {
		l.errorf(a.doc, at("values"), "write it into a values file of the app's layers",
			"the values of %s have the reference %s, which is not replaced there", c.Name, text)
	}
	for _, p := range l.parameters.check(c.schema, from.Values) {
		l.errorf(a.doc, append(at("values"), p.at...), "parameters: "+c.parameterNames(), "%s of %s %s: %s",
			strings.Join(append([]string{"values"}, p.at...), "."), c.Name, c.Version(), p.text)
	}
	vars := maps.Clone(c.Spec.Vars)
	if vars == nil {
		vars = map[string]any{}
	}
	for _, more := range []map[string]any{a.Spec.Vars, c.schema.complete(from.Values)} {
		for _, name := range slices.Sorted(maps.Keys(more)) {
			if _, taken := vars[name]; taken {
				l.errorf(a.doc, []string{"spec", "vars", name}, "rename it", "%s of the catalog has the variable %s, too", c.Name, name)
			}
			vars[name] = more[name]
		}
	}
	a.Spec.Vars = vars
}

func (c *CatalogApp) parameterNames() string {
	var names []string
	for _, p := range c.Parameters() {
		names = append(names, p.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// firstReference returns a reference in the strings of a value; "" if there is none.
func firstReference(v any) string {
	switch v := v.(type) {
	case string:
		segments, err := parseReferences(v)
		for _, s := range segments {
			if err == nil && s.ref != nil {
				return s.ref.text
			}
		}
	case []any:
		for _, one := range v {
			if text := firstReference(one); text != "" {
				return text
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text := firstReference(v[name]); text != "" {
				return text
			}
		}
	}
	return ""
}

// notInCatalog reports a version that does not exist. If a catalog cannot be read, only the app's own targets fail.
func (l *loader) notInCatalog(a *App, from *FromCatalog, at func(...string) []string) {
	for _, c := range l.fleet.Spec.Catalog {
		if l.fleet.unavailable[c.Repository] != nil {
			dir := path.Join(c.folder(), from.Catalog)
			a.catalog = &CatalogApp{
				Name: from.Catalog, Spec: CatalogSpec{Version: from.Version}, Repository: c.Repository, dir: mounted(c.Repository, dir),
				sources: []Source{{shared: true, Manifests: &PathSource{Repository: c.Repository, Path: dir}}},
			}
			return
		}
	}
	var names, versions []string
	for _, c := range l.fleet.Catalog {
		names = append(names, c.Name)
		if c.Name == from.Catalog {
			versions = append(versions, c.Version())
		}
	}
	if len(versions) > 0 {
		l.errorf(a.doc, at("version"), "one of "+strings.Join(versions, ", "), "the catalog has no version %s of %s", from.Version,
			from.Catalog)
		return
	}
	hint := "catalog/NAME/VERSION/catalog.yaml declares one"
	if len(l.fleet.Spec.Import) > 0 {
		hint = "a fleet with spec.import has catalogs of other repositories only: spec.catalog names them"
	}
	l.errorf(a.doc, at("catalog"), hint, "the catalog has no %s%s", from.Catalog,
		nearest.DidYouMean(from.Catalog, slices.Compact(names)))
}

// compareVersions orders versions by their numbers, then by their texts.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		if c := cmp.Or(cmp.Compare(len(as[i]), len(bs[i])), cmp.Compare(as[i], bs[i])); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(as), len(bs)), cmp.Compare(a, b))
}
