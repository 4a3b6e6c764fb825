// Package manifest knows what a Kubernetes object is: its identity, its scope, its canonical YAML and the name of its
// file on a branch.
//
// Decode reads YAML as Kubernetes reads it; Encode writes the one YAML text of an object, so that equal objects are equal
// bytes. Everything here is a pure function, safe for concurrent use; the package imports nothing else of Sluice and
// reads nothing but its arguments.
package manifest
