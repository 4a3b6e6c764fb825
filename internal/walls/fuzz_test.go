package walls

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"testing"
)

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// Every fuzz target has inputs in the repository, with which each run begins, and none belongs to a target that is
// gone.
func TestFuzzTargetsHaveInputs(t *testing.T) {
	t.Parallel()
	targets := map[string]bool{}
	sources(t, func(name string, text []byte) {
		for _, m := range fuzzTarget.FindAllSubmatch(text, -1) {
			targets[path.Join(path.Dir(name), "testdata/fuzz", string(m[1]))] = true
		}
	})
	if len(targets) < 30 {
		t.Fatalf("only %d targets", len(targets))
	}
	for dir := range targets {
		files, err := os.ReadDir(filepath.Join("../..", dir))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no inputs: run the target with -fuzz, and copy some of $(go env GOCACHE)/fuzz", dir)
		}
	}
	for _, depth := range []string{"*", "*/*", "*/*/*", "*/*/*/*"} {
		dirs, err := filepath.Glob(filepath.Join("../..", depth, "testdata/fuzz/*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			name, err := filepath.Rel("../..", dir)
			if err != nil || !targets[filepath.ToSlash(name)] {
				t.Errorf("%s belongs to no target: %v", name, err)
			}
		}
	}
}
