package diff

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// similar is the share of equal fields from which two objects of different names are taken for one that was renamed.
const similar = 0.8

// pair is an object before and after; one of the two may be missing.
type pair struct{ before, after *Object }

// pairs matches the objects of a target by identity, and what is left over of each kind by likeness.
func pairs(before, after []Object, generated *regexp.Regexp) []pair {
	old := make(map[manifest.Identity]*Object, len(before))
	for i := range before {
		old[before[i].Object.Identity()] = &before[i]
	}
	var out []pair
	var gone, come []*Object
	for i := range after {
		id := after[i].Object.Identity()
		o, ok := old[id]
		if !ok {
			come = append(come, &after[i])
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
	return append(out, renames(gone, come, generated)...)
}

type kindIn struct{ group, kind, namespace string }

func kindOf(o *Object) kindIn {
	id := o.Object.Identity()
	return kindIn{id.Group, id.Kind, id.Namespace}
}

// renames pairs what went with what came: by a name that differs in a generated suffix alone, then by content.
func renames(gone, come []*Object, generated *regexp.Regexp) []pair {
	var out []pair
	byKind := map[kindIn][]*Object{}
	for _, o := range come {
		byKind[kindOf(o)] = append(byKind[kindOf(o)], o)
	}
	var rest []*Object
	for _, o := range gone {
		list := byKind[kindOf(o)]
		i := slices.IndexFunc(list, func(c *Object) bool { return sameBase(o.Object.Name(), c.Object.Name(), generated) })
		if i < 0 {
			rest = append(rest, o)
			continue
		}
		out = append(out, pair{o, list[i]})
		byKind[kindOf(o)] = slices.Delete(slices.Clone(list), i, i+1)
	}
	const most = 60 // of one kind: beyond that, likeness costs too much and tells too little
	leaves := map[*Object]map[string]bool{}
	for _, o := range rest {
		list := byKind[kindOf(o)]
		best, score := -1, similar
		if len(list) <= most {
			for i, c := range list {
				if s := likeness(leavesOf(o, leaves), leavesOf(c, leaves)); s >= score && (best < 0 || s > score) {
					best, score = i, s
				}
			}
		}
		if best < 0 {
			out = append(out, pair{before: o})
			continue
		}
		out = append(out, pair{o, list[best]})
		byKind[kindOf(o)] = slices.Delete(slices.Clone(list), best, best+1)
	}
	for _, o := range come {
		if slices.Contains(byKind[kindOf(o)], o) {
			out = append(out, pair{after: o})
		}
	}
	return out
}

// generatedSuffix is what Kustomize and kubectl put behind a name: -5f7c9d8b6k, -a1b2c3d4e5.
func generatedSuffix() *regexp.Regexp {
	return regexp.MustCompile(`^(.+)-([a-z0-9]{5,10}|[0-9a-f]{16,64})$`)
}

func sameBase(a, b string, generated *regexp.Regexp) bool {
	x, y := generated.FindStringSubmatch(a), generated.FindStringSubmatch(b)
	if x == nil || y == nil || x[1] != y[1] {
		return false
	}
	digit := func(s string) bool { return strings.ContainsAny(s, "0123456789") }
	return digit(x[2]) && digit(y[2]) // words are no hashes
}

func leavesOf(o *Object, known map[*Object]map[string]bool) map[string]bool {
	if l, ok := known[o]; ok {
		return l
	}
	out := map[string]bool{}
	for k, v := range o.Object {
		if k == "metadata" {
			m, _ := v.(map[string]any)
			rest := maps.Clone(m)
			delete(rest, "name")
			v = rest
		}
		flatten(k, v, out)
	}
	known[o] = out
	return out
}

func flatten(at string, v any, out map[string]bool) {
	const most = 5000
	if len(out) > most {
		return
	}
	switch x := v.(type) {
	case map[string]any:
		for k, v := range x {
			flatten(at+"."+k, v, out)
		}
	case []any:
		for i, v := range x {
			flatten(fmt.Sprintf("%s[%d]", at, i), v, out)
		}
	default:
		out[fmt.Sprintf("%s=%v", at, v)] = true
	}
}

// likeness is the share of leaves that two objects have in common (Jaccard's index). apiVersion and kind, which are equal,
// do not count: two nearly empty objects are not alike.
func likeness(a, b map[string]bool) float64 {
	common := 0
	for l := range a {
		if b[l] {
			common++
		}
	}
	const equalAnyway = 3 // apiVersion, kind, namespace
	common -= equalAnyway
	all := len(a) + len(b) - 2*equalAnyway - common
	if common <= 0 || all <= 0 {
		return 0
	}
	return float64(common) / float64(all)
}
