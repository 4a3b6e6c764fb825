package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Limits of one call of a function. OPA checks the deadline between calls only, so a single call must stay cheap.
const (
	maxOperands = 4 << 20  // bytes of all operands
	maxResult   = 16 << 20 // bytes of a text that a call makes
	maxElements = 100_000  // elements of a list that a call makes
)

// allowedBuiltins are the functions that rules may call. All of them depend on nothing but their operands: no network, file,
// environment, clock (time.now_ns is the time of the check) or randomness. Functions that OPA adds are refused until they are
// listed here.
func allowedBuiltins() map[string]bool {
	const list = `
		assign eq equal neq gt gte lt lte
		count max min product sort sum
		array.concat array.flatten array.reverse array.slice
		bits.and bits.lsh bits.negate bits.or bits.rsh bits.xor
		to_number crypto.md5 crypto.sha1 crypto.sha256
		base64.decode base64.encode base64.is_valid base64url.decode base64url.encode base64url.encode_no_pad hex.decode hex.encode
		json.is_valid json.marshal json.unmarshal urlquery.decode urlquery.decode_object urlquery.encode urlquery.encode_object
		yaml.is_valid yaml.marshal yaml.unmarshal
		glob.match glob.quote_meta graph.reachable graph.reachable_paths walk
		internal.member_2 internal.member_3 internal.print internal.template_string internal.test_case print
		net.cidr_contains net.cidr_contains_matches net.cidr_intersects net.cidr_is_valid net.cidr_merge
		abs ceil div floor minus mul numbers.range numbers.range_step plus rem round
		json.filter json.remove object.filter object.get object.keys object.remove object.subset object.union object.union_n
		regex.find_all_string_submatch_n regex.find_n regex.is_valid regex.match regex.replace regex.split
		rego.metadata.chain rego.metadata.rule semver.compare semver.is_valid and intersection or union
		concat contains endswith format_int indexof indexof_n lower replace split sprintf startswith
		strings.any_prefix_match strings.any_suffix_match strings.count strings.replace_n strings.reverse strings.split_n
		substring trim trim_left trim_prefix trim_right trim_space trim_suffix upper
		time.add_date time.clock time.date time.diff time.format time.now_ns time.parse_duration_ns time.parse_ns
		time.parse_rfc3339_ns time.weekday
		is_array is_boolean is_null is_number is_object is_set is_string type_name units.parse units.parse_bytes
		uri.is_valid uri.parse uuid.parse`
	out := map[string]bool{}
	for name := range strings.FieldsSeq(list) {
		out[name] = true
	}
	return out
}

// capabilities are OPA's, with the allowed functions only and no network for schemas.
func capabilities() *ast.Capabilities {
	allowed := allowedBuiltins()
	c := ast.CapabilitiesForThisVersion()
	c.Builtins = slices.DeleteFunc(c.Builtins, func(b *ast.Builtin) bool { return !allowed[b.Name] })
	c.AllowNet = []string{}
	return c
}

// refusedCalls finds calls of functions that OPA has and Sluice refuses. The compiler would call them undefined.
func refusedCalls(m *ast.Module) Problems {
	allowed := allowedBuiltins()
	var out Problems
	refuse := func(operator ast.Ref, at *ast.Location) {
		name := operator.String()
		if _, known := ast.BuiltinMap[name]; !known || allowed[name] {
			return
		}
		p := Problem{File: Dir, Message: fmt.Sprintf("%s is not allowed in policies: rules may read the object and data.sluice only, and use no network, files, clock or randomness", name)}
		if at != nil {
			p.File, p.Line, p.Column = at.File, at.Row, at.Col
		}
		out = append(out, p)
	}
	ast.WalkNodes(m, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Expr:
			if x.IsCall() {
				refuse(x.Operator(), x.Location)
			}
		case *ast.Term:
			if call, ok := x.Value.(ast.Call); ok {
				if operator, ok := call[0].Value.(ast.Ref); ok {
					refuse(operator, x.Location)
				}
			}
		}
		return false
	})
	return slices.CompactFunc(out, func(a, b Problem) bool { return a == b })
}

var limited sync.Once //nolint:gochecknoglobals // guards OPA's registry of functions, which is global

// limitBuiltins replaces the functions that can make much out of little by ones that refuse to. It changes OPA's registry, once in
// a process; nothing else in Sluice evaluates Rego.
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

