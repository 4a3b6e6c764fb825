package argocd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// kustomize builds a directory after the edits that a source asks for, as `kustomize edit` makes them. A root with
// helmCharts is not built: its objects are only those that may be Applications.
func (i *importer) kustomize(ctx context.Context, k *kustomizeSource, dir string, env map[string]string) (Source,
	error,
) {
	name := kustomizationOf(i, dir)
	if name == "" {
		return Source{}, fmt.Errorf("%s has no kustomization.yaml", dir)
	}
	data, err := i.Tree.ReadFile(name)
	if err != nil {
		return Source{}, err
	}
	redirected := i.redirected()
	var tree kustomize.Tree = redirected
	root := &Root{Path: dir}
	if k != nil {
		edited, err := i.edited(k, dir, env)
		if err != nil {
			return Source{}, fmt.Errorf("%s: %w", name, err)
		}
		if !bytes.Equal(edited, data) {
			tree, root.Edited = redirected.Replacing(map[string][]byte{name: edited}), edited
		}
		root.KubeVersion, root.APIVersions = k.KubeVersion, k.APIVersions
	}
	mounts := cmp.Or(i.commit, i).mountDir()
	walker := kustomize.NewWalker(tree, manifest.DefaultBudget()).Charts().Mounts(mounts)
	charts, err := walker.ChartsOf(dir)
	if err != nil {
		return Source{}, err
	}
	if len(charts) > 0 && !i.EnableHelm {
		return Source{}, charts[0].Error(errHelmDisabled)
	}
	files, err := closure(tree, walker, dir)
	if err != nil {
		return Source{}, err
	}
	var reads []string
	for n := range files {
		if name := files[n].Path; mounts == "" || !strings.HasPrefix(name, mounts+"/") { // a commit does not change
			reads = append(reads, name)
		}
	}
	if len(charts) == 0 {
		objects, err := i.Build(ctx, files, dir)
		return Source{Objects: objects, reads: reads}, err
	}
	if !slices.ContainsFunc(files, func(f kustomize.File) bool { return describes(f.Data) }) {
		return Source{Root: root, reads: reads}, nil
	}
	objects, err := i.BuildWithoutCharts(ctx, files, dir)
	if err != nil {
		return Source{}, fmt.Errorf("looking for Applications in %s, without the objects of its helmCharts: %w (move the charts to a kustomization that another Application names)", name, err)
	}
	return Source{Root: root, Objects: objects, reads: reads}, nil
}

// errHelmDisabled says how to accept helmCharts.
var errHelmDisabled = errors.New("the kustomization lists helmCharts, which Argo CD renders only with --enable-helm " +
	"(if kustomize.buildOptions in its ConfigMap argocd-cm has this option, set spec.import[].argocd.kustomize.buildOptions in sluice.yaml to --enable-helm)")

// kustomizationOf is the kustomization file of a directory; "" if it has none.
func kustomizationOf(i *importer, dir string) string {
	for _, base := range kustomize.FileNames() {
		if name := path.Join(dir, base); i.isFile(name) {
			return name
		}
	}
	return ""
}

// closure reads the files of a build.
func closure(tree kustomize.Tree, walker *kustomize.Walker, dir string) ([]kustomize.File, error) {
	names, err := walker.Closure(dir)
	if err != nil {
		return nil, err
	}
	files := make([]kustomize.File, len(names))
	for n, name := range names {
		content, err := tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[n] = kustomize.File{Path: name, Data: content}
	}
	return files, nil
}
