// Package reviews stores the HTML reports of reviewed heads of merge requests, so that each has a page of its own, and
// a list of the merge requests for the pages of the fleet. Replicas of a service share both.
//
// The folder is a cache that can be deleted at any time: open merge requests are reviewed again after a restart, and
// only the pages of earlier heads are lost. Its size is bounded: when it exceeds the limit, a Store deletes the oldest
// reports, and the list still names their heads. The names of files consist of numbers and hexadecimal digits that the
// package checks, never of text of a merge request. A Store is safe for concurrent use.
//
// The package is not API: it can change in every release.
package reviews

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/page"
	"github.com/sluice-gitops/sluice/site"
)

const (
	maxHeads = 100 // heads of a merge request that are listed for a fleet
	maxText  = 500 // characters of a title or a sentence
)

// Limits of a store.
type Limits struct {
	Bytes    int64 // of all reports
	Requests int   // merge requests of a repository that are listed; 0 is 2,000
}

// ErrNone means that no report of a head is stored: it was never reviewed, or the limit of the Store deleted its
// report.
var ErrNone = errors.New("there is no report of this head")

// Store keeps reports below a folder.
type Store struct {
	dir    string
	limits Limits
	clock  func() time.Time
	policy string // content security policy of the pages that this version writes

	id     string // unique to this store
	shared Shared // nil: no other replicas
	// held while a list is read and shared, so that the newest list is shared last. Lock it before mu
	sharing sync.Mutex

	mu     sync.Mutex        // guards the rest, and the files of the folder
	places map[string]*place // by folder
	total  int64             // bytes of all reports
}

// place is the list of a repository.
type place struct {
	requests map[int]*entry
	changes  int // counts changes of the list
}

