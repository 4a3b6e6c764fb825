package renderer

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Twice decides which of two objects with one identity is written, and returns a note that names the other. Equal
// objects are one. A hook yields to an object of the release, and a later hook to an earlier one: Helm and Argo CD keep
// hooks apart and may delete them when they are done, but a branch holds one object of a name, and what stays in the
// cluster is the release's. All others are an error.
func Twice(id manifest.Identity, first, second Object) (one Object, note string, err error) {
	files := [2]string{first.origin(), second.origin()}
	if bytes.Equal(first.YAML, second.YAML) {
		return first, fmt.Sprintf("%s is rendered twice, from %s and from %s, with equal content: the copies are merged", id, files[0], files[1]), nil
	}
	hooks := [2]bool{}
	for n, o := range []Object{first, second} {
		if hooks[n], err = isHook(o.YAML); err != nil {
			return Object{}, "", fmt.Errorf("%s: %w", id, err)
		}
	}
	switch {
	case hooks[1]:
		return first, hookNote(id, files[1], files[0]), nil
	case hooks[0]:
		return second, hookNote(id, files[0], files[1]), nil
	}
	return Object{}, "", fmt.Errorf("%s is rendered twice, from %s and from %s, with different content: remove or rename one", id, files[0], files[1])
}

func hookNote(id manifest.Identity, hook, other string) string {
	return fmt.Sprintf("%s from %s is left out: it is a hook with the name of another object, from %s, which is written (rename the hook to see it)", id, hook, other)
}

// isHook reports whether an object is a hook of Helm or of Argo CD.
func isHook(text []byte) (bool, error) {
	objects, err := manifest.Decode(text, manifest.DefaultBudget())
	if err != nil || len(objects) == 0 {
		return false, err
	}
	return cmp.Or(objects[0].Annotation(helm.HookAnnotation), objects[0].Annotation("argocd.argoproj.io/hook")) != "",
		nil
}
