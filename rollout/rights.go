package rollout

import (
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
)

// Person is the author of a command, with the rights that the forge reports at that time.
type Person struct {
	User  string
	Teams []string
	Role  string // in the source repository: read, write, maintain, admin; "" is none
}

// Allowed reports whether a person may give a command in an environment, by the rights of sluice.yaml on the trunk, and
// returns the reason if not. A verb is the name of a command, or "now" for --now. Without rights in sluice.yaml,
// everybody with the role maintain may do everything. If an environment names approvers, only they may approve.
func Allowed(env fleet.Environment, verb string, who Person) (ok bool, reason string) {
	p := env.Promotion
	if who.User == "" {
		return false, "the author of the command is unknown"
	}
	if verb == "approve" && len(p.Approvers.Users)+len(p.Approvers.Teams) > 0 {
		if hasFold(p.Approvers.Users, who.User) || slices.ContainsFunc(who.Teams,
			func(t string) bool { return hasFold(p.Approvers.Teams, t) }) {
			return true, ""
		}
		return false, fmt.Sprintf("%s is not among the approvers of %s", who.User, env.Name)
	}
	if len(p.Rights) == 0 {
		if rank(who.Role) >= rank("maintain") {
			return true, ""
		}
		return false, fmt.Sprintf("%s needs the role maintain in the source repository, or rights for %s in sluice.yaml", who.User, env.Name)
	}
	for _, r := range p.Rights {
		if !covers(r, verb) {
			continue
		}
		role := slices.ContainsFunc(r.Roles, func(x string) bool { return rank(x) > 0 && rank(who.Role) >= rank(x) })
		team := slices.ContainsFunc(who.Teams, func(t string) bool { return hasFold(r.Teams, t) })
		if role || team || hasFold(r.Users, who.User) {
			return true, ""
		}
	}
	return false, fmt.Sprintf("sluice.yaml does not give %s the right to %s in %s", who.User, verb, env.Name)
}

// covers reports whether rights include a verb. Rights without verbs include all verbs except "now".
func covers(r fleet.Rights, verb string) bool {
	if len(r.Verbs) == 0 {
		return verb != "now"
	}
	return slices.Contains(r.Verbs, verb)
}

func rank(role string) int {
	return 1 + slices.Index([]string{"read", "write", "maintain", "admin"}, role)
}
