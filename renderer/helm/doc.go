// Package helm renders charts with Helm's own template engine, from bytes.
//
// The outcome equals `helm template` of the same Helm version. Nothing here opens a file or a connection: charts come as
// files or as a packed archive, `lookup` yields nothing, DNS is off, and a schema that refers beyond itself is
// refused. A hostile template can still exhaust the process; run this package in one that may die.
package helm
