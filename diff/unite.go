package diff

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
)

// A text that contains the value of a variable may come from the variable, or may be the same everywhere and contain
// it by chance: the domain `example.com` of a class is part of the image `registry.example.com/cart`, which all classes
// run. The clusters tell the two apart. If two groups have the same text where one of them has a reference and the
// other has not, the text does not come from the reference, because it does not follow its value.

// united merges groups of an app that differ only in such texts. The result does not depend on the order of the groups,
// except for its own order.
func united(groups []*mergedGroup) []*mergedGroup {
	var order []string
	alike := map[string][]*mergedGroup{}
	for _, m := range groups {
		key := fmt.Sprint(m.app, "\x00", m.shape, m.baseUnknown)
		if alike[key] == nil {
			order = append(order, key)
		}
		alike[key] = append(alike[key], m)
	}
	var out []*mergedGroup
	for _, key := range order {
		list := alike[key]
		// Groups without a reference whose value is the same in all of the group differ in their own texts.
		if len(list) > 1 && slices.ContainsFunc(list, func(m *mergedGroup) bool { return len(m.varies) < len(m.values) }) {
			list = unite(list)
		}
		out = append(out, list...)
	}
	return out
}

// texts are hashes of the texts of a group's changes that can come from values.
type texts struct {
	full, own []uint64         // with all references, and only with those whose values differ in the group
	at        map[int][]string // the references in full
}

// textsOf walks the changes of a group.
func textsOf(m *mergedGroup, seed maphash.Seed) *texts {
	out := &texts{at: map[int][]string{}}
	own := newTemplate(m.varying())
	all := newTemplate(m.facts)
	all.leaf = func(s string) string {
		clear(all.hits)
		full := all.text(s)
		if len(all.hits) > 0 {
			out.at[len(out.full)] = all.used()
		}
		out.full = append(out.full, maphash.String(seed, full))
		out.own = append(out.own, maphash.String(seed, own.text(s)))
		return full
	}
	all.changes(m.objects)
	return out
}

// varying returns the facts whose values differ in the group.
func (m *mergedGroup) varying() map[string]string {
	out := map[string]string{}
	for reference := range m.varies {
		out[reference] = m.facts[reference]
	}
	return out
}

// unite merges groups of equal shape whose texts are equal, with references or without those that chance explains.
func unite(list []*mergedGroup) []*mergedGroup {
	all, seed := make([]*texts, len(list)), maphash.MakeSeed()
	for i, m := range list {
		all[i] = textsOf(m, seed)
	}
	keys := make([]maphash.Hash, len(list))
	for i := range keys {
		keys[i].SetSeed(seed)
	}
	chance := make([][]bool, len(list)) // by group and text: the references in it are no source
	for i := range list {
		chance[i] = make([]bool, len(all[i].full))
	}
	for at := range all[0].full {
		full := map[uint64]map[uint64]bool{}
		for _, t := range all {
			if full[t.own[at]] == nil {
				full[t.own[at]] = map[uint64]bool{}
			}
			full[t.own[at]][t.full[at]] = true
		}
		for i, t := range all {
			text := t.full[at]
			if chance[i][at] = len(full[t.own[at]]) > 1; chance[i][at] {
				text = t.own[at]
			}
			maphash.WriteComparable(&keys[i], chance[i][at])
			maphash.WriteComparable(&keys[i], text)
		}
	}
	find := map[uint64][]int{}
	var order []uint64
	for i := range list {
		key := keys[i].Sum64()
		if find[key] == nil {
			order = append(order, key)
		}
		find[key] = append(find[key], i)
	}
	var out []*mergedGroup
	for _, key := range order {
		members := find[key]
		if len(members) == 1 {
			out = append(out, list[members[0]])
			continue
		}
		out = append(out, merge(list, all, members, chance[members[0]]))
	}
	return out
}

// merge makes one group of several. chance says which texts do not come from the references in them.
func merge(list []*mergedGroup, all []*texts, members []int, chance []bool) *mergedGroup {
	first := list[members[0]]
	for _, i := range members {
		if list[i].example < first.example {
			first = list[i]
		}
	}
	out := *first
	out.chance = slices.Contains(chance, true)
	out.places, out.varies, out.values = nil, map[string]bool{}, maps.Clone(first.values)
	for _, i := range members {
		m := list[i]
		out.places = append(out.places, m.places...)
		maps.Copy(out.varies, m.varies)
		for at, references := range all[i].at {
			if chance[at] {
				continue
			}
			for _, r := range references {
				if value, ok := out.values[r]; ok && value != m.values[r] {
					out.varies[r] = true
				}
			}
		}
	}
	own := newTemplate(first.varying())
	whole := newTemplate(first.facts)
	at := 0
	whole.leaf = func(s string) string {
		at++
		if chance[at-1] {
			return own.text(s)
		}
		return whole.text(s)
	}
	whole.changes(first.objects)
	sum := whole.sum()
	if first.baseUnknown {
		sum += " base unknown"
	}
	out.id = shortID(out.app, sum)
	return &out
}
