// Package branch reads and writes the records of an environment branch.
//
// An environment branch holds one folder per cluster and the folder .sluice: the source commit (environment.yaml),
// the scopes of custom kinds (kinds.yaml) and the input digest of every target (inputs/<cluster>.yaml). Its commits
// have trailers that name the source commit, the environment and the reason. Hydration reuses rendered trees by the
// digests, and promotion and verification start from the source commit.
//
// All functions work on a gitstore.Store or a gitstore.Writer. The package keeps no state and moves no branch.
//
// The package is not API: it can change in every release.
package branch
