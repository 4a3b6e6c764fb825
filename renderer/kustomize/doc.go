// Package kustomize builds Kustomize roots and applies Kustomize components to objects, from bytes.
//
// A Walker finds, from kustomization files alone, what a root reads; a bundle is filled with exactly these files; a
// Builder turns the bundle into objects that equal those of `kustomize build`, one by one. The package reads no disk, no
// environment and no clock, starts no process and opens no connection.
//
// The library does all of that if it is asked to: it fetches URLs, runs git and helm, and ends the process on endless
// recursion, whatever file system it was given. So nothing reaches it unchecked. A reference is taken only if it is a
// relative path to something inside the bundle and cannot be read as an address; plugins, functions and charts are
// refused by name; every text that it parses as YAML is held against a budget first. New fields of Kustomize that name
// files must be added to scan.go, new built-in plugins to plugin.go, or they are refused.
//
// The library keeps the Kubernetes API description in variables of the process. The laws, kept by guard.go:
// builds run in parallel once the description is parsed; a build that brings a description of its own (`openapi`) runs
// alone, and the next one starts afresh; nobody else in the process may call the library meanwhile.
// Parsing takes 0.1 to 0.2 s of CPU once per process, and only if a strategic merge patch or a second build at the same
// time asks for it.
package kustomize
