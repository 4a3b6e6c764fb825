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

var (
	wordPattern  = regexp.MustCompile(`"([^"]*)"|'([^']*)'|(\S+)`)
	fencePattern = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```")
	spanPattern  = regexp.MustCompile("`(sluice [a-z]+( [^`]*)?)`")
)

// words splits a line like a shell, as far as the documents need it.
func words(line string) []string {
	var out []string
	for _, m := range wordPattern.FindAllStringSubmatch(line, -1) {
		out = append(out, m[1]+m[2]+m[3])
	}
	return out
}

// call is a command line in a document. A complete call has all its arguments.
type call struct {
	line  string
	whole bool
}

// callOf returns the call of Sluice in a line of a code block, without prompt, comment and following commands.
func callOf(line string) (call, bool) {
	line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "$ "), " #")
	if i := strings.LastIndex(line, "&& sluice "); i >= 0 {
		line = line[i+len("&& "):]
	}
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " && ")
	usage := strings.ContainsAny(line, "[(:|") && !strings.Contains(line, "://") && !strings.Contains(line, `"`)
	return call{strings.TrimSpace(line), true}, strings.HasPrefix(line, "sluice ") && !usage
}

// callsIn returns the calls in code blocks, and those within sentences, of which only the flags are checked.
func callsIn(text string) []call {
	var out []call
	for _, block := range fencePattern.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if c, ok := callOf(line); ok {
				out = append(out, c)
			}
		}
	}
	for _, span := range spanPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(text, ""), -1) {
		out = append(out, call{span[1], false})
	}
	return out
}

// try parses a call without running it.
func (c call) try() error {
	args := words(c.line)[1:]
	root := newRoot(System())
	command, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if command.Name() == "sluice" && !strings.HasPrefix(args[0], "-") {
		return errors.New("unknown command")
	}
	if err := command.ParseFlags(rest); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil || !c.whole {
		return err
	}
	return command.ValidateArgs(command.Flags().Args())
}

// TestCommandsInDocuments parses every call that a document shows: command, flags and number of arguments.
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
				t.Errorf("%s: the line is %s: the error is %v", filepath.Base(file), c.line, err)
			}
		}
	}
	if count < 60 {
		t.Errorf("found only %d calls", count)
	}
	for _, wrong := range []call{
		{"sluice rolback prod", true},
		{"sluice rollback prod --because x", false},
		{"sluice rollback", true},
	} {
		if wrong.try() == nil {
			t.Errorf("%s is accepted", wrong.line)
		}
	}
}
