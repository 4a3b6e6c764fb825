package bootstrap

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"sigs.k8s.io/yaml"
)

// TestClusterAPIHealth evaluates the rules in the order and with the functions of Flux. tools/gitops does the same with
// Flux's own evaluator, and with that of Argo CD.
func TestClusterAPIHealth(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/clusterapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Want string
		Object     map[string]any
	}
	if err := yaml.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), ext.Strings())
	if err != nil {
		t.Fatal(err)
	}
	keyOf := func(object map[string]any) string { // as Flux, which refuses two rules of a kind
		group, _, _ := strings.Cut(fmt.Sprint(object["apiVersion"]), "/")
		return group + " " + fmt.Sprint(object["kind"])
	}
	rules, used := map[string]map[string]any{}, map[string]bool{}
	for _, one := range clusterAPIHealth() {
		rule, _ := one.(map[string]any)
		if rules[keyOf(rule)] != nil {
			t.Errorf("there are two rules for %s", keyOf(rule))
		}
		rules[keyOf(rule)] = rule
	}
	for _, c := range cases {
		key := keyOf(c.Object)
		rule, got := rules[key], "InProgress"
		used[key] = true
		status, _ := c.Object["status"].(map[string]any)
		meta, _ := c.Object["metadata"].(map[string]any)
		if seen, ok := status["observedGeneration"]; !ok || seen == meta["generation"] {
			for _, name := range []string{"inProgress", "failed", "current"} {
				text, _ := rule[name].(string)
				ast, issues := env.Parse(text)
				if issues.Err() != nil {
					t.Fatalf("%s: %v", key, issues.Err())
				}
				program, err := env.Program(ast)
				if err != nil {
					t.Fatal(err)
				}
				value, _, err := program.Eval(c.Object)
				if err != nil {
					t.Fatalf("%s: %s: %v", c.Name, name, err)
				}
				if value.Value() == true {
					got = map[string]string{"inProgress": "InProgress", "failed": "Failed", "current": "Current"}[name]
					break
				}
			}
		}
		if got != c.Want {
			t.Errorf("%s: %s, want %s", c.Name, got, c.Want)
		}
	}
	if len(cases) < 30 || len(used) != len(rules) {
		t.Errorf("%d cases of %d kinds, and there are rules for %d", len(cases), len(used), len(rules))
	}
}
