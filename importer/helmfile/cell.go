package helmfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
)

// problem says why a release is left out.
type problem struct{ field, reason string }

func problemf(field, format string, args ...any) *problem {
	return &problem{field, fmt.Sprintf(format, args...)}
}

// cell converts a release of an environment.
func (c *converter) cell(at place, doc *document, r *release, inline map[string][]any) (*cell, *problem) {
	s := &doc.state
	out := &cell{release: r, file: at.file, namespace: at.namespace, stated: at.namespace}
	if out.namespace == "" {
		out.namespace = "default"
		c.find(at, Changed, "namespace",
			"the release has none, so it is in the namespace of the kubeContext: default is written (change it if that is another one)")
	}
	b := c.base(doc)
	b.note = func(effect, field, reason string) { c.find(at, effect, field, reason) }
	var why *problem
	if out.source, why = b.chart(s, r); why != nil {
		return nil, why
	}
	if out.source.Version == "*" {
		c.find(at, Changed, "version", "the release has none: * is written, and sluice.lock pins the newest version")
	}
	out.source.IncludeCRDs = !s.HelmDefaults.SkipCRDs
	if r.SkipSchemaValidation != nil && *r.SkipSchemaValidation ||
		r.SkipSchemaValidation == nil && s.HelmDefaults.SkipSchemaValidation {
		out.source.Schema = "skip"
	}
	if out.cluster, why = c.clusterOf(at, s, r); why != nil {
		return nil, why
	}
	out.kubeVersion, out.apiVersions = versions(s, r)
	var embedded []any
	if inline != nil {
		var ok bool
		if embedded, ok = inline[identity(s, r)]; !ok {
			return nil, problemf("values", "the two states of the environment do not have the same releases")
		}
	}
	b.handler = cmp.Or(r.MissingFileHandler, s.MissingFileHandler)
	if out.entries, why = b.entries(r, embedded, inline != nil); why != nil {
		return nil, why
	}
	c.dropReferences(at, out.entries)
	if out.overlay, why = b.overlay(r, out.entries); why != nil {
		return nil, why
	}
	if dropped := withoutReferences(out.overlay, ""); len(dropped) > 0 {
		c.find(at, NotCarried, "set "+strings.Join(dropped, ", "), referenceReason)
	}
	if out.patches, why = b.patches(r); why != nil {
		return nil, why
	}
	return out, nil
}

// clusterOf finds or adds the cluster of a release.
func (c *converter) clusterOf(at place, s *spec, r *release) (*cluster, *problem) {
	context := contextOf(s, r)
	if others := s.otherContexts(r); len(others) > 0 {
		c.find(at, Changed, "kubeContext",
			fmt.Sprintf("the helmfile has no environment %s, and those that it has have a kubeContext (%s): the one of the environment is not used (write --state NAME=FILE with helmfile's name)",
				at.environment, strings.Join(others, ", ")))
	}
	name := clusterName(cmp.Or(context, at.environment))
	if known, ok := c.clusters[name]; ok && known.environment != at.environment {
		name = at.environment + "-" + name // a cluster of Sluice has one environment
		c.find(at, Changed, "kubeContext",
			"two environments use it, and a cluster has one environment: the cluster of this one is "+name)
	}
	if !fleet.ValidName(name) {
		return nil, problemf("kubeContext", "%q cannot be the name of a cluster (rename it)", context)
	}
	known, ok := c.clusters[name]
	if !ok {
		known = &cluster{name: name, environment: at.environment, context: context}
		c.clusters[name] = known
	}
	if known.context != context {
		return nil, problemf("kubeContext", "%q and %q would have one name, %s (rename one of them)", known.context,
			context, name)
	}
	return known, nil
}

// otherContexts are the environments with a kubeContext, if that of the release's environment would count and the state
// does not know its name.
func (s *spec) otherContexts(r *release) []string {
	if _, known := s.Environments[r.environment]; known || s.KubeContext != "" || r.KubeContext != "" {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Environments)) {
		if context := s.Environments[name].KubeContext; context != "" {
			out = append(out, name+": "+context)
		}
	}
	return out
}

// versions are the kubeVersion and apiVersions of a release.
func versions(s *spec, r *release) (string, []string) {
	apis := r.APIVersions
	if len(apis) == 0 {
		apis = s.APIVersions
	}
	return strings.TrimPrefix(cmp.Or(r.KubeVersion, s.KubeVersion), "v"), apis
}

// conflict refuses a release with other versions than its cluster.
func (k *cluster) conflict(x *cell) *problem {
	if !x.versioned() || !k.versioned || k.kubeVersion == x.kubeVersion && slices.Equal(k.apiVersions, x.apiVersions) {
		return nil
	}
	return problemf("kubeVersion, apiVersions",
		"another release on cluster %s has different ones, and Sluice sets them once for each cluster", k.name)
}

// versioned reports whether the release has kubeVersion or apiVersions.
func (x *cell) versioned() bool { return x.kubeVersion != "" || len(x.apiVersions) > 0 }

// setVersions sets the versions of the cluster to those of a release that the fleet has.
func (x *cell) setVersions() {
	if x.versioned() {
		x.cluster.kubeVersion, x.cluster.apiVersions, x.cluster.versioned = x.kubeVersion, x.apiVersions, true
	}
}

