package kustomize

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/internal/treefs"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Bases finds the directories that kustomizations name by URL.
type Bases interface {
	// Find returns the directory of the tree with what a URL names; false if there is none. file is the kustomization.
	Find(file, reference string) (dir string, ok bool)
	// Unpinned returns why Find finds nothing, and what to do; nil for a URL of which Bases knows nothing.
	Unpinned(reference string) error
}

// Redirected is a tree in which kustomizations name directories of the tree instead of URLs, as in
//
//	resources: ["https://github.com/acme/components//base?ref=v1.2.0"]
//
// It leaves URLs that Bases does not find. A Walker refuses them with the reason of Bases. It is as safe for concurrent
// use as the tree and Bases.
type Redirected struct {
	treefs.Edit
	Bases
}

// Redirect returns the tree with the kustomizations changed.
func Redirect(tree Tree, bases Bases) *Redirected {
	out := &Redirected{Bases: bases}
	out.Edit = treefs.Edit{Tree: tree, Change: out.change}
	return out
}

// Replacing returns the same tree with other content for some files, which is redirected too.
func (r *Redirected) Replacing(files map[string][]byte) Tree {
	changed := maps.Clone(files)
	for name, data := range files {
		changed[name] = r.change(name, data)
	}
	return replaced{treefs.NewOverlay(r, changed), r.Bases}
}

// replaced is an EditedTree.
type replaced struct {
	*treefs.Overlay
	Bases
}

// change replaces the URLs in a file, if it is a kustomization.
func (r *Redirected) change(name string, data []byte) []byte {
	if !slices.Contains(FileNames(), path.Base(name)) {
		return data
	}
	return redirect(name, data, r.Find)
}

// redirect replaces the URLs in one kustomization. It keeps every other byte, so that messages have the right line
// numbers.
func redirect(name string, data []byte, find func(file, reference string) (string, bool)) []byte {
	if !bytes.Contains(data, []byte("/")) || manifest.Check(data, manifest.DefaultBudget()) != nil {
		return data
	}
	lines, changed := bytes.SplitAfter(data, []byte("\n")), false
	for _, n := range slices.Backward(baseNodes(data)) { // backwards, so that columns before it stay right
		target, ok := find(name, n.Value)
		if !ok || n.Line < 1 || n.Line > len(lines) {
			continue
		}
		line := lines[n.Line-1]
		at := column(line, n.Column)
		relative := strings.Repeat("../", strings.Count(name, "/")) + target
		lines[n.Line-1] = append(slices.Clip(line[:at]), bytes.Replace(line[at:], []byte(n.Value), []byte(relative),
			1)...)
		changed = true
	}
	if !changed {
		return data
	}
	return bytes.Join(lines, nil)
}

// References returns what a kustomization names as resources, components and bases; nil if it does not decode.
func References(data []byte) []string {
	if manifest.Check(data, manifest.DefaultBudget()) != nil {
		return nil
	}
	var out []string
	for _, n := range baseNodes(data) {
		out = append(out, n.Value)
	}
	return out
}

// baseNodes returns the nodes of the entries that can name directories, in the order of the text. data must have been
// checked.
func baseNodes(data []byte) []*yaml.Node {
	var root yaml.Node
	if yaml.Unmarshal(data, &root) != nil || len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil // the walker reports it
	}
	var out []*yaml.Node
	fields := root.Content[0].Content
	for i := 0; i+1 < len(fields); i += 2 {
		if slices.Contains([]string{"resources", "components", "bases"}, fields[i].Value) {
			out = append(out, fields[i+1].Content...)
		}
	}
	return out
}

// column returns the byte at which a column of a line begins. The first column is 1, and each character has one.
func column(line []byte, n int) int {
	at := 0
	for ; n > 1 && at < len(line); n-- {
		_, size := utf8.DecodeRune(line[at:])
		at += size
	}
	return at
}
