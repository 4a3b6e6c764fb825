// Package gitops checks the objects that Sluice prints for Flux and Argo CD with these projects' own code: the
// schemas of their CRDs, the libraries with which Flux clones and builds, and the engine of Argo CD's notifications.
// It is a separate module, so that their dependencies stay out of Sluice's. This repository contains none of their
// code.
package gitops
