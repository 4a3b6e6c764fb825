package diff

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Sync is the tool that applies the cluster branches. The tools differ in how they treat hooks, immutable fields and
// removed objects.
type Sync string

// The sync tools. SyncUnknown means that the fleet does not set spec.sync; effects then name the result for each
// tool.
const (
	SyncUnknown Sync = ""
	SyncArgoCD  Sync = "argocd"
	SyncFlux    Sync = "flux"
)

// outcome is what a tool does with a change that a plain update of the object cannot make.
type outcome struct {
	kind outcomeKind
	why  string
}

type outcomeKind int

const (
	outcomeRefused   outcomeKind = iota // the API server refuses the update, and the sync fails
	outcomeRecreated                    // the tool deletes the object and creates it again
	outcomeKept                         // the tool leaves the object in the cluster as it is
	outcomeDepends                      // on the state of the cluster
)

func all(list []outcome, kind outcomeKind) bool {
	return !slices.ContainsFunc(list, func(o outcome) bool { return o.kind != kind })
}

// reasons joins what each tool does. If the fleet names no tool, the text ends with how to name one.
func reasons(list []outcome) string {
	var parts []string
	for _, o := range list {
		parts = append(parts, o.why)
	}
	text := strings.Join(parts, "; ")
	if len(list) > 1 && slices.ContainsFunc(list, func(o outcome) bool { return o.kind != list[0].kind }) {
		text += " (set spec.sync in sluice.yaml to say which)"
	}
	return text
}

// applyOutcomes returns what happens to a changed immutable field: one outcome for a known tool, otherwise one for
// each.
func applyOutcomes(o manifest.Object, by applying) []outcome {
	switch by.sync {
	case SyncArgoCD:
		return []outcome{argoApply(o)}
	case SyncFlux:
		return []outcome{fluxApply(o, by.force)}
	}
	return []outcome{argoApply(o), fluxApply(o, by.force)}
}

// pruneOutcomes returns what happens to an object that the branch no longer has.
func pruneOutcomes(o manifest.Object, sync Sync) []outcome {
	argo := outcome{outcomeRecreated, "Argo CD deletes it"}
	switch {
	case hasOption(o, "Prune=false"):
		argo = outcome{outcomeKept, "Argo CD does not prune it (sync option Prune=false)"}
	case hasOption(o, "Prune=confirm"):
		argo = outcome{outcomeDepends, "Argo CD deletes it after a confirmation (sync option Prune=confirm)"}
	}
	flux := outcome{outcomeRecreated, "Flux deletes it"}
	if fluxOff(o, "kustomize.toolkit.fluxcd.io/prune") {
		flux = outcome{outcomeKept, "Flux does not prune it (kustomize.toolkit.fluxcd.io/prune: disabled)"}
	}
	switch sync {
	case SyncArgoCD:
		return []outcome{argo}
	case SyncFlux:
		return []outcome{flux}
	}
	return []outcome{argo, flux}
}

// Stays reports whether a sync tool, or both if it is not known, leaves an object in the cluster that the branch no
// longer has.
func Stays(o manifest.Object, sync Sync) bool { return all(pruneOutcomes(o, sync), outcomeKept) }

// argoApply follows Argo CD 3: pkg/sync of gitops-engine for hooks and their delete policies, and kubectl's --force
// for the sync option Force=true. Replace=true alone updates in place, which the API server refuses too.
func argoApply(o manifest.Object) outcome {
	if hook, ok := argoHook(o); ok {
		return hook.apply()
	}
	if hasOption(o, "Force=true") {
		return outcome{outcomeRecreated, "Argo CD deletes the object and creates it again (sync option Force=true)"}
	}
	return outcome{outcomeRefused, "Argo CD updates the object and the API server refuses that"}
}

// fluxApply follows Flux 2: kustomize-controller applies hooks like any other object.
func fluxApply(o manifest.Object, force bool) outcome {
	switch {
	case o.Annotation("kustomize.toolkit.fluxcd.io/ssa") == "IfNotPresent":
		return outcome{outcomeKept, "Flux only creates the object (kustomize.toolkit.fluxcd.io/ssa: IfNotPresent)"}
	case o.Annotation("kustomize.toolkit.fluxcd.io/ssa") == "Ignore",
		fluxOff(o, "kustomize.toolkit.fluxcd.io/reconcile"):
		return outcome{outcomeKept, "Flux ignores the object (annotation kustomize.toolkit.fluxcd.io)"}
	case strings.EqualFold(o.Annotation("kustomize.toolkit.fluxcd.io/force"), "enabled"):
		return outcome{
			outcomeRecreated,
			"Flux deletes the object and creates it again (kustomize.toolkit.fluxcd.io/force: enabled)",
		}
	case force:
		return outcome{
			outcomeRecreated,
			"Flux deletes the object and creates it again (spec.force of its Kustomization)",
		}
	}
	return outcome{outcomeRefused, "Flux updates the object and the API server refuses that"}
}

