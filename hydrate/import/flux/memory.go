package flux

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Memory keeps values under a digest of what they were computed from, such as the built objects of a directory, between imports. A value
// holds for the version of Sluice that stored it.
type Memory interface {
	Get(key string) []byte // nil if it is not known
	Put(key string, value []byte)
}

// made is what a Kustomization makes of a directory, before its children are followed.
type made struct {
	Pieces []piece
	Reads  []string
	Notes  []string
}

// piece is one object. Text is its YAML document. Object is set if Import looks into the object: other units, and what they refer to.
type piece struct {
	Text   string
	Object manifest.Object
}

// objects returns the objects that Import looks into.
func (m *made) objects() []manifest.Object {
	var out []manifest.Object
	for _, p := range m.Pieces {
		if p.Object != nil {
			out = append(out, p.Object)
		}
	}
	return out
}

// document appends an object to a stream of YAML documents.
func document(stream []byte, o manifest.Object) ([]byte, error) {
	out, err := manifest.Append(append(stream, "---\n"...), map[string]any(o))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Identity(), err)
	}
	return out, nil
}

// produce builds a directory, substitutes variables and adds metadata, or recalls the result. k is the unit's.
func (c *cluster) produce(ctx context.Context, k Key, a *artifact, dir, namespace string, spec *kustomizev1.KustomizationSpec) (*made, error) {
	key, err := productKey(c, dir, namespace, spec)
	if err != nil {
		return nil, err
	}
	known, others := recall(c.Importer, key, a)
	if known != nil {
		return known, nil
	}
	if c.Starting != nil {
		if err := c.Starting(k); err != nil {
			return nil, err
		}
	}
	seen := &recorder{artifact: a, importer: c.Importer, trace: trace{Kinds: map[string]string{}, Names: map[string]string{}, Files: map[string]string{}}}
	built, reads, err := c.build(ctx, seen, dir, spec)
	if err != nil {
		return nil, err
	}
	built, notes, err := c.afterBuild(built, namespace, spec)
	if err != nil {
		return nil, err
	}
	out := &made{Reads: reads, Notes: notes}
	for _, o := range built {
		var p piece
		if k := keyOf(o); expands(k) || isReferred(k) {
			p.Object = o
		}
		if c.Ignore != nil || !expands(keyOf(o)) {
			text, err := document(nil, o)
			if err != nil {
				return nil, err
			}
			p.Text = string(text)
		}
		out.Pieces = append(out.Pieces, p)
	}
	if c.Memory == nil || seen.partial {
		return out, nil
	}
	frozen, err := freeze(out)
	if err != nil {
		return nil, err
	}
	store(c.Memory, key, remembered{Trace: seen.trace, Made: frozen}, others)
	return out, nil
}

// productKey is a digest of everything that produce depends on but the files.
func productKey(c *cluster, dir, namespace string, spec *kustomizev1.KustomizationSpec) (string, error) {
	in := struct {
		What, Dir, Namespace string
		Spec                 *kustomizev1.KustomizationSpec
		From                 []any
		Ignores              bool
	}{"product", dir, namespace, spec, nil, c.Ignore != nil}
	if spec.PostBuild != nil {
		for _, ref := range spec.PostBuild.SubstituteFrom {
			o, ok := c.objects[Key{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}]
			in.From = append(in.From, ok, o)
		}
	}
	text, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	return digest(text), nil
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// remembered is one result of produce under a key, and the files that it holds for.
type remembered struct {
	Trace trace
	Made  json.RawMessage // see freeze
}

// maxVariants bounds the results that are kept under one key: those of a few commits.
const maxVariants = 8

// recall returns the result under a key that holds for the commit; otherwise nil and the other results.
func recall(i *Importer, key string, a *artifact) (*made, []remembered) {
	if i.Memory == nil {
		return nil, nil
	}
	var known []remembered
	if data := i.Memory.Get(key); data == nil || json.Unmarshal(data, &known) != nil {
		return nil, nil
	}
	for _, r := range known {
		if !r.Trace.holds(i, a) {
			continue
		}
		out := &made{}
		if err := thaw(r.Made, out); err != nil {
			return nil, nil
		}
		return out, nil
	}
	return nil, known
}

func store(m Memory, key string, latest remembered, others []remembered) {
	all := append([]remembered{latest}, others...)
	if data, err := json.Marshal(all[:min(len(all), maxVariants)]); err == nil { // otherwise it is made again
		m.Put(key, data)
	}
}

// freeze is json.Marshal, but numbers keep their types, which thaw restores.
func freeze(m *made) ([]byte, error) {
	out := made{Reads: m.Reads, Notes: m.Notes, Pieces: slices.Clone(m.Pieces)}
	for i, p := range out.Pieces {
		if p.Object != nil {
			frozen, _ := typed(map[string]any(p.Object), frozenNumber).(map[string]any)
			out.Pieces[i].Object = frozen
		}
	}
	return json.Marshal(&out)
}

func thaw(data []byte, into *made) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return err
	}
	for i, p := range into.Pieces {
		if p.Object != nil {
			thawed, _ := typed(map[string]any(p.Object), thawedNumber).(map[string]any)
			into.Pieces[i].Object = thawed
		}
	}
	return nil
}

