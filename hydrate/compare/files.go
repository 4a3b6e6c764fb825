package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// files returns the changed files that the change set shows nowhere: those that no known target reads and, if the
// change set is empty, those that targets read without an effect. It leaves out files that do not look like manifests,
// values, charts or kustomizations, and files in which only comments or the format change.
func (c *run) files(ctx context.Context) ([]diff.File, error) {
	if c.views[0] == nil {
		return nil, nil
	}
	claims, err := c.h.Claims(ctx, c.views[0], c.views[1])
	if err != nil {
		return nil, err
	}
	f := &changedFiles{run: c, reads: map[string]bool{}}
	for i, v := range c.views {
		f.trees[i] = v.Files(ctx)
		for _, t := range v.Fleet.Imports() {
			if t.Suspended {
				f.idle = append(f.idle, t)
				continue
			}
			f.reads[t.File] = true
			for _, name := range t.Reads {
				f.reads[name] = true
			}
		}
	}
	var out []diff.File
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		claim := claims[name]
		if claim != fleet.ClaimedByNothing && !c.out.Changes.Empty() || !f.matters(name) {
			continue
		}
		one := diff.File{Path: name, Read: claim != fleet.ClaimedByNothing}
		switch claim {
		case fleet.ClaimedByTarget:
			one.Reason = "targets read it, and they render the same"
		case fleet.ClaimedByDeclaration:
			one.Reason = "it has declarations or settings, and no rendered object depends on what changes in them"
		default:
			one.Reason = f.reason(name)
		}
		out = append(out, one)
	}
	return out, nil
}

// changedFiles looks at changed files in both commits.
type changedFiles struct {
	*run
	trees [2]*gitstore.Snapshot
	named []naming          // declarations that name paths; nil before they are looked for
	reads map[string]bool   // files that declare imported targets, and files and folders that these read
	idle  []*fleet.Imported // suspended
}

// read returns the content of a file after the change, or before it if the change removes it.
func (f *changedFiles) read(name string) []byte {
	for _, i := range []int{1, 0} {
		if data, err := f.trees[i].ReadFile(name); err == nil {
			return data
		}
	}
	return nil
}

func (f *changedFiles) isFile(name string) bool {
	for _, tree := range f.trees {
		if info, err := tree.Stat(name); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// toolFile matches names of files in YAML or JSON that configure other tools.
var toolFile = regexp.MustCompile(`(?i)^(\..*|taskfile(\.dist)?\.ya?ml|(docker-)?compose(\.[a-z]+)?\.ya?ml|mkdocs\.ya?ml|renovate\.json5?|package(-lock)?\.json|composer\.json|tsconfig\.json|galaxy\.yml|codecov\.ya?ml|cloudbuild\.ya?ml|azure-pipelines\.ya?ml|lefthook\.ya?ml|pnpm-(lock|workspace)\.yaml|skaffold\.ya?ml)$`)

// toolFolder matches files in folders of forges, editors and CI, which hold no manifests.
var toolFolder = regexp.MustCompile(`(^|/)\.(git[^/]*|vscode|idea|devcontainer|circleci|husky|taskfiles|forgejo|woodpecker|buildkite|sluice)/`)

// matters reports whether a changed file looks like a manifest, values, a part of a chart or of a kustomization, and
// changes in more than its comments and format.
func (f *changedFiles) matters(name string) bool { return f.looksRead(name) && !f.sameMeaning(name) }

// looksRead reports whether some target could read a file, as far as its name, its text and the files around it tell.
// The first case that applies decides.
func (f *changedFiles) looksRead(name string) bool {
	base, data := path.Base(name), f.read(name)
	isYAML := slices.Contains([]string{".yaml", ".yml", ".json", ".jsonnet", ".libsonnet", ".cue", ".tpl", ".gotmpl"},
		path.Ext(name))
	isDocument := slices.Contains([]string{".md", ".adoc", ".png", ".svg"}, strings.ToLower(path.Ext(name))) ||
		strings.HasPrefix(base, "LICENSE") || base == "NOTES.txt" || base == "OWNERS"
	switch {
	case toolFolder.MatchString(name):
		return false
	case slices.Contains(kustomize.FileNames(), base):
		return true
	case isYAML && bytes.Contains(data, []byte("apiVersion")) && bytes.Contains(data, []byte("kind")):
		return true
	case isDocument:
		return false
	case f.chartOf(name) != "":
		return true
	case toolFile.MatchString(base):
		return false
	}
	return isYAML || f.namedBySibling(name)
}

// sameMeaning reports whether a YAML file has equal documents on both sides.
func (f *changedFiles) sameMeaning(name string) bool {
	if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" && ext != ".json" {
		return false
	}
	var sides [2][]any
	for i, tree := range f.trees {
		data, err := tree.ReadFile(name)
		if err != nil || len(data) > maxCompared {
			return false
		}
		if manifest.Check(data, manifest.DefaultBudget()) != nil {
			return false // such as the template of a chart
		}
		decoder := yaml.NewDecoder(bytes.NewReader(data))
		for {
			var document any
			if err = decoder.Decode(&document); err != nil {
				break
			}
			if document != nil { // nothing but comments
				sides[i] = append(sides[i], document)
			}
		}
		if !errors.Is(err, io.EOF) {
			return false
		}
	}
	return reflect.DeepEqual(sides[0], sides[1])
}

const maxCompared = 4 << 20 // bytes of one file

// chartOf returns the folder of the chart that a file is part of; "" for none.
func (f *changedFiles) chartOf(name string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if f.isFile(path.Join(dir, "Chart.yaml")) {
			return dir
		}
	}
	return ""
}

