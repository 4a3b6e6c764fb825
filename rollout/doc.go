// Package rollout decides which commit an environment should run, which gates pass, which wave is next, and what is
// held back. It only decides: it knows neither Git nor a forge nor the network nor the clock. The Situation contains
// everything that a decision depends on; the Record contains everything to remember between decisions, and the caller
// stores it in Git. All functions are pure and safe for concurrent use.
//
// The terms are those of docs/promotion-model.md: the desired state of an environment is a Source; a cluster that
// does not run it is behind; a Hold keeps a commit out of a part of the environment after it failed there or was
// rolled back.
//
// The package is not API: it can change in every release.
package rollout
