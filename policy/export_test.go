package policy

import (
	"maps"
	"slices"
)

// AllowedBuiltins are the functions that rules may call.
func AllowedBuiltins() []string { return slices.Sorted(maps.Keys(allowedBuiltins())) }
