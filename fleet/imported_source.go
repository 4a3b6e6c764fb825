package fleet

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
)

// values are those of a source by its name.
func (i *Imported) values(source string) map[string]any {
	for n := range i.Sources {
		if values := i.Sources[n].Values; values != nil && (source == "" || source == strconv.Itoa(n)) {
			return values
		}
	}
	return map[string]any{}
}

// Given returns the values that the tool gives a chart: Values on top of those that replace the chart's own.
func (s *ImportedSource) Given() map[string]any {
	if s.Packing == nil || !s.Packing.Replaces {
		return s.Values
	}
	return merge(s.Packing.Defaults, s.Values)
}

// Source returns a source by the name that it has in Resolved; nil if there is none.
func (i *Imported) Source(name string) *ImportedSource {
	for n := range i.Sources {
		if len(i.Sources) == 1 || name == strconv.Itoa(n) {
			return &i.Sources[n]
		}
	}
	return nil
}

// appendKey adds what AppendKey adds for other targets from layers. The empty text and list keep the keys that earlier
// releases recorded.
func (i *Imported) appendKey(dst []byte) ([]byte, error) {
	dst = appendText(dst, "imported", string(i.Component), "")
	dst = appendList(dst, nil)
	for n := range i.Sources {
		s := &i.Sources[n]
		values, err := json.Marshal(s.Values)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: the values: %w", i.File, i.Line, err)
		}
		sum := sha256.Sum256([]byte(s.Objects))
		dst = appendText(dst, string(values), string(sum[:]))
		if s.Kustomize != nil {
			dst = appendText(dst, "kustomize", s.Kustomize.Path, string(s.Kustomize.Edited))
		}
		if s.KubeVersion != "" || len(s.APIVersions) > 0 {
			dst = appendText(dst, "capabilities", s.KubeVersion)
			dst = appendList(dst, s.APIVersions)
		}
	}
	return dst, nil
}
