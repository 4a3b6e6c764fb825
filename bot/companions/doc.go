// Package companions finds what else a merge request concerns: the fleets that take content from its repository (Uses),
// the merge requests that it depends on (Resolve, Dependencies), and those that depend on it (Dependents).
//
// The package decides and remembers; it renders, comments and writes nothing. It asks the forge through Repository,
// which its caller implements. What it remembers can be lost: then a sweep finds the change instead.
//
// A merge request never gets more rights by being named, and whoever names one shows nothing that its readers may not
// see; see Dependencies.
//
// The package is not API: it can change in every release.
package companions
