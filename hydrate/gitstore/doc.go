// Package gitstore is the only Git of Sluice: it reads objects, makes new ones, and moves branches.
//
// A Store reads one repository, from disk or from a remote that it mirrors; what a shallow or partial clone lacks it
// fetches object by object. A Writer collects new objects in one packfile on disk. Branches are the place where rendered
// branches live, in this repository or on a remote: Push sends the Writer's packfile and moves refs by compare-and-swap from
// the values that the caller read. It never forces, never creates a branch that the caller did not mean to create, and
// says for every ref what became of it.
//
// Only this package imports go-git. It reads no environment; credentials come in Auth and never appear in an error.
// Repositories with SHA-1 object names alone are understood.
package gitstore
