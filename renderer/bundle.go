package renderer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"

	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Renderer turns a bundle into objects. Implementations are pure: equal bundles give equal renderings, whatever
// the machine, the time and the order of calls. They are safe for concurrent use.
type Renderer interface {
	Render(ctx context.Context, b *Bundle) (*Rendering, error)
}

// Bundle is the complete input of one rendering. It holds bytes, never paths or URLs: the caller has read them from
// Git or from an archive whose digest is locked.
type Bundle struct {
	Namespace   string      // the app's namespace
	KubeVersion string      // the cluster's Kubernetes version, with or without `v`
	APIVersions []string    // APIs of the cluster beyond the built-in ones, as `group/version` or `group/version/Kind`
	Helm        int         // the major version of Helm that renders charts, 3 or 4; 0: 3
	Sources     []Source    // concatenated in this order
	Components  []Component // applied to the sources' objects, lowest precedence first
	// AllowUnmatched accepts components with patches whose target selects no object.
	AllowUnmatched bool
	// Light lets Render return ErrHeavy instead of a rendering of more than LightBytes. So many light bundles can be in
	// flight without much memory. It does not change a rendering, and is not part of the digest.
	Light bool
}

// Component is a Kustomize component inside a set of files.
type Component struct {
	Files  Content
	Root   string // slash path of the component's directory inside Files
	Charts []KustomizeChart
}

// Source is one origin of objects; exactly one of its three fields is set.
type Source struct {
	Helm      *HelmSource
	Kustomize *KustomizeSource
	Manifests *ManifestsSource
}

// HelmSource is a chart with its values.
type HelmSource struct {
	Release      string   // name of the release
	Namespace    string   // of the release, instead of the bundle's
	KubeVersion  string   // that templates see, instead of the bundle's
	APIVersions  []string // that templates see, instead of the bundle's
	Chart        Content
	Dependencies []Dependency // charts that Chart.yaml lists and `charts/` lacks
	Values       []byte       // JSON object; null deletes a default
	IncludeCRDs  bool
	DropHooks    bool
	SkipSchema   bool
}

// Dependency is a chart to add to a parent's vendored subcharts.
type Dependency struct {
	Name  string
	Chart Content
}

// KustomizeSource is a Kustomize root inside a set of files.
type KustomizeSource struct {
	Files       Content
	Root        string // slash path of the root's directory inside Files
	Charts      []KustomizeChart
	KubeVersion string   // that charts see whose entry names none, instead of the bundle's
	APIVersions []string // that charts see whose entry names none, instead of the bundle's
}

// KustomizeChart is the chart of an entry of helmCharts.
type KustomizeChart struct {
	Dir          string // of the kustomization, inside Files
	Index        int    // of the entry
	Chart        Content
	Dependencies []Dependency // charts that Chart.yaml lists and `charts/` lacks
}

// ManifestsSource is a set of plain YAML files.
type ManifestsSource struct {
	Files Content
}

// Content is a set of files, or one packed chart, with a digest: equal digests mean equal content.
type Content struct {
	Name    string // for messages: a path or a chart reference
	Digest  string
	Files   []File
	Archive []byte // a packed chart (.tgz); then Files is empty
}

// File is one file with its slash path inside its Content.
type File struct {
	Path string
	Data []byte
}

// Link is a symbolic link in a chart's directory, with its slash path and its unresolved target.
type Link struct {
	Path, Target string
}

// FollowLinks returns the files of a chart's directory with every link replaced by its target, as Helm does. It
// leaves out links that .helmignore excludes. A link that leaves the directory or has no target is an error.
func FollowLinks(files []File, links []Link) ([]File, error) {
	plain := make([]helm.File, len(files))
	for i, f := range files {
		plain[i] = helm.File(f)
	}
	symbolic := make([]helm.Link, len(links))
	for i, l := range links {
		symbolic[i] = helm.Link(l)
	}
	followed, err := helm.FollowLinks(plain, symbolic, helm.DefaultLimits())
	if err != nil {
		return nil, err
	}
	out := make([]File, len(followed))
	for i, f := range followed {
		out[i] = File(f)
	}
	return out, nil
}

// Rendering is the result: the objects, ordered by identity.
type Rendering struct {
	Objects  []Object
	Unstable []Field  // fields that differ when the same bundle is rendered again
	Notes    []string // remarks for the owner of the fleet, one sentence each
}

