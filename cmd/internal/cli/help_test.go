package cli

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the verbs' help into docs/cli.md")

// TestHelpInDocuments: docs/cli.md has the help of every verb, word for word. `go test ./cmd/internal/cli -run TestHelpIn -update` writes it.
func TestHelpInDocuments(t *testing.T) {
	const file = "../../../docs/cli.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			return
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
		if !c.Runnable() {
			return
		}
		want := "## " + c.CommandPath() + "\n\n```\n" + helpOf(t, c) + "```\n"
		if strings.Contains(text, want) {
			return
		}
		section := regexp.MustCompile("(?ms)^## " + c.CommandPath() + "\n\n```\n.*?^```\n")
		switch {
		case !*update:
			t.Errorf("docs/cli.md does not have the help of %s as it is: run `go test ./cmd/internal/cli -run TestHelpIn -update`", c.CommandPath())
		case section.MatchString(text):
			text = section.ReplaceAllLiteralString(text, want)
		default:
			text += "\n" + want
		}
	}
	each(newRoot(System()))
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func helpOf(t *testing.T, c *cobra.Command) string {
	t.Helper()
	var b bytes.Buffer
	c.SetOut(&b)
	if err := c.Help(); err != nil {
		t.Fatal(err)
	}
	// What each machine has otherwise.
	return regexp.MustCompile(`(targets rendered at once) \(default \d+\)`).ReplaceAllString(b.String(), "$1 (default: all processors)")
}
