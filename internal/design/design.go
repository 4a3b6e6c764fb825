// Package design holds the parts that all pages of Sluice share, so that reports and the pages of a fleet look alike:
// the base style sheet (colours in light and dark, type, header, panels, badges), the script behind the buttons of the
// header, and the mark. The package is a leaf and knows no page.
package design

import (
	_ "embed" // for the style sheet, the script and the mark
	"html/template"
	"strings"
)

//go:embed base.css
var base string

//go:embed base.js
var script string

//go:embed mark.svg
var mark string

// CSS returns the base style sheet. A page appends its own rules.
func CSS() string { return base }

// Script returns the script of a page: the shared part, which chooses the colours and opens the list of keys, and then
// the page's own modules. All share one scope, apart from that of the browser. The page needs elements with the ids
// theme, help, keys and said.
func Script(modules ...string) string {
	return "\"use strict\";\n(() => {\n" + script + strings.Join(modules, "") + "})();\n"
}

// Mark returns the logo beside the name in the header, an SVG element.
func Mark() template.HTML { return template.HTML(mark) } //nolint:gosec // our own file
