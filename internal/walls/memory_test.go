package walls

import (
	"os"
	"strings"
	"testing"
)

// TestTemporaryFilesAreInMemory fails when tools/in-memory has set TMPDIR but tests write elsewhere. The make targets
// then take twice the time.
func TestTemporaryFilesAreInMemory(t *testing.T) {
	t.Parallel()
	memory := os.Getenv("TMPDIR")
	if !strings.Contains(memory, "/sluice-test.") {
		t.Skip("tools/in-memory did not choose the folder for temporary files")
	}
	if dir := t.TempDir(); !strings.HasPrefix(dir, memory+"/") {
		t.Errorf("t.TempDir is %s, not below %s", dir, memory)
	}
	if dir := os.Getenv("GOTMPDIR"); dir != "" { // testscript uses it as well
		t.Errorf("GOTMPDIR is %s", dir)
	}
}
