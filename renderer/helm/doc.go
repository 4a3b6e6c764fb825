// Package helm renders charts with Helm's own template engine, from bytes.
//
// The result equals that of `helm template` of the same Helm version: 3 or 4, which the caller chooses for each chart.
// helm3.go and helm4.go hold what each version does by itself; the rest of the package is common to both. The package
// opens no file and no connection: the caller passes charts as files or as a packed archive, `lookup` returns nothing,
// DNS is off, and a schema that refers to another document is refused. A hostile template can exhaust the process, so
// render untrusted charts in a child process.
//
// The package is not API: it can change in every release.
package helm