// Light reports whether the rendering of a light bundle may be this large.
func (r *Rendering) Light() bool {
	total := 0
	for i := range r.Objects {
		total += len(r.Objects[i].YAML)
	}
	return total <= LightBytes
}

// Object is one rendered object in canonical YAML.
type Object struct {
	ID         manifest.Identity
	APIVersion string
	YAML       []byte
	Scope      manifest.Scope // unknown for a custom kind
	Defines    *Definition    // set on a CustomResourceDefinition
	Source     string         // the file that it comes from, as messages name it; empty if a component creates it

	hook helm.Hook
}

// Definition is the kind that a CustomResourceDefinition adds to a cluster.
type Definition struct {
	Kind  manifest.GroupKind
	Scope manifest.Scope
}

// Field is a position in an object. A nil Path means the object itself: its identity changes.
type Field struct {
	Object manifest.Identity
	Path   []string
}

func (b *Bundle) helm() helm.Version {
	if b.Helm == int(helm.Helm4) {
		return helm.Helm4
	}
	return helm.Helm3
}

// charts reports whether the rendering needs Helm.
func (b *Bundle) charts() bool {
	return slices.ContainsFunc(b.Sources, func(s Source) bool {
		return s.Helm != nil ||
			s.Kustomize != nil && len(s.Kustomize.Charts) > 0
	}) ||
		slices.ContainsFunc(b.Components, func(c Component) bool { return len(c.Charts) > 0 })
}

// Digest returns the digest of the bundle: bundles with equal digests give equal renderings.
func (b *Bundle) Digest() string {
	h := digester{sha256.New()}
	h.text(b.Namespace)
	if b.charts() { // nothing else sees the capabilities of the cluster
		h.text(b.KubeVersion)
		h.number(len(b.APIVersions))
		h.text(b.APIVersions...)
	}
	h.number(len(b.Sources))
	for i := range b.Sources {
		h.source(&b.Sources[i])
	}
	h.flag(b.AllowUnmatched)
	h.number(len(b.Components))
	for i := range b.Components {
		h.text(b.Components[i].Root, b.Components[i].Files.Digest)
		h.charts(b.Components[i].Charts)
	}
	if b.helm() == helm.Helm4 && b.charts() { // others keep the digests of releases that had only Helm 3
		h.text("helm 4")
	}
	return hex.EncodeToString(h.h.Sum(nil))
}

type digester struct{ h hash.Hash }

func (d digester) number(n int) {
	var buf [8]byte
	binary.BigEndian.PutUint64(buf[:], uint64(n)) //nolint:gosec // a length is never negative
	_, _ = d.h.Write(buf[:])
}

func (d digester) text(parts ...string) {
	for _, p := range parts {
		d.number(len(p))
		_, _ = d.h.Write([]byte(p))
	}
}

func (d digester) flag(v bool) {
	if v {
		d.number(1)
		return
	}
	d.number(0)
}

func (d digester) dependencies(list []Dependency) {
	d.number(len(list))
	for i := range list {
		d.text(list[i].Name, list[i].Chart.Digest)
	}
}

func (d digester) charts(list []KustomizeChart) {
	d.number(len(list))
	for i := range list {
		d.text(list[i].Dir, list[i].Chart.Digest)
		d.number(list[i].Index)
		d.dependencies(list[i].Dependencies)
	}
}

func (d digester) source(s *Source) {
	switch {
	case s.Helm != nil:
		d.text("helm", s.Helm.Release, s.Helm.Chart.Digest, string(s.Helm.Values))
		d.dependencies(s.Helm.Dependencies)
		d.flag(s.Helm.IncludeCRDs)
		d.flag(s.Helm.DropHooks)
		d.flag(s.Helm.SkipSchema)
		d.text(s.Helm.Namespace, s.Helm.KubeVersion)
		d.number(len(s.Helm.APIVersions))
		d.text(s.Helm.APIVersions...)
	case s.Kustomize != nil:
		d.text("kustomize", s.Kustomize.Files.Digest, s.Kustomize.Root)
		d.charts(s.Kustomize.Charts)
		d.text(s.Kustomize.KubeVersion)
		d.number(len(s.Kustomize.APIVersions))
		d.text(s.Kustomize.APIVersions...)
	case s.Manifests != nil:
		d.text("manifests", s.Manifests.Files.Digest)
	}
}
