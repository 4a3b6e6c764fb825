// Package source reads source commits: their fleet, and for each target the content that its rendering depends on.
//
// A View is one commit's tree. View.Target resolves a target once and computes its input digest from object ids and the
// lock file, without reading charts. Target.Bundle then reads the bytes for the renderer. Targets share the content of a
// source, which is read once per view.
//
// The package reads Git objects and locked archives. It knows no branch, and it renders nothing.
package source
