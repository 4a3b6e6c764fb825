package helm

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"

	"helm.sh/helm/v3/pkg/chartutil"
)

// digests computes what is at the paths of a scope. Equal digests of a path mean that a template that reads the path sees no difference.
// After a template changed the scope, they are computed again.
type digests struct {
	scope map[string]any
	sums  *sums
	known []*digestBlock // by the number of the path; nil: the files of the chart have read none of these paths
	text  []byte         // room for texts
	whole *inputs        // see all; without a table if they are not shared
}

// inputs stand for all that files can read of a scope whose values renderings share.
type inputs struct {
	values *sharedTable
	others [sha256.Size]byte // of the release and of the capabilities
}

// all returns false if the values of the chart are not shared.
func (d *digests) all() (inputs, bool) {
	if d.whole == nil {
		d.whole = &inputs{}
		if values, ok := mapOf(d.scope["Values"]); ok && d.sums.shared.table(values) != nil {
			if text, ok := d.sums.encodeOthers(d.scope); ok {
				*d.whole = inputs{d.sums.shared.table(values), sha256.Sum256(text)}
			}
		}
	}
	return *d.whole, d.whole.values != nil
}

// encodeOthers writes all that a file can read besides the values; reads.go knows no more.
func (s *sums) encodeOthers(scope map[string]any) ([]byte, bool) {
	out := make([]byte, 0, 256)
	for _, path := range [][]string{{"Release"}, {"Capabilities", "KubeVersion"}, {"Capabilities", "APIVersions"}} {
		var ok bool
		if out, ok = s.encodePath(out, scope, path); !ok {
			return nil, false
		}
	}
	return out, true
}

// digestBlock is the digests of paths with numbers in a row. Those that the files of one chart read are mostly in a row.
type digestBlock [16]digest

// digest is the digest of a path in one rendering.
type digest struct {
	computed bool
	text     []byte // nil: a value has a type that is not known
}

// scopePath is a path of a scope. It is safe for concurrent use.
type scopePath struct {
	keys []string
	kept *atomic.Pointer[keptDigest] // below the tables that renderings share
}

// keptDigest is the digest of a path that leads to or into a table that renderings share.
type keptDigest struct {
	table *sharedTable
	depth int // keys of the path that lead to the table
	text  []byte
	next  *keptDigest // of another chart, whose values are below the same path of its scope
	more  int         // that follow
}

// maxKept is the number of charts for which a path keeps digests.
const maxKept = 16

// appendTo appends the digest of the path with a number, and its length: a short value stands for itself.
func (d *digests) appendTo(out []byte, number int, paths []scopePath) ([]byte, bool) {
	block, i := number/len(digestBlock{}), number%len(digestBlock{})
	if block >= len(d.known) {
		d.known = append(d.known, make([]*digestBlock, 1+(len(paths)-1)/len(digestBlock{})-len(d.known))...)
	}
	if d.known[block] == nil {
		d.known[block] = new(digestBlock)
	}
	at := &d.known[block][i]
	if !at.computed {
		at.computed, at.text = true, d.of(&paths[number])
	}
	return append(binary.AppendUvarint(out, uint64(len(at.text))), at.text...), at.text != nil
}

// of returns the digest of a path, or nil.
func (d *digests) of(path *scopePath) []byte {
	var v any = d.scope
	for i, key := range path.keys {
		items, ok := mapOf(v)
		if !ok {
			break
		}
		v = items[key]
		m, ok := v.(map[string]any)
		if i == 0 { // the values of a chart always have a type of their own
			m, ok = mapOf(v)
		}
		if table := d.sums.shared.table(m); ok && table != nil {
			return d.below(table, i+1, path)
		}
	}
	return d.compute(path)
}

// below returns the digest of a path whose first keys, depth of them, lead to a shared table.
func (d *digests) below(table *sharedTable, depth int, path *scopePath) []byte {
	first := path.kept.Load()
	for kept := first; kept != nil; kept = kept.next {
		if kept.table == table && kept.depth == depth {
			return kept.text
		}
	}
	text := slices.Clone(d.compute(path))
	next := &keptDigest{table: table, depth: depth, text: text, next: first}
	if first != nil {
		next.more = first.more + 1
	}
	if next.more < maxKept {
		path.kept.CompareAndSwap(first, next) // if another rendering was faster, a later one adds this digest
	}
	return text
}

// compute returns nil for a value with a type that is not known.
func (d *digests) compute(path *scopePath) []byte {
	text, ok := d.sums.encodePath(d.text, d.scope, path.keys)
	if !ok {
		return nil
	}
	begin := len(d.text)
	if len(text)-begin > 2*sha256.Size {
		sum := sha256.Sum256(text[begin:])
		text = append(append(text[:begin], 'H'), sum[:]...)
	}
	d.text = text
	return text[begin:]
}

// forget makes d compute everything again.
func (d *digests) forget() { d.known, d.text, d.whole, d.sums.known = nil, nil, nil, nil }

// sums computes digests of maps. Maps of a rendering keep theirs until a template changes a map.
type sums struct {
	shared    *defaults
	ambiguous bool                 // two subcharts have the same name, so a path can mean either
	known     map[uintptr]knownSum // maps of the rendering
}

