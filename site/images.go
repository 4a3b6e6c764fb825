package site

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/site/index"
)

// workloadKinds returns the kinds whose image stands for an app, the most telling one first.
func workloadKinds() []string {
	return []string{"deployment", "rollout", "statefulset", "daemonset", "cronjob", "job"}
}

// workloadFile reports whether a file with this name can hold a workload; see manifest.FileNames.
func workloadFile(name string) bool {
	return slices.ContainsFunc(workloadKinds(), func(kind string) bool {
		return strings.Contains("-"+name, "-"+kind+"-") || strings.Contains("-"+name, "-"+kind+".")
	})
}

// Images are the images of apps, by app and tree. A later call of Read reads only trees that are new.
type Images map[AppTree]AppImages

// AppImages are the images of an app in one of its rendered states.
type AppImages struct {
	Main string   // of the container that stands for the app; "" if it has no workload
	All  []string // of its workloads, each once
}

// AppTree is an app in one of its rendered states. The container that the app names is part of what an image depends on.
type AppTree struct {
	App  string
	From fleet.VersionOf
	Tree gitstore.Hash
}

// images returns the images of an app in one of its trees. Each tree is read once, also over several calls of Read: of
// its files, those of workloads.
func (b *reader) images(app string, tree gitstore.Hash) (AppImages, error) {
	key := b.appTree(app, tree)
	if have, ok := b.knownImages(key); ok || tree.IsZero() {
		return have, nil
	}
	var out AppImages
	entries, err := b.h.Store.Tree(b.ctx, tree)
	if err != nil {
		return out, err
	}
	var objects []manifest.Object
	for _, e := range entries {
		if !workloadFile(e.Name) {
			continue
		}
		data, err := b.h.Store.Blob(b.ctx, e.Hash)
		if err != nil {
			return out, err
		}
		out.All = append(out.All, index.Images(data)...)
		list, err := manifest.Decode(data, manifest.DefaultBudget())
		if err != nil { // not Sluice's own: the app shows no image, and the environment a foreign commit
			continue
		}
		objects = append(objects, list...)
	}
	slices.Sort(out.All)
	out.All = slices.Compact(out.All)
	out.Main = mainImage(objects, app, key.From)
	b.out.Images[key] = out
	return out, nil
}

func (b *reader) appTree(app string, tree gitstore.Hash) AppTree {
	key := AppTree{App: app, Tree: tree}
	if a, ok := b.fleet.App(app); ok {
		key.From = a.Spec.VersionFrom
	}
	return key
}

// knownImages returns the images of a tree that this call of Read, or an earlier one, has read.
func (b *reader) knownImages(key AppTree) (AppImages, bool) {
	for _, known := range []Images{b.out.Images, b.request.Images} {
		if have, ok := known[key]; ok {
			b.out.Images[key] = have
			return have, true
		}
	}
	return AppImages{}, false
}

// mainImage returns the image that stands for an app: that of the container that the app names, or else of the first
// container of the workload, or of a container, with the app's name, or else of the first workload by kind and name.
func mainImage(objects []manifest.Object, app string, from fleet.VersionOf) string {
	type candidate struct {
		image string
		rank  int
	}
	name := app[strings.LastIndex(app, "/")+1:]
	best := candidate{rank: 1 << 20}
	for _, o := range objects {
		kind := slices.Index(workloadKinds(), strings.ToLower(o.Kind()))
		if kind < 0 || from.Kind != "" && from.Kind != o.Kind() || from.Name != "" && from.Name != o.Name() {
			continue
		}
		for i, c := range diff.Containers(o) {
			if from.Container != "" && from.Container != c.Name {
				continue
			}
			rank := 100 * kind
			switch { // of the workload with the app's name, then the container with it, then the first ones
			case o.Name() != name && c.Name != name:
				rank += 10_000
			case c.Name != name:
				rank += 50
			}
			if rank += min(i, 49); rank < best.rank {
				best = candidate{c.Image, rank}
			}
		}
	}
	return best.image
}
