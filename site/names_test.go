package site

import (
	"path"
	"strings"
	"testing"
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
		"", ".", "..", "../etc/passwd", "..\\x", "a/b", "a-b", "A-B", "con", "con.x", "com1", "index", "x-a", "-rf", "a..b", "a.", ".hidden", "a\x00b", "ä", "a b", strings.Repeat("a", 300),
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
	if got == "" || len(got) > maxFile+hashDigits+3 || path.Clean("/"+got) != "/"+got || strings.Contains(got, "..") || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" ||
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
