// Package gitops holds what Sluice prints for Flux and Argo CD against these projects' own code: the schemas of their CRDs, the
// libraries with which Flux clones and builds, and the engine of Argo CD's notifications. It is a module of its own, so that
// their dependencies stay out of Sluice's; nothing of theirs is kept in this repository.
package gitops
