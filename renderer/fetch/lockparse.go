package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/internal/yamlmistake"
)

const (
	maxLock      = 4 << 20
	maxLockNodes = 300_000 // five fields an entry: some 25,000 charts
)

// ParseLock reads a lock file strictly: an unknown or repeated key, a wrong type, a chart that is locked twice, a
// malformed digest or version are errors with their line. ParseLock reports all of them. An empty file is an empty
// lock.
func ParseLock(data []byte) (*Lock, error) {
	if len(data) > maxLock {
		return nil, fmt.Errorf("%s: larger than %d MiB: run `sluice deps lock` to write it again", LockFile,
			maxLock>>20)
	}
	if yamlWeight(data) > maxLockNodes {
		return nil, fmt.Errorf("%s: too many entries: run `sluice deps lock` to write it again", LockFile)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return &Lock{}, nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s:1: the file has only comments: run `sluice deps lock` to write it again",
				LockFile)
		}
		line, message, hint := yamlmistake.Syntax(err, data)
		if hint == "" {
			hint = "run `sluice deps lock` to write it again"
		}
		return nil, errors.New(yamlmistake.Mistake{Line: line, Message: safetext.Brief(message, 200), Hint: hint}.In(LockFile))
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more than one document, or something after it that is not YAML: run `sluice deps lock` to write it again", LockFile)
	}
	p := lockParser{lock: &Lock{entries: map[Ref]Locked{}}, lines: map[Ref]int{}}
	p.file(doc.Content[0])
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.lock, nil
}

type lockParser struct {
	lock  *Lock
	lines map[Ref]int
	errs  []error
}

const maxLockErrors = 20

func (p *lockParser) errorf(n *yaml.Node, format string, args ...any) {
	if len(p.errs) < maxLockErrors {
		p.errs = append(p.errs, fmt.Errorf("%s:%d: %s", LockFile, n.Line, fmt.Sprintf(format, args...)))
	}
}

func (p *lockParser) file(root *yaml.Node) {
	fields, ok := p.mapping(root, "the file", "apiVersion", "kind", "charts", "repositories")
	if !ok {
		return
	}
	p.constant(root, fields, "apiVersion", lockAPIVersion)
	p.constant(root, fields, "kind", lockKind)
	charts := fields["charts"]
	switch {
	case charts == nil:
		p.errorf(root, "`charts` is missing: run `sluice deps lock`")
	case charts.Kind != yaml.SequenceNode:
		p.errorf(charts, "`charts` must be a list")
	default:
		for _, n := range charts.Content {
			p.entry(n)
		}
	}
	repositories := fields["repositories"]
	switch {
	case repositories == nil:
	case repositories.Kind != yaml.SequenceNode:
		p.errorf(repositories, "`repositories` must be a list")
	default:
		for _, n := range repositories.Content {
			p.pin(n)
		}
	}
}

func (p *lockParser) constant(parent *yaml.Node, fields map[string]*yaml.Node, key, want string) {
	n := fields[key]
	if n == nil {
		n = parent
	} else if n.Kind == yaml.ScalarNode && n.Value == want {
		return
	}
	p.errorf(n, "`%s` must be %s; a lock file of another version of sluice needs that version", key, want)
}

func (p *lockParser) entry(n *yaml.Node) {
	e, ok := p.fields(n, "chart", "repo", "version", "resolved", "digest")
	if !ok {
		return
	}
	ref := Ref{Chart: e.text("chart", true), Repo: e.text("repo", false), Version: e.text("version", true)}
	locked := Locked{Version: e.text("resolved", true), Digest: e.text("digest", true)}
	if e.failed {
		return
	}
	if err := ref.Check(); err != nil {
		p.errorf(n, "%v", err)
		return
	}
	if err := locked.check(); err != nil {
		p.errorf(n, "chart %s: %v: run `sluice deps lock`", ref, err)
		return
	}
	key := ref.normal()
	if first, twice := p.lines[key]; twice {
		p.errorf(n, "chart %s is already locked in line %d: keep one of the two entries, or run `sluice deps lock`",
			ref, first)
		return
	}
	p.lines[key] = n.Line
	p.lock.entries[key] = locked
	p.lock.remark(key, n)
}

// lockFields are the fields of one entry of a list.
type lockFields struct {
	parser *lockParser
	node   *yaml.Node
	fields map[string]*yaml.Node
	failed bool // a field was wrong, and reported
}

func (p *lockParser) fields(n *yaml.Node, known ...string) (*lockFields, bool) {
	fields, ok := p.mapping(n, "an entry", known...)
	return &lockFields{parser: p, node: n, fields: fields}, ok
}

// text reads a string.
func (e *lockFields) text(key string, required bool) string {
	f := e.fields[key]
	switch {
	case f == nil && required:
		e.parser.errorf(e.node, "`%s` is missing", key)
		e.failed = true
	case f == nil:
	case f.Kind != yaml.ScalarNode || f.Tag != "!!str":
		e.parser.errorf(f, "`%s` must be a string: put it in quotes", key)
		e.failed = true
	default:
		return f.Value
	}
	return ""
}

// check reports values that Resolve cannot have returned.
func (l Locked) check() error {
	if _, err := semver.NewVersion(l.Version); err != nil || len(l.Version) > maxVersion {
		return fail(ErrInvalid, "the locked version %q is not a version", safetext.Brief(l.Version, 60))
	}
	if _, ok := hexDigest(l.Digest); !ok {
		return fail(ErrInvalid, "the locked digest %q is not of the form sha256: and 64 lower-case hex digits",
			safetext.Brief(l.Digest, 80))
	}
	return nil
}

// mapping returns the fields of a mapping whose keys must be among known.
func (p *lockParser) mapping(n *yaml.Node, what string, known ...string) (map[string]*yaml.Node, bool) {
	if n.Kind != yaml.MappingNode {
		p.errorf(n, "%s must be a mapping with the keys %v", what, known)
		return nil, false
	}
	fields, ok := map[string]*yaml.Node{}, true
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		found := false
		for _, k := range known {
			found = found || (key.Kind == yaml.ScalarNode && key.Value == k)
		}
		switch {
		case !found:
			p.errorf(key, "unknown key %q: the keys of %s are %v", safetext.Brief(key.Value, 60), what, known)
			ok = false
		case fields[key.Value] != nil:
			p.errorf(key, "the key %q is there twice", key.Value)
			ok = false
		default:
			fields[key.Value] = n.Content[i+1]
		}
	}
	return fields, ok
}
