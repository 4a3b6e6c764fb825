package diff

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// term is a label with its value. The environment is a label too.
type term struct{ key, value string }

// Labels that every cluster has. The name of a cluster describes no group.
const (
	environmentLabel = "environment"
	clusterLabel     = "cluster"
)

func (t term) String() string {
	if t.key == environmentLabel {
		return t.value
	}
	return t.key + "=" + t.value
}

// population is the clusters among which an expression describes some.
type population struct {
	clusters []Cluster
	index    map[string]int  // in clusters, by name
	sets     map[term]bitset // the clusters with a label, of labels that several have, and of environments
}

func newPopulation(clusters []Cluster) *population {
	p := &population{clusters: clusters, index: make(map[string]int, len(clusters)), sets: map[term]bitset{}}
	count := map[term]int{}
	for i := range clusters {
		p.index[clusters[i].Name] = i
		for _, t := range termsOf(&clusters[i]) {
			count[t]++
		}
	}
	for i := range clusters {
		for _, t := range termsOf(&clusters[i]) {
			if count[t] == 1 && t.key != environmentLabel {
				continue
			}
			s := p.sets[t]
			if s == nil {
				s = newBitset(len(clusters))
				p.sets[t] = s
			}
			s.add(i)
		}
	}
	return p
}

// termsOf returns the environment and the labels of a cluster, in no order.
func termsOf(c *Cluster) []term {
	out := append(make([]term, 0, len(c.Labels)+1), term{environmentLabel, c.Environment})
	for k, v := range c.Labels {
		if k != environmentLabel && k != clusterLabel {
			out = append(out, term{k, v})
		}
	}
	return out
}

// set returns the set of some clusters; false if one of them is not known.
func (p *population) set(places []place) (bitset, bool) {
	out := newBitset(len(p.clusters))
	for _, one := range places {
		i, ok := p.index[one.cluster]
		if !ok {
			return nil, false
		}
		out.add(i)
	}
	return out, true
}

func (p *population) all() bitset {
	out := newBitset(len(p.clusters))
	for i := range p.clusters {
		out.add(i)
	}
	return out
}

// expression describes a set of clusters: those that have all labels, without those of except.
type expression struct {
	labels []term
	except string // "" for none
}

// terms is the length of an expression.
func (e *expression) terms() int {
	if e.except != "" {
		return len(e.labels) + 1 + costExcept
	}
	return len(e.labels)
}

// text writes the expression behind the name of the set within which it holds, if there is one. Labels of all clusters
// need no name.
func (e *expression) text(of string) string {
	var parts []string
	for _, t := range e.labels {
		parts = append(parts, t.String())
	}
	slices.Sort(parts)
	if of != "" && (of != allClusters || len(parts) == 0) {
		parts = slices.Insert(parts, 0, of)
	}
	if e.except != "" {
		parts = append(parts, "except", e.except)
	}
	return strings.Join(parts, " ")
}

const allClusters = "all clusters"

// Limits of the search for an expression. With them, the cost is some thousand operations on sets.
const (
	mostLabels = 24 // that all clusters of a group have and not all others
	mostTerms  = 3
)

// expression returns the shortest expression that describes exactly a group of at least two clusters within base. also
// is a key that an exception may have beside the labels; "" for none.
func (p *population) expression(base, group bitset, also string) (*expression, bool) {
	if group.equal(base) {
		return &expression{}, true
	}
	labels := p.shared(base, group, "")
	if best := conjunction(base, group, labels); best != nil {
		return &expression{labels: best}, true
	}
	var best *expression
	better := func(e *expression) bool {
		return best == nil || cmp.Or(cmp.Compare(e.terms(), best.terms()),
			cmp.Compare(len(e.text("")), len(best.text(""))), cmp.Compare(e.text(""), best.text(""))) < 0
	}
	for i := -1; i < len(labels); i++ {
		e, within := &expression{}, base
		if i >= 0 {
			e.labels, within = []term{labels[i].term}, labels[i].set
		}
		rest := within.without(group)
		if e.except = p.exception(within, rest, also); e.except != "" && better(e) {
			best = e
		}
	}
	return best, best != nil
}

