// Package render turns targets into trees of files: one file for each object, in the namespace of its app.
//
// Render calls a renderer.Renderer for each bundle that is not cached, and writes each rendering at once, so memory
// does not grow with the fleet. An object of a custom kind gets a namespace only if the kind is namespaced, and only
// the definitions of the whole environment say that. Such objects wait in memory until Complete gets the scopes.
//
// The package is not API: it can change in every release.
package render
