package walls

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// sources calls visit with every Go file of the repository and its slash path.
func sources(t *testing.T, visit func(name string, text []byte)) {
	t.Helper()
	n := 0
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || name != "." && strings.HasPrefix(d.Name(), ".")):
			// make reproducible builds in bin
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		n++
		visit(name, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 400 {
		t.Fatalf("only %d Go files were found", n)
	}
}

func TestRegularExpressionsAreCompiledOnce(t *testing.T) {
	t.Parallel()
	sources(t, func(name string, text []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, at := range compiledInFunctions(t, name, text) {
			t.Errorf("%s compiles a constant regular expression each time it is called: make it a package variable", at)
		}
	})
}

// compiledInFunctions finds calls of regexp.MustCompile, and of regexp.Compile with a constant, inside functions. A
// call inside sync.OnceValue is compiled once.
func compiledInFunctions(t *testing.T, name string, text []byte) []string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	find := func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		pkg, function := selected(call.Fun)
		if pkg == "sync" && strings.HasPrefix(function, "Once") {
			return false
		}
		constant := len(call.Args) == 1
		if constant {
			_, constant = call.Args[0].(*ast.BasicLit)
		}
		if pkg == "regexp" && (strings.HasPrefix(function, "MustCompile") ||
			slices.Contains([]string{"Compile", "MatchString"}, function) && constant) {
			out = append(out, set.Position(call.Pos()).String())
		}
		return true
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			ast.Inspect(f.Body, find)
		}
	}
	return out
}

// selected returns the two names of PACKAGE.FUNCTION.
func selected(e ast.Expr) (pkg, name string) {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if id, ok := s.X.(*ast.Ident); ok {
		pkg = id.Name
	}
	return pkg, s.Sel.Name
}

func TestCompiledInFunctions(t *testing.T) {
	t.Parallel()
	const text = `package x
var a = regexp.MustCompile("a")
func f(s string) {
	regexp.MustCompile("b")
	regexp.Compile(s)
	regexp.MatchString("c")
	sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("d") })
}`
	if got := compiledInFunctions(t, "x.go", []byte(text)); !slices.Equal(got, []string{"x.go:4:2", "x.go:6:2"}) {
		t.Error(got)
	}
}