func fluxOff(o manifest.Object, annotation string) bool {
	return strings.EqualFold(o.Annotation(annotation), "disabled")
}

// hasOption reports whether an object has a sync option of Argo CD.
func hasOption(o manifest.Object, option string) bool {
	return slices.ContainsFunc(annotationList(o, "argocd.argoproj.io/sync-options"), func(have string) bool {
		return strings.EqualFold(have, option)
	})
}

func annotationList(o manifest.Object, key string) []string {
	var out []string
	for v := range strings.SplitSeq(o.Annotation(key), ",") {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, v)
		}
	}
	return out
}

// hook is an object with a hook annotation, as Argo CD treats it.
type hook struct {
	annotation string   // key=value
	skipped    bool     // Argo CD never applies it
	policies   []string // when Argo CD deletes it: BeforeHookCreation, HookSucceeded, HookFailed
}

// argoHook parses the hook annotations. Argo CD's own annotation takes precedence over Helm's.
func argoHook(o manifest.Object) (hook, bool) {
	const argoKey, helmKey = "argocd.argoproj.io/hook", "helm.sh/hook"
	if types := annotationList(o, argoKey); len(types) > 0 {
		out := hook{
			annotation: argoKey + "=" + strings.Join(types, ","),
			policies:   annotationList(o, "argocd.argoproj.io/hook-delete-policy"),
		}
		out.skipped = !slices.ContainsFunc(types, func(t string) bool { return t != "Skip" })
		return out.withDefault(), true
	}
	types := annotationList(o, helmKey)
	if len(types) == 0 || slices.Equal(types, []string{"crd-install"}) {
		return hook{}, false // Argo CD applies a crd-install hook like any other object
	}
	out := hook{annotation: helmKey + "=" + strings.Join(types, ",")}
	out.skipped = !slices.ContainsFunc(types, func(t string) bool {
		return slices.Contains([]string{
			"pre-install", "pre-upgrade", "post-install", "post-upgrade", "pre-delete",
			"post-delete",
		}, t)
	})
	names := map[string]string{
		"before-hook-creation": "BeforeHookCreation", "hook-succeeded": "HookSucceeded",
		"hook-failed": "HookFailed",
	}
	for _, p := range annotationList(o, "helm.sh/hook-delete-policy") {
		if name := names[p]; name != "" {
			out.policies = append(out.policies, name)
		}
	}
	return out.withDefault(), true
}

func (h hook) withDefault() hook {
	if len(h.policies) == 0 {
		h.policies = []string{"BeforeHookCreation"}
	}
	return h
}

func (h hook) apply() outcome {
	switch {
	case h.skipped:
		return outcome{outcomeKept, "Argo CD does not run this hook (" + h.annotation + ")"}
	case slices.Contains(h.policies, "BeforeHookCreation"):
		return outcome{outcomeRecreated, "Argo CD deletes the hook before it creates it again"}
	case slices.Contains(h.policies, "HookSucceeded") && slices.Contains(h.policies, "HookFailed"):
		return outcome{outcomeRecreated, "Argo CD deletes the hook after each run"}
	case slices.Contains(h.policies, "HookSucceeded"):
		return outcome{
			outcomeDepends,
			"Argo CD deletes the hook when it succeeds; if its last run failed, the API server refuses the change",
		}
	}
	return outcome{
		outcomeDepends,
		"Argo CD deletes the hook when it fails; if its last run succeeded, the API server refuses the change",
	}
}

// hooks reports a hook that is new or runs at another time. Only Argo CD runs hooks.
func (j *judgement) hooks() {
	now, ok := argoHook(j.after)
	if !ok || now.skipped {
		return
	}
	if j.before != nil {
		if old, was := argoHook(j.before); was && old.annotation == now.annotation {
			return
		}
	}
	switch j.sync {
	case SyncFlux:
		j.add(EffectHook, RiskMedium, "metadata.annotations", "Flux applies this hook as any other object (%s)",
			now.annotation)
	case SyncArgoCD:
		j.add(EffectHook, RiskMedium, "metadata.annotations", "Argo CD runs it as a hook (%s)", now.annotation)
	default:
		j.add(EffectHook, RiskMedium, "metadata.annotations",
			"Argo CD runs it as a hook, Flux applies it as any other object (%s)", now.annotation)
	}
}
