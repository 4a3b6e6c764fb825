package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	resultsFile = "../../../testdata/parity/results.json"
	pageFile    = "../../../docs/parity.md"
)

// TestResults compares docs/parity.md with the results that it is written from. Each difference has a cause.
func TestResults(t *testing.T) {
	t.Parallel()
	results, err := readResults(resultsFile)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != results.page() {
		t.Errorf("%s is not what `make parity` writes from %s: run `make parity ONLY=page`", pageFile, resultsFile)
	}
	if len(results.Parts) < 5 || len(results.Times) == 0 {
		t.Errorf("the results have %d parts and %d times, want 5 parts and some times", len(results.Parts), len(results.Times))
	}
	for _, p := range results.Parts {
		if p.total().Equal == 0 || p.Date == "" || p.Commit == "" {
			t.Errorf("%s: %d equal objects, date %q, commit %q", p.Name, p.total().Equal, p.Date, p.Commit)
		}
		for _, row := range p.Rows {
			differences := 0
			for _, d := range row.Differences {
				if d.Cause == "" || strings.HasPrefix(d.Cause, unexplained) {
					t.Errorf("%s, %s: %s has no cause: %s", p.Name, row.Source, d.What, d.Cause)
				}
				differences += d.Count
			}
			if differences < row.Different+row.Refused {
				t.Errorf("%s, %s: %d differences are listed, %d counted", p.Name, row.Source, differences, row.Different+row.Refused)
			}
			for _, reason := range row.NotCompared {
				if strings.HasPrefix(reason.Cause, unexplained) {
					t.Errorf("%s, %s: not compared, without a reason: %s", p.Name, row.Source, reason.Cause)
				}
			}
		}
	}
}

// A difference is found, with its side: the comparison of an object that one side lacks, changes or makes at random.
func TestDifferencesAreFound(t *testing.T) {
	t.Parallel()
	object := func(name, value string) string {
		return "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {a: \"" + value + "\"}\n"
	}
	parse := func(text string) objects {
		out, err := decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var row Row
	row.compare("x", parse(object("same", "1")+object("changed", "1")+object("ours", "1")+object("random", "1")),
		parse(object("same", "1")+object("changed", "2")+object("theirs", "1")+object("random", "2")),
		parse(object("same", "1")+object("changed", "2")+object("theirs", "1")+object("random", "3")))
	if row.Equal != 1 || row.Different != 4 || len(row.Differences) != 4 {
		t.Fatalf("got %d equal and %d different objects, want 1 and 4: %v", row.Equal, row.Different, row.Differences)
	}
	for i, want := range []string{"", "only in Sluice's output", "", "only in the tool's output"} {
		if !strings.Contains(row.Differences[i].What, want) {
			t.Errorf("difference %d is %q, want %q in it", i, row.Differences[i].What, want)
		}
	}
	if cause := row.Differences[2].Cause; !strings.Contains(cause, "random") {
		t.Errorf("the cause of an object that is random is %q", cause)
	}
}

// With the corpus, rows of a small repository are rendered again and compared with the results.
func TestRowsAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	corpus := os.Getenv("CORPUS")
	if corpus == "" {
		t.Skip("CORPUS is not set")
	}
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"sluice": {"-C", "../../..", "./cmd/sluice"}, "kustomize": {"-C", "../../../tools", "sigs.k8s.io/kustomize/kustomize/v5"},
	} {
		build := append([]string{"build", args[0], args[1], "-o", filepath.Join(dir, name)}, args[2:]...)
		if out, err := exec.CommandContext(t.Context(), "go", build...).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	results, err := readResults(resultsFile)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{ctx: t.Context(), corpus: corpus, sluice: filepath.Join(dir, "sluice"), bin: dir, dir: t.TempDir()}
	checked := 0
	for _, p := range results.Parts {
		for _, row := range p.Rows {
			if p.Name != "kustomize" || !strings.HasPrefix(row.Source, "fluxcd/") {
				continue
			}
			folder := filepath.Join(corpus, "kustomize", strings.Replace(row.Source, "/", "--", 1))
			got, err := r.repositoryRow(filepath.Join(dir, "kustomize"), folder)
			if err != nil {
				t.Fatal(err)
			}
			checked++
			if got.ID != row.ID || got.Equal != row.Equal || got.Different != row.Different || got.Refused != row.Refused {
				t.Errorf("%s: rendered again, it has %d equal, %d different and %d refused (%s); the results have %d, %d, %d (%s)",
					row.Source, got.Equal, got.Different, got.Refused, got.ID, row.Equal, row.Different, row.Refused, row.ID)
			}
		}
	}
	if checked < 2 {
		t.Errorf("checked only %d rows, want at least 2", checked)
	}
}
