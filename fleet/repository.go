package fleet

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
)

// MountDir is the directory in which the content of other repositories appears, each in a directory with its name. A
// fleet's own tree must not contain it.
const MountDir = ".repositories"

// Repository is another Git repository that the fleet takes content from.
type Repository struct {
	Name string
	URL  string
	// Wanted is the ref whose commit is pinned: refs/heads/BRANCH, or refs/tags/PATTERN.
	Wanted string
	// Resolved is the full name of the branch or tag that was pinned; "" if the content is missing.
	Resolved string
	Commit   string // the pinned commit; "" if the content is missing
	// Reviews reports whether merge requests of the repository show what they do to this fleet.
	Reviews bool
	// ShownIn names the repositories in whose merge requests changes of this one may be shown; "*" is every repository.
	ShownIn []string
	Follow  Follow // how the service moves the pin
	// Exact says that Wanted is the id of a commit, which needs no lock. Nobody declares such a repository: an object of
	// another tool names it.
	Exact bool
	// Nested is GitCommit.Nested.
	Nested bool
	File   string
	Line   int
}

// Mounts returns the content of other repositories, at the commits that the tree's sluice.lock pins.
type Mounts interface {
	// Mount returns the tree with the content of each repository in MountDir, and sets the repositories' commits.
	// missing has the error of each repository that is not available. A later call has the repositories of the earlier
	// ones too.
	Mount(ctx context.Context, tree Tree, repositories []*Repository) (mounted Tree, missing map[string]error)
	// Exact reports whether Mount takes repositories that nobody declares, at an exact commit.
	Exact() bool
}

// Repository returns a repository by name.
func (f *Fleet) Repository(name string) (*Repository, bool) {
	for _, r := range f.Repositories {
		if r.Name == name {
			return r, true
		}
	}
	return nil, false
}

// repositoriesFrom reads the repositories of sluice.yaml and of the folder repositories/.
func (l *loader) repositoriesFrom(documents []document) {
	seen := map[string]document{}
	for _, doc := range documents {
		file, ok := doc.value.(*RepositoryFile)
		if !ok {
			continue
		}
		name := file.Metadata.Name
		if !l.checkName(doc, name, "metadata", "name") {
			continue
		}
		if first, ok := seen[name]; ok {
			l.errorf(doc, []string{"metadata", "name"}, "rename one", "the repository %s is also in %s", name,
				place(first))
			continue
		}
		seen[name] = doc
		if wanted, ok := l.checkRepository(doc, file.Spec); ok {
			l.fleet.Repositories = append(l.fleet.Repositories, &Repository{
				Name: name, URL: file.Spec.URL, Wanted: wanted, Reviews: file.Spec.Reviews, ShownIn: file.Spec.ShownIn,
				Follow: file.Spec.Follow, File: doc.file, Line: doc.line,
			})
		}
	}
	for _, doc := range seen {
		for i, name := range doc.value.(*RepositoryFile).Spec.ShownIn {
			if _, ok := seen[name]; !ok && name != "*" {
				l.errorf(doc, []string{"spec", "shownIn", strconv.Itoa(i)}, `the name of a kind: Repository, or "*"`,
					"the repository %q does not exist", name)
			}
		}
	}
	slices.SortFunc(l.fleet.Repositories, func(a, b *Repository) int { return cmp.Compare(a.Name, b.Name) })
}

func (l *loader) checkRepository(doc document, spec RepositorySpec) (wanted string, ok bool) {
	before := len(l.problems)
	switch {
	case hasPassword(spec.URL):
		l.errorf(doc, []string{"spec", "url"},
			"remove them: credentials belong to the URL's host and come from the environment",
			"a URL must not hold credentials")
	case !isRepositoryURL(spec.URL):
		l.errorf(doc, []string{"spec", "url"}, "https://host/owner/repository, or ssh://git@host/owner/repository",
			"%q is not the URL of a Git repository", spec.URL)
	}
	switch {
	case (spec.Branch == "") == (spec.Tags == ""):
		l.errorf(doc, []string{"spec"}, "branch: main, or tags: v1.*", "a repository needs either branch or tags")
	case spec.Branch != "" && !validBranch(spec.Branch):
		l.errorf(doc, []string{"spec", "branch"}, "", "%q is not the name of a branch", spec.Branch)
	case spec.Tags != "" && !validTags(spec.Tags):
		l.errorf(doc, []string{"spec", "tags"}, "such as v1.2.0, v1.* or components/v*", "%q is not a pattern of tags",
			spec.Tags)
	}
	switch n := yamlnode.Child(yamlnode.Child(doc.root, "spec"), "follow"); {
	case spec.Follow.MergeRequest && spec.Follow.Commit:
		l.errorf(doc, []string{"spec", "follow"}, "follow: true, or follow: {commit: true}",
			"follow has both mergeRequest and commit")
	case n != nil && n.Kind == yaml.MappingNode && !spec.Follow.On() && !doc.broken(n):
		l.errorf(doc, []string{"spec", "follow"},
			"follow: true for a merge request, follow: {commit: true} for a commit, or leave it out",
			"follow has neither mergeRequest nor commit")
	}
	wanted = "refs/heads/" + spec.Branch
	if spec.Tags != "" {
		wanted = "refs/tags/" + spec.Tags
	}
	return wanted, len(l.problems) == before
}

