package flux

import (
	"fmt"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// TestSubstitutionKeepsTypes substitutes in objects with numbers, both untouched ones and those of variables. Each
// value reads as kustomize-controller applies it.
func TestSubstitutionKeepsTypes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"3": "3", "-3": "-3", "0": "0", "0644": "420", "0x1F": "31", "0b11": "3", "1_000": "1000",
		"9007199254740993": "9007199254740993", "9223372036854775807": "9223372036854775807",
		"-9223372036854775808": "-9223372036854775808",
		"18446744073709551615": "18446744073709551615",
		"0.5":                  "0.5", "1.50": "1.5", "3.0": "3", "1e3": "1000", "-0.25": "-0.25", "1.5e-9": "1.5e-09",
		"true": "true", "on": "true", "no": "false", "null": "null", "~": "null",
		`"3"`: `"3"`, `"0644"`: `"0644"`, `"3.0"`: `"3.0"`, `"true"`: `"true"`, `"on"`: `"on"`, `"1e3"`: `"1e3"`,
		`"12:30"`: `"12:30"`, `"null"`: `"null"`,
		"12:30": `"12:30"`, "1.2.3": `1.2.3`, "2020-01-01": `"2020-01-01"`, "100m": "100m",
	} {
		text := "apiVersion: v1\nkind: A\nmetadata: {name: a}\nspec:\n  direct: %s\n  variable: %s\n"
		o := decoded(t, fmt.Sprintf(text, in, `"${V}"`))
		o["spec"].(map[string]any)["variable"] = "${V}" //nolint:forcetypeassert // of the text above
		got, err := variables{values: map[string]string{"V": in}}.substitute(o, map[string]bool{})
		if err != nil {
			t.Errorf("%s: the error is %v", in, err)
			continue
		}
		out, err := manifest.Encode(got)
		if err != nil {
			t.Errorf("%s: the error is %v", in, err)
			continue
		}
		if wanted := fmt.Sprintf("apiVersion: v1\nkind: A\nmetadata:\n  name: a\nspec:\n  direct: %s\n  variable: %s\n",
			want, want); string(out) != wanted {
			t.Errorf("%s after substitution: got\n%s\nwant\n%s", in, out, wanted)
		}
	}
}

func decoded(t *testing.T, text string) manifest.Object {
	t.Helper()
	objects, err := manifest.Decode([]byte(text), manifest.DefaultBudget())
	if err != nil || len(objects) != 1 {
		t.Fatalf("decoding gives %d objects, %v:\n%s", len(objects), err, text)
	}
	return objects[0]
}
