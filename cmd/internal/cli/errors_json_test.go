package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// ran is the result of a command.
type ran struct {
	status   int
	out, err string
}

func runCommand(t *testing.T, args ...string) ran {
	t.Helper()
	var out, failed bytes.Buffer
	o := System()
	o.Out, o.Err, o.Terminal, o.Dir = &out, &failed, false, t.TempDir()
	status := Main(t.Context(), args, o)
	return ran{status, out.String(), failed.String()}
}

// formatsOf returns the formats that the help of a command lists; nil without --output.
func formatsOf(c *cobra.Command) []string {
	flag := c.Flags().Lookup("output")
	if flag == nil {
		return nil
	}
	_, list, _ := strings.Cut(flag.Usage, ": ")
	return strings.Split(strings.ReplaceAll(list, " or ", ", "), ", ")
}

// Every -o is a format, its help lists the formats, and its completion offers exactly these. Only the verbs that write one
// file to carry away take -o as that file, as compilers and linkers do.
func TestOutputIsAFormatEverywhere(t *testing.T) {
	tree, found := newRoot(System()), 0
	eachCommand(tree, func(c *cobra.Command) {
		if slices.Contains([]string{"sluice bundle export", "sluice bundle receipt"}, c.CommandPath()) {
			return
		}
		short := c.Flags().ShorthandLookup("o")
		if c.Flags().Lookup("output") == nil && short == nil {
			return
		}
		found++
		if short == nil || short.Name != "output" {
			t.Errorf("%s: -o is %v, want the shorthand of --output", c.CommandPath(), short)
			return
		}
		formats := formatsOf(c)
		if !strings.HasPrefix(short.Usage, "output `format`: ") || !slices.Contains(formats, short.DefValue) {
			t.Errorf("%s: the usage of --output is %q, which lists no formats or not the default %q", c.CommandPath(),
				short.Usage, short.DefValue)
		}
		complete, ok := c.GetFlagCompletionFunc("output")
		if !ok {
			t.Errorf("%s: --output has no completion", c.CommandPath())
			return
		}
		if offered, _ := complete(c, nil, ""); !slices.Equal(offered, formats) {
			t.Errorf("%s: completion of --output offers %q, the help lists %q", c.CommandPath(), offered, formats)
		}
	})
	if found < 25 {
		t.Errorf("only %d commands have --output", found)
	}
	if got := runCommand(t, "site", "-o", "public"); got.status != ExitUsage ||
		!strings.Contains(got.err, "name the folder with --out") {
		t.Errorf("site -o: got status %d and %q, want a usage error that names --out", got.status, got.err)
	}
}

// argumentsOf returns arguments that a command accepts.
func argumentsOf(t *testing.T, c *cobra.Command) []string {
	t.Helper()
	for _, args := range [][]string{{}, {"prod"}, {"main..HEAD"}, {"prod", "prod"}} {
		if c.ValidateArgs(args) == nil {
			return args
		}
	}
	t.Fatalf("%s accepts none of the arguments that the test knows", c.CommandPath())
	return nil
}

// Every verb with -o json answers an error with one document on standard output, and with the same exit status and the
// same text on standard error as without -o json.
func TestErrorsAreJSON(t *testing.T) {
	tree, verbs := newRoot(System()), 0
	missing := filepath.Join(t.TempDir(), "missing")
	eachCommand(tree, func(c *cobra.Command) {
		if !slices.Contains(formatsOf(c), "json") {
			return
		}
		verbs++
		call := append(strings.Fields(c.CommandPath())[1:], argumentsOf(t, c)...)
		cases := map[string][]string{"unknown flag": {"--no-such-flag"}, "too many arguments": {"a", "b", "c", "d"}}
		if c.Flags().Lookup("repo") != nil {
			cases["missing repository"] = []string{"--repo", missing}
		}
		for name, wrong := range cases {
			args := append(slices.Clone(call), wrong...)
			plain := runCommand(t, args...)
			if plain.status == ExitOK || plain.out != "" || plain.err == "" {
				t.Errorf("sluice %s: got status %d, standard output %q and standard error %q, want an error on standard error only",
					strings.Join(args, " "), plain.status, plain.out, plain.err)
				continue
			}
			options := []string{"-o json", "-o yaml"}
			if name == "unknown flag" { // the flags before and after it are not parsed
				options = append(options, "-ojson", "-o=json", "--output=json", "--output json")
			}
			for _, option := range options {
				if option == "-o yaml" && c.Flags().Lookup("output").DefValue == "yaml" {
					continue
				}
				with := append(slices.Clone(args), strings.Fields(option)...)
				got := runCommand(t, with...)
				if got.status != plain.status || got.err != plain.err {
					t.Errorf("%s: sluice %s: got status %d and %q, without -o %d and %q", name, strings.Join(with, " "),
						got.status, got.err, plain.status, plain.err)
				}
				text := []byte(got.out)
				if option == "-o yaml" {
					var err error
					if text, err = yaml.YAMLToJSON(text); err != nil {
						t.Errorf("sluice %s: standard output is no YAML: %v", strings.Join(with, " "), err)
					}
				}
				var document errorDocument
				decoder := json.NewDecoder(bytes.NewReader(text))
				decoder.DisallowUnknownFields()
				if err := decoder.Decode(&document); err != nil || decoder.More() {
					t.Errorf("%s: sluice %s: want one document on standard output, got %q (%v)", name,
						strings.Join(with, " "), got.out, err)
				}
				if message := document.Error.Message; message == "" || !strings.Contains(plain.err, message) {
					t.Errorf("%s: sluice %s: the message is %q, the text on standard error %q", name,
						strings.Join(with, " "), message, plain.err)
				}
			}
		}
	})
	if verbs < 25 {
		t.Errorf("only %d verbs have -o json", verbs)
	}
}

