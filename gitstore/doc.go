// Package gitstore is Sluice's access to Git: it reads objects, writes new ones and moves branches.
//
// A Store reads one repository, from disk or as a mirror of a remote. It fetches objects that a shallow or partial
// clone lacks when they are read: the files of a directory, or a stretch of history, in one request. A Writer collects
// new objects in one packfile on disk; the Store can read them before they are pushed. Branches is the repository with
// the rendered branches, this one or a remote: Push sends the Writer's packfile and moves refs by compare-and-swap from
// the values that the caller read. It never forces, creates a branch only if the caller says that it must not exist,
// and reports the outcome of every ref.
//
// A user's own repository changes only by Push to its Local branches. Fetched objects go into the folder .git/sluice,
// which Git does not read. Like a mirror, it is a cache: it is checked when it is opened, damaged files are removed and
// fetched again, a process may be killed at any moment, and it may be deleted at any time.
//
// Only this package and those below it import go-git. It starts no process, but go-git runs git-upload-pack and
// git-receive-pack for remotes that are paths. Errors never contain the credentials of Auth; callers tell them apart
// with errors.Is and errors.As, see errors.go. Only repositories with SHA-1 object names are supported. Objects are
// untrusted: sizes, names and formats are checked, and errors name the object.
//
// The package is not API: it can change in every release.
package gitstore
