package flux

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	"github.com/sluice-gitops/sluice/internal/giturl"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// errElsewhere means that a source is neither this repository nor one that the fleet declares. What it holds is not
// known.
var errElsewhere = errors.New("is not this repository, so its content is not rendered")

// source finds the artifact of a Kustomization.
func (c *cluster) source(namespace string, ref kustomizev1.CrossNamespaceSourceReference) (*artifact, error) {
	if ref.Kind == kindExternalArtifact {
		return c.generatedArtifact(cmp.Or(ref.Namespace, namespace), ref.Name)
	}
	return c.artifactOf(sourceKey(namespace, ref))
}

// sourceKey returns the key of the source that a Kustomization names.
func sourceKey(namespace string, ref kustomizev1.CrossNamespaceSourceReference) Key {
	return Key{Group: groupSource, Kind: ref.Kind, Namespace: cmp.Or(ref.Namespace, namespace), Name: ref.Name}
}

// artifactOf returns the files of a source, if it is this repository or one that the fleet declares. It keeps those
// that it found for the cluster.
func (c *cluster) artifactOf(key Key) (*artifact, error) {
	if a, ok := c.artifacts[key]; ok {
		return a, nil
	}
	if key.Kind != kindGitRepository {
		a, err := c.pushed(key)
		if err == nil {
			c.artifacts[key] = a
		}
		return a, err
	}
	repo, err := c.gitRepository(key)
	if err != nil {
		return nil, err
	}
	if len(repo.Spec.Include) > 0 {
		return nil, fmt.Errorf("%s: spec.include is not supported", key)
	}
	from, err := c.contentBehind(key)
	if err != nil {
		return nil, err
	}
	a, err := c.repository(from, &repo.Spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	c.artifacts[key] = a
	return a, nil
}

// gitRepository returns a GitRepository. The Flux Operator makes the cluster's own one, which is then not in Git: it
// has no spec here.
func (c *cluster) gitRepository(key Key) (*sourcev1.GitRepository, error) {
	out := &sourcev1.GitRepository{}
	o, ok := c.objects[key]
	if !ok && key != c.self {
		return nil, &missingError{key: key}
	}
	if !ok {
		return out, nil
	}
	return out, decode(o, out)
}

// contentBehind returns the files of the repository that a GitRepository fetches.
func (c *cluster) contentBehind(key Key) (*content, error) {
	repo, err := c.gitRepository(key)
	if err != nil {
		return nil, err
	}
	if c.own(key, repo) {
		return c.commit, nil
	}
	out, err := c.contentOf(key, repo)
	if err != nil {
		return nil, fmt.Errorf("%s (%s) %w", key, withoutCredentials(repo.Spec.URL), err)
	}
	return out, nil
}

// AnnotationPushedFrom on an OCIRepository or a Bucket says that its content is pushed from a directory of this
// repository, such as "." for all of it.
const AnnotationPushedFrom = "sluice.dev/pushed-from"

// pushed returns the files of an OCIRepository or a Bucket that is pushed from this repository: the cluster's own, one
// with the same address and ref, or one with AnnotationPushedFrom.
func (c *cluster) pushed(key Key) (*artifact, error) {
	o, known := c.objects[key]
	var repo struct {
		Spec struct {
			Ignore *string `json:"ignore"`
		} `json:"spec"`
	}
	if known {
		if err := decode(o, &repo); err != nil {
			return nil, err
		}
	}
	from := o.Annotation(AnnotationPushedFrom)
	switch {
	case from != "":
	case key == c.self, known && c.sync != nil && c.sync.same(o):
		from = "."
	case !known:
		return nil, &missingError{key: key}
	default:
		return nil, fmt.Errorf("%s %w (if it is pushed from a directory of this repository, name the directory in its annotation %s, such as %q; to keep the object on the branch as it is, list its file in spec.import[].ignore)", key, errElsewhere, AnnotationPushedFrom, ".")
	}
	all, err := c.repository(c.commit, &sourcev1.GitRepositorySpec{Ignore: repo.Spec.Ignore})
	if err != nil || clean(from) == "." {
		return all, err
	}
	from = clean(from)
	if !all.isDir(from) {
		return nil, fmt.Errorf("%s: the annotation %s names %q, which is not a directory of the repository", key,
			AnnotationPushedFrom, from)
	}
	files := map[string]string{}
	for name, original := range all.files {
		if inside, ok := strings.CutPrefix(name, from+"/"); ok {
			files[inside] = original
		}
	}
	out := newArtifact(c.tree, files)
	out.of = &content{dir: from}
	return out, nil
}

// own reports whether a GitRepository is the repository under review: the one that the cluster's root Kustomization
// names, or one with the same address and branch.
func (c *cluster) own(key Key, repo *sourcev1.GitRepository) bool {
	if key == c.self {
		return true
	}
	o, ok := c.objects[c.self]
	if !ok {
		of, known := c.objects[key]
		return known && c.sync != nil && c.sync.same(of)
	}
	var self sourcev1.GitRepository
	if decode(o, &self) != nil { // the cluster's own repository reports that error
		return false
	}
	return giturl.Key(repo.Spec.URL) == giturl.Key(self.Spec.URL) && refText(repo) == refText(&self)
}

// refName returns the full name of the branch or tag that a GitRepository fetches; "" for a commit or a range of
// versions.
func refName(repo *sourcev1.GitRepository) string {
	switch r := repo.Spec.Reference; {
	case r == nil:
		return branchPrefix + "master" // Flux's default
	case r.Commit != "":
		return ""
	case r.Name != "":
		return r.Name
	case r.SemVer != "":
		return ""
	case r.Tag != "":
		return tagPrefix + r.Tag
	default:
		return branchPrefix + cmp.Or(r.Branch, "master")
	}
}

// refText returns a text that is equal for GitRepositories with the same reference.
func refText(repo *sourcev1.GitRepository) string {
	if r := repo.Spec.Reference; r != nil {
		return strings.Join([]string{r.Branch, r.Tag, r.SemVer, r.Name, r.Commit}, "\x00")
	}
	return ""
}

// artifactGenerator is what Import reads of an ArtifactGenerator (source-watcher's API has no Go module of its own).
// https://fluxcd.io/flux/components/source/artifactgenerators/
type artifactGenerator struct {
	Sources []struct {
		Alias     string `json:"alias"`
		Kind      string `json:"kind"`
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"sources"`
	Artifacts []struct {
		Name string `json:"name"`
		Copy []struct {
			From     string   `json:"from"`
			To       string   `json:"to"`
			Exclude  []string `json:"exclude"`
			Strategy string   `json:"strategy"`
		} `json:"copy"`
	} `json:"artifacts"`
}

// generatedArtifact returns the files of an ExternalArtifact that an ArtifactGenerator of the cluster makes of this
// repository.
func (c *cluster) generatedArtifact(namespace, name string) (*artifact, error) {
	key := Key{Kind: kindExternalArtifact, Namespace: namespace, Name: name}
	if a, ok := c.artifacts[key]; ok {
		return a, nil
	}
	for _, k := range slices.SortedStableFunc(maps.Keys(c.objects), compareKeys) {
		if k.Group != groupArtifacts || k.Kind != kindArtifactGenerator || k.Namespace != namespace {
			continue
		}
		var g struct {
			Spec artifactGenerator `json:"spec"`
		}
		if err := decode(c.objects[k], &g); err != nil {
			return nil, err
		}
		for i := range g.Spec.Artifacts {
			if g.Spec.Artifacts[i].Name != name {
				continue
			}
			files, err := c.copyAll(k, &g.Spec, i)
			if err != nil {
				return nil, fmt.Errorf("%s: artifact %s: %w", k, name, err)
			}
			c.artifacts[key] = newArtifact(c.tree, files)
			return c.artifacts[key], nil
		}
	}
	return nil, &missingError{key: key}
}

// copyAll applies the copy rules of one artifact of a generator. It returns the files: path in the artifact → path in
// the commit.
func (c *cluster) copyAll(of Key, g *artifactGenerator, index int) (map[string]string, error) {
	files := map[string]string{}
	for _, rule := range g.Artifacts[index].Copy {
		alias, pattern, ok := strings.Cut(strings.TrimPrefix(rule.From, "@"), "/")
		to, in := strings.CutPrefix(rule.To, "@artifact/")
		if !ok || !in || !strings.HasPrefix(rule.From, "@") {
			return nil, fmt.Errorf("copy: %q to %q is not `@alias/path` to `@artifact/path`", rule.From, rule.To)
		}
		if rule.Strategy != "" && rule.Strategy != "Overwrite" {
			return nil, fmt.Errorf("copy: the strategy %s is not supported", rule.Strategy)
		}
		var from map[string]string
		for _, s := range g.Sources {
			if s.Alias != alias {
				continue
			}
			a, err := c.artifactOf(Key{
				Group: groupSource, Kind: s.Kind,
				Namespace: cmp.Or(s.Namespace, of.Namespace), Name: s.Name,
			})
			if err != nil {
				return nil, err
			}
			from = a.files
		}
		if from == nil {
			return nil, fmt.Errorf("copy: there is no source with the alias %q", alias)
		}
		if strings.Contains(to, "..") {
			return nil, fmt.Errorf("copy: %q leaves the artifact", rule.To)
		}
		if to == "" {
			to = "./"
		}
		if err := copyFiles(from, pattern, to, rule.Exclude, files); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// compareKeys orders keys by group, kind, namespace and name.
func compareKeys(a, b Key) int {
	return strings.Compare(a.Group+"/"+a.Kind+"/"+a.Namespace+"/"+a.Name, b.Group+"/"+b.Kind+"/"+b.Namespace+"/"+b.Name)
}

// isReferred reports whether other objects refer to objects of this kind.
func isReferred(k Key) bool {
	switch k.Group {
	case groupSource, groupArtifacts:
		return true
	case groupOperator:
		return k.Kind == kindInputProvider
	}
	return k.Group == "" && (k.Kind == kindConfigMap || k.Kind == kindSecret)
}

// remember registers those objects that others refer to. reads are the files that the unit which brings them read.
func (c *cluster) remember(unit Key, objects []manifest.Object, reads []string) {
	for _, o := range objects {
		k := keyOf(o)
		if isReferred(k) {
			c.objects[k], c.brought[k] = o, unit
		}
		if k.Group == groupOperator && k.Kind == kindInputProvider {
			c.sets.reads[k] = reads
		}
	}
}
