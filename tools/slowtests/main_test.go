package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestSlowTests(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a/a_test.go", `package a
func TestDirect(t *testing.T)  { if testing.Short() { t.Skip() } }
func TestHelper(t *testing.T)  { newStory(t) }
func TestMethod(t *testing.T)  { s := stage{t}; s.begin() }
func TestValue(t *testing.T)   { each(t, endToEnd) }
func TestQuick(t *testing.T)   { each(t, nil) }
func TestMain(m *testing.M)    { _ = testing.Short() }
func newStory(t *testing.T)    { endToEnd(t) }
func (s stage) begin()         { newStory(s.t) }
`)
	write("a/b_test.go", `package a
func endToEnd(t *testing.T) { if testing.Short() { t.Skip() } }
func TestScripts(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "../scripts"}) }
func TestQuickScripts(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "../quick"}) }
`)
	write("scripts/slow.one.txtar", "# a story\n[short] skip 'slow'\nexec true\n")
	write("scripts/long.txtar", "exec true\n[!short] exec false\n")
	write("scripts/quick.txtar", "exec true\n# [short] is not asked for\n")
	write("quick/quick.txtar", "exec true\n")
	write("none/none_test.go", "package none\nfunc TestQuick(t *testing.T) {}\n")

	got, err := slowTests([]string{filepath.Join(dir, "a")})
	if want := `^(TestDirect|TestHelper|TestMethod|TestValue)$|^TestScripts$/^(long|slow\.one)$`; err != nil ||
		got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if _, err := slowTests([]string{filepath.Join(dir, "none")}); err == nil ||
		!strings.Contains(err.Error(), "none has no test") {
		t.Errorf("a directory without slow tests: %v", err)
	}
}

// TestOtherFilesDoNotAsk fails if a function outside of test files calls testing.Short: its callers would not be found.
func TestOtherFilesDoNotAsk(t *testing.T) {
	call := regexp.MustCompile(`\btesting\.Short\(\)`)
	seen := 0
	err := filepath.WalkDir("../..", func(file string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "tools" || d.Name() == ".git" ||
			d.Name() == "bin"):
			return filepath.SkipDir
		case filepath.Ext(file) != ".go":
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil || !call.Match(data) {
			return err
		}
		if seen++; !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s calls testing.Short: the tests that use it are missing in make test-e2e", file)
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Fatalf("found %d files that call testing.Short: %v", seen, err)
	}
}
