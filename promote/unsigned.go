package promote

import (
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
)

// Unsigned returns the warning that nothing proves who wrote the records of a fleet; "" if spec.signers says who may,
// or if no environment is promoted, so that there are none.
func Unsigned(f *fleet.Fleet) string {
	promoted := slices.ContainsFunc(f.Spec.Environments, func(e fleet.Environment) bool { return len(e.After) > 0 })
	if !promoted || !f.Signers().Empty() {
		return ""
	}
	return "records are not signed: spec.signers is not set, so whoever can push to sluice/state can forge an approval, a freeze or a halt (list the keys that may sign there: docs/security.md)"
}
