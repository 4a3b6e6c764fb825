package data_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestMembersInDocs: each member that the commands of docs/reports.md select is in the schema of the review.
func TestMembersInDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reports.md")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## JSON\n")
	_, rest, _ = strings.Cut(rest, "```sh\n")
	commands, _, _ := strings.Cut(rest, "```")
	members := regexp.MustCompile(`\.([a-z][A-Za-z]*)`).FindAllStringSubmatch(commands, -1)
	const fewest = 10
	if len(members) < fewest {
		t.Fatalf("docs/reports.md selects %d members, so the page has another form: %s", len(members), commands)
	}
	for _, m := range members {
		if !strings.Contains(string(schema), `"`+m[1]+`": {`) {
			t.Errorf("docs/reports.md selects .%s, which a review does not have", m[1])
		}
	}
}
