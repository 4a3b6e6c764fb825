package argocd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/importer/internal/reach"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// located is an object with its place.
type located struct {
	object manifest.Object
	origin Origin
}

// find reads the Applications, ApplicationSets and cluster Secrets of the files that Apps names.
func (i *importer) find(ctx context.Context) ([]located, error) {
	for _, pattern := range i.Apps {
		if !doublestar.ValidatePattern(pattern) || strings.Count(pattern, "**") > 2 {
			return nil, fmt.Errorf("apps: bad pattern %q", pattern)
		}
	}
	if err := i.list("."); err != nil {
		return nil, err
	}
	charts := map[string]bool{}
	for _, name := range i.files {
		if path.Base(name) == "Chart.yaml" {
			charts[path.Dir(name)] = true
		}
	}
	files, order := map[string][]byte{}, []string(nil) // that may describe something
	for _, name := range i.files {
		if !isManifest(name) || inTemplates(name, charts) || !i.wanted(name) {
			continue
		}
		data, err := i.Tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if i.ignored(name) {
			i.remember(name, data)
			continue
		}
		if bytes.Contains(data, []byte(group+"/")) || bytes.Contains(data, []byte(secretType)) {
			files[name], order = data, append(order, name)
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	out, claimed := i.kustomizations().overlays(ctx, files)
	for _, name := range order {
		if !claimed[name] {
			out = append(out, i.findIn(name, files[name])...)
		}
	}
	return out, nil
}

func (i *importer) ignored(name string) bool { return i.Ignore != nil && i.Ignore(name) }

// remember keeps the places of what an ignored file describes, so that a parent that applies the file does not follow
// it.
func (i *importer) remember(name string, data []byte) {
	if !bytes.Contains(data, []byte(group+"/")) {
		return
	}
	for key, line := range places(data) {
		if _, known := i.origins[key]; !known {
			i.origins[key] = Origin{File: name, Line: line}
		}
	}
}

// findIn returns the Applications and ApplicationSets of one file, and adds the clusters of its Secrets to the import.
func (i *importer) findIn(name string, data []byte) []located {
	objects, err := manifest.Decode(data, manifest.DefaultBudget())
	if err != nil {
		// the user or the file says that there are Applications in it
		if (len(i.Apps) > 0 || describes(data)) && !onlyLists(data) {
			files := slices.Sorted(slices.Values(i.files)) // the caller walks i.files
			i.problems = append(i.problems, Problem{
				App: fileApp(name), Origin: Origin{File: name}, Message: err.Error(),
				Reads: reach.Paths(files, i.Tree.ReadFile, reach.Named(files, data)...),
			})
		}
		return nil
	}
	i.remember(name, data)
	lines := places(data)
	return i.taken(objects, func(key string) Origin { return Origin{File: name, Line: lines[key]} })
}

// onlyLists reports whether each document of a file is a list, as a JSON 6902 patch is, so that no document is an
// object.
func onlyLists(data []byte) bool {
	if manifest.Check(data, manifest.DefaultBudget()) != nil {
		return false
	}
	for dec, any := yaml.NewDecoder(bytes.NewReader(data)), false; ; any = true {
		var node yaml.Node
		if err := dec.Decode(&node); err != nil {
			return any && errors.Is(err, io.EOF)
		}
		if len(node.Content) > 0 && node.Content[0].Kind != yaml.SequenceNode {
			return false
		}
	}
}

// fileApp is the name of what stands for a file that cannot be read. It is short enough for an app, and differs between
// files.
func fileApp(name string) string {
	const most = 40
	sum := sha256.Sum256([]byte(name))
	text := sanitize(name)
	return "file-" + hex.EncodeToString(sum[:4]) + "-" + strings.Trim(text[max(0, len(text)-most):], "-.")
}

// describes reports whether a text, which may not decode, looks like an Application, an ApplicationSet or a cluster
// Secret.
func describes(data []byte) bool {
	return describesApplication(data) || bytes.Contains(data, []byte(secretType))
}

func describesApplication(data []byte) bool {
	return bytes.Contains(data, []byte(group+"/v")) && bytes.Contains(data, []byte(kindApplication))
}

func (i *importer) list(dir string) error {
	entries, err := i.Tree.ReadDir(dir)
	if err != nil {
		return err
	}
	const most = 500_000
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && i.mounted(name):
		case e.IsDir():
			if err := i.list(name); err != nil {
				return err
			}
		case e.Type().IsRegular():
			if i.files = append(i.files, name); len(i.files) > most {
				return fmt.Errorf("the repository has more than %d files", most)
			}
		}
	}
	return nil
}

// inTemplates reports whether a file is a template of a chart, which is no YAML yet.
func inTemplates(name string, charts map[string]bool) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if path.Base(dir) == "templates" && charts[path.Dir(dir)] {
			return true
		}
	}
	return false
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

func (i *importer) wanted(name string) bool {
	return len(i.Apps) == 0 || slices.ContainsFunc(i.Apps, func(p string) bool {
		return doublestar.MatchUnvalidated(p,
			name)
	})
}

func isApplication(o manifest.Object) bool {
	return manifest.GroupOf(o.APIVersion()) == group && (o.Kind() == kindApplication || o.Kind() == kindApplicationSet)
}

// complete tells an Application from a patch for one.
func complete(o manifest.Object) bool {
	spec, _ := o["spec"].(map[string]any)
	if o.Kind() == kindApplicationSet {
		return spec["template"] != nil && spec["generators"] != nil
	}
	return spec["destination"] != nil && (spec["source"] != nil || spec["sources"] != nil ||
		spec["sourceHydrator"] != nil)
}

// places finds the line of each document's object.
func places(data []byte) map[string]int {
	out := map[string]int{}
	if manifest.Check(data, manifest.DefaultBudget()) != nil {
		return out // whoever decodes the file reports it
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var node yaml.Node
		if err := dec.Decode(&node); errors.Is(err, io.EOF) || err != nil {
			return out
		}
		var head struct {
			Kind     string `yaml:"kind"`
			Metadata struct {
				Name string `yaml:"name"`
			} `yaml:"metadata"`
		}
		if node.Decode(&head) == nil && len(node.Content) > 0 {
			out[head.Kind+"/"+head.Metadata.Name] = node.Content[0].Line
		}
	}
}
