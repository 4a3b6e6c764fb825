package promote

import (
	"fmt"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// resolve says what a person does about a foreign commit on an environment's branch. While a rollback waits, that is to
// go on with it. The commit to hydrate comes from the states in the record, newest last: whoever made the foreign commit
// may have changed the one that the branch names.
func resolve(h *hydrate.Hydrator, e fleet.Environment, st *branch.State, record rollout.Record) string {
	if record.Rollback != nil { // it is what the person wants now, and renders nothing
		return admit.Resolve(st.Origin, h.Branches, fmt.Sprintf("run `sluice rollback %s --overwrite-foreign`, which goes on with the rollback",
			e.Name))
	}
	ran := record.Ran
	push := " --push"
	if gitstore.IsLocal(h.Branches) {
		push = ""
	}
	commit, find := "", ""
	if len(e.After) > 0 {
		commit, find = " --commit SOURCE", fmt.Sprintf(", with the last SOURCE of `sluice history %s`", e.Name)
		if len(ran) > 0 {
			if commits := ran[len(ran)-1].Source.Commits(); len(commits) == 1 {
				commit, find = fmt.Sprintf(" --commit %.10s", commits[0]), ""
			}
		}
	}
	return admit.Resolve(st.Origin, h.Branches, fmt.Sprintf("run `sluice hydrate%s --env %s%s --overwrite-foreign`%s",
		push, e.Name, commit, find))
}
