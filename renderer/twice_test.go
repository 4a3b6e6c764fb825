package renderer_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/renderer"
)

// A hook may have the name of another object: the object is written whichever comes first, and a note names the hook.
func TestHookWithTheNameOfAnObject(t *testing.T) {
	t.Parallel()
	const object = "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: sa\n"
	hook := func(annotation string) string { return object + "  annotations: {" + annotation + "}\n" }
	for name, c := range map[string]struct {
		first, second, want, note, err string
	}{
		"a hook after": {
			first: object, second: hook("helm.sh/hook: pre-install"), want: object,
			note: "ServiceAccount sa from m/b.yaml is left out: it is a hook",
		},
		"a hook before": {
			first: hook("helm.sh/hook: pre-install"), second: object, want: object,
			note: "ServiceAccount sa from m/a.yaml is left out: it is a hook",
		},
		"a hook of Argo CD": {
			first: hook("argocd.argoproj.io/hook: PreSync"), second: object, want: object,
			note: "m/a.yaml is left out",
		},
		"two hooks": {
			first:  hook("helm.sh/hook: pre-install"),
			second: hook("helm.sh/hook: post-delete"), want: "helm.sh/hook: pre-install", note: "m/b.yaml is left out",
		},
		"equal objects":            {first: object, second: object, want: object, note: "with equal content"},
		"two objects of a release": {first: object, second: hook("a: b"), err: "with different content"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &renderer.Bundle{Sources: []renderer.Source{{Manifests: &renderer.ManifestsSource{Files: renderer.Content{
				Name: "m", Files: []renderer.File{
					{Path: "a.yaml", Data: []byte(c.first)},
					{Path: "b.yaml", Data: []byte(c.second)},
				},
			}}}}}
			got, err := renderer.NewEngine(renderer.DefaultLimits()).Render(t.Context(), b)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("the error is %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || len(got.Objects) != 1 || !strings.Contains(string(got.Objects[0].YAML),
				strings.TrimSpace(c.want)) {
				t.Fatalf("%v, %+v; want the object\n%s", err, got, c.want)
			}
			if c.want == object && strings.Contains(string(got.Objects[0].YAML), "annotations") {
				t.Errorf("the hook is written:\n%s", got.Objects[0].YAML)
			}
			if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], c.note) {
				t.Errorf("the notes are %q, want %q", got.Notes, c.note)
			}
		})
	}
}
