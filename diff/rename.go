package diff

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const (
	similar    = 0.8     // share of equal leaves from which two objects of different names count as a rename
	manyOfKind = 60      // number of objects of one kind above which only names and equal content identify a rename
	leafLimit  = 5000    // leaves of one object that are compared
	workLimit  = 5 << 20 // leaves that one Compare compares to find renames by similarity
)

// pair is an object before and after; one of the two may be missing.
type pair struct{ before, after *Object }

// pairs matches the objects of a target: by identity, then renames.
func (b *Builder) pairs(before, after []Object) []pair {
	old := make(map[manifest.Identity]*Object, len(before))
	for i := range before {
		old[before[i].Object.Identity()] = &before[i]
	}
	var out []pair
	var gone, added []*Object
	for i := range after {
		id := after[i].Object.Identity()
		o, ok := old[id]
		if !ok {
			added = append(added, &after[i])
			continue
		}
		delete(old, id)
		if o.Key != after[i].Key {
			out = append(out, pair{o, &after[i]})
		}
	}
	for i := range before {
		if o := &before[i]; old[o.Object.Identity()] == o {
			gone = append(gone, o)
		}
	}
	return append(out, b.renames(gone, added)...)
}

// kindIn is the scope within which objects can be renamed.
type kindIn struct{ group, kind, namespace string }

func kindOf(o *Object) kindIn {
	id := o.Object.Identity()
	return kindIn{id.Group, id.Kind, id.Namespace}
}

// nameIn and contentIn are the two indexes of renames.
type (
	nameIn struct {
		kindIn
		base string
	}
	contentIn struct {
		kindIn
		sum [sha256.Size]byte
	}
)

// renames pairs removed objects with added ones: by equal content under a base name, by base name, by equal content,
// and then by similarity. All but the last are lookups, so the cost grows linearly with the number of objects;
// manyOfKind and workLimit limit the comparison by similarity. An object without a partner is removed or added.
func (b *Builder) renames(gone, added []*Object) []pair {
	if len(gone) == 0 || len(added) == 0 {
		return unpaired(gone, added)
	}
	m := &renamer{
		taken: map[*Object]bool{}, contents: map[*Object][sha256.Size]byte{},
		leaves: map[*Object]map[string]bool{}, work: &b.work,
	}
	gone = m.match(gone, added, func(o *Object) (any, bool) {
		base, ok := baseName(o)
		return [2]any{nameIn{kindOf(o), base}, m.content(o)}, ok
	})
	gone = m.match(gone, added, func(o *Object) (any, bool) {
		base, ok := baseName(o)
		return nameIn{kindOf(o), base}, ok
	})
	gone = m.match(gone, added, func(o *Object) (any, bool) { return contentIn{kindOf(o), m.content(o)}, !bare(o) })
	gone = m.alike(gone, added)
	added = slices.DeleteFunc(slices.Clone(added), func(o *Object) bool { return m.taken[o] })
	return append(m.out, unpaired(gone, added)...)
}

func unpaired(gone, added []*Object) []pair {
	out := make([]pair, 0, len(gone)+len(added))
	for _, o := range gone {
		out = append(out, pair{before: o})
	}
	for _, o := range added {
		out = append(out, pair{after: o})
	}
	return out
}

type renamer struct {
	out      []pair
	taken    map[*Object]bool // added objects that have a partner
	contents map[*Object][sha256.Size]byte
	leaves   map[*Object]map[string]bool
	work     *int // leaves compared so far, of the whole change set
}

// match pairs objects of equal keys in their order, and returns the removed objects without a partner.
func (m *renamer) match(gone, added []*Object, key func(*Object) (any, bool)) []*Object {
	queue := map[any][]*Object{}
	for _, o := range added {
		if m.taken[o] {
			continue
		}
		if k, ok := key(o); ok {
			queue[k] = append(queue[k], o)
		}
	}
	var rest []*Object
	for _, o := range gone {
		k, ok := key(o)
		if !ok || len(queue[k]) == 0 {
			rest = append(rest, o)
			continue
		}
		m.take(o, queue[k][0])
		queue[k] = queue[k][1:]
	}
	return rest
}

func (m *renamer) take(gone, added *Object) {
	m.taken[added] = true
	m.out = append(m.out, pair{gone, added})
}

// alike pairs each removed object with the most similar added one, for kinds with few objects.
func (m *renamer) alike(gone, added []*Object) []*Object {
	byKind := map[kindIn][]*Object{}
	for _, o := range added {
		if !m.taken[o] {
			byKind[kindOf(o)] = append(byKind[kindOf(o)], o)
		}
	}
	count := map[kindIn]int{}
	for _, o := range gone {
		count[kindOf(o)]++
	}
	var rest []*Object
	for _, o := range gone {
		kind := kindOf(o)
		var best *Object
		if len(byKind[kind]) <= manyOfKind && count[kind] <= manyOfKind {
			best = m.mostAlike(o, byKind[kind])
		}
		if best == nil {
			rest = append(rest, o)
			continue
		}
		m.take(o, best)
	}
	return rest
}

