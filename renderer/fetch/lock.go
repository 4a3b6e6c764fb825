package fetch

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// LockFile is the name of the lock file, at the root of the source repository.
const LockFile = "sluice.lock"

const (
	lockAPIVersion = "sluice.dev/v1alpha1"
	lockKind       = "Lock"
	lockHeader     = `# Written by ` + "`sluice deps lock`" + `: every remote chart of this fleet, the version that was chosen for it,
# and the digest of its archive; and the commit of every other repository. Commit this file; to change it, change the fleet and run the command again.
`
)

// Lock is the content of the lock file: which version and archive each remote chart means, and which commit each other
// repository. The zero value is an empty lock. It is not safe for concurrent writing.
type Lock struct {
	entries map[Ref]Locked
	pins    map[string]Pin // by name of the repository
	remarks remarks
}

type lockEntry struct {
	Chart    string `yaml:"chart"`
	Repo     string `yaml:"repo,omitempty"`
	Version  string `yaml:"version"`
	Resolved string `yaml:"resolved"`
	Digest   string `yaml:"digest"`
}

// Lookup returns the entry of a reference. A reference with a changed range is not locked.
func (l *Lock) Lookup(r Ref) (Locked, bool) {
	locked, ok := l.entries[r.normal()]
	return locked, ok
}

// Require is Lookup, with an *UnlockedError if there is no entry.
func (l *Lock) Require(r Ref) (Locked, error) {
	locked, ok := l.Lookup(r)
	if !ok {
		return Locked{}, &UnlockedError{Ref: r}
	}
	return locked, nil
}

// Set adds or replaces an entry; locked comes from Fetcher.Resolve.
func (l *Lock) Set(r Ref, locked Locked) {
	if l.entries == nil {
		l.entries = map[Ref]Locked{}
	}
	l.entries[r.normal()] = locked
}

// Clone returns a copy that can be changed.
func (l *Lock) Clone() *Lock {
	return &Lock{entries: maps.Clone(l.entries), pins: maps.Clone(l.pins), remarks: l.remarks}
}

// Refs lists the locked references in the order of the file.
func (l *Lock) Refs() []Ref { return slices.SortedStableFunc(maps.Keys(l.entries), compareRefs) }

// Prune drops every entry that is not in keep, and returns what it dropped.
func (l *Lock) Prune(keep []Ref) []Ref {
	wantedRefs := map[Ref]bool{}
	for _, r := range keep {
		wantedRefs[r.normal()] = true
	}
	var dropped []Ref
	for _, r := range l.Refs() {
		if !wantedRefs[r] {
			dropped = append(dropped, r)
			delete(l.entries, r)
		}
	}
	return dropped
}

// Bytes returns the content of the file. Equal locks give equal bytes, with one sorted entry per chart, so that Git
// merges them well. Comments of entries in the file that was read stay with their entries. If YAML cannot keep a
// comment where it is, Bytes leaves out all.
func (l *Lock) Bytes() ([]byte, error) {
	out, err := l.encode(l.remarks)
	if err != nil || len(l.remarks) == 0 {
		return out, err
	}
	back, err := ParseLock(out)
	if err == nil && maps.Equal(back.entries, l.entries) && maps.Equal(back.pins, l.pins) {
		if again, err := back.encode(back.remarks); err == nil && bytes.Equal(out, again) {
			return out, nil
		}
	}
	return l.encode(nil)
}

func (l *Lock) encode(r remarks) ([]byte, error) {
	charts := &yaml.Node{Kind: yaml.SequenceNode}
	for _, ref := range l.Refs() {
		locked := l.entries[ref]
		if err := r.add(charts, ref, lockEntry{
			ref.Chart, ref.Repo, ref.Version, locked.Version,
			locked.Digest,
		}); err != nil {
			return nil, err
		}
	}
	if len(charts.Content) == 0 {
		charts.Style = yaml.FlowStyle
	}
	var repositories *yaml.Node
	for _, name := range l.Pinned() {
		if repositories == nil {
			repositories = &yaml.Node{Kind: yaml.SequenceNode}
		}
		p := l.pins[name]
		if err := r.add(repositories, name, pinEntry{name, p.URL, p.Wanted, p.Resolved, p.Commit}); err != nil {
			return nil, err
		}
	}
	file := struct {
		APIVersion   string     `yaml:"apiVersion"`
		Kind         string     `yaml:"kind"`
		Charts       *yaml.Node `yaml:"charts"`
		Repositories *yaml.Node `yaml:"repositories,omitempty"`
	}{lockAPIVersion, lockKind, charts, repositories}
	out := bytes.NewBufferString(lockHeader)
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	if err := enc.Encode(file); err != nil {
		return nil, fmt.Errorf("%s: encode: %w", LockFile, err)
	}
	return out.Bytes(), nil
}

// remarks are the entries with comments of the file that was read, by Ref or by name of a repository. They do not
// change after that.
type remarks map[any]*yaml.Node

// remark keeps the comments of an entry.
func (l *Lock) remark(key any, n *yaml.Node) {
	has := func(n *yaml.Node) bool { return n.HeadComment+n.LineComment+n.FootComment != "" }
	if !has(n) && !slices.ContainsFunc(n.Content, has) {
		return
	}
	if l.remarks == nil {
		l.remarks = remarks{}
	}
	l.remarks[key] = n
}

// add appends an entry to a list, with the comments that it had in the file.
func (r remarks) add(list *yaml.Node, key, entry any) error {
	var n yaml.Node
	if err := n.Encode(entry); err != nil {
		return fmt.Errorf("%s: encode: %w", LockFile, err)
	}
	if was := r[key]; was != nil {
		commented(&n, was)
		for i := 0; i+1 < len(n.Content); i += 2 {
			for k := 0; k+1 < len(was.Content); k += 2 {
				if was.Content[k].Value == n.Content[i].Value {
					commented(n.Content[i], was.Content[k])
					commented(n.Content[i+1], was.Content[k+1])
				}
			}
		}
	}
	list.Content = append(list.Content, &n)
	return nil
}

// commented copies the comments of a node.
func commented(n, was *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = was.HeadComment, was.LineComment, was.FootComment
}

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Chart, b.Chart), cmp.Compare(a.Repo, b.Repo), cmp.Compare(a.Version, b.Version))
}
