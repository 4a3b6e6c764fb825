package helm

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/internal/lru"
)

// Helm copies all default values of a chart several times, by reflection, to find out which dependencies are enabled
// and to import values of those. The values of a release decide nothing but which are enabled: Helm reads them at the
// paths of conditions and tags, and it merges each key of a mapping by itself. So two releases with equal values at
// the names in these paths have equal charts, and Helm makes each of them once.

// selections keeps the charts that Helm makes of a chart for some selections of dependencies. Nobody changes them. It
// is safe for concurrent use.
type selections[C any] struct {
	once  sync.Once
	names map[string]bool // all that occur in the paths at which Helm reads values
	made  *lru.Cache[C]   // by the values at the names
}

// maxSelections is the number of selections that are kept for a chart.
const maxSelections = 16

// of returns the chart for the values, and whether renderings share it. paths returns the paths of all conditions and
// tags, and the names of all charts and dependencies. process lets Helm make the chart, and reports whether renderings
// can share it.
func (s *selections[C]) of(values map[string]any, paths func() []string, process func() (C, bool, error)) (
	c C, shared bool, err error,
) {
	s.once.Do(func() {
		s.names, s.made = map[string]bool{"tags": true, "global": true}, lru.New[C](maxSelections)
		for _, path := range paths() {
			s.names[path] = true
			for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' || r == ',' }) {
				s.names[name] = true
			}
		}
	})
	key, err := json.Marshal(s.read(values))
	if err != nil { // no release has such values
		return c, false, err
	}
	if c, ok := s.made.Get(string(key)); ok {
		return c, true, nil
	}
	if c, shared, err = process(); shared && err == nil {
		s.made.Add(string(key), c)
	}
	return c, shared, err
}

// read returns the part of the values that Helm can read.
func (s *selections[C]) read(values map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range values {
		if !s.names[name] {
			continue
		}
		if table, ok := value.(map[string]any); ok {
			value = s.read(table)
		}
		out[name] = value
	}
	return out
}
