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
// Parsing takes about 25 ms once per process, and only if a strategic merge patch or a second build at the same time asks
// for it; a small build takes 0.3 ms, components on 20 objects 5 ms, twice that if the objects hold text or numbers that
// convert.go sends the long way.
//
// The library writes warnings about deprecated fields to the process's standard error; nothing here can stop it.
package kustomize