// kustomizationOf returns the nearest kustomization at or above a folder; "" for none.
func (f *changedFiles) kustomizationOf(dir string) string {
	for ; ; dir = path.Dir(dir) {
		for _, base := range kustomize.FileNames() {
			if name := path.Join(dir, base); f.isFile(name) {
				return name
			}
		}
		if dir == "." {
			return ""
		}
	}
}

// namedBySibling reports whether the nearest kustomization names a file, such as one for a generator.
func (f *changedFiles) namedBySibling(name string) bool {
	k := f.kustomizationOf(path.Dir(name))
	return k != "" && bytes.Contains(f.read(k), []byte(path.Base(name)))
}

// reason tells why no known target reads a file, as far as its text and the declarations of the commit tell.
func (f *changedFiles) reason(name string) string {
	for _, t := range f.idle {
		reads := func(p string) bool { return p == "." || p == name || strings.HasPrefix(name, p+"/") }
		if t.File == name || slices.ContainsFunc(t.Reads, reads) {
			return fmt.Sprintf("it belongs to the %s %s on %s, which is suspended", t.Kind, t.App, t.Cluster)
		}
	}
	if found := declarationsIn(name, f.read(name)); len(found) > 0 {
		d := found[0]
		if d.argo() {
			return "it declares the " + d.String() + ", which no cluster of the fleet gets" + d.why()
		}
		return "it declares the " + d.String() + ", which no cluster reaches"
	}
	if k := f.kustomizationOf(path.Dir(name)); k != "" && k != name && f.reads[k] {
		return k + " does not list it"
	}
	if d := f.declarationFor(name); d != nil {
		if f.reads[d.file] && !d.argo() {
			return fmt.Sprintf("the %s (%s) names %s and does not read it", d, d.file, d.path)
		}
		if d.argo() {
			return fmt.Sprintf("the %s (%s) names %s, and no cluster of the fleet gets it%s", d, d.file, d.path,
				d.why())
		}
		return fmt.Sprintf("the %s (%s) names %s, and no cluster reaches it", d, d.file, d.path)
	}
	if dir := f.chartOf(name); dir != "" {
		return "no known target renders the chart " + dir
	}
	if strings.Contains("/"+name, "/layers/") {
		return "it is in a layer that no cluster with a target of the app uses"
	}
	if k := f.kustomizationOf(path.Dir(name)); k != "" {
		return "no known target applies " + path.Dir(k)
	}
	return "no declaration names it"
}

