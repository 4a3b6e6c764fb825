// Package compare finds what a change does to rendered objects. It compares two source commits, or a source commit
// with the content of the environment branches.
//
// Run finds the targets that may differ, reuses the trees that branches hold under the same input digest, renders the
// others, and reads the objects that differ, with secrets masked. It writes only the preview branch, if the request
// asks for one. A target that cannot be rendered is withheld and reported; it does not affect other targets.
//
// The package is not API: it can change in every release.
package compare
