package gitstore

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Common .gitignore files, with Git's result.
func TestCommonIgnoreRules(t *testing.T) {
	for _, c := range []struct {
		rules, in, out string
	}{
		{"*\n!*/\n!*.yaml", "a.yaml d/b.yaml d/e/c.yaml", "a.txt d/b.txt d/e/c"},
		{"out/**\n!out/keep", "out/keep", "out/a out/d/keep"},
		{"/top\nname/", "d/top d/name", "top name/x d2/name/x"},
		{"*.log\n!important.log", "important.log d/important.log", "a.log d/a.log"},
		{"a/**/z\n**/tmp", "z a/y", "a/z a/b/z a/b/c/z tmp x/tmp"},
		{`\!bang` + "\n" + `\#hash` + "\n" + `blank\ `, "bang hash blank", "!bang #hash"},
		{"[a-c]x\n[!a-c]y\n[[:digit:]]", "dx ay", "ax d/bx dy 1 d/2"},
		{"crlf\r\ntrailing   \n", "other", "crlf trailing"},
	} {
		var rules []ignoreRule
		for line := range strings.SplitSeq(c.rules, "\n") {
			if r, ok := parseIgnore(line, ""); ok {
				rules = append(rules, r)
			}
		}
		for name := range strings.FieldsSeq(c.in) {
			if hiddenBy(rules, name) {
				t.Errorf("%q hides %s", c.rules, name)
			}
		}
		for name := range strings.FieldsSeq(c.out) {
			if !hiddenBy(rules, name) {
				t.Errorf("%q does not hide %s", c.rules, name)
			}
		}
	}
}

// hiddenBy checks the parent folders too, as a walk does.
func hiddenBy(rules []ignoreRule, name string) bool {
	for i, r := range name {
		if r == '/' && ignored(rules, name[:i], true) {
			return true
		}
	}
	return ignored(rules, name, false)
}

// For random folders with random rules, the tree equals Git's.
func TestIgnoreEqualsGit(t *testing.T) {
	const rounds = 15
	g := &ignoreGame{rand: rand.New(rand.NewPCG(7, 11))}
	for round := range rounds {
		dir := t.TempDir()
		runGit(t, dir, "init", "-q")
		g.fill(t, dir, "", 0)
		if g.rand.IntN(2) == 0 {
			write(t, dir, ".git/info/exclude", g.rules())
		}
		for _, name := range []string{g.name(), g.name() + "/" + g.name()} { // tracked, although a rule may match
			_ = exec.CommandContext(t.Context(), "git", "-C", dir, "add", "-f", name).Run()
		}
		s := open(t, Options{Dir: dir})
		got, err := s.WorkingTree(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		before := runGit(t, dir, "ls-files", "-s")
		runGit(t, dir, "add", "-A")
		want, err := ParseHash(runGit(t, dir, "write-tree"))
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			changes, err := s.Changes(t.Context(), want, got)
			t.Errorf("round %d: %v %v; tracked before:\n%s", round, changes, err, before)
		}
	}
}

type ignoreGame struct{ rand *rand.Rand }

func (g *ignoreGame) name() string {
	names := []string{"a", "b.log", "c.txt", "build", "d", "!x", "#y", "sp ace", "e.log", "deep", "\xff"}
	return names[g.rand.IntN(len(names))]
}

func (g *ignoreGame) rules() string {
	all := []string{
		"*.log", "!b.log", "build/", "/a", "d/e.log", "**/c.txt", "deep/**", "!deep/a", "*", "!*/", `\!x`, `\#y`, `sp\ ace`, "a/**/b.log", "/d/*",
		"!/d/c.txt", "[a-c]", "?", "# comment", "", "trail  ", "d", "!d/", "deep/build", "*.txt\r", "[!a]", "[^a-c].txt", "[[:alpha:]]", "[]a]", "[a", "[a-]",
		`\`, `a\`, "***", "a**", "**a", "**/", "/**", "d/**/a", "**/d/**", "*/a", "b*g", "*.*", "!*.txt", "[[:foo:]]", "[[:alpha:]!]", "[d-b]", `\*.log`, `a\ `,
	}
	var out strings.Builder
	for range 1 + g.rand.IntN(4) {
		out.WriteString(all[g.rand.IntN(len(all))] + "\n")
	}
	return out.String()
}

func (g *ignoreGame) fill(t *testing.T, dir, at string, depth int) {
	t.Helper()
	const deepest = 3
	seen := map[string]bool{}
	for range 5 {
		name := g.name()
		switch at := filepath.Join(at, name); {
		case seen[name]:
		case depth < deepest && g.rand.IntN(2) == 0:
			g.fill(t, dir, at, depth+1)
		default:
			write(t, dir, at, fmt.Sprint(g.rand.IntN(100)))
		}
		seen[name] = true
	}
	if g.rand.IntN(3) == 0 {
		write(t, dir, filepath.Join(at, ".gitignore"), g.rules())
	}
}

func FuzzIgnore(f *testing.F) {
	f.Add("*.log", "a.log")
	f.Add("a/**/[!b-d]?", "a/x/yz")
	f.Add("[[:alpha:]", "\xff")
	f.Fuzz(func(t *testing.T, line, name string) {
		r, ok := parseIgnore(line, "")
		if !ok {
			return
		}
		if literal := strings.ReplaceAll(line, " ", ""); !strings.ContainsAny(literal, `*?[]\!#/`+"\r") && r.matches(name, true) != (r.literal == name[strings.LastIndexByte(name, '/')+1:]) {
			t.Errorf("%q and %q", line, name)
		}
	})
}
