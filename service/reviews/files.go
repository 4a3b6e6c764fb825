package reviews

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/site"
)

// entry is a merge request of a list, in the form of its JSON file.
type entry struct {
	Number  int
	Title   string
	URL     string
	Author  string
	Target  string
	Draft   bool
	State   string
	Updated time.Time
	Waits   string
	Heads   []head // newest first
	// Revision grows with each change, on whichever replica. Of two entries, the one with the higher revision is
	// current.
	Revision int64 `json:",omitempty"`
}

type head struct {
	site.Head
	Fleet  hint.Place `json:",omitempty"` // repository of the fleet; "" is the repository of the merge request
	Policy string     // content security policy of the page
	Size   int64      // bytes of the report; 0 if it is not stored
	Shared bool       `json:",omitempty"` // other replicas can read the report
}

// is reports whether this is the review of a commit in a fleet.
func (h *head) is(commit string, fleet hint.Place) bool {
	return h.Commit == commit && h.Fleet == fleet
}

// file is the name of the file of the report.
func (h *head) file() string {
	if h.Fleet == "" {
		return h.Commit + reportSuffix
	}
	return h.Commit + "-" + folderOf(h.Fleet) + reportSuffix
}

// public returns the entry for pages. A head counts as stored if this replica has its report, or if another replica
// whose version writes the same pages shared it.
func public(s *Store, e *entry) site.MergeRequest {
	out := site.MergeRequest{
		Number: e.Number, Title: e.Title, URL: e.URL, Author: e.Author, Target: e.Target,
		Draft: e.Draft, State: e.State, Updated: e.Updated, Waits: e.Waits,
	}
	for i := range e.Heads {
		if h := e.Heads[i]; h.Fleet == "" {
			h.Stored = h.Stored || h.Shared && s.shared != nil && h.Policy == s.policy
			out.Heads = append(out.Heads, h.Head)
		}
	}
	return out
}

// folderOf returns the name of a repository's folder. It is also a part of the names under which replicas share.
func folderOf(p hint.Place) string {
	sum := sha256.Sum256([]byte(p))
	const digits = 24
	return hex.EncodeToString(sum[:])[:digits]
}

const (
	listSuffix   = ".json"
	reportSuffix = ".report" // earlier versions wrote reports without terms with another suffix. load deletes them
)

func (s *Store) list(folder string, number int) string {
	return filepath.Join(s.dir, folder, strconv.Itoa(number)+listSuffix)
}

func (s *Store) file(folder string, number int, h *head) string {
	return filepath.Join(s.dir, folder, strconv.Itoa(number), h.file())
}

// terms is the first line of a stored or shared report, before the page. The page and the rights that it needs are one
// value, so that no reader gets the page without them.
type terms struct {
	Policy string
	Needs  []hint.Place // never null
}

func pack(r *Report) ([]byte, error) {
	first, err := json.Marshal(terms{Policy: r.Policy, Needs: append([]hint.Place{}, r.Needs...)})
	if err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	return append(append(first, '\n'), r.Gzip...), nil
}

// unpack reads a stored or shared report. It refuses one that does not say what a reader needs, or that has terms of a
// later version.
func unpack(data []byte) (*Report, bool) {
	first, packed, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil, false
	}
	in := json.NewDecoder(bytes.NewReader(first))
	in.DisallowUnknownFields()
	var t terms
	if in.Decode(&t) != nil || in.More() || t.Needs == nil || t.Policy == "" || len(packed) == 0 {
		return nil, false
	}
	return &Report{Needs: t.Needs, Policy: t.Policy, Gzip: packed}, true
}

// load reads the lists, and deletes files that belong to no list.
func (s *Store) load() error {
	folders, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if !f.IsDir() {
			continue
		}
		one := &place{requests: map[int]*entry{}}
		files, err := os.ReadDir(filepath.Join(s.dir, f.Name()))
		if err != nil {
			return err
		}
		for _, file := range files {
			if e := s.read(filepath.Join(s.dir, f.Name(), file.Name())); e != nil &&
				file.Name() == strconv.Itoa(e.Number)+listSuffix {
				one.requests[e.Number] = e
			}
		}
		s.places[f.Name()] = one
		if err := s.sweep(f.Name(), one, files); err != nil {
			return err
		}
	}
	return nil
}

