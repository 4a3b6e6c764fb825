package yamlmistake_test

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/internal/mistakes"
	"github.com/sluice-gitops/sluice/internal/yamlmistake"
)

type inner struct {
	Secret string `yaml:"secret"`
}

type outer struct {
	Name   string            `yaml:"name"`
	Every  time.Duration     `yaml:"every"`
	Count  int               `yaml:"count"`
	On     bool              `yaml:"on"`
	List   []inner           `yaml:"list"`
	One    *inner            `yaml:"one"`
	Labels map[string]string `yaml:"labels"`
	Inline struct {
		Deep float64 `yaml:"deep"`
	} `yaml:",inline"`
	Hidden string `yaml:"-"`
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: a\nevry: 5m\n":              "f.yaml:2: unknown key evry, did you mean every? (known here: count, deep, every, labels, list, name, on, one)",
		"list: [{secrt: x}]\n":             "f.yaml:1: unknown key secrt, did you mean secret? (known here: secret)",
		"hidden: x\n":                      "f.yaml:1: unknown key hidden (known here: count, deep, every, labels, list, name, on, one)",
		"every: soon\n":                    `f.yaml:1: "soon" must be a duration such as 5m`,
		"on: maybe\n":                      `f.yaml:1: "maybe" must be true or false`,
		"list: x\n":                        `f.yaml:1: "x" must be a list`,
		"list: {a: b}\n":                   "f.yaml:1: a mapping stands where a list must stand",
		"one: [a]\n":                       "f.yaml:1: a list stands where a mapping must stand",
		"one: secret x\n":                  `f.yaml:1: "secret x" must be a mapping (write KEY: VALUE)`,
		"labels: 7\n":                      `f.yaml:1: "7" must be a mapping`,
		"name: [a]\n":                      "f.yaml:1: a list stands where a text must stand",
		"deep: x\n":                        `f.yaml:1: "x" must be a number`,
		"name: a\nname: b\n":               "f.yaml:2: name is set twice, first in line 1 (keep one)",
		"name: a\n<<<<<<< HEAD\nname: b\n": `f.yaml:2: a conflict marker of a merge: "<<<<<<< HEAD" (resolve the conflict`,
		"list:\n\t- {}\n":                  "f.yaml:2: a tab in the indentation",
		"count: x\non: no way\n":           "f.yaml:1: \"x\" must be a whole number\nf.yaml:2: \"no way\" must be true or false",
	} {
		var into outer
		dec := yaml.NewDecoder(strings.NewReader(text))
		dec.KnownFields(true)
		err := dec.Decode(&into)
		if err == nil {
			t.Errorf("%q: it is decoded without an error", text)
			continue
		}
		got := yamlmistake.Errors("f.yaml", yamlmistake.Explain(err, []byte(text), &into)).Error()
		if !strings.HasPrefix(got, want) || mistakes.WordOfGo(got) != "" {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