// naming is a declaration of Flux or Argo CD, and a path that it names.
type naming struct {
	file, kind, name, path string
	clusters               bool // a cluster generator is in it
}

func (n *naming) String() string { return n.kind + " " + n.name }

func (n *naming) argo() bool { return strings.HasPrefix(n.kind, "Application") }

// why adds the likely reason why an ApplicationSet generates nothing; "" if there is none.
func (n *naming) why() string {
	if n.clusters {
		return " (its cluster generator matches none of them)"
	}
	return ""
}

// pathField is a field of a declaration that names a path of the repository.
var pathField = regexp.MustCompile(`\b(?:path|chart|basePath)["']?[ \t]*:[ \t]*["']?([^\s"'#,}\]]+)`)

// declarationsIn returns the declarations of Flux and Argo CD in a file, one for each path that they name, at least one
// each.
func declarationsIn(file string, data []byte) []naming {
	if !ofTool(data) {
		return nil
	}
	objects, err := manifest.Decode(data, manifest.DefaultBudget())
	if err != nil {
		return nil
	}
	var out []naming
	for _, o := range objects {
		if !ofTool([]byte(o.APIVersion())) || !slices.Contains(
			[]string{"Kustomization", "HelmRelease", "ResourceSet", "Application", "ApplicationSet"}, o.Kind()) {
			continue
		}
		text, err := manifest.Encode(o)
		if err != nil {
			continue
		}
		one := naming{
			file: file, kind: o.Kind(), name: o.Name(),
			clusters: o.Kind() == "ApplicationSet" && bytes.Contains(text, []byte("clusters:")),
		}
		found := pathField.FindAllSubmatch(text, -1)
		if len(found) == 0 {
			out = append(out, one)
		}
		for _, m := range found {
			p := string(m[1])
			if i := strings.IndexAny(p, "{$*?["); i >= 0 {
				p = p[:strings.LastIndex(p[:i], "/")+1]
			}
			one.path = strings.TrimPrefix(path.Clean("/"+p), "/")
			out = append(out, one)
		}
	}
	return out
}

// ofTool reports whether a text names an API group of Flux, of the Flux Operator or of Argo CD.
func ofTool(text []byte) bool {
	return slices.ContainsFunc([]string{"toolkit.fluxcd.io/", "argoproj.io/", "fluxcd.controlplane.io/"},
		func(group string) bool { return bytes.Contains(text, []byte(group)) })
}

// maxSearched bounds the files that are searched for declarations.
const maxSearched = 20_000

var errEnough = errors.New("enough files")

// declarationFor returns the declaration that names the nearest folder above a file; nil if there is none.
func (f *changedFiles) declarationFor(name string) *naming {
	if f.named == nil {
		f.named = []naming{}
		left := maxSearched
		// A reason is a hint: after an error, fewer declarations are known.
		_ = fs.WalkDir(f.trees[1], ".", func(file string, e fs.DirEntry, err error) error {
			switch {
			case err == nil && file == fleet.MountDir:
				return fs.SkipDir
			case err != nil:
				return nil //nolint:nilerr // as above
			case e.IsDir() || path.Ext(file) != ".yaml" && path.Ext(file) != ".yml":
				return nil
			}
			if left--; left < 0 {
				return errEnough
			}
			if data, err := f.trees[1].ReadFile(file); err == nil {
				f.named = append(f.named, declarationsIn(file, data)...)
			}
			return nil
		})
	}
	var best *naming
	for i := range f.named {
		n := &f.named[i]
		if n.path != "" && n.file != name && (n.path == name || strings.HasPrefix(name, n.path+"/")) &&
			(best == nil || len(n.path) > len(best.path)) {
			best = n
		}
	}
	return best
}
