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
		t.Fatalf("an output of the greatest size: %d bytes written, the error is %v", n, err)
	}
	if n, err := out.Write([]byte("x")); n != 0 || err == nil || !strings.Contains(err.Error(), "more than 4 MiB") ||
		out.Len() != MaxText {
		t.Errorf("one byte more: %d bytes written, the error is %v, the output has %d bytes", n, err, out.Len())
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
		"merge":  func() string { return "" }, // a slow one
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
		`{{range 1000}}{{merge}}{{end}}`:                                   true,
		`{{range 10000}}{{sum 1 2 3}}{{end}}`:                              false,
		`{{range $i, $x := until 3}}{{$i}}{{end}}`:                         false,
		`{{sluice_round}}`:                                                 false, // an error, but not that one
	} {
		_, err := short().Execute(template.New(""), text, nil)
		if errors.Is(err, ErrRounds) != stopped {
			t.Errorf("%.80s: the error is %v, stopped must be %t", text, err, stopped)
		}
	}
	rounds := short()
	if out, err := rounds.Execute(template.New(""),
		`{{range $i, $x := until 3}}{{if eq $i 2}}{{break}}{{end}}{{printf "%d," $i}}{{sum 1 2}}{{end}}`,
		nil); err != nil || string(out) != "0,21,2" {
		t.Errorf("a template that ends: the output is %q, the error is %v", out, err)
	}
	for range 2 { // what was used is used
		if _, err := rounds.Execute(template.New(""), "{{range 60000}}{{end}}", nil); err != nil &&
			!errors.Is(err, ErrRounds) {
			t.Errorf("60,000 rounds of what is left: the error is %v", err)
		}
	}
	if _, err := rounds.Execute(template.New(""), "text", nil); !errors.Is(err, errSpent) {
		t.Errorf("a template after the budget is used up: the error is %v", err)
	}
}

// Templates that call a disabled function fail, and leave the rounds of the import to the others.
func TestDisabledFunctionsAreCheap(t *testing.T) {
	t.Parallel()
	functions := template.FuncMap{}
	for _, name := range []string{"genCA", "genPrivateKey", "bcrypt"} {
		functions[name] = func() string { return "" }
	}
	MakeDeterministic(functions)
	rounds := NewRounds(functions)
	for range 20 {
		for _, text := range []string{"{{genCA}}", "{{genPrivateKey}}", "{{bcrypt}}"} {
			if _, err := rounds.Execute(template.New(""), text, nil); err == nil ||
				!strings.Contains(err.Error(), "is not supported") {
				t.Fatalf("%s: the error is %v, want one that names the function as not supported", text, err)
			}
		}
	}
	if out, err := rounds.Execute(template.New(""), "text", nil); err != nil || string(out) != "text" {
		t.Errorf("a template after them: the output is %q, the error is %v", out, err)
	}
}

// twice defines a template that calls another one twice.
func twice(name, other string) string {
	return `{{define "` + name + `"}}{{template "` + other + `"}}{{template "` + other + `"}}{{end}}`
}
