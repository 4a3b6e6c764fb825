package kustomize

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// References are divided as Kustomize does.
func TestParseRemote(t *testing.T) {
	t.Parallel()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for reference, want := range map[string]Remote{
		"https://github.com/acme/lib//base?ref=" + commit:                    {"https://github.com/acme/lib", "base", commit},
		"https://github.com/acme/lib/base/x/?ref=" + commit + "&timeout=90s": {"https://github.com/acme/lib", "base/x", commit},
		"https://GitHub.com/acme/lib?ref=" + commit + "&submodules=false":    {"https://github.com/acme/lib", ".", commit},
		"github.com/acme/lib//base?version=v1.2.0":                           {"https://github.com/acme/lib", "base", "v1.2.0"},
		"github.com/acme/lib": {"https://github.com/acme/lib", ".", ""},
		"git::https://git.example.com/acme/lib.git//base?ref=" + commit:     {"https://git.example.com/acme/lib.git", "base", commit}, // repository and path after both markers
		"https://git.example.com/acme/lib.git/base?ref=main":                {"https://git.example.com/acme/lib.git", "base", "main"},
		"https://git.example.com/group/sub/lib//base?ref=" + commit:         {"https://git.example.com/group/sub/lib", "base", commit},
		"http://127.0.0.1:3000/acme/lib//base?ref=" + commit:                {"http://127.0.0.1:3000/acme/lib", "base", commit},
		"https://ada@dev.azure.com/org/project/_git/lib/base?ref=" + commit: {"https://ada@dev.azure.com/org/project/_git/lib", "base", commit},
		"ssh://git@git.example.com:2222/acme/lib//base?ref=" + commit:       {"ssh://git@git.example.com:2222/acme/lib", "base", commit},
		"ssh://git@github.com/acme/lib//base?ref=" + commit:                 {"ssh://git@github.com/acme/lib", "base", commit},
		"git@github.com:acme/lib.git//base?ref=" + commit:                   {"ssh://git@github.com/acme/lib.git", "base", commit},
		"git@git.example.com:acme/lib//base?ref=" + commit + "&ref=main":    {"ssh://git@git.example.com/acme/lib", "base", commit},
		"https://github.com/acme/lib//base?ref=%zz":                         {"https://github.com/acme/lib", "base", ""},
		"https://github.com/acme/lib//base/../x?ref=" + commit:              {"https://github.com/acme/lib", "x", commit},
		"../base": {}, "base": {}, "/base": {}, "": {}, "file:///srv/lib//base?ref=" + commit: {},
		"https://git.example.com/lib?ref=" + commit:          {},
		"https://github.com/acme/lib//../../x?ref=" + commit: {},
		"git.example.com/acme/lib//base?ref=" + commit:       {},
		"https://?ref=" + commit:                             {},
		"https:///acme/lib":                                  {},
		"github.com//base":                                   {},
	} {
		got, ok := ParseRemote(reference)
		if got != want || ok != (want != Remote{}) {
			t.Errorf("%s: the result of ParseRemote is %+v, %t; want %+v", reference, got, ok, want)
		}
		if exact := want.Ref == commit; got.Exact() != exact {
			t.Errorf("%s: the result of Exact is %t, want %t", reference, got.Exact(), exact)
		}
	}
}

// A commit that is named in part gets the advice to name it whole.
func TestShortCommit(t *testing.T) {
	t.Parallel()
	tree, err := newMemory([]File{{"kustomization.yaml", []byte("resources: [\"https://github.com/acme/lib//base?ref=0123abc\"]\n")}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewWalker(tree, manifest.DefaultBudget()).Closure(".")
	if err == nil || !strings.Contains(err.Error(), "write all 40 digits") ||
		!strings.Contains(err.Error(), "`sluice deps add lib https://github.com/acme/lib`") {
		t.Errorf("the error is %v, want the advice to write the whole id", err)
	}
}
