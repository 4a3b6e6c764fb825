package policy

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Limits of one function call. OPA checks the deadline only between calls, so a single call must be cheap.
const (
	maxOperands = 4 << 20  // bytes of all operands
	maxResult   = 16 << 20 // bytes of a text that a call returns
	maxElements = 100_000  // elements of a list that a call returns
)

var limited sync.Once //nolint:gochecknoglobals // guards OPA's registry of functions, which is global

// limitBuiltins replaces the functions whose result can be much larger than their operands by ones that check limits.
// It changes OPA's registry, once per process; nothing else in Sluice evaluates Rego.
func limitBuiltins() {
	limited.Do(func() {
		size := resultSizes()
		for _, name := range slices.Sorted(maps.Keys(allowedBuiltins())) {
			next := topdown.GetBuiltin(name)
			if next == nil {
				continue // evaluated without a function
			}
			topdown.RegisterBuiltinFunc(name, limit(name, next, size[name]))
		}
	})
}

func limit(name string, next topdown.BuiltinFunc, size func([]*ast.Term) error) topdown.BuiltinFunc {
	cheap := size == nil && !expands(name)
	return func(c topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		if cheap {
			return next(c, operands, iter)
		}
		budget := maxOperands
		for _, o := range operands {
			if !affordable(o, &budget) {
				return halt("the operands of %s are larger than %d MiB", name, maxOperands>>20)
			}
		}
		if size != nil {
			if err := size(operands); err != nil {
				return halt("%s: %v", name, err)
			}
		}
		return next(c, operands, iter)
	}
}

// halt returns an error that ends the evaluation, however the rule handles errors.
func halt(format string, args ...any) error {
	return topdown.Halt{Err: fmt.Errorf(format, args...)}
}

// expands lists the functions without a limit of their own whose cost grows with operands that share structure: a
// value of a few lines can take gigabytes when it is written out.
func expands(name string) bool {
	return slices.Contains([]string{
		"json.marshal", "yaml.marshal", "print", "internal.print", "internal.template_string", "json.unmarshal",
		"yaml.unmarshal", "graph.reachable_paths", "object.union_n", "array.flatten",
		"base64.encode", "base64url.encode", "base64url.encode_no_pad", "hex.encode", "urlquery.encode",
		"urlquery.encode_object",
	}, name)
}

// affordable walks a value, and reports whether writing it out stays within the budget.
func affordable(t *ast.Term, budget *int) bool {
	const node = 2 // bytes of punctuation
	*budget -= node
	if *budget < 0 {
		return false
	}
	ok := true
	switch v := t.Value.(type) {
	case ast.String:
		*budget -= len(v)
	case ast.Number:
		*budget -= len(v)
	case *ast.Array:
		v.Until(func(e *ast.Term) bool { ok = affordable(e, budget); return !ok })
	case ast.Set:
		v.Until(func(e *ast.Term) bool { ok = affordable(e, budget); return !ok })
	case ast.Object:
		v.Until(func(k, e *ast.Term) bool { ok = affordable(k, budget) && affordable(e, budget); return !ok })
	}
	return ok && *budget >= 0
}
