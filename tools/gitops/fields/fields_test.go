package fields

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// A field has a row of its own, or one above it is ignored or refused with all below it. A row of a field that is
// supported says nothing of the fields below it.
func TestOf(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# Page\n\n### Kind\n\n| field | |\n|---|---|\n| `chart.spec.version`, `verify` | supported |\n| `from` (`kind`) | supported |\n" +
		"| `test`, `type: X` | ignored |\n| `kubeConfig` | refused by name |\n\n### Other\n\n| `alone` | supported |\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := Read(page, "Kind")
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]bool{
		"chart.spec.version": true, "chart.spec.verify": true, "chart.spec.chart": false, "verify": true,
		"from.kind": true, "from.name": false, "kind": false,
		"test.timeout": true, "test.filters.name": true, "type": true, "kubeConfig.secretRef.name": true,
		"alone": false, "missing": false,
	} {
		if got := table.Of(field) != ""; got != want {
			t.Errorf("%s: documented %v, want %v", field, got, want)
		}
	}
	if !table.Refuses("kubeConfig") || table.Refuses("test") {
		t.Error("only kubeConfig is refused")
	}
	for _, heading := range []string{"None", "Kin"} {
		if _, err := Read(page, heading); err == nil {
			t.Errorf("the section %s does not exist", heading)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	type inner struct {
		A string `json:"a,omitempty"`
	}
	type spec struct {
		inner  `json:",inline"`
		List   []*inner `json:"list"`
		Whole  *inner   `json:"whole"`
		Hidden string   `json:"-"`
	}
	if got, want := Names(reflect.TypeFor[spec](), "whole"), []string{
		"a", "list", "list.a",
		"whole",
	}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