// unversioned lists releases that get the versions of their cluster from other releases.
func (c *converter) unversioned() {
	for _, x := range c.cells {
		if x.cluster.versioned && !x.versioned() {
			c.find(c.at(x), Changed, "kubeVersion, apiVersions",
				"the release sets none; it gets those that other releases set for cluster "+x.cluster.name)
		}
	}
}

// clusterName is a kubeContext as the name of a cluster.
func clusterName(context string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, context)
	return strings.Trim(name, "-.")
}

// baseDir is the folder of a helmfile in the repository. The state has the path of the machine that built it, so its
// longest suffix that the repository has counts if it is not below Root. It is "" if the repository does not have the
// helmfile.
func (c *converter) baseDir(source string) string {
	source = filepath.ToSlash(source)
	if rel, err := filepath.Rel(c.Root, source); err == nil && filepath.IsLocal(rel) {
		return path.Dir(filepath.ToSlash(rel))
	}
	parts := strings.Split(strings.Trim(path.Clean(source), "/"), "/")
	for i := range parts {
		name := strings.Join(parts[i:], "/")
		if !fs.ValidPath(name) {
			continue
		}
		if info, err := c.Files.Stat(name); err == nil && !info.IsDir() {
			return path.Dir(name)
		}
	}
	return ""
}

// base reads the files that a helmfile names.
type base struct {
	files    Files
	worktree fs.FS  // nil if there is none
	dir      string // of the helmfile; "" if it is not in the repository
	handler  string // missingFileHandler
	note     func(effect, field, reason string)
}

func (c *converter) base(doc *document) base {
	return base{files: c.Files, worktree: c.Worktree, dir: c.baseDir(doc.source)}
}

var (
	errOutside = errors.New("is not below the repository")
	errNoBase  = errors.New("is relative to a helmfile that is not in the repository (build the state in a clone)")
)

// path is a path of a helmfile in the repository.
func (b base) path(name string) (string, error) {
	switch {
	case strings.HasPrefix(name, "/"):
		return "", errOutside
	case b.dir == "":
		return "", errNoBase
	}
	if name = path.Join(b.dir, name); !fs.ValidPath(name) {
		return "", errOutside
	}
	return name, nil
}

func (b base) exists(name string) bool {
	_, err := b.files.Stat(name)
	return err == nil
}

// chart finds the source of a release.
func (b base) chart(s *spec, r *release) (fleet.HelmSource, *problem) {
	out := fleet.HelmSource{ReleaseName: r.Name}
	version, digest, _ := strings.Cut(r.Version, "@")
	if digest != "" {
		return out, problemf("version", "it has a digest (write the version: sluice.lock pins its digest)")
	}
	if version == "" {
		version = "*"
		if r.Devel != nil && *r.Devel || r.Devel == nil && s.HelmDefaults.Devel {
			version = ">0.0.0-0"
		}
	}
	alias, rest, _ := strings.Cut(r.Chart, "/")
	at := slices.IndexFunc(s.Repositories, func(known repository) bool { return known.Name == alias && rest != "" })
	switch {
	case strings.HasPrefix(r.Chart, "oci://"):
		return ociChart(out, r.Chart, r.Version, version)
	case strings.Contains(r.Chart, "://") || strings.Contains(r.Chart, "::"):
		return out, problemf("chart",
			"it is fetched from a URL (add the chart to the repository, or declare the repository that has it)")
	case at >= 0:
		repo := s.Repositories[at]
		if !plainURL(repo.URL) {
			return out, problemf("repositories",
				"the URL of %s can have credentials, or has a query or a fragment (remove them: credentials come from the files of Helm)", repo.Name)
		}
		if repo.OCI {
			return ociChart(out, "oci://"+strings.TrimRight(strings.TrimPrefix(repo.URL, "oci://"), "/")+"/"+rest,
				r.Version, version)
		}
		out.Repo, out.Chart, out.Version = strings.TrimRight(repo.URL, "/"), rest, version
		if !strings.HasPrefix(out.Repo, "https://") && !strings.HasPrefix(out.Repo, "http://") {
			return out, problemf("repositories", "%s is not an HTTP or OCI repository", repo.Name)
		}
		return out, nil
	}
	name, err := b.path(r.Chart)
	if err != nil {
		return out, problemf("chart", "%s %v", r.Chart, err)
	}
	if why := b.linked("chart", path.Join(name, "Chart.yaml")); why != nil {
		return out, why
	}
	switch {
	case !b.exists(name):
		return out, problemf("chart",
			"%s is neither a folder of the repository nor a chart of a repository in the state", r.Chart)
	case !b.exists(path.Join(name, "Chart.yaml")):
		return out, problemf("chart",
			"%s has no Chart.yaml: helmfile makes a chart of it (write an app with the source kustomize or manifests)",
			r.Chart)
	}
	out.Path = name
	return out, nil
}

// plainURL reports whether a URL has no part that can be a credential.
func plainURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.User == nil && !strings.ContainsAny(text, "@?#")
}

// ociChart is a chart of a registry. The field version of the release wins over a tag.
func ociChart(out fleet.HelmSource, chart, wanted, version string) (fleet.HelmSource, *problem) {
	name, digest, _ := strings.Cut(chart, "@")
	if digest != "" || strings.ContainsAny(name, "?#") {
		return out, problemf("chart",
			"it has a digest, a query or credentials (write the version: sluice.lock pins its digest)")
	}
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		if name, digest = name[:i], name[i+1:]; wanted == "" {
			version = digest
		}
	}
	out.Chart, out.Version = name, version
	return out, nil
}
