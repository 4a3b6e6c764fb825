package templates

import (
	"strings"
	"testing"
)

func TestOutput(t *testing.T) {
	var out Output
	if n, err := out.Write(make([]byte, MaxText)); n != MaxText || err != nil {
		t.Fatal(n, err)
	}
	if n, err := out.Write([]byte("x")); n != 0 || err == nil || !strings.Contains(err.Error(), "more than 4 MiB") || out.Len() != MaxText {
		t.Error(n, err, out.Len())
	}
}

func TestCutAtWord(t *testing.T) {
	for _, c := range []struct {
		slug  string
		limit int
		want  string
	}{
		{"one-two", 7, "one-two"},
		{"one-two", 6, "one"},
		{"one-two-three", 7, "one-two"}, // the hyphen is the byte after the limit
		{"onetwo", 3, "one"},
		{"-onetwo", 3, ""},
	} {
		if got := CutAtWord(c.slug, c.limit); got != c.want {
			t.Errorf("%q cut to %d bytes is %q, want %q", c.slug, c.limit, got, c.want)
		}
	}
}
