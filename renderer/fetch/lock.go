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

// Lock is the content of the lock file: which version and archive each remote chart means, and which commit each other repository.
// The zero value is an empty lock. It is not safe for concurrent writing.
type Lock struct {
	entries map[Ref]Locked
	pins    map[string]Pin // by name of the repository
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
func (l *Lock) Clone() *Lock { return &Lock{entries: maps.Clone(l.entries), pins: maps.Clone(l.pins)} }

// Refs lists the locked references in the order of the file.
func (l *Lock) Refs() []Ref { return slices.SortedFunc(maps.Keys(l.entries), compareRefs) }

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

// Bytes returns the content of the file. Equal locks give equal bytes, with one sorted entry per chart, so that Git merges them well.
func (l *Lock) Bytes() ([]byte, error) {
	file := struct {
		APIVersion   string      `yaml:"apiVersion"`
		Kind         string      `yaml:"kind"`
		Charts       []lockEntry `yaml:"charts"`
		Repositories []pinEntry  `yaml:"repositories,omitempty"`
	}{APIVersion: lockAPIVersion, Kind: lockKind, Charts: []lockEntry{}, Repositories: l.pinEntries()}
	for _, r := range l.Refs() {
		locked := l.entries[r]
		file.Charts = append(file.Charts, lockEntry{r.Chart, r.Repo, r.Version, locked.Version, locked.Digest})
	}
	out := bytes.NewBufferString(lockHeader)
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	if err := enc.Encode(file); err != nil {
		return nil, fmt.Errorf("%s: encode: %w", LockFile, err)
	}
	return out.Bytes(), nil
}

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Chart, b.Chart), cmp.Compare(a.Repo, b.Repo), cmp.Compare(a.Version, b.Version))
}