// read returns the entry of a file; nil if the file is no list that this version reads.
func (s *Store) read(file string) *entry {
	if !strings.HasSuffix(file, listSuffix) {
		return nil
	}
	data, err := os.ReadFile(file) //nolint:gosec // below the folder of the store
	if err != nil {
		return nil // sweep deletes it, and the merge request is reviewed again
	}
	var e entry
	if json.Unmarshal(data, &e) != nil || e.Number <= 0 {
		return nil
	}
	e.Heads = slices.DeleteFunc(e.Heads, func(h head) bool { return !isCommit(h.Commit) })
	return &e
}

// sweep counts the reports of a repository and deletes files that no list names.
func (s *Store) sweep(folder string, p *place, files []os.DirEntry) error {
	for _, file := range files {
		number, err := strconv.Atoi(strings.TrimSuffix(file.Name(), listSuffix))
		if err != nil || p.requests[number] == nil {
			if err := os.RemoveAll(filepath.Join(s.dir, folder, file.Name())); err != nil {
				return err
			}
		}
	}
	for _, e := range p.requests {
		if err := s.count(folder, e); err != nil {
			return err
		}
	}
	return nil
}

// count adds the sizes of a merge request's reports to the total, marks heads whose report is missing, and deletes
// other files.
func (s *Store) count(folder string, e *entry) error {
	dir := filepath.Join(s.dir, folder, strconv.Itoa(e.Number))
	reports, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	there := map[string]int64{}
	for _, r := range reports {
		if info, err := r.Info(); err == nil { // else somebody deleted the file meanwhile
			there[r.Name()] = info.Size()
		}
	}
	for i := range e.Heads {
		h := &e.Heads[i]
		name := h.file()
		h.Stored = h.Stored && there[name] > 0
		h.Size = 0
		if h.Stored {
			h.Size = there[name]
			s.total += h.Size
			delete(there, name)
		}
	}
	for name := range there {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// save writes the file of an entry, and drops the oldest merge requests of the repository beyond the limit, closed ones
// first. That can be the entry itself.
func (s *Store) save(folder string, e *entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	if err := s.write(s.list(folder, e.Number), data); err != nil {
		return err
	}
	p := s.places[folder]
	for len(p.requests) > s.limits.Requests {
		oldest := e
		for _, one := range p.requests {
			if rank(one) < rank(oldest) || rank(one) == rank(oldest) && one.Updated.Before(oldest.Updated) {
				oldest = one
			}
		}
		for i := range oldest.Heads {
			s.remove(folder, oldest.Number, &oldest.Heads[i])
		}
		delete(p.requests, oldest.Number)
		if err := os.Remove(s.list(folder, oldest.Number)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("reports: %w", err)
		}
	}
	return nil
}

// rank is lower for merge requests that are no longer open: they are dropped first.
func rank(e *entry) int {
	if e.State == "open" {
		return 1
	}
	return 0
}

// shrink deletes the oldest reports until the rest fits.
func (s *Store) shrink() error {
	if s.total <= s.limits.Bytes {
		return nil
	}
	type stored struct {
		folder string
		entry  *entry
		head   *head
	}
	var all []stored
	for folder, p := range s.places {
		for _, e := range p.requests {
			for i := range e.Heads {
				if e.Heads[i].Stored {
					all = append(all, stored{folder, e, &e.Heads[i]})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b stored) int {
		return cmp.Or(a.head.At.Compare(b.head.At), cmp.Compare(a.head.Commit, b.head.Commit))
	})
	for _, one := range all {
		if s.total <= s.limits.Bytes {
			return nil
		}
		s.remove(one.folder, one.entry.Number, one.head)
		s.places[one.folder].changes++
		if err := s.save(one.folder, one.entry); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the report of a head.
func (s *Store) remove(folder string, number int, h *head) {
	if h.Stored {
		// if it fails, load deletes the file at the next start, because no list names it
		_ = os.Remove(s.file(folder, number, h))
		s.total -= h.Size
		h.Stored, h.Size = false, 0
	}
}

// write writes a temporary file and renames it, so that a reader never sees a part of the data.
func (s *Store) write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	next := file + ".new" // if the process ends before the rename, load deletes it
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	if err := os.Rename(next, file); err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	return nil
}
