// Package helmfile converts what `helmfile build` prints into files of a fleet: sluice.yaml, clusters and apps with
// layers. It is a function of the states and of the repository's files: it runs neither helmfile nor Helm, and it
// writes nothing.
//
// A release that the fleet would render differently is left out, never approximated. Result.Findings names it, and each
// field that has no counterpart.
//
// The package is not API: it can change in every release.
package helmfile
