package policy

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// A rule file that is a symbolic link is an error, because skipping it would weaken the policy.
func TestLinksInThePolicy(t *testing.T) {
	rule := []byte("package main\ndeny contains \"no\" if false\n")
	for _, name := range []string{"policy/x.rego", "policy/more", "policy/exemptions.yaml"} {
		tree := fstest.MapFS{
			"policy/ok.rego": &fstest.MapFile{Data: rule},
			name:             &fstest.MapFile{Data: []byte("../elsewhere"), Mode: fs.ModeSymlink},
			"elsewhere":      &fstest.MapFile{Data: rule},
		}
		_, err := Load(t.Context(), tree, Options{})
		problems, ok := errors.AsType[Problems](err)
		if !ok || len(problems) != 1 || problems[0].File != name ||
			!strings.Contains(problems[0].Message, "symbolic link") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
