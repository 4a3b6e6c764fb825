// Package page gives a review as one HTML file that needs nothing else: no network, no server. The review is embedded as data and
// drawn by a script of the page's own; nothing of it is ever parsed as HTML. It must not decide anything: words, order and counts
// are the review's.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"github.com/sluice-gitops/sluice/bot/report"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// view is what the template fills in.
type view struct {
	Title, Verdict, Headline     string
	CSS                          template.CSS
	JS                           template.JS
	Data                         template.JS
	Policy                       string
	Counts                       string
	Base, Head, Against, Version string
}

// Write writes the review as one HTML page.
func Write(w io.Writer, r *report.Review) error {
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("HTML page: %w", err)
	}
	data, err := embedded(r)
	if err != nil {
		return fmt.Errorf("HTML page: %w", err)
	}
	v := view{
		Title: "Sluice: " + r.Fleet, Verdict: string(r.Verdict), Headline: report.Headline(r), Base: short(r.Base), Head: short(r.Head), Against: r.Against, Version: r.Version,
		CSS: template.CSS(pageCSS), JS: template.JS(pageJS), Data: template.JS(data), //nolint:gosec // our own files; data is JSON with <, > and & escaped
		Policy: fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; base-uri 'none'; form-action 'none'", digest(pageCSS), digest(pageJS)),
	}
	if r.Changes != nil {
		v.Counts = fmt.Sprintf("%d groups of changes, %d apps, %d targets withheld", len(r.Changes.Groups), len(r.Changes.Apps), len(r.Changes.Withheld))
	}
	return t.Execute(w, v)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

// embedded is the review as JSON that can stand in a script element: encoding/json writes <, > and & as escapes.
func embedded(r *report.Review) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(true)
	err := enc.Encode(r)
	return bytes.TrimSpace(b.Bytes()), err
}
