// Package browsertest runs scripts that drive web pages in Chromium, for tests.
package browsertest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Run runs a script with node and returns its output. The script starts Chromium with the module tools/browser, whose
// folder is in BROWSER_TOOLS, and opens pages with pages.js, whose path is in BROWSER_PAGES. If the script fails, the
// test ends. If `make browser` has not installed the module, the test is skipped; with SLUICE_BROWSER=required it
// fails.
func Run(tb testing.TB, script string, args ...string) []byte {
	tb.Helper()
	module := root(tb)
	tools := filepath.Join(module, "tools", "browser")
	if _, err := os.Stat(filepath.Join(tools, "node_modules", ".package-lock.json")); err != nil {
		if os.Getenv("SLUICE_BROWSER") == "required" { //nolint:forbidigo // make test-e2e sets it
			tb.Fatalf("the browser is required and not installed: make browser (%v)", err)
		}
		tb.Skip("the browser is not installed: make browser")
	}
	path, err := filepath.Abs(script)
	if err != nil {
		tb.Fatal(err)
	}
	//nolint:gosec // a script of the test
	cmd := exec.CommandContext(tb.Context(), "node", append([]string{path}, args...)...)
	cmd.Env = append(os.Environ(), "BROWSER_TOOLS="+tools, "BROWSER_PAGES="+
		filepath.Join(module, "internal", "browsertest", "pages.js"))
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		tb.Fatalf("%s: %v: %s", script, err, exit.Stderr)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// root returns the folder of the module that the test runs in.
func root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			tb.Fatal("no go.mod above the working directory")
		}
		dir = up
	}
}
