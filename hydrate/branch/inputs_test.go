package branch

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// The lines of inputs are those of the canonical YAML, and are read as YAML, whatever the names of apps.
func TestInputsAreCanonicalYAML(t *testing.T) {
	t.Parallel()
	digest := func(i int) string { return fmt.Sprintf("sha256:%064x", i) }
	names := []string{
		"shop", "team-a/shop", "a", "z-9", "a-", "team-a/1", "null", "true", "no", "off", "y", "nan",
		"inf", "name", "kind", "namespace", "metadata", "1", "0x10", "1e3", "a.b", "Upper", "e1", "é", "a b", "", "~",
		"team-a/null",
	}
	for _, name := range names {
		for _, d := range []string{digest(1), "", "sha256:", strings.ToUpper(digest(10)), "null"} {
			in := Inputs{
				Apps:   map[string]string{"middle": digest(2), name: d},
				Scopes: map[string][]string{"shop": {"Cert.x"}, "no": nil},
			}
			got, err := in.Encode()
			if err != nil {
				t.Fatal(err)
			}
			apps := map[string]any{}
			for k, v := range in.Apps {
				apps[k] = v
			}
			want, err := manifest.Append(nil, map[string]any{
				"apps":   apps,
				"scopes": map[string]any{"shop": []any{"Cert.x"}},
			})
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%q: %q: %v\n%s\nbut canonical\n%s", name, d, err, got, want)
			}
			sameInputs(t, got)
		}
	}
}

// A text that is not canonical has the value that YAML gives it.
func TestInputsOfOtherText(t *testing.T) {
	t.Parallel()
	d := "sha256:" + strings.Repeat("0", 64)
	for _, text := range []string{
		"", "apps:\n", "apps: {}\n", "apps:\n  a: " + d, "apps:\n  a: " + d + "\n  a: " + d + "\n",
		"apps:\n  b: " + d + "\n  a: " + d + "\n",
		"apps:\n  a: " + d + "\nscopes:\n", "apps:\n  a: " + d + "\nscopes:\n  a: [x]\napps:\n  b: " + d + "\n",
		"apps:\n  a: " + d + " # c\n",
		"apps:\n  a: " + d + "\n  b:\n    " + d + "\n", "apps:\n  a: " + d + "\nscopes:\n  a: &x [y]\n  b: *x\n",
		"apps:\n a: " + d + "\n", "apps:\n  a: " + d + "\n---\napps: {b: c}\n",
		"apps:\n  a: " + d + "\nother: 1\n", "apps:\n  a: " + d + "\n\n", "apps:\n  a: " + d + "\r\n",
		"scopes:\n  a: [x]\n",
	} {
		sameInputs(t, []byte(text))
	}
}

func sameInputs(t *testing.T, data []byte) {
	t.Helper()
	if got, want := readInputs(data), decodeInputs(data); !reflect.DeepEqual(got, want) {
		t.Errorf("%q is read as %+v, as YAML it is %+v", data, got, want)
	}
}

func TestIsDigest(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		text := []byte(digestName + strings.Repeat("0f", 32))
		text[len(text)-7] = byte(c)
		if got, want := isDigest(string(text)), strings.ContainsRune("0123456789abcdef", rune(c)); got != want {
			t.Errorf("%q: the result of isDigest is %v", text, got)
		}
	}
	if isDigest(digestName + strings.Repeat("0", 63)) {
		t.Error("63 digits")
	}
}
