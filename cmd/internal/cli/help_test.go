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

var update = flag.Bool("update", false, "write the help of all commands into docs/cli.md")

// jobsDefault matches the default of --jobs, which is the number of processors of this machine.
var jobsDefault = regexp.MustCompile(`(--jobs targets .*) \(default \d+\)`)

// TestHelpInDocuments compares docs/cli.md with the help of every command, word for word. The part from the first
// command's heading on is generated: `go test ./cmd/internal/cli -run TestHelpIn -update` writes it.
func TestHelpInDocuments(t *testing.T) {
	const file = root + "docs/cli.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(data), "\n## sluice")
	if !found {
		t.Fatal("docs/cli.md documents no command")
	}
	var want strings.Builder
	want.WriteString(head)
	eachCommand(newRoot(System()), func(c *cobra.Command) {
		want.WriteString("\n## " + c.CommandPath() + "\n\n```\n" + helpOf(t, c) + "```\n")
	})
	if *update {
		if err := os.WriteFile(file, []byte(want.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(data) != want.String() {
		t.Error("docs/cli.md differs from the help of the commands: run `go test ./cmd/internal/cli -run TestHelpIn -update`")
	}
}

// eachCommand visits the documented commands, without cobra's own and groups that do nothing themselves.
func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	if c.HasParent() && (c.Runnable() || !c.HasSubCommands()) {
		visit(c)
	}
	for _, sub := range c.Commands() {
		eachCommand(sub, visit)
	}
}

func helpOf(t *testing.T, c *cobra.Command) string {
	t.Helper()
	var b bytes.Buffer
	c.SetOut(&b)
	if err := c.Help(); err != nil {
		t.Fatal(err)
	}
	return jobsDefault.ReplaceAllString(b.String(), "$1 (default: all processors)")
}

// Every command and flag has a description, and every command has an example that parses.
func TestEveryCommandHasHelp(t *testing.T) {
	eachCommand(newRoot(System()), func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: the short description is %q", c.CommandPath(), c.Short)
		}
		calls := 0
		for line := range strings.Lines(c.Example) {
			if one, ok := callOf(line); ok {
				calls++
				if err := one.try(); err != nil {
					t.Errorf("%s: example %q: %v", c.CommandPath(), one.line, err)
				}
			}
		}
		if calls == 0 {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Long) {
			if len([]rune(line)) > 151 {
				t.Errorf("%s: a line of the help is longer than 150 characters: %s", c.CommandPath(), line)
			}
		}
	})
}
