// Package renderer turns a bundle of bytes into Kubernetes objects.
//
// A Bundle (charts, values, Kustomize roots, manifests, the cluster's version) gives a Rendering (objects in
// canonical YAML). The package knows no Git, no forge and no cluster; it reads no file, no environment and no clock,
// and opens no connection. Engine renders in this process. Pool renders in confined child processes (see package
// worker). Both implement Renderer. A Load carries bundles to another machine.
//
// The package is API: docs/architecture.md says how stable it is.
package renderer