type knownSum struct {
	sum [sha256.Size]byte
	ok  bool
}

// of returns the digest of a map that is not nil. It returns false if a value has a type that is not known.
func (s *sums) of(m map[string]any, depth int) ([sha256.Size]byte, bool) {
	if t := s.shared.table(m); t != nil {
		return t.sum, true
	}
	at := address(m)
	out, ok := s.known[at]
	if !ok {
		out.sum, out.ok = s.compute(m, depth)
		if s.known == nil {
			s.known = map[uintptr]knownSum{}
		}
		s.known[at] = out
	}
	return out.sum, out.ok
}

func (s *sums) compute(m map[string]any, depth int) ([sha256.Size]byte, bool) {
	text, ok := s.encodeMap(make([]byte, 0, 256), m, depth)
	return sha256.Sum256(text), ok
}

// encodePath writes what is at a path, or where the path ends and what is there.
func (s *sums) encodePath(out []byte, scope map[string]any, path []string) ([]byte, bool) {
	var v any = scope
	for i, key := range path {
		if c, ok := v.(*chartutil.Capabilities); ok {
			return encodeCapabilities(append(out, 'C'), c, key)
		}
		items, ok := mapOf(v)
		if ok && key == kindKey {
			return append(out, 'K'), true
		}
		if ok {
			v, ok = items[key]
			if !ok {
				return binary.AppendUvarint(append(out, 'A'), uint64(i)), true
			}
			continue
		}
		out = binary.AppendUvarint(append(out, 'E'), uint64(i))
		return s.encode(out, v, maxScopeHeight)
	}
	return s.encode(append(out, 'V'), v, maxScopeHeight)
}

func mapOf(v any) (map[string]any, bool) {
	switch x := v.(type) {
	case map[string]any:
		return x, true
	case chartutil.Values:
		return x, true
	}
	return nil, false
}

func encodeCapabilities(out []byte, c *chartutil.Capabilities, field string) ([]byte, bool) {
	switch field {
	case "KubeVersion":
		return appendTexts(out, c.KubeVersion.Version, c.KubeVersion.Major, c.KubeVersion.Minor), true
	case "APIVersions":
		return appendTexts(out, c.APIVersions...), true
	}
	return nil, false
}

func appendTexts(out []byte, texts ...string) []byte {
	out = binary.AppendUvarint(out, uint64(len(texts)))
	for _, text := range texts {
		out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
	}
	return out
}

// encode writes a value with its type, so that different values have different encodings. It returns false for a type that values of charts
// do not have, and for a value that is nested too deeply: a template can put a map into itself.
func encode(out []byte, v any) ([]byte, bool) {
	var s *sums
	return s.encode(out, v, maxScopeHeight)
}

// encode writes a value. It writes the digests of maps, or without sums all that they contain.
func (s *sums) encode(out []byte, v any, depth int) ([]byte, bool) {
	if depth == 0 {
		return nil, false
	}
	switch x := v.(type) {
	case nil:
		return append(out, 'n'), true
	case bool:
		if x {
			return append(out, 't'), true
		}
		return append(out, 'f'), true
	case string:
		return appendTexts(append(out, 's'), x), true
	case int:
		return binary.AppendVarint(append(out, 'i'), int64(x)), true
	case int64:
		return binary.AppendVarint(append(out, 'I'), x), true
	case float64:
		return binary.BigEndian.AppendUint64(append(out, 'd'), math.Float64bits(x)), true
	case map[string]any:
		return s.encodeTable(append(out, 'm'), x, depth-1)
	case chartutil.Values:
		return s.encodeTable(append(out, 'M'), x, depth-1)
	case []any:
		return s.encodeList(append(out, 'l'), x, depth-1)
	}
	return nil, false
}

func (s *sums) encodeTable(out []byte, m map[string]any, depth int) ([]byte, bool) {
	if m == nil {
		return append(out, 'n'), true
	}
	if s == nil {
		return s.encodeMap(out, m, depth)
	}
	sum, ok := s.of(m, depth)
	return append(append(out, 'h'), sum[:]...), ok
}

func (s *sums) encodeMap(out []byte, m map[string]any, depth int) ([]byte, bool) {
	out = binary.AppendUvarint(append(out, 'i'), uint64(len(m)))
	var few [16]string
	for _, key := range sortedKeys(few[:0], m) {
		var ok bool
		if out, ok = s.encode(appendTexts(out, key), m[key], depth); !ok {
			return nil, false
		}
	}
	return out, true
}

// sortedKeys appends the keys of a map in order.
func sortedKeys(keys []string, m map[string]any) []string {
	keys = slices.Grow(keys, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (s *sums) encodeList(out []byte, l []any, depth int) ([]byte, bool) {
	if l == nil {
		return append(out, 'n'), true
	}
	out = binary.AppendUvarint(append(out, 'i'), uint64(len(l)))
	for _, item := range l {
		var ok bool
		if out, ok = s.encode(out, item, depth); !ok {
			return nil, false
		}
	}
	return out, true
}
