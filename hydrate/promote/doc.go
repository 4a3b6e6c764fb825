// Package promote decides: which commit an environment should run, which gates hold, which wave is next, and what is held
// back. It never acts, and knows neither Git nor a forge nor the network nor the clock. Everything that a decision depends on
// is in the Situation; everything that outlives a decision is in the Record, which a caller stores in Git. All functions are
// pure, and safe for concurrent use.
//
// The terms are those of docs/promotion-model.md: the desired state of an environment is a Source; a cluster that does not run
// it is behind; a Hold keeps a commit out of a part of the environment after it failed there or was rolled back.
package promote
