package cli

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/sluice-gitops/sluice/bot/command"
)

// TestChatGrammar compares the verbs of the command line with those of comments. A flag that only one of them has is
// an error, unless it makes sense only on a command line.
func TestChatGrammar(t *testing.T) {
	// Flags about the command line itself, not about the verb.
	own := []string{
		"output", "remote", "local", "by", "refs-per-push", "recreate", "overwrite-foreign", "max-deletions",
		"no-policy",
		"dry-run", "wait", "timeout", "from", "help", "receivers", "sign-key",
	}
	root := newRoot(System())
	common := map[string]bool{}
	status, _, err := root.Find([]string{"status"})
	if err != nil {
		t.Fatal(err)
	}
	status.Flags().VisitAll(func(f *pflag.Flag) { common[f.Name] = true })
	compared := 0
	for _, spec := range command.Verbs() {
		if spec.Right != command.RightEnvironment {
			continue
		}
		cmd, _, err := root.Find([]string{string(spec.Verb)})
		if err != nil {
			t.Errorf("the command line has no verb %s: %v", spec.Verb, err)
			continue
		}
		for _, f := range spec.Flags {
			have := cmd.Flags().Lookup(f.Name)
			if have == nil {
				t.Errorf("%s has --%s in comments and not on the command line", spec.Verb, f.Name)
				continue
			}
			if repeats := have.Value.Type() == "stringSlice" ||
				have.Value.Type() == "stringArray"; repeats != f.Repeated {
				t.Errorf("%s --%s: repeatable on the command line %t, in comments %t", spec.Verb, f.Name, repeats,
					f.Repeated)
			}
			if have.Usage != f.Usage {
				t.Errorf("%s --%s: the command line says %q, the grammar of comments %q", spec.Verb, f.Name, have.Usage,
					f.Usage)
			}
			if (f.Value == "") != (have.Value.Type() == "bool") {
				t.Errorf("%s --%s takes a value in one grammar only", spec.Verb, f.Name)
			}
			compared++
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := spec.Flag(f.Name); !ok && !common[f.Name] && !slices.Contains(own, f.Name) {
				t.Errorf("%s has --%s on the command line and not in comments", spec.Verb, f.Name)
			}
		})
	}
	if compared < 12 {
		t.Errorf("only %d flags were compared", compared)
	}
}
