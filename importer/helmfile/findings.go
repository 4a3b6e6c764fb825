package helmfile

import (
	"maps"
	"slices"
	"strings"
)

// place is what a finding is about.
type place struct {
	environment, file string
	line              int
	release           string
	namespace         string // as the state says it
	context           string
}

// find adds a finding, or an environment to an equal one. Another release of the name in the same environment has a
// finding of its own.
func (c *converter) find(at place, effect, field, reason string) {
	here := Place{at.environment, at.namespace, at.context}
	for i := range c.result.Findings {
		f := &c.result.Findings[i]
		if f.Release != at.release || f.Effect != effect || f.Field != field || f.Reason != reason {
			continue
		}
		known := slices.IndexFunc(f.Places, func(p Place) bool { return p.Environment == at.environment })
		switch {
		case at.release == "" && slices.Contains(f.Environments, at.environment), known >= 0 && f.Places[known] == here:
			return
		case known >= 0:
			continue
		}
		f.Environments = append(f.Environments, at.environment)
		if at.release != "" {
			f.Places = append(f.Places, here)
		}
		return
	}
	f := Finding{
		Environments: []string{at.environment}, Release: at.release, Effect: effect, Field: field,
		Reason: reason, File: at.file, Line: at.line,
	}
	if at.release != "" {
		f.Places = []Place{here}
	}
	c.result.Findings = append(c.result.Findings, f)
}

// LeftOutReleases counts the releases that the fleet lacks: those of one name count once for each that an environment
// has.
func (r *Result) LeftOutReleases() int {
	byName := map[string]map[string][]Place{}
	for _, f := range r.Findings {
		if f.Effect != LeftOut {
			continue
		}
		if byName[f.Release] == nil {
			byName[f.Release] = map[string][]Place{}
		}
		for _, p := range f.Places {
			if list := byName[f.Release][p.Environment]; !slices.Contains(list, p) {
				byName[f.Release][p.Environment] = append(list, p)
			}
		}
	}
	n := 0
	for _, environments := range byName {
		most := 0
		for _, list := range environments {
			most = max(most, len(list))
		}
		n += most
	}
	return n
}

// details names the items of a field: hooks by name, secrets by file or keys.
func details(name string, v any) string {
	list, _ := v.([]any) // only lists have details
	var out []string
	for _, item := range list {
		switch item := item.(type) {
		case string:
			out = append(out, item)
		case map[string]any:
			if known, ok := item["name"].(string); ok && name != "secrets" {
				out = append(out, known)
			} else if name == "secrets" {
				keys := slices.DeleteFunc(slices.Sorted(maps.Keys(item)),
					func(key string) bool { return key == "sops" })
				out = append(out, "keys "+strings.Join(keys, " "))
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}
