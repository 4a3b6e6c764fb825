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

// Shared is what the replicas of a service share: pages and lists by name. Both are caches that forget the oldest
// entries. All methods are safe for concurrent use.
type Shared interface {
	// Put stores a page, and replaces an earlier one; a nil page deletes it. Get returns the page; nil if there is
	// none. Most is the size in bytes of the largest page that Put takes.
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	Most() int64
	// PutList stores a list. Follow calls do with all lists, and then with each that a replica stores, in turn, until
	// ctx ends.
	PutList(ctx context.Context, name string, data []byte) error
	Follow(ctx context.Context, do func(name string, data []byte)) error
}

const (
	shareLimit = 30 * time.Second // for a page or a list
	maxList    = 8 << 20          // bytes of a list
)

// Share has the store exchange reports with the other replicas. Call it before any other method.
func (s *Store) Share(with Shared) { s.shared = with }

// Follow merges the lists that other replicas share into the list of this one, until ctx ends. report gets the errors
// of lists that cannot be read, saved or shared; Follow goes on with the next list.
func (s *Store) Follow(ctx context.Context, report func(name string, err error)) error {
	if s.shared == nil {
		return nil
	}
	//nolint:contextcheck // a list is shared within its own time limit, also during a shutdown
	return s.shared.Follow(ctx, func(name string, data []byte) {
		folder, number, ahead, err := apply(s, name, data)
		if err == nil && ahead {
			err = shareList(s, folder, number)
		}
		if err != nil {
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
	data, err := json.Marshal(sharedEntry{*e, s.id})
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

// sharedEntry is the entry of a merge request as replicas share it.
type sharedEntry struct {
	entry
	From string // the store that shared it
}

// apply merges the entry of a merge request that a replica has shared. It is idempotent, and the order of entries does
// not matter. ahead means that this replica has more than the shared entry. That entry may have replaced the one that
// this replica shared, so this replica must share the merged one.
func apply(s *Store, name string, data []byte) (folder string, number int, ahead bool, err error) {
	folder, text, _ := strings.Cut(name, "-")
	number, err = strconv.Atoi(text)
	if err != nil || number <= 0 || len(folder) != len(folderOf("")) || strings.Trim(folder, "0123456789abcdef") != "" {
		return "", 0, false, fmt.Errorf("reports: %q is not the name of a merge request's list", name)
	}
	next, err := readShared(data)
	if err != nil {
		return "", 0, false, err
	}
	if next.Number != number {
		return "", 0, false, fmt.Errorf("reports: the list %q has the entry of merge request %d", name, next.Number)
	}
	theirs := next.entry
	theirs.Heads = slices.Clone(next.Heads)
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.places[folder]
	if have == nil {
		have = &place{requests: map[int]*entry{}}
		s.places[folder] = have
	}
	changed := merge(s, folder, have, &next.entry)
	if changed {
		have.changes++
		err = s.save(folder, have.requests[number])
	}
	e := have.requests[number] // nil if the limit of the repository removed it
	return folder, number, e != nil && next.From != s.id && isAhead(e, &theirs), err
}

// readShared decodes what shareList shared. It reads at most maxList bytes.
func readShared(data []byte) (*sharedEntry, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxList))
	if err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	next := &sharedEntry{}
	if err := json.Unmarshal(plain, next); err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	return next, nil
}

// isAhead reports whether an entry has later fields or reviews than the other entry of the same merge request.
func isAhead(e, other *entry) bool {
	return later(e, other) || slices.ContainsFunc(e.Heads, func(h head) bool {
		i := slices.IndexFunc(other.Heads, func(o head) bool { return o.is(h.Commit, h.Fleet) })
		return i < 0 || h.At.After(other.Heads[i].At)
	})
}

// later reports whether the fields of an entry are current rather than those of the other entry.
func later(e, other *entry) bool {
	return cmp.Or(cmp.Compare(e.Revision, other.Revision), e.Updated.Compare(other.Updated),
		cmp.Compare(e.State, other.State)) > 0
}

// merge merges the entry of another replica into the list, and reports whether that changed it. The fields come from
// the entry with the higher revision, the heads from both.
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
	if later(next, e) {
		next.Heads = e.Heads
		*e, changed = *next, true
	}
	return changed
}

// add adds heads that another replica reviewed, and reports whether there are new ones. Of two reviews of a head, the
// later one counts.
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

// fetch reads a report that another replica has shared; ErrNone if there is none. If the last review of the head was
// not shared, a page of an earlier one may still be there: it is not the report of the head.
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

// revision returns the next revision of an entry. It is a time, so that a replica that lost its list does not begin
// below the others.
func revision(s *Store, e *entry) int64 { return max(e.Revision+1, s.clock().UnixMilli()) }
