package renderer

import (
	"crypto/sha256"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// documents decodes YAML text to objects and caches the result for large texts: a chart's CRDs are the same for every
// target, and parsing them costs more than rendering the chart. Safe for concurrent use.
type documents struct {
	budget    manifest.Budget
	maxOutput int // bytes of canonical text from one stream

	mu   sync.Mutex
	seen map[[sha256.Size]byte][]Object
	size int
}

const (
	rememberFrom = 8 << 10  // bytes of text
	rememberMost = 96 << 20 // bytes of text and result, all together
)

func newDocuments(l Limits) *documents {
	return &documents{budget: l.Budget, maxOutput: l.MaxOutput, seen: map[[sha256.Size]byte][]Object{}}
}

func (d *documents) decode(text []byte) ([]Object, error) {
	if len(text) < rememberFrom {
		return d.parse(text)
	}
	key := sha256.Sum256(text)
	d.mu.Lock()
	objects, ok := d.seen[key]
	d.mu.Unlock()
	if ok {
		return objects, nil
	}
	objects, err := d.parse(text)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.size > rememberMost {
		clear(d.seen)
		d.size = 0
	}
	d.seen[key] = objects
	for i := range objects {
		d.size += len(objects[i].YAML)
	}
	return objects, nil
}

func (d *documents) parse(text []byte) ([]Object, error) {
	decoded, err := manifest.Decode(text, d.budget)
	if err != nil {
		return nil, err
	}
	return encodeAll(decoded, d.maxOutput)
}

// encodeAll writes objects in canonical YAML, all of them in at most limit bytes.
func encodeAll(decoded []manifest.Object, limit int) ([]Object, error) {
	out := make([]Object, len(decoded))
	for i, o := range decoded {
		text, err := manifest.EncodeWithin(o, limit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Identity(), err)
		}
		limit = max(limit-len(text), 1)
		id := o.Identity()
		out[i] = Object{ID: id, APIVersion: o.APIVersion(), YAML: text, hook: helm.HookOf(o.Annotation(helm.HookAnnotation))}
		out[i].Scope = manifest.BuiltinScope(manifest.GroupKind{Group: id.Group, Kind: id.Kind})
		if kind, scope, ok := manifest.CRDScope(o); ok {
			out[i].Defines = &Definition{Kind: kind, Scope: scope}
		}
	}
	return out, nil
}

func isYAML(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