// typed returns a value with other numbers. The result for a map is a map.
func typed(v any, number func(any) any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			out[k] = typed(inner, number)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = typed(inner, number)
		}
		return out
	default:
		return number(v)
	}
}

// frozenNumber writes floating-point numbers with an exponent, and others without.
func frozenNumber(v any) any {
	if f, ok := v.(float64); ok && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return json.Number(strconv.FormatFloat(f, 'e', -1, 64))
	}
	return v
}

func thawedNumber(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return u
	}
	f, err := n.Float64()
	if err != nil {
		return v
	}
	return f
}

// trace is what a build asked of an artifact, with the answers.
type trace struct {
	Kinds map[string]string // path → file, directory, or "" for neither
	Names map[string]string // directory → a digest of the names in it
	Files map[string]string // path → the path in the commit and the id of the content
}

// holds reports whether an artifact gives the same answers.
func (t *trace) holds(i *Importer, a *artifact) bool {
	for name, kind := range t.Kinds {
		if a.kind(name) != kind {
			return false
		}
	}
	for dir, names := range t.Names {
		if digestOf(a.names(dir)) != names {
			return false
		}
	}
	for name, want := range t.Files {
		got, err := i.identify(a.original(name))
		if !a.isFile(name) || err != nil || a.original(name)+"\x00"+got != want {
			return false
		}
	}
	return true
}

func digestOf(names []string) string { return digest([]byte(strings.Join(names, "\x00"))) }

// recorder notes what a build asks of an artifact.
type recorder struct {
	*artifact
	importer *Importer
	trace    trace
	partial  bool // a file has no id, so the trace does not say what was read
}

func (r *recorder) see(name string) { r.trace.Kinds[name] = r.kind(name) }

func (r *recorder) isDir(name string) bool { r.see(name); return r.artifact.isDir(name) }

func (r *recorder) isFile(name string) bool { r.see(name); return r.artifact.isFile(name) }

func (r *recorder) names(dir string) []string {
	out := r.artifact.names(dir)
	r.trace.Names[dir] = digestOf(out)
	return out
}

// Stat implements kustomize.Tree.
func (r *recorder) Stat(name string) (fs.FileInfo, error) {
	r.see(name)
	return r.artifact.Stat(name)
}

// ReadFile implements kustomize.Tree.
func (r *recorder) ReadFile(name string) ([]byte, error) {
	r.see(name)
	data, err := r.artifact.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if id, err := r.importer.identify(r.original(name)); err == nil {
		r.trace.Files[name] = r.original(name) + "\x00" + id
	} else {
		r.partial = true
	}
	return data, nil
}

// identify returns an id of a file's content: the tree's own, or a digest.
func (i *Importer) identify(name string) (string, error) {
	if id, ok := i.ids[name]; ok {
		return id, nil
	}
	found, err := i.tree.Stat(name)
	if err != nil {
		return "", err
	}
	var id string
	if own, ok := found.Sys().(fmt.Stringer); ok {
		id = own.String()
	} else {
		data, err := i.tree.ReadFile(name)
		if err != nil {
			return "", err
		}
		id = digest(data)
	}
	if id == "" {
		return "", errors.New("no id")
	}
	i.ids[name] = id
	return id, nil
}
