// Package gitstore is the only Git of Sluice: it reads objects, makes new ones, and moves branches.
//
// A Store reads one repository, from disk or from a remote that it mirrors; what a shallow or partial clone lacks it
// fetches as it is asked for, a directory's files or a stretch of history at a time. A Writer collects new objects in one
// packfile on disk; they can be read through the Store before they are pushed. Branches are the place where rendered
// branches live, in this repository or on a remote: Push sends the Writer's packfile and moves refs by compare-and-swap from
// the values that the caller read. It never forces, never creates a branch that the caller did not mean to create, and
// says for every ref what became of it.
//
// A user's own repository changes only by Push to its Local branches. Whatever is fetched by the way lies in its folder
// .git/sluice, of which Git knows nothing: it is a cache, pruned when it grows, and may be deleted at any time.
//
// Only this package imports go-git. It starts no process, but go-git runs git-upload-pack and git-receive-pack for remotes
// that are paths. Credentials come in Auth and never appear in an error. Repositories with SHA-1 object names alone are
// understood. What is read was written by others: sizes, names and formats are checked, and an error says which object it
// was.
package gitstore
