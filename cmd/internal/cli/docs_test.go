package cli

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// words splits a line as a shell would, as far as the documents need it.
func words(line string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`"([^"]*)"|'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		out = append(out, m[1]+m[2]+m[3])
	}
	return out
}

// call is a line of a document that calls Sluice; whole calls have all their arguments.
type call struct {
	line  string
	whole bool
}

// callsIn are those in blocks and, by flags alone, those within sentences.
func callsIn(text string) []call {
	var out []call
	fences := regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```")
	for _, block := range fences.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "$ "), " #")
			line, _, _ = strings.Cut(line, " | ")
			line, _, _ = strings.Cut(line, " && ")
			usage := strings.ContainsAny(line, "[(:|") && !strings.Contains(line, "://") && !strings.Contains(line, `"`)
			if strings.HasPrefix(line, "sluice ") && !usage {
				out = append(out, call{line, true})
			}
		}
	}
	for _, span := range regexp.MustCompile("`(sluice [a-z]+( [^`]*)?)`").FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		out = append(out, call{span[1], false})
	}
	return out
}

// try parses a call without running it.
func (c call) try() error {
	args := words(c.line)[1:]
	root := newRoot(System())
	root.InitDefaultCompletionCmd(args...)
	command, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if command.Name() == "sluice" && !strings.HasPrefix(args[0], "-") {
		return errors.New("there is no such verb")
	}
	if err := command.ParseFlags(rest); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil || !c.whole {
		return err
	}
	return command.ValidateArgs(command.Flags().Args())
}

// TestCommandsInDocuments: every call that a document shows is one that there is, with these flags and that many arguments.
func TestCommandsInDocuments(t *testing.T) {
	files, err := filepath.Glob(root + "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range append(files, root+"README.md", root+"deploy/chart/sluice/README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range callsIn(string(text)) {
			count++
			if err := c.try(); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(file), c.line, err)
			}
		}
	}
	if count < 60 {
		t.Errorf("only %d calls were found", count)
	}
	for _, wrong := range []call{{"sluice rolback prod", true}, {"sluice rollback prod --because x", false}, {"sluice rollback", true}} {
		if wrong.try() == nil {
			t.Errorf("%s is taken", wrong.line)
		}
	}
}
