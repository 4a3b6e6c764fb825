// Package compare finds what a change does to rendered objects: it compares two source commits, or a source commit with
// what the environment branches hold.
//
// Run finds the targets that can differ, reuses the trees that branches hold under the same input digest, renders the
// others, and reads the objects that differ, with secrets masked. It writes nothing but the preview branch that a request
// asks for. A target that cannot be rendered is withheld and reported; it does not affect other targets.
package compare
