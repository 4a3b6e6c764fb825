package argocd

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	kustypes "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// kustomizations are those of the commit, by directory. They tell files that are objects from bases and patches of an
// overlay.
type kustomizations struct {
	*importer
	dirs map[string]*kustomization
}

type kustomization struct {
	file      string
	component bool
	below     []string // files and directories that it reads as objects
	patches   []string // files that it reads as patches
	used      bool     // another one reads it
	changes   bool     // it may change Applications, ApplicationSets or cluster Secrets
}

// kustomizations reads the kustomizations among the files that Apps names. One that cannot be read is none here:
// whoever builds it reports it.
func (i *importer) kustomizations() *kustomizations {
	k := &kustomizations{importer: i, dirs: map[string]*kustomization{}}
	for _, name := range i.files {
		if !slices.Contains(kustomize.FileNames(), path.Base(name)) || !i.wanted(name) || i.ignored(name) {
			continue
		}
		data, err := i.Tree.ReadFile(name)
		var one kustypes.Kustomization
		if err != nil || manifest.Check(data, manifest.DefaultBudget()) != nil || yaml.Unmarshal(data, &one) != nil {
			continue
		}
		one.FixKustomization()
		k.dirs[path.Dir(name)] = k.read(name, &one)
	}
	for dir := range k.dirs {
		for _, name := range k.dirs[dir].below {
			if other := k.dirs[name]; other != nil {
				other.used = true
			}
		}
	}
	return k
}

func (k *kustomizations) read(name string, one *kustypes.Kustomization) *kustomization {
	dir := path.Dir(name)
	out := &kustomization{file: name, component: one.Kind == kustypes.ComponentKind}
	for _, ref := range slices.Concat(one.Resources, one.Components) {
		out.below = append(out.below, path.Join(dir, ref))
	}
	out.changes = one.NamePrefix != "" || one.NameSuffix != "" || len(one.Transformers) > 0
	for _, p := range slices.Concat(one.Patches, one.PatchesJson6902) { //nolint:staticcheck // deprecated, and in use
		out.changes = k.patch(out, p.Path, p.Patch, p.Target) || out.changes
	}
	for _, p := range one.PatchesStrategicMerge { //nolint:staticcheck // deprecated, and in use
		file, text := string(p), ""
		if strings.Contains(file, "\n") {
			file, text = "", file
		}
		out.changes = k.patch(out, file, text, nil) || out.changes
	}
	for _, r := range one.Replacements {
		text := []byte(nil)
		if r.Path != "" {
			text, _ = k.Tree.ReadFile(path.Join(dir, r.Path)) // the build reports it
		}
		out.changes = out.changes || strings.Contains(string(text), kindApplication) ||
			slices.ContainsFunc(r.Targets, func(t *kustypes.TargetSelector) bool {
				return t != nil && t.Select != nil &&
					ofArgoCD(t.Select.Kind)
			})
	}
	return out
}

// patch remembers the file of a patch, and reports whether the patch may change what an import reads.
func (k *kustomizations) patch(of *kustomization, file, text string, target *kustypes.Selector) bool {
	data := []byte(text)
	if file != "" {
		file = path.Join(path.Dir(of.file), file)
		of.patches = append(of.patches, file)
		data, _ = k.Tree.ReadFile(file) // the build reports it
	}
	if target == nil {
		return describes(data)
	}
	return ofArgoCD(target.Kind)
}

// ofArgoCD reports whether a selector's kind, which is an expression, matches a kind that an import reads. Secrets
// count only where patches name Applications too: most of them have nothing to do with Argo CD.
func ofArgoCD(kind string) bool {
	match, err := regexp.Compile("^(?:" + kind + ")$")
	return kind == "" || err != nil || match.MatchString(kindApplication) || match.MatchString(kindApplicationSet)
}

// reach adds the files that a build of a directory reads as objects and as patches, and reports whether something on
// the way may change Applications.
func (k *kustomizations) reach(dir string, objects, patches map[string]bool) (changes bool) {
	one := k.dirs[dir]
	if one == nil || objects[one.file] {
		return false
	}
	objects[one.file] = true
	changes = one.changes
	for _, name := range one.patches {
		patches[name] = true
	}
	for _, name := range one.below {
		objects[name] = true
		changes = k.reach(name, objects, patches) || changes
	}
	return changes
}

// overlays builds the kustomizations that change Applications of other files and that no other kustomization reads. It
// returns what they bring, and the files that describe nothing else: its bases and its patches.
func (k *kustomizations) overlays(ctx context.Context, files map[string][]byte) (found []located,
	claimed map[string]bool,
) {
	claimed = map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(k.dirs)) {
		one := k.dirs[dir]
		reached, patches := map[string]bool{}, map[string]bool{}
		if one.used || one.component || !k.reach(dir, reached, patches) {
			continue
		}
		var own []string
		for name := range files {
			if reached[name] {
				own = append(own, name)
			}
		}
		if len(own) == 0 {
			continue
		}
		for _, name := range own {
			claimed[name] = true
			k.remember(name, files[name])
		}
		maps.Copy(claimed, patches) // a patch can be as complete as an object
		var err error
		if k.Starting != nil { // the build can take long, or end the process
			err = k.Starting(fileApp(one.file))
		}
		var source Source
		if err == nil {
			source, err = k.kustomize(ctx, nil, dir, nil)
		}
		if err != nil {
			k.problems = append(k.problems, Problem{
				App: fileApp(one.file), Origin: Origin{File: one.file, Line: 1},
				Message: fmt.Sprintf("%s: %v", one.file, err),
			})
			continue
		}
		found = append(found, k.taken(source.Objects, func(key string) Origin {
			if at, known := k.origins[key]; known {
				return at
			}
			return Origin{File: one.file, Line: 1}
		})...)
	}
	return found, claimed
}

// taken returns the Applications and ApplicationSets among objects, each with its place, and adds the clusters of
// Secrets to the import.
func (i *importer) taken(objects []manifest.Object, place func(key string) Origin) []located {
	var out []located
	for _, o := range objects {
		if o.Kind() == "Secret" {
			i.secret(o)
			continue
		}
		if !isApplication(o) || !complete(o) {
			continue
		}
		if at := place(o.Kind() + "/" + o.Name()); !i.ignored(at.File) {
			out = append(out, located{o, at})
		}
	}
	return out
}
