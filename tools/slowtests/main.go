// Command slowtests prints a regular expression for go test -run that matches the tests of the given directories that
// do less with -short, so that `make test-e2e` does not repeat what `make test` has run:
//
//	go test -run "$(slowtests ./site ./cmd/sluice)" ./site ./cmd/sluice
//
// Those are the tests that reach a call of testing.Short through functions and methods of their package's tests, which
// are told apart by name alone, and of tests that run the scripts of a directory with testscript, the scripts with a
// condition [short]. It fails if a directory has no such test.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	pattern, err := slowTests(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "slowtests:", err)
		os.Exit(1)
	}
	fmt.Println(pattern)
}

// slowTests returns one pattern for all directories: a test of one that has the name of a slow test of another runs
// too.
func slowTests(dirs []string) (string, error) {
	tests, scripts := map[string]bool{}, map[string]bool{}
	for _, dir := range dirs {
		p, err := readPackage(dir)
		if err != nil {
			return "", err
		}
		slow := p.slow()
		for _, test := range slow {
			tests[test] = true
		}
		for test, folder := range p.scripts {
			names, err := slowScripts(filepath.Join(dir, folder))
			if err != nil {
				return "", err
			}
			if len(names) > 0 && !slices.Contains(slow, test) {
				scripts["^"+test+"$/^("+strings.Join(names, "|")+")$"] = true
				slow = append(slow, test)
			}
		}
		if len(slow) == 0 {
			return "", fmt.Errorf("%s has no test that asks for testing.Short and no script with [short]", dir)
		}
	}
	var all []string
	if len(tests) > 0 {
		all = append(all, "^("+strings.Join(slices.Sorted(maps.Keys(tests)), "|")+")$")
	}
	return strings.Join(append(all, slices.Sorted(maps.Keys(scripts))...), "|"), nil
}

// tests are the functions of the test files of one directory.
type tests struct {
	calls   map[string]map[string]bool // function or method → names that it calls or mentions
	short   map[string]bool            // functions that call testing.Short
	scripts map[string]string          // test → the folder of its scripts, relative to the directory
}

func readPackage(dir string) (tests, error) {
	p := tests{calls: map[string]map[string]bool{}, short: map[string]bool{}, scripts: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return p, err
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return p, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				p.add(fn)
			}
		}
	}
	return p, nil
}

func (p tests) add(fn *ast.FuncDecl) {
	name := fn.Name.Name
	if p.calls[name] == nil { // methods of two types may have one name
		p.calls[name] = map[string]bool{}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			p.calls[name][n.Name] = true
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "testing" && n.Sel.Name == "Short" {
				p.short[name] = true
			}
		case *ast.CompositeLit:
			if folder, ok := scriptFolder(n); ok {
				p.scripts[name] = folder
			}
		}
		return true
	})
}

// scriptFolder returns the field Dir of a testscript.Params.
func scriptFolder(l *ast.CompositeLit) (string, bool) {
	s, ok := l.Type.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Params" {
		return "", false
	}
	for _, e := range l.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, _ := kv.Key.(*ast.Ident)
		value, _ := kv.Value.(*ast.BasicLit)
		if key == nil || value == nil || key.Name != "Dir" {
			continue
		}
		folder, err := strconv.Unquote(value.Value)
		return folder, err == nil
	}
	return "", false
}

// slow returns the tests from which a function that calls testing.Short can be reached, sorted.
func (p tests) slow() []string {
	reached := maps.Clone(p.short)
	for grown := true; grown; {
		grown = false
		for name, called := range p.calls {
			if reached[name] {
				continue
			}
			for c := range called {
				if reached[c] {
					reached[name], grown = true, true
					break
				}
			}
		}
	}
	var out []string
	for name := range reached {
		if strings.HasPrefix(name, "Test") && name != "TestMain" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

var conditionShort = regexp.MustCompile(`(?m)^\[!?short\]`)

// slowScripts returns the names of a folder's scripts that ask for short, as testscript names their subtests.
func slowScripts(folder string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".txtar" {
			return err
		}
		data, err := os.ReadFile(file)
		if err == nil && conditionShort.Match(data) {
			out = append(out, regexp.QuoteMeta(strings.TrimSuffix(d.Name(), ".txtar")))
		}
		return err
	})
	return out, err
}
