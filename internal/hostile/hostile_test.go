package hostile

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table into docs/hostile-cases.md")

const (
	tables = "../../testdata/hostile"
	doc    = "../../docs/hostile-cases.md"
	begin  = "<!-- begin of the table of hostile cases: go test ./internal/hostile -update -->\n"
	end    = "<!-- end of the table of hostile cases -->\n"
)

// TestTable holds the table in docs/hostile-cases.md to the cases: every class has some, and all together are 200 or
// more.
func TestTable(t *testing.T) {
	rows, err := Rows(tables)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 200 {
		t.Errorf("only %d cases", len(rows))
	}
	data, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", doc)
	}
	want := before + begin + table(t, rows) + end + after
	if want == string(data) {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: go test ./internal/hostile -update", doc)
	}
	if err := os.WriteFile(doc, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func table(t *testing.T, rows []Row) string {
	t.Helper()
	runs := map[string]string{
		"changes": "command line and service", "commands": "parser of comments", "fetch": "fetcher", "render": "worker",
		"talk": "service", "webhooks": "service",
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d cases.\n", len(rows))
	for _, c := range Classes() {
		var lines []string
		for _, r := range rows {
			if r.Class != c.Name {
				continue
			}
			where := runs[r.Table]
			switch only := r.Rest["only"]; {
			case where == "":
				t.Fatalf("nothing runs %s.yaml", r.Table)
			case only == "cli" || r.Rest["run"] != nil:
				where = "command line"
			case only == "service":
				where = "service"
			}
			lines = append(lines, fmt.Sprintf("| %s | %s | %s |\n", strings.ReplaceAll(r.Name, "|", `\|`), where,
				r.Outcome))
		}
		if len(lines) == 0 {
			t.Errorf("the class %s has no case", c.Name)
		}
		fmt.Fprintf(&out, "\n<details><summary>%s: %s (%d)</summary>\n\n| case | runs against | outcome |\n|---|---|---|\n%s\n</details>\n", c.Name, c.Meaning, len(lines), strings.Join(lines, ""))
	}
	return out.String()
}

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"plain {{ x }}":         "plain {{ x }}",
		`<% repeat 3 "ab" %>`:   "ababab",
		`<% numbered 3 "@," %>`: "0,1,2,",
		`<% head %>`:            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		`<% cluster "x" %>`:     "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: \"x\"}\nspec:\n  environment: dev\n  class: core\n",
	} {
		if got, err := Expand(text); err != nil || got != want {
			t.Errorf("%q: the result of Expand is %q, the error is %v", text, got, err)
		}
	}
	for _, text := range []string{"<% nothing %>", "<% repeat"} {
		if _, err := Expand(text); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}