// Open reads the lists below a folder. Files that belong to no list are deleted.
func Open(dir string, limits Limits, clock func() time.Time) (*Store, error) {
	const requests = 2000
	limits.Requests = cmp.Or(limits.Requests, requests)
	policy, err := page.Policy()
	if err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	s := &Store{dir: dir, limits: limits, clock: clock, policy: policy, id: rand.Text(), places: map[string]*place{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	return s, nil
}

// Report is a page of a report.
type Report struct {
	Needs  []hint.Place // further repositories that a reader must be able to read
	Policy string       // content security policy
	Gzip   []byte       // the page, compressed
}

// Keep stores the report of a head in a fleet, and replaces an earlier one of the same head and fleet. stored is false
// if the report is larger than the limit: then only its head is listed. If stored is true and err is not nil, this
// replica has the report, and other replicas do not.
func (s *Store) Keep(p, fleet hint.Place, mr *forge.MergeRequest, r *report.Review) (stored bool, err error) {
	if !isCommit(r.Head) {
		return false, fmt.Errorf("reports: the head of merge request %d is not the hash of a commit: %q", mr.Number,
			safetext.Brief(r.Head, maxText))
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := page.Write(z, r); err != nil {
		return false, err
	}
	if err := z.Close(); err != nil {
		return false, fmt.Errorf("reports: %w", err)
	}
	h := head{
		Policy: s.policy,
		Head: site.Head{
			Commit: r.Head, Base: r.Base, At: s.clock().UTC(), Verdict: string(r.Verdict),
			Headline: safetext.Shorten(report.Headline(r), maxText), Waits: safetext.Shorten(r.Waits, maxText),
		},
	}
	if fleet != p {
		h.Fleet = fleet
	}
	one := Report{Policy: s.policy, Gzip: packed.Bytes()}
	for _, c := range r.Companions {
		if c.Repository != "" {
			one.Needs = append(one.Needs, hint.Place(c.Repository))
		}
	}
	data, err := pack(&one)
	if err != nil {
		return false, err
	}
	folder := folderOf(p)
	var unshared error
	h.Shared, unshared = share(s, folder, mr.Number, &h, data)
	if stored, err = s.keep(folder, mr, h, data); err != nil {
		return false, err
	}
	return stored || h.Shared, errors.Join(unshared, shareList(s, folder, mr.Number))
}

// keep stores the report of a head in the folder, and lists the head.
func (s *Store) keep(folder string, mr *forge.MergeRequest, h head, data []byte) (stored bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(folder, mr)
	if len(e.Heads) > 0 && !h.At.After(e.Heads[0].At) { // the clock of another replica is ahead
		h.At = e.Heads[0].At.Add(time.Millisecond)
	}
	if size := int64(len(data)); size <= s.limits.Bytes {
		if err := s.write(s.file(folder, mr.Number, &h), data); err != nil {
			return false, err
		}
		h.Stored, h.Size = true, size
	}
	s.replace(folder, e, h)
	if h.Fleet == "" { // the list of the repository shows nothing of reviews in other fleets
		e.Waits, e.Updated = "", h.At
	}
	if err := s.save(folder, e); err != nil {
		return false, err
	}
	if err := s.shrink(); err != nil {
		return false, err
	}
	return e.Heads[0].Stored, nil
}

// replace puts a head before the others, in place of an earlier report of it, and deletes reports of heads that are no
// longer listed.
func (s *Store) replace(folder string, e *entry, h head) {
	for i := range e.Heads {
		if e.Heads[i].is(h.Commit, h.Fleet) {
			if h.Stored { // in place of the file
				s.total -= e.Heads[i].Size
			} else {
				s.remove(folder, e.Number, &e.Heads[i])
			}
			e.Heads = slices.Delete(e.Heads, i, i+1)
			break
		}
	}
	s.total += h.Size
	e.Heads = slices.Insert(e.Heads, 0, h)
	limitHeads(s, folder, e)
}

// Note records why the newest head of a merge request has no review. It writes nothing if the list says so already.
func (s *Store) Note(p hint.Place, mr *forge.MergeRequest, why string) error {
	why = safetext.Shorten(why, maxText)
	return s.change(p, mr.Number, func(folder string, have *entry) *entry {
		if have != nil && have.Waits == why && have.State == string(mr.State) && have.Title == title(mr) {
			return nil
		}
		e := s.entry(folder, mr)
		e.Waits = why
		return e
	})
}

// change changes the entry of a merge request and shares it. do gets the entry, or nil without one, and returns nil if
// nothing changes.
func (s *Store) change(p hint.Place, number int, do func(folder string, have *entry) *entry) error {
	folder := folderOf(p)
	changed, err := func() (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		e := do(folder, s.known(folder, number))
		if e == nil {
			return false, nil
		}
		e.Updated = s.clock().UTC()
		return true, s.save(folder, e)
	}()
	if err != nil || !changed {
		return err
	}
	return shareList(s, folder, number)
}

// Closed records that a merge request is no longer open. One that was never reviewed is not listed.
func (s *Store) Closed(p hint.Place, mr *forge.MergeRequest) error {
	return s.change(p, mr.Number, func(folder string, have *entry) *entry {
		if have == nil || have.State == string(mr.State) {
			return nil
		}
		e := s.entry(folder, mr)
		e.Waits = ""
		return e
	})
}

// Gone records that the forge no longer has a merge request, which is then listed as closed.
func (s *Store) Gone(p hint.Place, number int) error {
	return s.change(p, number, func(folder string, e *entry) *entry {
		if e == nil || e.State != string(forge.Open) {
			return nil
		}
		s.places[folder].changes++
		e.State, e.Waits, e.Revision = string(forge.Closed), "", revision(s, e)
		return e
	})
}

// OpenRequests returns the numbers of the merge requests of a repository that are listed as open, in order.
func (s *Store) OpenRequests(p hint.Place) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.places[folderOf(p)]
	if have == nil {
		return nil
	}
	var out []int
	for number, e := range have.requests {
		if e.State == string(forge.Open) {
			out = append(out, number)
		}
	}
	slices.Sort(out)
	return out
}

// List returns the merge requests of a repository, by number, with the heads that were reviewed in its own fleet.
func (s *Store) List(p hint.Place) []site.MergeRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.places[folderOf(p)]
	if have == nil {
		return nil
	}
	out := make([]site.MergeRequest, 0, len(have.requests))
	for _, e := range have.requests {
		if one := public(s, e); len(one.Heads) > 0 || one.Waits != "" {
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(a, b site.MergeRequest) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// Changes returns the version of a repository's list, for caches in this process: it differs after each change of the
// list. It is "" for a repository without a list.
func (s *Store) Changes(p hint.Place) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.places[folderOf(p)]; have != nil {
		return strconv.Itoa(have.changes)
	}
	return ""
}

// Report returns the report of a head in a fleet; ErrNone if it is not kept.
func (s *Store) Report(ctx context.Context, p, fleet hint.Place, number int, commit string) (*Report, error) {
	if fleet == p {
		fleet = ""
	}
	// its list may arrive later
	folder, found := folderOf(p), head{Head: site.Head{Commit: commit}, Fleet: fleet, Shared: true}
	s.mu.Lock()
	if e := s.known(folder, number); e != nil {
		if i := slices.IndexFunc(e.Heads, func(h head) bool { return h.is(commit, fleet) }); i >= 0 {
			found = e.Heads[i]
		}
	}
	s.mu.Unlock()
	if !found.Stored {
		return fetch(ctx, s, folder, number, &found)
	}
	data, err := os.ReadFile(s.file(folder, number, &found))
	if errors.Is(err, os.ErrNotExist) {
		return fetch(ctx, s, folder, number, &found)
	}
	if err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	if r, ok := unpack(data); ok {
		return r, nil
	}
	return fetch(ctx, s, folder, number, &found) // the file is damaged
}

// known returns the entry of a merge request; nil if it is not listed. The caller holds mu.
func (s *Store) known(folder string, number int) *entry {
	if have := s.places[folder]; have != nil {
		return have.requests[number]
	}
	return nil
}

// entry returns the entry of a merge request with its current title, state and so on, and adds it to the list if it is
// not there. The caller holds mu and saves the entry.
func (s *Store) entry(folder string, mr *forge.MergeRequest) *entry {
	have := s.places[folder]
	if have == nil {
		have = &place{requests: map[int]*entry{}}
		s.places[folder] = have
	}
	e := have.requests[mr.Number]
	if e == nil {
		e = &entry{Number: mr.Number}
		have.requests[mr.Number] = e
	}
	have.changes++
	e.Revision = revision(s, e)
	e.Title, e.URL, e.Author, e.Target = title(mr), safetext.Shorten(mr.URL, maxText),
		safetext.Shorten(mr.Author.Login, maxText), safetext.Shorten(mr.TargetBranch, maxText)
	e.Draft, e.State = mr.Draft, string(mr.State)
	return e
}

func title(mr *forge.MergeRequest) string {
	return cmp.Or(strings.TrimSpace(safetext.Shorten(mr.Title, maxText)), fmt.Sprintf("Merge request %d", mr.Number))
}

func isCommit(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
