package compare_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// The cause of a group is the only changed place that its targets read.
func TestCauses(t *testing.T) {
	r := hydratetest.Demo(t)
	const template = "charts/web/templates/deployment.yaml"
	append1 := func(name, text string) { r.Write(name, r.Read(name)+text) }
	replace := func(name, old, by string) {
		text := r.Read(name)
		if !strings.Contains(text, old) {
			t.Fatalf("%s lacks %q", name, old)
		}
		r.Write(name, strings.Replace(text, old, by, 1))
	}
	for name, tc := range map[string]struct {
		edit func()
		want map[string]string // causes by app
	}{
		"a line of a template that two apps share": {
			func() { replace(template, "\nspec:\n", "\nspec:\n  minReadySeconds: 7\n") },
			map[string]string{"shop": template + ":7", "gateway": template + ":7"},
		},
		"two lines of it": {
			func() {
				replace(template, "\nspec:\n", "\nspec:\n  minReadySeconds: 7\n")
				append1(template, "          tty: true\n")
			},
			map[string]string{"shop": template, "gateway": template},
		},
		"a line and a comment elsewhere": {
			func() {
				replace(template, "\nspec:\n", "\nspec:\n  minReadySeconds: 7\n")
				append1("layers/global/values.yaml", "# comment\n")
			},
			map[string]string{"shop": template + ":7", "gateway": template + ":7"},
		},
		"a line, and another file that one app reads": {
			func() {
				replace(template, "\nspec:\n", "\nspec:\n  minReadySeconds: 7\n")
				r.Write("apps/shop/layers/class/core/values.yaml", "replicas: 9\n")
			},
			map[string]string{"shop": "", "gateway": template + ":7"},
		},
		"a value of a layer": {
			func() { replace("layers/environment/dev/values.yaml", "debug", "trace") },
			map[string]string{"shop": "layers/environment/dev/values.yaml:1", "gateway": "layers/environment/dev/values.yaml:1"},
		},
	} {
		tc.edit()
		r.Commit(name)
		c := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")})
		got := map[string]string{}
		for _, g := range c.Changes.Groups {
			cause := ""
			if g.Cause != nil {
				cause = g.Cause.String()
			}
			if had, ok := got[g.App]; ok && had != cause {
				t.Errorf("%s: %s has the causes %q and %q", name, g.App, had, cause)
			}
			got[g.App] = cause
		}
		for app, want := range tc.want {
			if cause, ok := got[app]; !ok || cause != want {
				t.Errorf("%s: the cause of %s (changed: %t): got %q, want %q", name, app, ok, cause, want)
			}
		}
		r.Git("reset", "-q", "--hard", "HEAD~1")
	}
}
