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
// go on with it.
func resolve(h *hydrate.Hydrator, e fleet.Environment, st *branch.State, record rollout.Record) string {
	if record.Rollback != nil { // it is what the person wants now, and renders nothing
		return admit.Resolve(st.Origin, h.Branches, fmt.Sprintf("run `sluice rollback %s --overwrite-foreign`, which goes on with the rollback",
			e.Name))
	}
	local := gitstore.IsLocal(h.Branches)
	if len(e.After) > 0 {
		where := ""
		if local {
			where = " --local"
		}
		return admit.Resolve(st.Origin, h.Branches, fmt.Sprintf("run `sluice hydrate --again%s --env %s --overwrite-foreign --reason WHY`, which renders again what %[2]s ran",
			where, e.Name))
	}
	push := " --push"
	if local {
		push = ""
	}
	return admit.Resolve(st.Origin, h.Branches, fmt.Sprintf("run `sluice hydrate%s --env %s --overwrite-foreign`", push,
		e.Name))
}