// A verb whose default output is YAML prints manifests, and an error is none: `sluice render | kubectl apply -f -`.
func TestErrorsAreNoManifests(t *testing.T) {
	got := runCommand(t, "render", "--cluster", "dev-1", "--repo", filepath.Join(t.TempDir(), "none"), "-o", "yaml")
	if got.status != ExitFailed || got.out != "" || got.err == "" {
		t.Errorf("got status %d, standard output %q and standard error %q", got.status, got.out, got.err)
	}
}

// A failure that a verb's own document describes adds no second document.
func TestOneDocument(t *testing.T) {
	repo := hydratetest.New(t)
	if got := runCommand(t, "init", repo.Dir); got.status != ExitOK {
		t.Fatalf("init: status %d: %s", got.status, got.err)
	}
	file := filepath.Join(repo.Dir, "sluice.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(data, "\nunknown: 1\nstrange: 2\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	got := runCommand(t, "validate", "-o", "json", "--repo", repo.Dir)
	var problems any
	if err := json.Unmarshal([]byte(got.out), &problems); err != nil || got.status != ExitFailed ||
		strings.Contains(got.out, `"error":`) {
		t.Errorf("validate: got status %d (%v) and %s", got.status, err, got.out)
	}
	// A verb that cannot begin has no document of its own: file, line and all problems are those of validate.
	got = runCommand(t, "where", "-o", "json", "--repo", repo.Dir)
	var document errorDocument
	if err := json.Unmarshal([]byte(got.out), &document); err != nil || got.status != ExitFailed {
		t.Fatalf("where: got status %d (%v) and %s", got.status, err, got.out)
	}
	lines := strings.Count(string(data), "\n") + 2
	if e := document.Error; e.File != "sluice.yaml" || e.Line != lines || !strings.Contains(e.Message, "unknown") ||
		len(e.Problems) != 2 || e.Problems[1].Line != lines+1 {
		t.Errorf("where: got %+v, want the keys in the lines %d and %d of sluice.yaml", e, lines, lines+1)
	}
}

func TestErrorEntries(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want errorEntry
	}{
		"place and hint": {
			errors.New("clusters/a.yaml:3:5: the label is not quoted (quote it)"),
			errorEntry{
				Message: "the label is not quoted", File: "clusters/a.yaml", Line: 3, Column: 5, Hint: "quote it",
			},
		},
		"only a file":         {errors.New("sluice.lock: broken"), errorEntry{Message: "broken", File: "sluice.lock"}},
		"a host is no file":   {errors.New("git.example.com:443: refused"), errorEntry{Message: "git.example.com:443: refused"}},
		"a call is no hint":   {errors.New("len(x)"), errorEntry{Message: "len(x)"}},
		"nested parentheses":  {errors.New("x (run a (or b))"), errorEntry{Message: "x", Hint: "run a (or b)"}},
		"several lines":       {errors.New("a (b)\nc (d)"), errorEntry{Message: "a (b)\nc (d)"}},
		"equal causes":        {errors.Join(errors.New("down"), errors.New("down")), errorEntry{Message: "down"}},
		"the reason is shown": {&exitError{code: 1}, errorEntry{Message: "the command failed", Hint: "standard error has the reason"}},
		"in another error": {
			fmt.Errorf("app shop on eu-1: %w", &fleet.FileError{Problem: fleet.Problem{
				File: "apps/shop/values.yaml", Line: 7, Column: 2, Message: "no such label", Hint: "set it",
			}}),
			errorEntry{
				Message: "app shop on eu-1: apps/shop/values.yaml:7:2: no such label",
				File:    "apps/shop/values.yaml", Line: 7, Column: 2, Hint: "set it",
			},
		},
	} {
		if got := errorOf(test.err); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
