package flux

import (
	"bytes"
	"path"
	"slices"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Root is a directory that a Kustomization in it applies, as `flux bootstrap` sets a cluster up, or one named `clusters/<name>`.
type Root struct {
	Cluster string // a name made of the path
	Path    string
	Origin  Origin // of the Kustomization
}

// Detect finds the roots of a repository, by path. It fails if a file cannot be read.
func (i *Importer) Detect() ([]Root, error) {
	var out []Root
	for _, name := range i.commit.files {
		if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" {
			continue
		}
		found, err := i.facts(name)
		if err != nil {
			return nil, err
		}
		for _, r := range found.Roots {
			out = append(out, Root{Cluster: clusterName(r.Dir), Path: r.Dir, Origin: i.place(r.Name, name)})
		}
	}
	slices.SortStableFunc(out, func(a, b Root) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(out, func(a, b Root) bool { return a.Path == b.Path }), nil
}

// roots finds the Kustomizations of a file that make roots.
func roots(name string, data []byte) []facing {
	if !bytes.Contains(data, []byte(groupKustomize)) {
		return nil
	}
	objects, err := manifest.Decode(data, manifest.DefaultBudget())
	if err != nil {
		return nil // Import reports it, if it needs the file
	}
	var out []facing
	for _, o := range objects {
		if dir, ok := applies(o, name); ok {
			out = append(out, facing{Dir: dir, Name: o.Name()})
		}
	}
	return out
}

// facing is a Kustomization that makes its directory the root of a cluster.
type facing struct{ Dir, Name string }

// applies returns the cluster's directory if an object is what makes one.
func applies(o manifest.Object, file string) (string, bool) {
	if dir, ok := selfApplying(o, file); ok {
		return dir, true
	}
	return conventional(o, file)
}

// place finds the line of a Kustomization in its file.
func (i *Importer) place(of, file string) Origin {
	for _, at := range i.written()[Key{Group: groupKustomize, Kind: kindKustomization, Name: of}] {
		if at.File == file {
			return at
		}
	}
	return Origin{File: file}
}

// selfApplying reports whether an object is a Kustomization that applies the directory it is written in, and gives the directory.
func selfApplying(o manifest.Object, file string) (string, bool) {
	k := keyOf(o)
	var ks kustomizev1.Kustomization
	if k.Group != groupKustomize || k.Kind != kindKustomization || decode(o, &ks) != nil || ks.Spec.SourceRef.Kind != kindGitRepository {
		return "", false
	}
	dir := clean(ks.Spec.Path)
	return dir, dir != "." && strings.HasPrefix(file, dir+"/")
}

// conventional reports whether an object is a Kustomization directly in `clusters/<name>`, the layout of Flux's documentation. A repository
// whose clusters were not set up by `flux bootstrap` has no Kustomization that applies that directory.
func conventional(o manifest.Object, file string) (string, bool) {
	k := keyOf(o)
	dir := path.Dir(file)
	return dir, k.Group == groupKustomize && k.Kind == kindKustomization && path.Base(path.Dir(dir)) == "clusters"
}

// clusterName is the last part of a path that says something: `main` for kubernetes/main/flux.
func clusterName(dir string) string {
	parts := strings.Split(dir, "/")
	for i := len(parts) - 1; i > 0; i-- {
		if !slices.Contains([]string{"flux", "flux-system", "cluster", "clusters", "config", "bootstrap"}, parts[i]) {
			return strings.ToLower(parts[i])
		}
	}
	return strings.ToLower(parts[0])
}
