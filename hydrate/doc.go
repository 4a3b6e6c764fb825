// Package hydrate turns source commits into rendered branches: plan, render, write, push; and it verifies branches against
// the commits they were rendered from.
//
// A plan reads the fleet from tree objects and names the targets whose input digest the environment branch does not hold;
// only these are rendered, and a rendering becomes blobs and trees at once, so that memory does not grow with the
// fleet. The branch is its own cache and its own record: delete all else and nothing changes. A target that fails keeps
// its environment from being written and no other.
//
// The package knows no forge. What it reads comes from gitstore and fetch, what it renders from a renderer.Renderer.
package hydrate
