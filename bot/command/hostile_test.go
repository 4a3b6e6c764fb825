package command_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/internal/hostile"
)

// TestHostileCases runs testdata/hostile/commands.yaml, whose head explains the fields.
func TestHostileCases(t *testing.T) {
	var cases []struct {
		hostile.Head `yaml:",inline"`

		Body     string `yaml:"body"`
		Refused  string `yaml:"refused"`
		Harmless bool   `yaml:"harmless"`
		Commands int    `yaml:"commands"`
	}
	if err := hostile.Load("../../testdata/hostile/commands.yaml", &cases); err != nil || len(cases) < 37 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		body, err := hostile.Expand(c.Body)
		if err != nil {
			t.Fatalf("%s: the error is %v", c.Name, err)
		}
		got, problems := command.Parse(body)
		if len(got) != c.Commands {
			t.Errorf("%s: %d commands, want %d", c.Name, len(got), c.Commands)
		}
		if c.Refused != "" && (len(problems) == 0 || !strings.Contains(problems[0].Message, c.Refused)) {
			t.Errorf("%s: problems %v, want %q", c.Name, problems, c.Refused)
		}
		if c.Harmless && len(problems) != 0 {
			t.Errorf("%s: problems %v, want none", c.Name, problems)
		}
		if c.Refused == "" && !c.Harmless && c.Commands == 0 {
			t.Errorf("%s has no outcome", c.Name)
		}
	}
}
