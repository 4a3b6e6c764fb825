// Package importer turns repositories of other tools into declarations of a fleet: targets with everything that their
// rendering depends on. Each tool has a package below this one; this package gives their results the names and the form
// that package fleet works with.
//
// An importer is a function of a commit's tree. It has no state of its own, reads no network and asks no cluster.
//
// The package is not API: it can change in every release.
package importer
