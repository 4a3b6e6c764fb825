// Package page writes a review as one HTML file that needs nothing else: no network, no server, no build step. The
// file is readable without JavaScript; its script adds the filters, the tree, line numbers, word highlights and the
// keyboard. All text reaches the file through html/template. The package decides nothing: words, order, risks and
// folding come from package report.
//
// The package is not API: it can change in every release.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/design"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
)

//go:embed *.html
var templates embed.FS

//go:embed page.css
var pageCSS string

//go:embed js/*.js
var scripts embed.FS

// assets are what all pages share. They are made once: parsing the template costs more than filling it in for a small
// review.
type assets struct {
	template *template.Template
	css, js  string
	policy   string
}

var shared = sync.OnceValues(func() (*assets, error) { //nolint:gochecknoglobals // constant after the first call
	js, err := script()
	if err != nil {
		return nil, fmt.Errorf("HTML page: %w", err)
	}
	t, err := template.New("page.html").Funcs(functions()).ParseFS(templates, "*.html")
	if err != nil {
		return nil, fmt.Errorf("HTML page: %w", err)
	}
	css := design.CSS() + pageCSS
	return &assets{t, css, js, policyOf(css, js)}, nil
})

// Write writes the review as one HTML page.
func Write(w io.Writer, r *report.Review) error {
	a, err := shared()
	if err != nil {
		return err
	}
	v := newView(r)
	v.CSS, v.JS, v.Policy = template.CSS(a.css), template.JS(a.js), a.policy //nolint:gosec // our own files
	return a.execute(w, v)
}

// linkedPolicy is the content security policy of pages that share their style and script.
const linkedPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"

// WriteLinked writes the review as an HTML page that loads the style and the script from Files, so that many pages need
// less space. folder is the way to them, such as "../".
func WriteLinked(w io.Writer, r *report.Review, folder string) error {
	a, err := shared()
	if err != nil {
		return err
	}
	v := newView(r)
	v.Shared, v.Policy = folder, linkedPolicy
	return a.execute(w, v)
}

// Files returns the files that pages of WriteLinked load, by name.
func Files() (map[string][]byte, error) {
	a, err := shared()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"report.css": []byte(a.css), "report.js": []byte(a.js)}, nil
}

func (a *assets) execute(w io.Writer, v *view) error {
	if err := a.template.Execute(w, v); err != nil {
		return fmt.Errorf("HTML page: %w", err)
	}
	return nil
}

// Policy returns the content security policy of the pages that this version writes, for a server that sends one of
// them.
func Policy() (string, error) {
	a, err := shared()
	if err != nil {
		return "", err
	}
	return a.policy, nil
}

func policyOf(css, js string) string {
	return fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'", digest(css), digest(js))
}

// script joins the modules in the order of their names.
func script() (string, error) {
	list, err := scripts.ReadDir("js")
	if err != nil {
		return "", err
	}
	var modules []string
	for _, f := range list {
		text, err := scripts.ReadFile("js/" + f.Name())
		if err != nil {
			return "", err
		}
		modules = append(modules, string(text))
	}
	return design.Script(modules...), nil
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// functions are those of the template. show escapes what a reader cannot see; html/template escapes markup.
func functions() template.FuncMap {
	return template.FuncMap{
		"mark":     design.Mark,
		"show":     safetext.Line,
		"lines":    safetext.Lines,
		"arrows":   arrows,
		"count":    report.Count,
		"number":   report.Number,
		"patterns": diff.Patterns,
		"short":    func(commit string) string { return safetext.Shorten(commit, shortCommit) },
		"list":     func(l []string) string { return strings.Join(l, ", ") },
		"class":    class,
	}
}

// arrows is show for a text in which an arrow leads from an old to a new value. The arrow is drawn, because not every
// font has it, and remains a character for those who copy the text.
func arrows(text string) template.HTML {
	parts := strings.Split(safetext.Line(text), " → ")
	for i := range parts {
		parts[i] = template.HTMLEscapeString(parts[i])
	}
	return template.HTML(strings.Join(parts, ` <span class="to">→</span> `)) //nolint:gosec // each part is escaped
}

const shortCommit = 13 // 12 digits and the ellipsis

// class keeps a word fit for a class name: names of risks, verbs and verdicts are, nothing else passes.
func class(v any) string {
	s := fmt.Sprint(v)
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "unknown"
	}
	return s
}
