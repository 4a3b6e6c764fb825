package templates

import (
	"errors"
	"strings"
	"testing"
	"text/template"
)

func TestOutput(t *testing.T) {
	var out Output
	if n, err := out.Write(make([]byte, MaxText)); n != MaxText || err != nil {
		t.Fatal(n, err)
	}
	if n, err := out.Write([]byte("x")); n != 0 || err == nil || !strings.Contains(err.Error(), "more than 4 MiB") ||
		out.Len() != MaxText {
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

// TestRounds: a template without end is stopped whatever keeps it busy, and says so. A template that ends is not.
func TestRounds(t *testing.T) {
	t.Parallel()
	functions := template.FuncMap{
		"until":  func(n int) []int { return make([]int, n) },
		"repeat": func(n int, text string) string { return strings.Repeat(text, n) },
		"sum":    func(n ...int) int { return len(n) },
		"genCA":  func() string { return "" },
	}
	short := func() *Rounds {
		r := NewRounds(functions)
		r.left /= 50 // 100,000 rounds
		return r
	}
	for text, stopped := range map[string]bool{
		"{{range 100000000000}}{{end}}":                                             true,
		"{{range $i := 1000000}}{{range 1000000}}{{if false}}{{end}}{{end}}{{end}}": true,
		"{{range 100000}}{{range $}}{{else}}{{range 100000}}{{end}}{{end}}{{end}}":  true,
		"{{if true}}{{with 1}}{{range 100000000000}}{{end}}{{end}}{{end}}":          true,
		"{{if false}}{{else}}{{range 100000000000}}{{continue}}{{end}}{{end}}":      true,
		`{{define "a"}}{{template "b"}}{{template "b"}}{{end}}` + twice("b", "c") + twice("c", "d") + twice("d", "e") +
			twice("e", "f") +
			`{{define "f"}}{{range 10000}}{{end}}{{end}}{{template "a"}}`: true,
		`{{range 100}}{{$x := repeat 100000 "x"}}{{end}}`:                  true, // the functions' results
		`{{$x := repeat 100000 "x"}}{{range 100}}{{$y := html $x}}{{end}}`: true,
		`{{range 20}}{{$z := until 10000}}{{end}}`:                         true,
		`{{genCA}}`:                                true,
		`{{range 10000}}{{sum 1 2 3}}{{end}}`:      false,
		`{{range $i, $x := until 3}}{{$i}}{{end}}`: false,
		`{{sluice_round}}`:                         false, // an error, but not that one
	} {
		_, err := short().Execute(template.New(""), text, nil)
		if errors.Is(err, ErrRounds) != stopped {
			t.Errorf("%.80s: the error is %v", text, err)
		}
	}
	rounds := short()
	if out, err := rounds.Execute(template.New(""),
		`{{range $i, $x := until 3}}{{if eq $i 2}}{{break}}{{end}}{{printf "%d," $i}}{{sum 1 2}}{{end}}`,
		nil); err != nil || string(out) != "0,21,2" {
		t.Errorf("the output is %q, the error is %v", out, err)
	}
	for range 2 { // what was used is used
		if _, err := rounds.Execute(template.New(""), "{{range 60000}}{{end}}", nil); err != nil &&
			!errors.Is(err, ErrRounds) {
			t.Error(err)
		}
	}
	if _, err := rounds.Execute(template.New(""), "text", nil); !errors.Is(err, errSpent) {
		t.Errorf("%v after the budget", err)
	}
}

// twice defines a template that calls another one twice.
func twice(name, other string) string {
	return `{{define "` + name + `"}}{{template "` + other + `"}}{{template "` + other + `"}}{{end}}`
}
