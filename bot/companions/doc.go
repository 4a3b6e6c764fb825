// Package companions finds what else a merge request concerns: the fleets that take content from its repository (Uses),
// the merge requests that it depends on (Resolve, Dependencies), and those that depend on it (Dependents).
//
// A merge request names others in lines `Depends-On: URL` of its description. Its review then renders the fleet with
// all of them, and compares with the fleet without any of them. Its status waits until they are merged.
//
// A merge request never gets more rights by being named. It is rendered with the one that names it only
//
//   - if the trunk of a concerned fleet declares its repository, or it is in that fleet itself, with the same owner;
//   - if its own review would render it: somebody with write access in its repository wrote or trusted the head;
//   - if the author of the merge request that names it has write access there, and may read the other repository.
//
// The package decides and remembers; it renders, comments and writes nothing. It asks the forge through Repository,
// which its caller implements. What it remembers can be lost: then a sweep finds the change instead.
//
// The package is not API: it can change in every release.
package companions
