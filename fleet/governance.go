package fleet

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/internal/signers"
)

// The tools that apply cluster branches.
const (
	SyncArgoCD = "argocd"
	SyncFlux   = "flux"
)

// SyncOf returns the tool that applies an environment's cluster branches: SyncArgoCD, SyncFlux, or "" if the fleet does
// not say.
func (f *Fleet) SyncOf(environment string) string {
	if e, ok := f.Environment(environment); ok {
		return cmp.Or(e.Sync, f.Spec.Sync)
	}
	return f.Spec.Sync
}

// ForceHookJobs reports whether Jobs that are hooks get Flux's force annotation in an environment.
func (f *Fleet) ForceHookJobs(environment string) bool {
	return f.Spec.Flux.ForceHookJobs && f.SyncOf(environment) == SyncFlux
}

// Enforces reports whether policy findings stop hydration of an environment. hasRules says whether the fleet has rules
// of its own, which decides where neither the environment nor the fleet does.
func (f *Fleet) Enforces(environment string, hasRules bool) bool {
	if e, ok := f.Environment(environment); ok && e.Policy.Enforce != nil {
		return *e.Policy.Enforce
	}
	if f.Spec.Policy.Enforce != nil {
		return *f.Spec.Policy.Enforce
	}
	return hasRules
}

// Signers are the keys that may sign records and rendered commits; the list is empty if spec.signers is.
func (f *Fleet) Signers() signers.List { return f.signers }

func (fc fleetChecks) governance() {
	var err error
	if fc.fleet.signers, err = signers.Parse(fc.fleet.Spec.Signers); err != nil {
		at := []string{"spec", "signers"}
		if problem, ok := errors.AsType[*signers.LineError](err); ok {
			at = append(at, strconv.Itoa(problem.Line))
		}
		fc.errorf(fc.file, at, "a line as in Git's allowed-signers file", "%v", err)
	}
	fc.charts()
	checkDelivery(fc.findings, fc.file, fc.fleet.Spec.Delivery)
	scopes := map[string]string{}
	for scope, list := range map[string][]string{
		"cluster":    fc.fleet.Spec.Kinds.Cluster,
		"namespaced": fc.fleet.Spec.Kinds.Namespaced,
	} {
		for i, kind := range list {
			at := []string{"spec", "kinds", scope, strconv.Itoa(i)}
			if !validKind(kind) {
				fc.errorf(fc.file, at, "Kind.group, such as ClusterExternalSecret.external-secrets.io",
					"%q is not a kind", kind)
			}
			if other, ok := scopes[kind]; ok {
				fc.errorf(fc.file, []string{"spec", "kinds"}, "keep one",
					"the kind %s is listed twice, under %s and %s", kind, min(other, scope), max(other, scope))
			}
			scopes[kind] = scope
		}
	}
}

// validKind holds for Kind.group, and for a kind of the core group without one.
func validKind(text string) bool {
	kind, group, found := strings.Cut(text, ".")
	if kind == "" || kind[0] < 'A' || kind[0] > 'Z' || !dotted(kind, isAlnum, "") {
		return false
	}
	return !found || validLabelKey(group+"/x") && !slices.Contains(strings.Split(group, "."), "")
}
