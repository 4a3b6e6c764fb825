package cli

import (
	"bytes"
	"strings"
	"testing"
)

// An error of several lines does not widen the columns of the table.
func TestTargetsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	long := "first mistake\n" + strings.Repeat("x", 200) + ": second mistake"
	rows := []placed{{
		Cluster: "eu-1", App: "shop", Environment: "prod", State: "active", Error: long,
		Branch: "cluster/eu-1",
	}}
	if err := printPlaced(&out, rows); err != nil {
		t.Fatal(err)
	}
	table, below, _ := strings.Cut(out.String(), "\n\n")
	for line := range strings.Lines(table) {
		if len(line) > 100 {
			t.Errorf("a line of the table has %d characters: %s", len(line), line)
		}
	}
	if want := "shop on eu-1 cannot be read: " + long + "\n"; below != want {
		t.Errorf("the below is %q, want %q", below, want)
	}
}