// halt is an error that ends the evaluation, whatever the rule does with errors.
func halt(format string, args ...any) error {
	return topdown.Halt{Err: fmt.Errorf(format, args...)}
}

// expands names the functions without a size of their own whose cost grows with operands that can share structure: a value of a
// few lines can stand for gigabytes when it is written out.
func expands(name string) bool {
	return slices.Contains([]string{
		"json.marshal", "yaml.marshal", "print", "internal.print", "internal.template_string", "json.unmarshal", "yaml.unmarshal", "graph.reachable_paths", "object.union_n", "array.flatten",
		"base64.encode", "base64url.encode", "base64url.encode_no_pad", "hex.encode", "urlquery.encode", "urlquery.encode_object",
	}, name)
}

// affordable walks a value, and says whether writing it out costs at most the budget.
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

// resultSizes holds, for functions whose result can be much larger than their operands, a check that it is not.
func resultSizes() map[string]func([]*ast.Term) error {
	elements := func(n int) error {
		if n > maxElements {
			return fmt.Errorf("the result has more than %d elements", maxElements)
		}
		return nil
	}
	return map[string]func([]*ast.Term) error{
		"sprintf":            func(o []*ast.Term) error { return checkFormat(text(o, 0)) },
		"concat":             func(o []*ast.Term) error { return atMost(length(o, 1), len(text(o, 0))) },
		"replace":            func(o []*ast.Term) error { return atMost(strings.Count(text(o, 0), text(o, 1)), len(text(o, 2))) },
		"strings.replace_n":  func(o []*ast.Term) error { return atMost(len(text(o, 1))+1, longest(o[0])) },
		"regex.replace":      func(o []*ast.Term) error { return atMost(len(text(o, 0))+1, len(text(o, 2))) },
		"split":              func(o []*ast.Term) error { return elements(pieces(text(o, 0), text(o, 1))) },
		"strings.split_n":    func(o []*ast.Term) error { return elements(pieces(text(o, 0), text(o, 1))) },
		"regex.split":        func(o []*ast.Term) error { return elements(len(text(o, 1))) },
		"indexof_n":          func(o []*ast.Term) error { return elements(len(text(o, 0))) },
		"numbers.range":      func(o []*ast.Term) error { return elements(span(o)) },
		"numbers.range_step": func(o []*ast.Term) error { return elements(span(o)) },
		"bits.lsh":           func(o []*ast.Term) error { return elements(abs(number(o, 1))) },
		"array.concat":       func(o []*ast.Term) error { return elements(length(o, 0) + length(o, 1)) },
		"mul":                func(o []*ast.Term) error { return elements(len(numeral(o, 0)) + len(numeral(o, 1))) },
		"format_int":         func(o []*ast.Term) error { return elements(len(numeral(o, 0))) },

		"graph.reachable_paths": checkPaths,
		"glob.match":            func(o []*ast.Term) error { return checkGlob(text(o, 0), len(text(o, 2))) },
		"net.cidr_contains_matches": func(o []*ast.Term) error {
			if length(o, 0)*length(o, 1) > maxComparisons {
				return fmt.Errorf("it compares more than %d pairs", maxComparisons)
			}
			return nil
		},
	}
}

// Limits of functions that take long over small operands.
const (
	maxComparisons = 1_000_000
	maxPathNodes   = 1_000_000  // nodes of all paths of a graph
	maxGlobSteps   = 10_000_000 // ways in which a pattern's alternatives can match
)

// checkPaths refuses graphs whose paths are too many: a graph of n nodes can have 2^n.
func checkPaths(operands []*ast.Term) error {
	if len(operands) < 2 {
		return nil
	}
	graph, ok := operands[0].Value.(ast.Object)
	if !ok {
		return nil // the function refuses it
	}
	budget := maxPathNodes
	above := ast.NewSet()
	var visit func(node *ast.Term, depth int)
	visit = func(node *ast.Term, depth int) {
		if budget -= depth; budget < 0 || above.Contains(node) {
			return
		}
		outer := above
		above = outer.Copy()
		above.Add(node)
		each(graph.Get(node), func(next *ast.Term) { visit(next, depth+1) })
		above = outer
	}
	each(operands[1], func(node *ast.Term) { visit(node, 1) })
	if budget < 0 {
		return fmt.Errorf("the paths of the graph have more than %d nodes", maxPathNodes)
	}
	return nil
}