func (m *renamer) mostAlike(o *Object, candidates []*Object) *Object {
	var best *Object
	score := similar
	for _, c := range candidates {
		if m.taken[c] || *m.work >= workLimit {
			continue
		}
		a, b := m.leavesOf(o), m.leavesOf(c)
		*m.work += min(len(a), len(b))
		if s := likeness(a, b); s > score || s == score && best == nil {
			best, score = c, s
		}
	}
	return best
}

// content returns a hash of an object without its name.
func (m *renamer) content(o *Object) [sha256.Size]byte {
	if sum, ok := m.contents[o]; ok {
		return sum
	}
	var sum [sha256.Size]byte
	if text, err := manifest.Encode(withoutName(o.Object)); err == nil {
		sum = sha256.Sum256(text)
	} else {
		sum = sha256.Sum256([]byte(o.Key)) // an object that cannot be encoded equals no other
	}
	m.contents[o] = sum
	return sum
}

func withoutName(o manifest.Object) manifest.Object {
	out := maps.Clone(o)
	metadata, _ := o["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	delete(metadata, "name")
	out["metadata"] = metadata
	return out
}

// bare reports whether an object has only its type and metadata. Equal content of such objects means nothing.
func bare(o *Object) bool {
	for k := range o.Object {
		if k != "apiVersion" && k != "kind" && k != "metadata" {
			return false
		}
	}
	return true
}

// baseName returns an object's name without the part that changes with its content: the hash that Kustomize or
// kubectl append (-5f7c9d8b6k), and for a Job every trailing part with a digit (-1.2.0, -v3). ok is false if there is
// no such part.
func baseName(o *Object) (base string, ok bool) {
	name := o.Object.Name()
	if o.Object.Kind() == "Job" {
		return jobBase(name)
	}
	i := strings.LastIndexByte(name, '-')
	if i <= 0 || !generated(name[i+1:]) {
		return "", false
	}
	return name[:i], true
}

func jobBase(name string) (string, bool) {
	base := name
	for {
		i := strings.LastIndexAny(base, "-.")
		if i <= 0 || !strings.ContainsAny(base[i:], "0123456789") {
			return base, base != name
		}
		base = base[:i]
	}
}

// generated reports whether a name's suffix is a hash: 5 to 10 lower-case letters and digits, or 16 to 64
// hexadecimal digits, with at least one digit.
func generated(suffix string) bool {
	const hash = "abcdefghijklmnopqrstuvwxyz0123456789"
	n := len(suffix)
	switch {
	case !strings.ContainsAny(suffix, "0123456789"): // a word
		return false
	case n >= 5 && n <= 10:
		return strings.Trim(suffix, hash) == ""
	case n >= 16 && n <= 64:
		return strings.Trim(suffix, "0123456789abcdef") == ""
	}
	return false
}

// leavesOf returns an object's leaves with their paths, without its name.
func (m *renamer) leavesOf(o *Object) map[string]bool {
	if l, ok := m.leaves[o]; ok {
		return l
	}
	out := map[string]bool{}
	object := withoutName(o.Object)
	for _, k := range slices.Sorted(maps.Keys(object)) {
		flatten(k, object[k], out)
	}
	*m.work += len(out)
	m.leaves[o] = out
	return out
}

func flatten(at string, v any, out map[string]bool) {
	if len(out) > leafLimit {
		return
	}
	switch x := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			flatten(at+"."+k, x[k], out)
		}
	case []any:
		for i, v := range x {
			flatten(fmt.Sprintf("%s[%d]", at, i), v, out)
		}
	default:
		out[fmt.Sprintf("%s=%v", at, v)] = true
	}
}

// likeness returns the share of leaves that two objects have in common (Jaccard index). It ignores leaves that are
// always equal, so that two nearly empty objects are not similar.
func likeness(a, b map[string]bool) float64 {
	common := 0
	for l := range a {
		if b[l] {
			common++
		}
	}
	const equalAnyway = 3 // apiVersion, kind, namespace
	common -= equalAnyway
	union := len(a) + len(b) - 2*equalAnyway - common
	if common <= 0 || union <= 0 {
		return 0
	}
	return float64(common) / float64(union)
}

// byRisk orders the changes of a target.
func byRisk(a, b *ObjectChange) int {
	return cmp.Or(cmp.Compare(a.Risk.Rank(), b.Risk.Rank()), manifest.Compare(a.ID, b.ID),
		manifest.Compare(a.OldID, b.OldID))
}
