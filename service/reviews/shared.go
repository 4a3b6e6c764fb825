package reviews

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// Shared is what the replicas of a service share: pages and lists by name. Both are caches that forget the oldest entries.
type Shared interface {
	// Put stores a page. Get returns it; nil if there is none. Most is the size of the largest page.
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	Most() int64
	// PutList stores a list. Follow calls do with all lists, and with each that a replica stores later, until ctx ends.
	PutList(ctx context.Context, name string, data []byte) error
	Follow(ctx context.Context, do func(name string, data []byte)) error
}

const (
	shareLimit = 30 * time.Second // for a page or a list
	maxList    = 8 << 20
)

// Share has the store exchange reports with the other replicas. Call it before any other method.
func (s *Store) Share(with Shared) { s.shared = with }

// Follow adds what other replicas store to the list, until ctx ends. report gets lists that cannot be used.
func (s *Store) Follow(ctx context.Context, report func(name string, err error)) error {
	if s.shared == nil {
		return nil
	}
	return s.shared.Follow(ctx, func(name string, data []byte) {
		if err := apply(s, name, data); err != nil {
			report(name, err)
		}
	})
}

func sharedName(folder string, number int, h *head) string {
	return folder + "-" + strconv.Itoa(number) + "-" + strings.TrimSuffix(h.file(), reportSuffix)
}

// share gives a report to the other replicas. It reports false if there are none, or the report is too large for them.
func share(s *Store, folder string, number int, h *head, data []byte) (bool, error) {
	if s.shared == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), shareLimit)
	defer cancel()
	fits := int64(len(data)) <= s.shared.Most()
	if !fits {
		data = nil // an earlier report of the head must not stay
	}
	if err := s.shared.Put(ctx, sharedName(folder, number, h), data); err != nil {
		return false, fmt.Errorf("reports: share with other replicas: %w", err)
	}
	return fits, nil
}

// shareList gives the entry of a merge request to the other replicas.
func shareList(s *Store, folder string, number int) error {
	if s.shared == nil {
		return nil
	}
	s.sharing.Lock()
	defer s.sharing.Unlock()
	s.mu.Lock()
	e := s.known(folder, number)
	if e == nil { // the limit of the repository removed it
		s.mu.Unlock()
		return nil
	}
	data, err := json.Marshal(e)
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(data)
	if closed := z.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), shareLimit)
	defer cancel()
	if err := s.shared.PutList(ctx, folder+"-"+strconv.Itoa(number), packed.Bytes()); err != nil {
		return fmt.Errorf("reports: share with other replicas: %w", err)
	}
	return nil
}

// apply adds the entry of a merge request that a replica has shared. It has the same effect in any order, and again.
func apply(s *Store, name string, data []byte) error {
	folder, text, _ := strings.Cut(name, "-")
	number, err := strconv.Atoi(text)
	if err != nil || number <= 0 || len(folder) != len(folderOf("")) || strings.Trim(folder, "0123456789abcdef") != "" {
		return fmt.Errorf("reports: %q is not the name of a merge request's list", name)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxList))
	if err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	next := &entry{}
	if err := json.Unmarshal(plain, next); err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	if next.Number != number {
		return fmt.Errorf("reports: the list of merge request %d is of %d", number, next.Number)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.places[folder]
	if have == nil {
		have = &place{requests: map[int]*entry{}}
		s.places[folder] = have
	}
	if !merge(s, folder, have, next) {
		return nil
	}
	have.changes++
	return s.save(folder, have.requests[number])
}

// merge merges the entry of another replica into the list, and reports whether that changed it. The fields come from the entry with the
// higher revision, the heads from both.
func merge(s *Store, folder string, p *place, next *entry) bool {
	heads := next.Heads
	for i := range heads {
		heads[i].Stored, heads[i].Size = false, 0 // in the folder of the other replica
	}
	heads = slices.DeleteFunc(heads, func(h head) bool { return !isCommit(h.Commit) })
	e := p.requests[next.Number]
	if e == nil {
		next.Heads = nil
		e = next
		p.requests[next.Number] = e
		add(s, folder, e, heads)
		return true
	}
	changed := add(s, folder, e, heads)
	if cmp.Or(cmp.Compare(next.Revision, e.Revision), next.Updated.Compare(e.Updated), cmp.Compare(next.State, e.State)) > 0 {
		next.Heads = e.Heads
		*e, changed = *next, true
	}
	return changed
}

// add adds heads that another replica reviewed, and reports whether there are new ones. Of two reviews of a head, the later one counts.
func add(s *Store, folder string, e *entry, heads []head) bool {
	changed := false
	for _, h := range heads {
		i := slices.IndexFunc(e.Heads, func(old head) bool { return old.is(h.Commit, h.Fleet) })
		switch {
		case i < 0:
			e.Heads = append(e.Heads, h)
		case h.At.After(e.Heads[i].At):
			s.remove(folder, e.Number, &e.Heads[i])
			e.Heads[i] = h
		default:
			continue
		}
		changed = true
	}
	if changed {
		slices.SortStableFunc(e.Heads, func(a, b head) int { return b.At.Compare(a.At) })
		limitHeads(s, folder, e)
	}
	return changed
}

// limitHeads removes the oldest heads of each fleet beyond the limit.
func limitHeads(s *Store, folder string, e *entry) {
	n := map[hint.Place]int{}
	e.Heads = slices.DeleteFunc(e.Heads, func(h head) bool {
		if n[h.Fleet]++; n[h.Fleet] > maxHeads {
			s.remove(folder, e.Number, &h)
		}
		return n[h.Fleet] > maxHeads
	})
}

// fetch reads a report that another replica has shared; ErrNone if there is none. If the last review of the head was not shared, a page of an
// earlier one may still be there: it is not the report of the head.
func fetch(ctx context.Context, s *Store, folder string, number int, h *head) (*Report, error) {
	if s.shared == nil || !h.Shared || number <= 0 || !isCommit(h.Commit) {
		return nil, ErrNone
	}
	ctx, cancel := context.WithTimeout(ctx, shareLimit)
	defer cancel()
	data, err := s.shared.Get(ctx, sharedName(folder, number, h))
	if err != nil {
		return nil, fmt.Errorf("reports: read what another replica shared: %w", err)
	}
	// Another policy would allow another script on the address of the pages. Only a page of another version needs one.
	if r, ok := unpack(data); ok && r.Policy == s.policy {
		return r, nil
	}
	return nil, ErrNone
}

// revision returns the next revision of an entry. It is a time, so that a replica that lost its list does not begin below the others.
func revision(s *Store, e *entry) int64 { return max(e.Revision+1, s.clock().UnixMilli()) }