// each calls do with the elements of a list or set; with none of another value.
func each(t *ast.Term, do func(*ast.Term)) {
	if t == nil {
		return
	}
	switch v := t.Value.(type) {
	case *ast.Array:
		v.Foreach(do)
	case ast.Set:
		v.Foreach(do)
	}
}

// checkGlob refuses patterns whose alternatives can match a text in too many ways. Each group in braces multiplies them, by the
// length of the text if it has a star.
func checkGlob(pattern string, length int) error {
	type group struct {
		ways int
		star bool
	}
	steps, open := 1, []group{{ways: 1}}
	leave := func() {
		g := open[len(open)-1]
		open = open[:len(open)-1]
		if g.star {
			g.ways *= length + 1
		}
		steps = min(steps*min(g.ways, maxGlobSteps+1), maxGlobSteps+1)
	}
	groups := false
	for _, r := range pattern {
		switch last := &open[len(open)-1]; {
		case r == '{':
			groups = true
			open = append(open, group{ways: 1})
		case r == '}' && len(open) > 1:
			leave()
		case r == ',' && len(open) > 1:
			last.ways++
		case r == '*':
			last.star = true
		}
	}
	for len(open) > 0 {
		leave()
	}
	if groups && steps > maxGlobSteps {
		return fmt.Errorf("the pattern has too many alternatives with a * for a text of %d bytes", length)
	}
	return nil
}

// atMost refuses results of more than maxResult bytes.
func atMost(times, each int) error {
	if each > 0 && times > maxResult/each {
		return fmt.Errorf("the result is larger than %d MiB", maxResult>>20)
	}
	return nil
}

// formatNumber matches widths and precisions of a format.
var formatNumber = regexp.MustCompile(`%[^a-zA-Z%]*`)

// checkFormat refuses widths and precisions beyond 1,000 characters.
func checkFormat(format string) error {
	const widest = 1_000
	for _, verb := range formatNumber.FindAllString(format, -1) {
		if strings.Contains(verb, "*") {
			return fmt.Errorf("a width given by an operand (*) is not allowed")
		}
		for digits := range strings.FieldsFuncSeq(verb, func(r rune) bool { return r < '0' || r > '9' }) {
			if n, err := strconv.Atoi(digits); err != nil || n > widest {
				return fmt.Errorf("a width or precision of more than %d is not allowed", widest)
			}
		}
	}
	return nil
}

// The functions below read operands. Operands of another type count as empty: the function itself refuses them.

func text(operands []*ast.Term, i int) string {
	if i >= len(operands) {
		return ""
	}
	s, _ := operands[i].Value.(ast.String)
	return string(s)
}

func numeral(operands []*ast.Term, i int) string {
	if i >= len(operands) {
		return ""
	}
	n, _ := operands[i].Value.(ast.Number)
	return string(n)
}

// number returns an operand, or the largest number if it is none that fits.
func number(operands []*ast.Term, i int) int {
	s := numeral(operands, i)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n > maxResult || n < -maxResult {
		return maxResult
	}
	return n
}

func abs(n int) int { return max(n, -n) }

func span(operands []*ast.Term) int {
	from, to := numeral(operands, 0), numeral(operands, 1)
	a, err1 := strconv.ParseInt(from, 10, 64)
	b, err2 := strconv.ParseInt(to, 10, 64)
	if err1 != nil || err2 != nil {
		return maxResult
	}
	const far = 1 << 40 // so that the difference fits
	return int(min(max(b, -far), far)-min(max(a, -far), far)) * map[bool]int{true: 1, false: -1}[b >= a]
}

func pieces(s, separator string) int {
	if separator == "" {
		return len(s)
	}
	return strings.Count(s, separator) + 1
}

func length(operands []*ast.Term, i int) int {
	if i >= len(operands) {
		return 0
	}
	switch v := operands[i].Value.(type) {
	case *ast.Array:
		return v.Len()
	case ast.Set:
		return v.Len()
	case ast.Object:
		return v.Len()
	}
	return 0
}

// longest is the length of the longest replacement of strings.replace_n.
func longest(t *ast.Term) int {
	n := 0
	if o, ok := t.Value.(ast.Object); ok {
		o.Foreach(func(_, v *ast.Term) {
			s, _ := v.Value.(ast.String) // others are refused by the function
			n = max(n, len(s))
		})
	}
	return n
}
