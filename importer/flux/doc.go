// Package flux reads a repository of Flux objects as Flux does: it starts at a cluster's path, builds every
// Kustomization, and follows the Kustomizations and HelmReleases that come out, to any depth.
//
// The outcome of a Kustomization equals what kustomize-controller applies (github.com/fluxcd/pkg/kustomize), without
// the labels that the controller adds to objects it owns. A HelmRelease becomes a chart with values; this package
// renders no charts.
//
// The package reads one commit's tree and nothing else: no network, no cluster. It changes nothing. A Kustomization or
// HelmRelease that cannot be read fails by itself; all others are read.
//
// The package is not API: it can change in every release.
package flux
