package helm

import "strings"

// HookAnnotation marks an object as a hook.
const HookAnnotation = "helm.sh/hook"

// Hook classifies an object by its hook annotation.
type Hook int

// The classes: no hook; a hook that belongs on a branch; a test; and one with an event that Helm does not know, which
// Helm leaves out.
const (
	NoHook Hook = iota
	KeptHook
	TestHook
	NeverHook
)

// HookOf classifies the value of a hook annotation.
func HookOf(annotation string) Hook {
	if annotation == "" {
		return NoHook
	}
	out := KeptHook
	for event := range strings.SplitSeq(annotation, ",") {
		switch strings.ToLower(strings.TrimSpace(event)) {
		case "pre-install", "post-install", "pre-delete", "post-delete", "pre-upgrade", "post-upgrade", "pre-rollback",
			"post-rollback":
		case "test", "test-success":
			out = TestHook
		default:
			return NeverHook
		}
	}
	return out
}
