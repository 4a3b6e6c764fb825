package helm

import (
	"crypto/sha256"
	"slices"
	"strconv"
)

// A file that is executed again includes templates that read nothing of what has changed: names, labels, checksums of other files. This file
// keeps the texts of includes between renderings, by what the included template reads, as reuse.go keeps those of files. memo.go decides which
// texts can be kept at all.

// included is what the executions of one template read whose arguments have the same form.
type included struct {
	number uint32 // distinguishes its texts from those of files
	numbers
	paths []scopePath // of the program, at least up to those that it reads
}

const (
	firstIncluded    = 1 << 31 // files have lower numbers
	maxIncluded      = 4096    // pairs of a template and a form for which a program keeps texts
	maxIncludedSteps = 1 << 17 // commands of their analyses, which take about 2 µs each; real charts have 2,000
)

// included returns what a template reads; nil if the program has too many, or they have too many commands. key identifies the template, the chart
// and the form of the argument. Values do not multiply forms: the analysis of the file knows all keys that lead to the scope, or it reads everything.
func (p *program) included(key []byte, name, basePath string, form func() abstract) *included {
	r := p.reads
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.included[string(key)]; ok {
		return known
	}
	if len(r.included) >= maxIncluded || r.steps >= maxIncludedSteps {
		return nil
	}
	analysis := reader{trees: p.tree, basePath: basePath, mutable: r.mutable}
	analysis.readIncluded(name, form())
	r.steps += analysis.steps
	reads := &analysis.out.blocks[0]
	out := &included{number: firstIncluded + uint32(len(r.included)), numbers: r.numbers(reads, nil)} //nolint:gosec // below maxIncluded
	out.all = reads.all || analysis.out.named
	slices.Sort(out.list)
	out.paths = r.paths
	r.included[string(key)] = out
	return out
}

// form returns where the scope is in the maps and lists of an argument of an include. What they contain besides is part of the key of a text, so
// the analysis needs no more.
func (e *execution) form(v any) abstract {
	var out abstract
	add := func(key string, item any) {
		if below := e.form(item); below.paths != nil || below.fields != nil {
			if out.fields == nil {
				out.fields = map[string]abstract{}
			}
			out.fields[key] = below
		}
	}
	switch x := v.(type) {
	case map[string]any:
		switch {
		case address(x) == address(e.unit.scope):
			out.paths = []string{""}
		case e.shared.table(x) == nil:
			for key, item := range x {
				add(key, item)
			}
		}
	case []any:
		for i, item := range x {
			add("#"+strconv.Itoa(i), item)
		}
	}
	return out
}

// appendForm writes the form of an argument; nothing if it does not contain the scope.
func (e *execution) appendForm(out []byte, v any) []byte {
	begin := len(out)
	switch x := v.(type) {
	case map[string]any:
		switch {
		case address(x) == address(e.unit.scope):
			return append(out, 'S')
		case x == nil, e.shared.table(x) != nil:
			return out
		}
		var few [16]string
		for _, key := range sortedKeys(few[:0], x) {
			out = e.appendItem(out, 'm', key, x[key])
		}
	case []any:
		for i, item := range x {
			out = e.appendItem(out, 'l', strconv.Itoa(i), item)
		}
	}
	if len(out) > begin {
		out = append(out, '.')
	}
	return out
}

func (e *execution) appendItem(out []byte, kind byte, key string, item any) []byte {
	before := appendTexts(append(out, kind), key)
	if after := e.appendForm(before, item); len(after) > len(before) {
		return after
	}
	return out
}

// between returns the key of the text of an include for all renderings of the program. call is the template with its argument.
func (e *execution) between(name string, data any, call string) ([sha256.Size]byte, bool) {
	if e.results == nil || e.unit.digests.sums.ambiguous {
		return [sha256.Size]byte{}, false
	}
	key := e.appendForm(appendTexts(make([]byte, 0, 128), name, e.unit.basePath), data)
	reads := e.results.program.included(key, name, e.unit.basePath, func() abstract { return e.form(data) })
	if reads == nil || reads.all {
		return [sha256.Size]byte{}, false
	}
	return e.results.digest(reads.number, call, reads.list, reads.paths, e.unit.digests)
}
