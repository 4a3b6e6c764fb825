// Package flux reads a repository of Flux objects as Flux does: it starts at a cluster's path, builds every
// Kustomization, and follows the Kustomizations, HelmReleases and ResourceSets that come out, to any depth.
//
// The outcome of a Kustomization equals what kustomize-controller applies (github.com/fluxcd/pkg/kustomize), without
// the labels that the controller adds to objects it owns. A HelmRelease becomes a chart with values; this package
// renders no charts. A ResourceSet becomes the objects that the Flux Operator makes of its templates.
//
// The package reads one commit's tree and nothing else: no network, no cluster. It changes nothing. A Kustomization,
// HelmRelease or ResourceSet that cannot be read fails by itself; all others are read.
//
// Import builds the cluster's path (cluster.root), then expands one object after the other until none is left
// (expandAll, expand). An object that refers to another one which no unit has brought yet waits for it, and a unit that
// must see the whole cluster is read last. At the end the units that were read too early fail (recheckSelectors,
// recheckOptional). Detect finds the paths of clusters without building anything, and Written lists what the files
// declare.
//
// The package is not API: it can change in every release.
package flux
