package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/template"
)

// Compares the names of the functions with those in Helm's source. Fails if a new version of Helm changes the engine:
// compare program.go, functions.go and helm4.go with it, then correct the digests.
func TestFunctionsAreHelms(t *testing.T) {
	for module, c := range map[string]struct {
		engine, funcs string // digests of the files
		own           template.FuncMap
	}{
		"helm.sh/helm/v3": {
			"d9991d420aba19e44b0491f567979eda2469341a2d3649cd82ee17260af6de99",
			"1318205d4e91593b56e44e224cdedb3de38b4ac6127f187f5601696204aba4d6", functions(),
		},
		"helm.sh/helm/v4": {
			"30321655dc4abb061ca7ebe7dd8387e315aecb6f97e57a5a33f4497b5b37aeac",
			"9331d3ab10bd4bfd24bc5982186ae418a7416421e488508c83cbdf075575361f", functions4(),
		},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(strings.TrimSpace(string(out)), "pkg/engine")
		names := map[string]bool{}
		for file, want := range map[string]string{"engine.go": c.engine, "funcs.go": c.funcs} {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
				t.Errorf("%s of %s has the digest %x: compare the change with program.go, functions.go and helm4.go",
					file, module, sum)
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				var key ast.Expr
				switch x := n.(type) {
				case *ast.KeyValueExpr:
					key = x.Key
				case *ast.IndexExpr:
					key = x.Index
				}
				if literal, ok := key.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if name, err := strconv.Unquote(literal.Value); err == nil && name[0] >= 'a' && name[0] <= 'z' {
						names[name] = true
					}
				}
				return true
			})
		}
		if len(names) < 15 {
			t.Fatalf("functions of %s: found only %v", module, names)
		}
		for name := range names {
			if c.own[name] == nil {
				t.Errorf("%s has the function %s", module, name)
			}
		}
	}
}