// isRepositoryURL reports whether an address is a URL with a scheme of Git that Sluice fetches from.
func isRepositoryURL(address string) bool {
	scheme, _, _ := strings.Cut(address, "://")
	return slices.Contains([]string{"https", "http", "ssh"}, scheme)
}

func validTags(pattern string) bool {
	_, err := path.Match(pattern, "v1")
	return err == nil && len(pattern) <= maxGlob && validBranch(strings.Map(func(r rune) rune {
		if strings.ContainsRune("*?[]^", r) {
			return 'x'
		}
		return r
	}, pattern))
}

// mount adds the content of the repositories to the tree in which the fleet's paths are resolved.
func (l *loader) mount(ctx context.Context) {
	if len(l.fleet.Repositories) == 0 {
		return
	}
	missing := map[string]error{}
	if l.mounts == nil {
		for _, r := range l.fleet.Repositories {
			missing[r.Name] = fmt.Errorf("%w: no other repository can be read here", fs.ErrNotExist)
		}
	} else {
		var tree Tree
		tree, missing = l.mounts.Mount(ctx, l.tree.Tree, l.fleet.Repositories)
		l.fleet.tree = &linkTree{Tree: tree}
	}
	l.fleet.unavailable = missing
	l.fleet.nameMounts()
	for _, r := range l.fleet.Repositories {
		if err := missing[r.Name]; err != nil {
			l.problems = append(l.problems, Problem{
				File: r.File, Line: r.Line, Severity: SeverityWarning,
				Message: fmt.Sprintf("repository %s: %v", r.Name, err),
			})
		}
	}
}

// nameMounts prepares Locate.
func (f *Fleet) nameMounts() {
	var names []string
	for _, r := range slices.Concat(f.Repositories, f.pinned) {
		const short = 7
		if dir := path.Join(MountDir, r.Name); len(r.Commit) > short {
			name, _, _ := strings.Cut(r.Name, "_")
			names = append(names, dir+"/", name+"@"+r.Commit[:short]+":")
		}
	}
	f.names = strings.NewReplacer(names...)
}

// mounted converts a path of a repository to a path of the fleet's tree. The path must not leave its repository.
func mounted(repository, p string) string {
	if repository == "" {
		return p
	}
	return path.Join(MountDir, repository, p)
}

// RepositoryOf returns the name of the other repository whose content is at a path of the fleet's tree; "" for the
// fleet's own files.
func RepositoryOf(p string) string {
	rest, ok := strings.CutPrefix(p, MountDir+"/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// available returns an error if the content of a repository is missing.
func (f *Fleet) available(repository string) error {
	if err := f.unavailable[repository]; err != nil {
		return fmt.Errorf("repository %s: %w", repository, err)
	}
	return nil
}

// layersAvailable returns an error if a layer of the target uses files of a missing repository, because the target
// would otherwise be rendered without these files.
func (f *Fleet) layersAvailable(t Target) error {
	if len(f.unavailable) == 0 {
		return nil
	}
	for i := range f.layers {
		l := &f.layers[i]
		// An app of a workspace takes the fleet's files of every layer, also of those that it skips.
		if t.App.workspace == nil && slices.Contains(t.App.Spec.SkipLayers, l.Name) {
			continue
		}
		for _, name := range l.repositories() {
			if err := f.available(name); err != nil {
				return fmt.Errorf("layer %s: %w", l.Name, err)
			}
		}
	}
	return nil
}

// repositories returns the repositories in the layer's paths.
func (l *Layer) repositories() []string {
	var out []string
	if l.Repository != "" {
		out = append(out, l.Repository)
	}
	for _, v := range l.Values {
		if v.Repository != "" {
			out = append(out, v.Repository)
		}
	}
	return out
}

// Locate rewrites the paths of other repositories in a text for people: components@1a2b3c4:charts/web instead of
// .repositories/components/charts/web.
func (f *Fleet) Locate(text string) string { return locate(f.names, text) }

// Locate is Fleet.Locate.
func (t Target) Locate(text string) string { return locate(t.App.names, text) }

func locate(names *strings.Replacer, text string) string {
	if names == nil {
		return text
	}
	return names.Replace(text)
}

// layerRepositories refuses repositories of layers that do not exist, and those without paths.
func (fc fleetChecks) layerRepositories() {
	for i, layer := range fc.fleet.Spec.Layers {
		at := []string{"spec", "layers", strconv.Itoa(i)}
		for _, name := range layer.repositories() {
			sourceChecks{findings: fc.findings, fleet: fc.fleet}.mounted(fc.file, at, name)
		}
		if layer.Repository != "" && len(layer.Values)+len(layer.Components) == 0 {
			fc.errorf(fc.file, at, "values: […], components: […]", "layer %s: repository %s needs paths in it",
				layer.Name, layer.Repository)
		}
	}
}
