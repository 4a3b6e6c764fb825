package flux

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"github.com/sluice-gitops/sluice/importer/internal/wire"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Memory keeps values between imports, such as the built objects of a directory, under a digest of what they were
// computed from. A value is valid for the version of Sluice that stored it.
type Memory interface {
	Get(key string) []byte // nil if it is not known
	Put(key string, value []byte)
}

// product is what a Kustomization makes of a directory, before its children are followed.
type product struct {
	Pieces []piece
	Reads  []string
	Notes  []string
}

// piece is one object. Text is its YAML document. Object is set if Import looks into the object: other units, and what
// they refer to.
type piece struct {
	Text   string
	Object manifest.Object
}

// objects returns the objects that Import looks into.
func (m *product) objects() []manifest.Object {
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

// produce builds a directory for the unit k, substitutes variables and adds metadata. If Memory has the result for the
// same spec and the same files, produce recalls it.
func (c *cluster) produce(ctx context.Context, k Key, a *artifact, dir, namespace string,
	spec *kustomizev1.KustomizationSpec,
) (*product, error) {
	key, err := c.productKey(dir, namespace, spec)
	if err != nil {
		return nil, err
	}
	known, others := c.recall(key, a)
	if known != nil {
		return known, nil
	}
	if c.Starting != nil {
		if err := c.Starting(k); err != nil {
			return nil, err
		}
	}
	seen := &recorder{artifact: a, importer: c.Importer, trace: trace{
		Kinds: map[string]string{},
		Names: map[string]string{}, Files: map[string]string{},
	}}
	built, reads, err := c.build(ctx, seen, dir, spec)
	if err != nil {
		return nil, err
	}
	built, notes, err := c.afterBuild(built, reads, namespace, spec)
	if err != nil {
		return nil, err
	}
	out := &product{Reads: reads, Notes: notes}
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
	store(c.Memory, key, &seen.trace, out, others)
	return out, nil
}

// productKey is a digest of everything that produce depends on but the files.
func (c *cluster) productKey(dir, namespace string, spec *kustomizev1.KustomizationSpec) (string, error) {
	in := struct {
		What, Dir, Namespace string
		Spec                 *kustomizev1.KustomizationSpec
		From                 []any
		Ignores, Lenient     bool
	}{"product", dir, namespace, spec, nil, c.Ignore != nil, c.Lenient}
	if spec.PostBuild != nil {
		for _, ref := range spec.PostBuild.SubstituteFrom {
			o, standIn, err := c.referred(Key{Kind: ref.Kind, Namespace: namespace, Name: ref.Name})
			in.From = append(in.From, o, standIn, fmt.Sprint(err))
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

// maxVariants bounds the results that are kept under one key: those of a few commits.
const maxVariants = 8

// variant is a result with what it was made from. The value under a key is a list of encoded variants, so that only one
// product is decoded.
type variant struct {
	_       struct{} `cbor:",toarray"`
	Trace   trace
	Product []byte
}

// recall returns the result under a key that holds for the commit; otherwise nil and the other results, encoded.
func (i *Importer) recall(key string, a *artifact) (known *product, others [][]byte) {
	var all [][]byte
	if i.Memory == nil || wire.Unmarshal(i.Memory.Get(key), &all) != nil {
		return nil, nil
	}
	for _, one := range all {
		var v variant
		if wire.Unmarshal(one, &v) != nil {
			continue
		}
		if !i.holds(&v.Trace, a) {
			others = append(others, one)
			continue
		}
		var out product
		if wire.Unmarshal(v.Product, &out) == nil {
			return &out, nil
		}
	}
	return nil, others
}

// store keeps a result with its trace, before the other results of the key. A result that cannot be encoded is not
// kept.
func store(m Memory, key string, t *trace, latest *product, others [][]byte) {
	encoded, err := wire.Marshal(latest)
	if err != nil {
		return
	}
	one, err := wire.Marshal(variant{Trace: *t, Product: encoded})
	if err != nil {
		return
	}
	out, err := wire.Marshal(append([][]byte{one}, others[:min(len(others), maxVariants-1)]...))
	if err != nil {
		return
	}
	m.Put(key, out)
}

// trace is what a build asked of an artifact, with the answers.
type trace struct {
	Kinds map[string]string // path → file, directory, or "" for neither
	Names map[string]string // directory → a digest of the names in it
	Files map[string]string // path → the path in the commit and the id of the content
}

// holds reports whether an artifact gives the answers of a trace, so that a build of it has the same result.
func (i *Importer) holds(t *trace, a *artifact) bool {
	for name, want := range t.Kinds {
		if a.kind(name) != want {
			return false
		}
	}
	for name, want := range t.Names {
		if a.namesDigest(name) != want {
			return false
		}
	}
	for name, want := range t.Files {
		if i.idOf(a, name) != want {
			return false
		}
	}
	return true
}

// idOf returns a text that identifies a file of an artifact: its path in the commit and its id. It returns "" for a
// file that does not exist or has no id.
func (i *Importer) idOf(a *artifact, name string) string {
	if !a.isFile(name) {
		return ""
	}
	id, err := i.identify(a.original(name))
	if err != nil {
		return "" // whoever reads the file reports the error
	}
	return a.original(name) + "\x00" + id
}

// recorder is the view of a build whose trace it notes.
type recorder struct {
	*artifact
	importer *Importer
	trace    trace
	partial  bool // a file has no id, so the trace does not tell what was read, and the result is not kept
}

func (r *recorder) see(name string) { r.trace.Kinds[name] = r.kind(name) }

func (r *recorder) isDir(name string) bool { r.see(name); return r.artifact.isDir(name) }

func (r *recorder) isFile(name string) bool { r.see(name); return r.artifact.isFile(name) }

func (r *recorder) names(dir string) []string {
	out := r.artifact.names(dir)
	r.trace.Names[dir] = r.namesDigest(dir)
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
	if r.trace.Files[name] = r.importer.idOf(r.artifact, name); r.trace.Files[name] == "" {
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
