package policy

import (
	"maps"
	"slices"
)

// AllowedBuiltins returns the functions that rules may call.
func AllowedBuiltins() []string { return slices.Sorted(maps.Keys(allowedBuiltins())) }
