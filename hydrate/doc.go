// Package hydrate turns source commits into rendered branches: plan, render, write, push.
//
// A plan reads the fleet from the tree objects of a commit and lists the targets whose input digest is not on the
// environment branch. Only these are rendered. Each rendering is written to blobs and trees at once, so memory does
// not grow with the fleet. The branch is both the render cache and the record of what was rendered; there is no other
// storage. If a target fails, its environment is not written; other environments are.
//
// The package knows no forge. It reads Git through gitstore, charts through fetch, and renders with a
// renderer.Renderer.
//
// The package is not API: it can change in every release.
package hydrate
