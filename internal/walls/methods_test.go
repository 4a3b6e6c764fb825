package walls

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// maxMethods is how many methods a type may have outside tests. A type with more has several purposes, and a reader does not
// know where a line lives.
const maxMethods = 25

// wider lists the types above the limit with the number of their methods: a type may lose methods, not gain any.
func wider() map[string]int {
	return map[string]int{
		"bot.job":                     65,
		"bot/forge/github.Forge":      37,
		"bot/forge/gitlab.Forge":      35,
		"bot/queue.Queue":             38,
		"fleet.Fleet":                 69,
		"gitstore.Store":              69,
		"importer/argocd.importer":    31,
		"renderer/fetch.Fetcher":      28,
		"renderer/kustomize.scan":     28,
		"service.Service":             43,
		"service/workspace.Session":   33,
		"service/workspace.Workspace": 30,
		"testdata/bench.bench":        33,
		"testdata/bench.site":         27,
	}
}

func TestMethodsOfTypes(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	sources(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, "_test.go") {
			countMethods(t, found, name, text)
		}
	})
	excepted := wider()
	for _, name := range slices.Sorted(maps.Keys(found)) {
		n, limit := found[name], max(maxMethods, excepted[name])
		if n > limit {
			t.Errorf("%s has %d methods, more than %d: split it", name, n, limit)
		}
		if excepted[name] > 0 && n <= maxMethods {
			t.Errorf("wider names %s, which has %d methods: remove the line", name, n)
		}
		delete(excepted, name)
	}
	for name := range excepted {
		t.Errorf("wider names %s, which has no methods", name)
	}
}

// countMethods counts the methods of each type that a file declares, by FOLDER.TYPE.
func countMethods(t *testing.T, found map[string]int, name string, text []byte) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			continue
		}
		at := f.Recv.List[0].Type
		for range 2 { // *T, T[P]
			switch e := at.(type) {
			case *ast.StarExpr:
				at = e.X
			case *ast.IndexExpr:
				at = e.X
			case *ast.IndexListExpr:
				at = e.X
			}
		}
		if id, ok := at.(*ast.Ident); ok {
			found[path.Dir(name)+"."+id.Name]++
		}
	}
}

func TestCountMethods(t *testing.T) {
	t.Parallel()
	const text = `package x
func (a A) One() {}
func (a *A) Two() {}
func (b *B[T]) One() {}
func (b B[_]) Two() {}
func (c *C[T, U]) One() {}
func (A) three() {}
func free() {}`
	found := map[string]int{}
	countMethods(t, found, "y/x.go", []byte(text))
	if want := map[string]int{"y.A": 3, "y.B": 2, "y.C": 1}; !maps.Equal(found, want) {
		t.Error(found)
	}
}
