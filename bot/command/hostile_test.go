package command_test

import (
	"os"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/bot/command"
)

// TestHostileCases runs testdata/hostile/commands.yaml, whose head explains the fields.
func TestHostileCases(t *testing.T) {
	data, err := os.ReadFile("../../testdata/hostile/commands.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Body, Refused string
		Harmless            bool
		Commands            int
	}
	if err := yaml.Unmarshal(data, &cases); err != nil || len(cases) < 30 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		var body strings.Builder
		functions := template.FuncMap{"repeat": func(n int, s string) string { return strings.Repeat(s, n) }}
		text, err := template.New(c.Name).Delims("<%", "%>").Funcs(functions).Parse(c.Body)
		if err == nil {
			err = text.Execute(&body, nil)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		got, problems := command.Parse(body.String())
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
