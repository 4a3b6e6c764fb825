package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// objects are canonical texts by identity. Objects of one identity, which Helm accepts, have a number; equal ones count
// once, as on a branch.
type objects map[string]string

// decode reads a stream of a tool or of Sluice. Lists are their items, and test hooks are left out.
func decode(text []byte) (objects, error) {
	list, err := manifest.Decode(text, manifest.DefaultBudget())
	if err != nil {
		return nil, err
	}
	out := objects{}
	for _, o := range list {
		if o.Kind() != "CustomResourceDefinition" && helm.HookOf(o.Annotation(helm.HookAnnotation)) >= helm.TestHook {
			continue
		}
		canonical, err := manifest.Encode(o)
		if err != nil {
			return nil, err
		}
		key := o.Identity().String()
		for n := 2; out[key] != "" && out[key] != string(canonical); n++ {
			key = fmt.Sprint(o.Identity(), " #", n)
		}
		out[key] = string(canonical)
	}
	return out, nil
}

// rendering is what Sluice made of a cluster: objects by app, or why an app was refused.
type rendering struct {
	objects map[string]objects
	refused map[string]string
}

// rendered renders a cluster of a fleet.
func (r *run) rendered(dir, cluster string) (*rendering, error) {
	to, err := os.MkdirTemp(r.dir, "out-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(to) }()
	out, err := r.command(dir, r.sluice, "render", "-q", "--cluster", cluster, "--out", to)
	if err != nil && !failed(err) {
		return nil, err
	}
	result := &rendering{objects: map[string]objects{}, refused: map[string]string{}}
	for line := range strings.Lines(out.stderr) {
		if rest, ok := strings.CutPrefix(line, "failed  "+cluster+"/"); ok {
			app, why, _ := strings.Cut(strings.TrimSpace(rest), ": ")
			result.refused[app] = why
		}
	}
	texts := map[string]*bytes.Buffer{}
	err = filepath.WalkDir(to, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		app := filepath.Base(filepath.Dir(name))
		if texts[app] == nil {
			texts[app] = &bytes.Buffer{}
		}
		fmt.Fprintf(texts[app], "---\n%s\n", data)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for app, text := range texts {
		if result.objects[app], err = decode(text.Bytes()); err != nil {
			return nil, fmt.Errorf("%s: %w", app, err)
		}
	}
	if len(texts) == 0 && len(result.refused) == 0 {
		return nil, fmt.Errorf("%s rendered nothing:\n%s", cluster, out.stderr)
	}
	return result, nil
}

// compare adds a unit that both sides render. again is the output of the tool in a second run: an object that differs
// between them is random.
func (row *Row) compare(unit string, ours, theirs, again objects) {
	row.Units++
	keys := map[string]bool{}
	for key := range ours {
		keys[key] = true
	}
	for key := range theirs {
		keys[key] = true
	}
	for _, key := range sorted(keys) {
		if ours[key] == theirs[key] {
			row.Equal++
			continue
		}
		row.Different++
		what := unit + ": " + key
		switch {
		case ours[key] == "":
			what += " is only in the tool's output"
		case theirs[key] == "":
			what += " is only in Sluice's output"
		}
		cause := known().of(what)
		if again != nil && again[key] != theirs[key] {
			cause = "the tool's output is random: two of its runs differ"
		}
		row.Differences = append(row.Differences, Difference{what, cause, 1})
	}
}

// refuse adds a unit that the tool renders and Sluice refuses.
func (row *Row) refuse(unit, why string) {
	row.Refused++
	row.Differences = append(row.Differences, Difference{unit + " is refused by Sluice", known().of(why), 1})
}

// skip adds units that are not compared.
func (row *Row) skip(count int, cause string) {
	for i := range row.NotCompared {
		if row.NotCompared[i].Cause == cause {
			row.NotCompared[i].Count += count
			return
		}
	}
	row.NotCompared = append(row.NotCompared, Reason{count, cause})
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}
