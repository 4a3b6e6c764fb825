package helm

import (
	"crypto/sha256"
	"encoding/binary"
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
	firstIncluded = 1 << 31 // files have lower numbers
	maxIncluded   = 4096    // pairs of a template and a form for which a program keeps texts
)

// included returns what a template reads; nil if the program has too many. key identifies the template, the chart and the form of the argument.
func (p *program) included(key []byte, name, basePath string, form func() abstract) *included {
	r := p.reads
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.included[string(key)]; ok {
		return known
	}
	if len(r.included) >= maxIncluded {
		return nil
	}
	analysis := reader{trees: p.tree, basePath: basePath, mutable: r.mutable}
	analysis.readIncluded(name, form())
	reads := &analysis.out.blocks[0]
	out := &included{number: firstIncluded + uint32(len(r.included)), numbers: r.numbers(reads, nil)}
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
	switch x := v.(type) {
	case map[string]any:
		switch {
		case address(x) == address(e.unit.scope):
			out.paths = []string{""}
		case x != nil && e.shared.table(x) == nil:
			out.fields = make(map[string]abstract, len(x))
			for key, item := range x {
				out.fields[key] = e.form(item)
			}
		}
	case []any:
		out.fields = make(map[string]abstract, len(x))
		for i, item := range x {
			out.fields["#"+strconv.Itoa(i)] = e.form(item)
		}
	}
	return out
}

// appendForm writes the form of an argument.
func (e *execution) appendForm(out []byte, v any) []byte {
	switch x := v.(type) {
	case map[string]any:
		switch {
		case address(x) == address(e.unit.scope):
			return append(out, 'S')
		case x == nil, e.shared.table(x) != nil:
			return append(out, '.')
		}
		out = binary.AppendUvarint(append(out, 'm'), uint64(len(x)))
		var few [16]string
		for _, key := range sortedKeys(few[:0], x) {
			out = e.appendForm(appendTexts(out, key), x[key])
		}
		return out
	case []any:
		out = binary.AppendUvarint(append(out, 'l'), uint64(len(x)))
		for _, item := range x {
			out = e.appendForm(out, item)
		}
		return out
	}
	return append(out, '.')
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
