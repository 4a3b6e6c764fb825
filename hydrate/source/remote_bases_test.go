package source

import (
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/internal/giturl"
	"github.com/sluice-gitops/sluice/internal/treefs"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
)

func TestRemoteBases(t *testing.T) {
	commit := strings.Repeat("a1", 20)
	bases := &remoteBases{repositories: []remoteBase{
		{
			address: giturl.Plain("https://github.com/acme/components.git"), refs: []string{"v1.2.0", commit},
			dir: ".repositories/components",
		},
		{
			address: giturl.Plain("https://github.com/acme/components"), refs: []string{"v2.0.0", commit},
			dir: ".repositories/next",
		},
		{
			address: giturl.Plain("ssh://git@git.example.com/group/sub/base"), refs: []string{"main", commit},
			dir: ".repositories/base",
		},
	}}
	for reference, want := range map[string]string{
		"https://github.com/acme/components//base?ref=v1.2.0":         ".repositories/components/base",
		"https://github.com/acme/components.git//base/x?ref=v1.2.0":   ".repositories/components/base/x",
		"https://github.com/acme/components/base?ref=v1.2.0":          ".repositories/components/base",
		"github.com/acme/components//base?ref=v1.2.0&timeout=90s":     ".repositories/components/base",
		"git@github.com:acme/components.git//base?ref=v1.2.0":         ".repositories/components/base",
		"git::https://user@GitHub.com/acme/components//base":          ".repositories/components/base",
		"https://github.com/acme/components//base?ref=v2.0.0":         ".repositories/next/base",
		"https://github.com/acme/components?version=" + commit:        ".repositories/components",
		"https://git.example.com/group/sub/base.git//x?ref=main":      ".repositories/base/x",
		"https://github.com/acme/components//base?ref=v9":             "", // not the pinned one
		"https://github.com/acme/components-two//base?ref=v1.2.0":     "",
		"https://github.com/acme//base":                               "",
		"https://evil.example.com/github.com/acme/components//base":   "",
		"https://github.com/acme/components//../../secret?ref=v1.2.0": "",
		"https://github.com/acme/components?ref=%zz":                  "",
		"../base": "",
		"base":    "",
	} {
		got, ok := bases.Find("apps/web/kustomization.yaml", reference)
		if got != want || ok != (want != "") {
			t.Errorf("%s: the result of find is %q", reference, got)
		}
	}
	for reference, want := range map[string]string{
		"https://github.com/acme/components//base?ref=v9":  "is not at the pinned commit: sluice.lock pins components at v1.2.0 and next at v2.0.0; ",
		"ssh://git@git.example.com/group/sub/base?ref=dev": "is not at the pinned commit: sluice.lock pins base at main; ",
		"https://github.com/acme/other//base?ref=v9":       "",
		"../base?ref=v9": "",
	} {
		got := ""
		if err := bases.Unpinned(reference); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: the result of Unpinned is %q, want %q", reference, got, want)
		}
	}
	rewrite := func(dir, text string) string {
		t.Helper()
		name := path.Join(dir, "kustomization.yaml")
		tree := treefs.NewOverlay(fstest.MapFS{}, map[string][]byte{name: []byte(text)})
		data, err := kustomize.Redirect(tree, bases).ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := `# a comment
resources:
- deployment.yaml
- "https://github.com/acme/components//base?ref=v1.2.0"   # pinned
- https://github.com/acme/other//base
components: ["github.com/acme/components//debug?ref=v2.0.0"]
patches:
- path: https://github.com/acme/components//base?ref=v1.2.0
`
	want := `# a comment
resources:
- deployment.yaml
- "../../.repositories/components/base"   # pinned
- https://github.com/acme/other//base
components: ["../../.repositories/next/debug"]
patches:
- path: https://github.com/acme/components//base?ref=v1.2.0
`
	if got := rewrite("apps/web", before); got != want {
		t.Errorf("\nthe result of rewrite is %s", got)
	}
	for before, want := range map[string]string{ // several on one line
		`{"resources": ["https://github.com/acme/components//base?ref=v9", "https://github.com/acme/components//base"]}`:               `{"resources": ["https://github.com/acme/components//base?ref=v9", "../.repositories/components/base"]}`,
		`resources: [github.com/acme/components//base, github.com/acme/components//base-2, github.com/acme/components//base]`:          `resources: [../.repositories/components/base, ../.repositories/components/base-2, ../.repositories/components/base]`,
		`{components: ["é/github.com/acme/components//x", github.com/acme/components//x], resources: [github.com/acme/components//x]}`: `{components: ["é/github.com/acme/components//x", ../.repositories/components/x], resources: [../.repositories/components/x]}`,
		`{namePrefix: github.com/acme/components//x, resources: [github.com/acme/components//x]} # github.com/acme/components//x`:      `{namePrefix: github.com/acme/components//x, resources: [../.repositories/components/x]} # github.com/acme/components//x`,
	} {
		if got := rewrite("web", before); got != want {
			t.Errorf("\nthe result of rewrite is %s, want\n%s", got, want)
		}
	}
	for _, text := range []string{"", "a", "[a/b]", "resources: x/y", "resources: [{a: b/c}]", "\x00/"} {
		if got := rewrite(".", text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}
