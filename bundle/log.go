package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/gitstore"
)

// LogBranch is the branch on which home numbers its bundles.
const LogBranch = incoming.LogBranch

// maxEntries limits the exports of an environment that home remembers.
const maxEntries = 1000

// Entry is one export.
type Entry struct {
	Sequence int64     `json:"sequence"`
	Digest   string    `json:"digest"`             // of the manifest
	Previous string    `json:"previous,omitempty"` // of the manifest before
	Base     int64     `json:"base,omitempty"`     // sequence of the bundle that it builds on; 0: it is full
	Tip      string    `json:"tip"`                // of the environment branch
	Trunk    string    `json:"trunk,omitempty"`    // commit of the trunk that it brings
	Records  string    `json:"records,omitempty"`  // commit of sluice/state
	Charts   []string  `json:"charts,omitempty"`   // names of the parts with charts and their signatures
	Commits  []Commit  `json:"commits,omitempty"`  // of other repositories
	Policy   *Policy   `json:"policy,omitempty"`   // what home's policy said
	Created  time.Time `json:"created"`
}

// log is the list of the exports of an environment, oldest first.
type log struct {
	tip     gitstore.Commit // of the branch; zero if it does not exist
	entries []Entry
}

func logFile(environment string) string { return environment + ".json" }

// readLog reads the exports of an environment. A list that cannot be read is an error, never an empty one: a number
// would be issued twice.
func readLog(ctx context.Context, store *gitstore.Store, tip gitstore.Hash, environment string) (*log, error) {
	out := &log{}
	if tip.IsZero() {
		return out, nil
	}
	var err error
	if out.tip, err = store.Commit(ctx, tip); err != nil {
		return nil, err
	}
	data, err := store.Snapshot(ctx, out.tip.Tree).ReadFile(logFile(environment))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out.entries); err != nil {
		return nil, fmt.Errorf("%s on branch %s is no list of bundles, so none is exported: %w", logFile(environment), LogBranch, err)
	}
	for i, e := range out.entries {
		if !isHash(e.Tip) || e.Trunk != "" && !isHash(e.Trunk) || i > 0 && e.Sequence <= out.entries[i-1].Sequence {
			return nil, fmt.Errorf("%s on branch %s is no list of bundles, so none is exported: entry %d is wrong", logFile(environment),
				LogBranch, i+1)
		}
	}
	return out, nil
}

func (l *log) last() Entry {
	if len(l.entries) == 0 {
		return Entry{}
	}
	return l.entries[len(l.entries)-1]
}

// find finds the export that a person names: "last", its number, the beginning of its digest or its commit.
func (l *log) find(name string) (Entry, error) {
	if name == "last" && len(l.entries) > 0 {
		return l.last(), nil
	}
	const least = 7                             // digits of a digest or a commit
	number, _ := strconv.ParseInt(name, 10, 64) // 0 if it is no number, which no bundle has
	var found []Entry
	for _, e := range l.entries {
		if e.Sequence == number {
			return e, nil
		}
		if len(name) >= least && (strings.HasPrefix(e.Digest, name) || strings.HasPrefix(e.Tip, name)) {
			found = append(found, e)
		}
	}
	switch {
	case len(found) == 0:
		return Entry{}, fmt.Errorf("no bundle %s was exported here: name the number, the digest or the commit of one, or export with --full", name)
	case len(found) > 1:
		return found[len(found)-1], nil // the same commit in several bundles
	}
	return found[0], nil
}

// write adds an entry and returns the new tree of the branch.
func (l *log) write(ctx context.Context, store *gitstore.Store, w *gitstore.Writer, environment string, e Entry) (gitstore.Hash, error) {
	list := append(append([]Entry{}, l.entries...), e)
	data, err := json.MarshalIndent(list[max(0, len(list)-maxEntries):], "", "  ")
	if err != nil {
		return gitstore.Hash{}, err
	}
	blob, err := w.Blob(append(data, '\n'))
	if err != nil {
		return gitstore.Hash{}, err
	}
	entries := []gitstore.Entry{{Name: logFile(environment), Mode: gitstore.ModeFile, Hash: blob}}
	if !l.tip.Hash.IsZero() {
		have, err := store.Tree(ctx, l.tip.Tree)
		if err != nil {
			return gitstore.Hash{}, err
		}
		for _, other := range have {
			if other.Name != logFile(environment) {
				entries = append(entries, other)
			}
		}
	}
	return w.Tree(entries)
}

func isHash(text string) bool {
	_, err := gitstore.ParseHash(text)
	return err == nil
}
