package walls_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each step of the flows in docs/architecture.md names a function that exists in its folder.
func TestFlowsNameFunctions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Two flows")
	section, _, _ = strings.Cut(section, "\n## ")
	steps := regexp.MustCompile("(?m)^\\| \\d+ \\| .* \\| `([a-z/]+)` \\| `([A-Za-z.]+)` \\|$").FindAllStringSubmatch(section, -1)
	rows := regexp.MustCompile(`(?m)^\| \d+ \| .* \|$`).FindAllString(section, -1)
	if len(steps) == 0 || len(rows) != len(steps) {
		t.Fatalf("%d rows name a folder and a function, %d rows have a number: each row must name both", len(steps), len(rows))
	}
	declared := map[string]map[string]bool{}
	for _, step := range steps {
		folder, function := step[1], step[2]
		if declared[folder] == nil {
			declared[folder] = functions(t, filepath.Join("../..", folder))
		}
		if !declared[folder][function] {
			t.Errorf("docs/architecture.md names %s in %s, which declares no such function: name the one that does the step", function, folder)
		}
	}
}

// functions are the functions of a package, methods as Type.name.
func functions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no Go files: %v", dir, err)
	}
	out := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				receiver := f.Recv.List[0].Type
				if star, ok := receiver.(*ast.StarExpr); ok {
					receiver = star.X
				}
				if id, ok := receiver.(*ast.Ident); ok {
					name = id.Name + "." + name
				}
			}
			out[name] = true
		}
	}
	return out
}
