// Package kustomize builds Kustomize roots and applies Kustomize components to objects, from bytes.
//
// The outcome equals `kustomize build`. Before the library sees a root, every file that it can read is looked up in the
// bundle: a reference is taken only if it is a relative path to something that is there, so that the library, which
// fetches URLs and starts git whatever its file system is, never has a reason to. Plugins, functions and charts are
// refused by name.
//
// The library keeps process-wide state; this package runs one build at a time. The first build of a process parses the
// Kubernetes API description, which takes about as long as a hundred small builds.
package kustomize