// exception names what the clusters of rest have and no other one within; "" if there is nothing.
func (p *population) exception(within, rest bitset, also string) string {
	first := rest.first()
	if first < 0 {
		return ""
	}
	if rest.count() == 1 {
		return p.clusters[first].Name
	}
	for _, l := range p.shared(within, rest, also) {
		if l.set.equal(rest) {
			return l.term.String()
		}
	}
	return ""
}

// labelled is a label with the clusters within a set that have it.
type labelled struct {
	term term
	set  bitset
}

// shared returns the labels that all clusters of a group have, but not all within, each set once, by length of the
// text and then by the alphabet.
func (p *population) shared(within, group bitset, also string) []labelled {
	first := group.first()
	if first < 0 {
		return nil
	}
	var out []labelled
	for _, t := range termsOf(&p.clusters[first]) {
		if t.key == environmentLabel && also != environmentLabel {
			continue
		}
		if s := p.sets[t]; s != nil && group.subsetOf(s) && !within.subsetOf(s) {
			out = append(out, labelled{t, s.and(within)})
		}
	}
	slices.SortFunc(out, func(a, b labelled) int {
		x, y := a.term.String(), b.term.String()
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
	var distinct []labelled
	for _, l := range out {
		if len(distinct) < mostLabels &&
			!slices.ContainsFunc(distinct, func(o labelled) bool { return o.set.equal(l.set) }) {
			distinct = append(distinct, l)
		}
	}
	return distinct
}

// conjunction returns the fewest labels that together describe exactly the group; nil if mostTerms are not enough. Of
// equally many, the shortest text counts, then the alphabet.
func conjunction(base, group bitset, labels []labelled) []term {
	all := base
	for _, l := range labels {
		all = all.and(l.set)
	}
	if !all.equal(group) {
		return nil // no search: more labels never describe more clusters
	}
	var best []term
	text := func(list []term) string { e := expression{labels: list}; return e.text("") }
	var search func(from, left int, set bitset, chosen []term)
	search = func(from, left int, set bitset, chosen []term) {
		if left == 0 {
			if set.equal(group) && (best == nil || cmp.Or(cmp.Compare(len(text(chosen)), len(text(best))),
				cmp.Compare(text(chosen), text(best))) < 0) {
				best = slices.Clone(chosen)
			}
			return
		}
		for i := from; i < len(labels); i++ {
			search(i+1, left-1, set.and(labels[i].set), append(slices.Clone(chosen), labels[i].term))
		}
	}
	for n := 1; n <= mostTerms && best == nil; n++ {
		search(0, n, base, nil)
	}
	return best
}

// bitset is a set of clusters, by their index.
type bitset []uint64

const word = 64

func newBitset(n int) bitset { return make(bitset, (n+word-1)/word) }

func (s bitset) add(i int) { s[i/word] |= 1 << (i % word) }

func (s bitset) equal(o bitset) bool { return slices.Equal(s, o) }

func (s bitset) and(o bitset) bitset {
	out := make(bitset, len(s))
	for i := range s {
		out[i] = s[i] & o[i]
	}
	return out
}

func (s bitset) without(o bitset) bitset {
	out := make(bitset, len(s))
	for i := range s {
		out[i] = s[i] &^ o[i]
	}
	return out
}

// subsetOf reports whether all elements are in o.
func (s bitset) subsetOf(o bitset) bool {
	for i := range s {
		if s[i]&^o[i] != 0 {
			return false
		}
	}
	return true
}

func (s bitset) count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// first returns the least element, -1 of the empty set.
func (s bitset) first() int {
	for i, w := range s {
		if w != 0 {
			return i*word + bits.TrailingZeros64(w)
		}
	}
	return -1
}
