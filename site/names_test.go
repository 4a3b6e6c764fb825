package site

import (
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/site/conform"
)

func TestFileName(t *testing.T) {
	t.Parallel()
	for _, plain := range []string{"shop", "prod-eu-1", "a.b", "0"} {
		if got := fileName(plain); got != plain {
			t.Errorf("%q is written as %q", plain, got)
		}
	}
	seen := map[string]string{}
	for _, name := range []string{
		"", ".", "..", "../etc/passwd", "..\\x", "a/b", "a-b", "A-B", "con", "con.x", "com1", "index", "x-a", "-rf",
		"a..b", "a.", ".hidden", "a\x00b", "ä", "a b", strings.Repeat("a", 300),
		strings.Repeat("a", 301), "<script>", "a?b#c", "%2e%2e", "a:b",
	} {
		got := fileName(name)
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q share the file %q", name, other, got)
		}
		seen[got] = name
		checkFileName(t, name, got)
	}
}

func checkFileName(t *testing.T, name, got string) {
	t.Helper()
	if got == "" || len(got) > maxFile+hashDigits+3 || path.Clean("/"+got) != "/"+got || strings.Contains(got, "..") ||
		strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" ||
		strings.HasPrefix(got, ".") || strings.HasPrefix(got, "-") {
		t.Errorf("%q becomes the unsafe file name %q", name, got)
	}
}

func FuzzFileName(f *testing.F) {
	f.Add("a/../b", "a")
	f.Add("x-shop-0123456789", "shop")
	f.Fuzz(func(t *testing.T, a, b string) {
		checkFileName(t, a, fileName(a))
		if a != b && fileName(a) == fileName(b) {
			t.Errorf("%q and %q share the file %q", a, b, fileName(a))
		}
	})
}

func TestPieces(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 1, 4, 0, 4, 0, 0, time.UTC)
	for text, want := range map[string][]piece{
		"":                             {{}},
		"plain":                        {{Text: "plain"}},
		"run `sluice resume prod` now": {{Text: "run "}, {Text: "sluice resume prod", Code: true}, {Text: " now"}},
		"`a` or `b`":                   {{}, {Text: "a", Code: true}, {Text: " or "}, {Text: "b", Code: true}, {}},
		"it`s one":                     {{Text: "it`s one"}},
		"`a` and `b":                   {{}, {Text: "a", Code: true}, {Text: " and `b"}},
		"until 2024-01-04 00:04 UTC":   {{Text: "until "}, {At: at}},
		"2024-01-04 00:04 UTC2024-01-04 00:04 UTC: `a`": {
			{At: at},
			{At: at},
			{Text: ": "},
			{Text: "a", Code: true},
			{},
		},
		"2024-13-04 00:04 UTC or 24-01-04 00:04 UTC": {{Text: "2024-13-04 00:04 UTC or 24-01-04 00:04 UTC"}},
		"its commit 0123456789abcdef0123456789abcdef01234567 at 2024-01-04 00:04 UTC": {
			{Text: "its commit "},
			{Text: "0123456789abcdef0123456789abcdef01234567", Hash: true},
			{Text: " at "},
			{At: at},
		},
		"`git show 0123456789abcdef0123456789abcdef01234567`": {
			{},
			{Text: "git show 0123456789abcdef0123456789abcdef01234567", Code: true},
			{},
		},
		"sha256:0123456789abcdef0123456789abcdef0123456789abcdef": {{Text: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef"}},
		"window 2024-01-04 00:04–23:59 UTC":                       {{Text: "window 2024-01-04 00:04–23:59 UTC"}},
	} {
		if got := pieces(text); !slices.Equal(got, want) {
			t.Errorf("%q: the result of pieces is %+v", text, got)
		}
	}
}

// A rendering that differs from the norm and was not compared is never shown as alike.
func TestStateIn(t *testing.T) {
	t.Parallel()
	a := &conform.App{
		Norm: []string{"one"}, Missing: []string{"two"},
		Variants: []conform.Variant{{Clusters: []string{"three"}}}, Unread: 1,
	}
	for cluster, want := range map[string]string{
		"one": "alike", "two": "missing", "three": "variant",
		"four": "unread",
	} {
		if got := stateIn(a, cluster); got != want {
			t.Errorf("%s is %s, want %s", cluster, got, want)
		}
	}
	a.Unread = 0 // it differs in values of registry variables, which do not count
	if got := stateIn(a, "four"); got != "alike" {
		t.Errorf("four is %s", got)
	}
}
