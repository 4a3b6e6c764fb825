package walls_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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
		t.Fatalf("%d rows name a folder and a function, %d rows have a number: each row must name both", len(steps),
			len(rows))
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

// Each package says whether it is API, and those that are API are the ones of docs/architecture.md.
func TestPackagesSayWhetherTheyAreAPI(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Go packages for other programs")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\|").FindAllStringSubmatch(section, -1) {
		listed[m[1]] = true
	}
	if len(listed) == 0 {
		t.Fatal("docs/architecture.md lists no package that is API")
	}
	for dir, text := range packageComments(t, "../..") {
		is, not := strings.Contains(text, "The package is API"), strings.Contains(text, "The package is not API")
		switch {
		case is == not:
			t.Errorf("the documentation of package %s does not say whether it is API: end it with \"The package is not API: it can change in every release.\"", dir)
		case is != listed[dir]:
			t.Errorf("package %s: its documentation says API %t, docs/architecture.md says %t", dir, is, listed[dir])
		}
		if !is {
			continue
		}
		examples, err := filepath.Glob(filepath.Join("../..", dir, "example*_test.go"))
		if err != nil || len(examples) == 0 {
			t.Errorf("package %s is API and has no example_test.go: %v", dir, err)
		}
	}
}

// packageComments are the documentation of the packages that others can import.
func packageComments(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			if name != root && (base == "internal" || base == "testdata" || base == "node_modules" || base == "tools" ||
				base == "cmd" || strings.HasPrefix(base, ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil || file.Name.Name == "main" {
			return err
		}
		out[filepath.ToSlash(dir)] += file.Doc.Text()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
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
