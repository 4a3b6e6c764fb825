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
}

// find adds a finding, or an environment to an equal one.
func (c *converter) find(at place, effect, field, reason string) {
	for i := range c.result.Findings {
		f := &c.result.Findings[i]
		if f.Release == at.release && f.Effect == effect && f.Field == field && f.Reason == reason {
			if !slices.Contains(f.Environments, at.environment) {
				f.Environments = append(f.Environments, at.environment)
			}
			return
		}
	}
	c.result.Findings = append(c.result.Findings, Finding{
		Environments: []string{at.environment}, Release: at.release, Effect: effect, Field: field, Reason: reason, File: at.file, Line: at.line,
	})
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
				keys := slices.DeleteFunc(slices.Sorted(maps.Keys(item)), func(key string) bool { return key == "sops" })
				out = append(out, "keys "+strings.Join(keys, " "))
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}
