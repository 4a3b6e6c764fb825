// Package source reads source commits: the fleet, and for each target the content that its rendering depends on.
//
// A View is the tree of one commit. View.Target resolves a target once and computes its input digest from object ids
// and the lock file, without reading charts. Target.Bundle then reads the bytes for the renderer. Targets share the
// content of a source, which a view reads once.
//
// The package reads Git objects and locked archives. It knows no branch and renders nothing.
//
// The package is not API: it can change in every release.
package source
