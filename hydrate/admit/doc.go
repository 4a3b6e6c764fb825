// Package admit decides, before anything is rendered, whether a run may write a source commit to the branch of an
// environment. Four rules apply: the trunk of the source repository contains the commit, the branch has no commit of
// somebody else, nobody deleted the branch, and the branch does not hold a newer source commit.
//
// The package reads branches and moves none. What the fleet of a commit says about its own trunk or signers never
// admits that commit: both come from the trunk of the remote.
//
// The package is not API: it can change in every release.
package admit
