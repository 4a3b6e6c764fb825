// Package kustomize builds Kustomize roots and applies Kustomize components to objects, from bytes.
//
// A Walker finds, from kustomization files alone, the files that a root reads. A bundle has exactly these files. A
// Builder turns the bundle into objects that equal those of `kustomize build`. The package reads no disk, no
// environment and no clock, starts no process and opens no connection.
//
// The library itself fetches URLs, runs git and helm, and crashes the process on endless recursion, even with a file
// system in memory. The Walker therefore checks every input first. It accepts a reference only if it is a relative path
// inside the bundle that the library cannot treat as an address. It refuses plugins, functions and charts by name, and
// checks the size of every text that the library parses as YAML. When Kustomize adds a field that names files, add it
// to scan.go; add a new built-in plugin to plugin.go. Until then they are refused.
//
// The library stores the Kubernetes API description in package variables. guard.go keeps these rules: builds run in
// parallel after the description is parsed; a build with a description of its own (`openapi`) runs alone, and the next
// build parses the standard one again; nothing else in the process may call the library meanwhile. Parsing takes about
// 25 ms once per process, and only if a strategic merge patch or a second concurrent build needs it. A small build
// takes 0.3 ms, components on 20 objects take 5 ms, and twice that if the objects have texts or numbers that convert.go
// cannot take directly.
//
// The library writes warnings about deprecated fields to the process's standard error. Nothing here can prevent that.
//
// The package is not API: it can change in every release.
package kustomize
