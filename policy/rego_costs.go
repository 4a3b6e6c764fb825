package policy

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// resultSizes has a check of the result's size for functions whose result can be much larger than their operands.
func resultSizes() map[string]func([]*ast.Term) error {
	elements := func(n int) error {
		if n > maxElements {
			return fmt.Errorf("the result has more than %d elements", maxElements)
		}
		return nil
	}
	matches := func(o []*ast.Term) error { return checkRegexp(text(o, 0), len(text(o, 1))) }
	return map[string]func([]*ast.Term) error{
		"sprintf": func(o []*ast.Term) error { return checkFormat(text(o, 0)) },
		"concat":  func(o []*ast.Term) error { return atMost(length(o, 1), len(text(o, 0))) },
		"replace": func(o []*ast.Term) error {
			return atMost(strings.Count(text(o, 0), text(o, 1)),
				len(text(o, 2)))
		},
		"strings.replace_n": func(o []*ast.Term) error { return atMost(len(text(o, 1))+1, longest(o[0])) },
		"regex.replace": func(o []*ast.Term) error {
			return errors.Join(atMost(len(text(o, 0))+1, len(text(o, 2))), checkRegexp(text(o, 1), len(text(o, 0))))
		},
		"split":           func(o []*ast.Term) error { return elements(pieces(text(o, 0), text(o, 1))) },
		"strings.split_n": func(o []*ast.Term) error { return elements(pieces(text(o, 0), text(o, 1))) },
		"regex.split": func(o []*ast.Term) error {
			return errors.Join(elements(len(text(o, 1))), checkRegexp(text(o, 0), len(text(o, 1))))
		},
		"regex.match":                      matches,
		"regex.find_n":                     matches,
		"regex.find_all_string_submatch_n": matches,
		"regex.is_valid":                   func(o []*ast.Term) error { return checkRegexp(text(o, 0), 0) },
		"indexof_n":                        func(o []*ast.Term) error { return elements(len(text(o, 0))) },
		"numbers.range":                    func(o []*ast.Term) error { return elements(span(o)) },
		"numbers.range_step":               func(o []*ast.Term) error { return elements(span(o)) },
		"bits.lsh":                         func(o []*ast.Term) error { return elements(abs(number(o, 1))) },
		"array.concat":                     func(o []*ast.Term) error { return elements(length(o, 0) + length(o, 1)) },
		"mul": func(o []*ast.Term) error {
			return elements(len(numeral(o, 0)) +
				len(numeral(o, 1)))
		},
		"format_int": func(o []*ast.Term) error { return elements(len(numeral(o, 0))) },

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

// Limits of functions that can take long with small operands.
const (
	maxComparisons = 1_000_000
	maxPathNodes   = 1_000_000  // nodes of all paths of a graph
	maxGlobSteps   = 10_000_000 // ways in which a pattern's alternatives can match
	maxPattern     = 16 << 10   // bytes of a regular expression
	maxProgram     = 40_000     // instructions of a regular expression
	maxSearch      = 50_000_000 // instructions of a regular expression × bytes of the text
)

// checkPaths refuses graphs with too many paths: a graph of n nodes can have 2^n.
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

// each calls do with the elements of a list or set. For any other value it does nothing.
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

// checkGlob refuses patterns whose alternatives can match a text in too many ways. Each group in braces multiplies
// them; a star in the group multiplies them by the length of the text too.
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

// checkRegexp refuses a regular expression if its program, or its search in a text of the given length, is too large.
// The time of a search is proportional to the product, and a repetition such as (a{1,1000}) multiplies the program.
func checkRegexp(pattern string, length int) error {
	if len(pattern) > maxPattern {
		return fmt.Errorf("the regular expression has more than %d bytes", maxPattern)
	}
	size := 2 * (len(pattern) + 1) // without repetitions, no character becomes more instructions
	if strings.Contains(pattern, "{") {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return nil //nolint:nilerr // the function itself refuses the pattern
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		size = len(program.Inst)
	}
	if size > maxProgram {
		return fmt.Errorf("the regular expression is too large with its repetitions written out")
	}
	if size*(length+1) > maxSearch {
		return fmt.Errorf("the regular expression is too large for a text of %d bytes", length)
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

// The functions below return operands. An operand of another type counts as empty, because the called function
// refuses it.

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

// number returns an operand as a number. It returns the largest number if the operand is not a number or too large.
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

// longest returns the length of the longest replacement of strings.replace_n.
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
