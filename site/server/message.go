package server

import (
	"html/template"
	"net/http"
	"strings"

	"github.com/sluice-gitops/sluice/internal/design"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

//nolint:gochecknoglobals // parsed once
var messageTemplate = template.Must(template.New("message").Funcs(template.FuncMap{
	"show": safetext.Line, "mark": design.Mark,
}).Parse(
	`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><title>{{.Title}} · Sluice</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/-/style.css"></head>
<body><header class="top"><p class="brand">{{mark}}<b>Sluice</b></p></header><main class="page"><section class="panel"><h1>{{.Title}}</h1><p>{{show .Text}}</p><p><a href="/">All repositories</a></p></section></main></body></html>
`))

// message answers with a text instead of a page: as a page to a browser, as plain text to others.
func message(w http.ResponseWriter, r *http.Request, status int, text string) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Error(w, text, status)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	title := http.StatusText(status)
	switch status {
	case http.StatusNotFound:
		title = "There is no such page"
	case http.StatusOK:
		title = "Done"
	}
	// an error means that the client is gone
	_ = messageTemplate.Execute(w, struct{ Title, Text string }{title, text})
}

// noPage is the text for an address that names nothing.
const noPage = "The address names no page of this fleet. A cluster or an app that left the fleet has no page any more."
