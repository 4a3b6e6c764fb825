package diff

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// template hashes changes with the cluster's own values replaced by their references. Changes that differ only in
// these values have equal sums. Of a removed object, only its identity and the effects count: its removal is the same
// whatever its manifest was.
type template struct {
	h          hash.Hash
	shape      hash.Hash                // without texts that can come from a value
	facts      map[string]string        // values by reference
	references []string                 // of facts, those with the longest values first
	hits       map[string]bool          // references that were replaced
	leaf       func(text string) string // what is hashed of a text
}

func newTemplate(facts map[string]string) *template {
	references := slices.SortedFunc(maps.Keys(facts), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(facts[b]), len(facts[a])), cmp.Compare(a, b))
	})
	t := &template{
		h: sha256.New(), shape: sha256.New(), facts: facts, references: references, hits: map[string]bool{},
	}
	t.leaf = t.text
	return t
}

func (t *template) sum() string { return string(t.h.Sum(nil)) }

func (t *template) used() []string { return slices.Sorted(maps.Keys(t.hits)) }

func (t *template) changes(list []ObjectChange) {
	for i := range list {
		t.change(&list[i])
	}
}

func (t *template) change(c *ObjectChange) {
	t.write(string(c.Verb), c.APIVersion)
	for _, s := range []string{c.ID.Group, c.ID.Kind, c.ID.Namespace, c.ID.Name, c.OldID.Namespace, c.OldID.Name} {
		t.value(s)
	}
	for _, list := range [][]FieldChange{c.Fields, c.Noise} {
		t.write("fields")
		for _, f := range list {
			t.value(f.Path)
			t.write(fmt.Sprint(f.Had, f.Has))
			t.value(f.Old)
			t.value(f.New)
		}
	}
	for _, e := range c.Effects { // clusters with another sync tool may have other effects
		t.write(string(e.Name), string(e.Risk))
	}
	if c.Verb == Added {
		for _, hunk := range c.Hunks {
			for _, l := range hunk.Lines {
				t.value(l)
			}
		}
	}
}

// write adds texts that no value of a cluster can change.
func (t *template) write(parts ...string) {
	for _, p := range parts {
		for _, h := range []hash.Hash{t.h, t.shape} {
			fmt.Fprintf(h, "%d:", len(p))
			_, _ = io.WriteString(h, p) // a hash accepts every write
		}
	}
}

// writeLeaf adds a text that can come from a value of the cluster.
func (t *template) writeLeaf(text string) {
	text = t.leaf(text)
	fmt.Fprintf(t.h, "%d:", len(text))
	_, _ = io.WriteString(t.h, text)
}

func (t *template) value(v any) {
	switch x := v.(type) {
	case map[string]any:
		t.write("{")
		for _, k := range slices.Sorted(maps.Keys(x)) {
			t.value(k)
			t.value(x[k])
		}
		t.write("}")
	case []any:
		t.write("[")
		for _, e := range x {
			t.value(e)
		}
		t.write("]")
	case string:
		t.write("s")
		t.writeLeaf(x)
	default:
		t.write(fmt.Sprintf("%T", v))
		t.writeLeaf(fmt.Sprint(v))
	}
}

// text replaces the cluster's own values: the whole text, or a part that is not next to letters or digits.
func (t *template) text(s string) string {
	for _, reference := range t.references {
		value := t.facts[reference]
		if value == "" {
			continue
		}
		if s == value {
			t.hits[reference] = true
			return "\x02" + reference + "\x03"
		}
		const part = 2 // bytes: a single character inside a text may match by coincidence
		if len(value) >= part && strings.Contains(s, value) {
			if out := safetext.ReplaceWords(s, value, "\x02"+reference+"\x03"); out != s {
				t.hits[reference] = true
				s = out
			}
		}
	}
	return s
}
