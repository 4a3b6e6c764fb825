package walls

import (
	"bytes"
	"path"
	"strings"
	"testing"
)

// maxPackageLines limits the lines of a package outside tests. A package that outgrows its limit has taken in logic that belongs to a
// package of its own.
func maxPackageLines() map[string]int {
	return map[string]int{
		"hydrate": 2500,
	}
}

func TestPackageLength(t *testing.T) {
	t.Parallel()
	lines := map[string]int{}
	sources(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, "_test.go") {
			lines[path.Dir(name)] += bytes.Count(text, []byte("\n"))
		}
	})
	for name, limit := range maxPackageLines() {
		switch n := lines[name]; {
		case n == 0:
			t.Errorf("maxPackageLines names %s, which has no lines", name)
		case n >= limit:
			t.Errorf("%s has %d lines, not below %d: move a part into a package of its own", name, n, limit)
		}
	}
}
