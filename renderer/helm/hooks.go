package helm

import "strings"

// HookAnnotation marks an object as a hook.
const HookAnnotation = "helm.sh/hook"

// Hook is what an object's hook annotation makes of it.
type Hook int

// An object is no hook, a hook that belongs on a branch, or one that never does: a test, or of a kind that Helm does
// not know and leaves out itself.
const (
	NoHook Hook = iota
	KeptHook
	NeverHook
)

// HookOf reads a hook annotation.
func HookOf(annotation string) Hook {
	if annotation == "" {
		return NoHook
	}
	out := KeptHook
	for event := range strings.SplitSeq(annotation, ",") {
		switch strings.ToLower(strings.TrimSpace(event)) {
		case "pre-install", "post-install", "pre-delete", "post-delete", "pre-upgrade", "post-upgrade", "pre-rollback", "post-rollback":
		default: // "test", "test-success", and the unknown
			out = NeverHook
		}
	}
	return out
}
