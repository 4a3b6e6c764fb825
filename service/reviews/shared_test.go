package reviews_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/service/reviews"
)

// hub is what replicas share, as the queue offers it: pages, and the newest list of each name. Lists are delivered when
// the test says.
type hub struct {
	mu    sync.Mutex
	pages map[string][]byte
	lists []list
	most  int64
	down  bool
}

type list struct {
	name string
	data []byte
}

func (h *hub) Put(_ context.Context, name string, data []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return errors.New("no answer")
	}
	h.pages[name] = data
	return nil
}

func (h *hub) Get(_ context.Context, name string) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return nil, errors.New("no answer")
	}
	return h.pages[name], nil
}

func (h *hub) Most() int64 { return h.most }

func (h *hub) PutList(_ context.Context, name string, data []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return errors.New("no answer")
	}
	h.lists = append(h.lists, list{name, data})
	return nil
}

// Follow delivers what is there.
func (h *hub) Follow(_ context.Context, do func(name string, data []byte)) error {
	h.mu.Lock()
	all := slices.Clone(h.lists)
	h.mu.Unlock()
	for _, l := range all {
		do(l.name, l.data)
	}
	return nil
}

// replicas are stores that share a hub. The clock of each is its own.
func replicas(t *testing.T, n int, skew time.Duration) (*hub, []*reviews.Store) {
	t.Helper()
	h := &hub{pages: map[string][]byte{}, most: 1 << 20}
	var out []*reviews.Store
	var mu sync.Mutex
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range n {
		s, err := reviews.Open(t.TempDir(), reviews.Limits{Bytes: 1 << 20}, func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(time.Second)
			return now.Add(time.Duration(i) * skew)
		})
		must(t, err)
		s.Share(h)
		out = append(out, s)
	}
	return h, out
}

func follow(t *testing.T, all ...*reviews.Store) {
	t.Helper()
	for _, s := range all {
		must(t, s.Follow(t.Context(), func(name string, err error) { t.Errorf("%s: the error is %v", name, err) }))
	}
}

// readable reports whether a replica has the report of a head of merge request 7.
func readable(t *testing.T, s *reviews.Store, head string) bool {
	t.Helper()
	r, err := s.Report(t.Context(), fleet, fleet, 7, head)
	if errors.Is(err, reviews.ErrNone) {
		return false
	}
	must(t, err)
	return strings.Contains(pageOf(t, r), head[:12]) && strings.Contains(r.Policy, "script-src 'sha256-")
}

// TestReplicas: replicas have the same list and the same reports, whichever of them made a review, in whatever order
// the lists arrive.
func TestReplicas(t *testing.T) {
	t.Parallel()
	h, all := replicas(t, 3, -time.Hour)
	a, b, late := all[0], all[1], all[2]
	keep(t, a, request(7), review(commit(2)))
	if !readable(t, b, commit(2)) {
		t.Error("a report is not readable before its list arrives")
	}
	follow(t, a, b)
	keep(t, b, request(7), review(commit(3)))
	must(t, b.Note(fleet, request(8), "waits for trust"))
	follow(t, a)
	keep(t, a, request(7), review(commit(4)))
	follow(t, b)
	merged := request(7)
	merged.State = forge.Merged
	must(t, b.Closed(fleet, merged))
	if _, err := b.Keep(fleet, "hub:acme/other", request(9), review(commit(5))); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	slices.Reverse(h.lists)
	h.mu.Unlock()
	follow(t, a, b, late)
	follow(t, late)
	want := fmt.Sprintf("%+v", b.List(fleet))
	for i, s := range all {
		if got := fmt.Sprintf("%+v", s.List(fleet)); got != want {
			t.Errorf("replica %d lists %s, want %s", i, got, want)
		}
		for _, c := range []string{commit(2), commit(3), commit(4)} {
			if !readable(t, s, c) {
				t.Errorf("replica %d has no report of %s", i, c)
			}
		}
		if open := s.OpenRequests(fleet); !slices.Equal(open, []int{8, 9}) {
			t.Errorf("replica %d: open %v", i, open)
		}
		if r, err := s.Report(t.Context(), fleet, "hub:acme/other", 9, commit(5)); err != nil || r == nil {
			t.Errorf("replica %d, of another fleet: %v", i, err)
		}
		if _, err := s.Report(t.Context(), fleet, fleet, 9, commit(5)); !errors.Is(err, reviews.ErrNone) {
			t.Errorf("replica %d shows the report of another fleet: %v", i, err)
		}
	}
	if list := b.List(fleet); len(list) != 2 || list[0].State != "merged" || len(list[0].Heads) != 3 ||
		!list[0].Heads[2].Stored || list[1].Waits != "waits for trust" {
		t.Errorf("the list is %+v", list)
	}
	before := b.Changes(fleet)
	follow(t, b)
	if b.Changes(fleet) != before {
		t.Error("lists that are delivered again change the list")
	}
}

// TestLaterReviewCounts: of two reviews of a head on different replicas, all replicas show the later one.
func TestLaterReviewCounts(t *testing.T) {
	t.Parallel()
	_, all := replicas(t, 2, 0)
	keep(t, all[0], request(7), review(commit(2)))
	follow(t, all...)
	again := review(commit(2))
	again.Findings.Notes = []string{"the later review"}
	keep(t, all[1], request(7), again)
	follow(t, all...)
	for i, s := range all {
		r, err := s.Report(t.Context(), fleet, fleet, 7, commit(2))
		must(t, err)
		if list := s.List(fleet); !strings.Contains(pageOf(t, r), "the later review") || len(list[0].Heads) != 1 {
			t.Errorf("replica %d shows the earlier review; %+v", i, list)
		}
	}
}

// TestSharedRights: the rights that a report needs are with it on other replicas, before and after its list arrives,
// and on the replica that made it after that one lost its file. A page without them is not shown, and no page whose
// policy allows other scripts than those of this version.
func TestSharedRights(t *testing.T) {
	t.Parallel()
	h, all := replicas(t, 2, 0)
	small, err := reviews.Open(t.TempDir(), reviews.Limits{Bytes: 1}, ticking()) // it keeps no file
	must(t, err)
	small.Share(h)
	r := review(commit(2))
	r.Companions = []report.Companion{{Name: "acme/one!3", Repository: "lab:acme/one"}, {Name: "acme/two!4"}}
	keep(t, small, request(7), r)
	for range 2 {
		for i, s := range append(all, small) {
			got, err := s.Report(t.Context(), fleet, fleet, 7, commit(2))
			must(t, err)
			if fmt.Sprint(got.Needs) != "[lab:acme/one]" {
				t.Errorf("replica %d: needs %v", i, got.Needs)
			}
		}
		follow(t, all...)
	}
	for name, page := range h.pages {
		first, packed, _ := bytes.Cut(page, []byte("\n"))
		for _, bad := range []string{
			"default-src 'none'", `{"Policy":"default-src 'none'"}`, `{"Policy":"default-src 'none'","Needs":null}`,
			strings.Replace(string(first), "script-src 'sha256-", "script-src 'sha256-A", 1),
			strings.Replace(string(first), "default-src 'none'", "default-src *", 1),
			string(first) + "{}", strings.Replace(string(first), "{", `{"Also":1,`, 1), "",
		} {
			h.pages[name] = append([]byte(bad+"\n"), packed...)
			if readable(t, all[0], commit(2)) {
				t.Errorf("a page is shown that begins with %q", bad)
			}
		}
	}
}

// TestEarlierPage: if a later review of a head could not be shared, the page of the earlier one is not shown as the
// report of the head.
func TestEarlierPage(t *testing.T) {
	t.Parallel()
	h, all := replicas(t, 2, 0)
	a, b := all[0], all[1]
	keep(t, a, request(7), review(commit(2)))
	follow(t, b)
	if !readable(t, b, commit(2)) {
		t.Error("the shared report is not readable")
	}
	h.down = true
	if stored, err := a.Keep(fleet, fleet, request(7), review(commit(2))); !stored || err == nil {
		t.Errorf("without an answer: stored %t, %v", stored, err)
	}
	h.down = false
	must(t, a.Note(fleet, request(7), "x")) // shares the list
	follow(t, b)
	if b.List(fleet)[0].Heads[0].Stored || readable(t, b, commit(2)) {
		t.Errorf("the earlier page is shown: listed %t", b.List(fleet)[0].Heads[0].Stored)
	}
	if !readable(t, a, commit(2)) {
		t.Error("the replica lost its own report")
	}
}

// TestListsAtTheSameTime: replicas that share lists of one merge request before each has seen the other's replace each
// other's list in the queue, which keeps the last one. They then share what they have together, once, so that a replica
// that starts later has all of it.
func TestListsAtTheSameTime(t *testing.T) {
	t.Parallel()
	h, all := replicas(t, 4, 0)
	for i, s := range all[:3] {
		keep(t, s, request(7), review(commit(i+2)))
	}
	last := func() []list {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.lists[len(h.lists)-1:]
	}
	for range 10 {
		before := len(h.lists)
		h.lists = slices.Clone(last())
		follow(t, all[:3]...)
		if before == 1 && len(h.lists) == 1 {
			break
		}
	}
	if len(h.lists) != 1 {
		t.Fatalf("the replicas share their lists again and again: %d", len(h.lists))
	}
	follow(t, all[3])
	want := fmt.Sprintf("%+v", all[0].List(fleet))
	for i, s := range all {
		if list := s.List(fleet); len(list) != 1 || len(list[0].Heads) != 3 || fmt.Sprintf("%+v", list) != want {
			t.Errorf("replica %d lists %+v, want %s", i, list, want)
		}
	}
	h.lists = nil
	keep(t, all[0], request(7), review(commit(9)))
	keep(t, all[0], request(7), review(commit(10)))
	before := len(h.lists)
	follow(t, all[0])
	if len(h.lists) != before {
		t.Errorf("a replica answers its own lists: %d", len(h.lists)-before)
	}
}

// TestUnshared: without an answer, or with a report that is too large, a replica keeps the report for itself and says
// so. Damaged lists and names are refused.
func TestUnshared(t *testing.T) {
	t.Parallel()
	h, all := replicas(t, 2, 0)
	a, b := all[0], all[1]
	keep(t, a, request(7), review(commit(2)))
	h.most = 100
	keep(t, a, request(7), review(commit(2)))
	follow(t, b)
	if readable(t, b, commit(2)) || b.List(fleet)[0].Heads[0].Stored || !readable(t, a, commit(2)) {
		t.Error("a report that is too large to share")
	}
	h.most, h.down = 1<<20, true
	if stored, err := a.Keep(fleet, fleet, request(7), review(commit(3))); !stored || err == nil {
		t.Errorf("without an answer: stored %t, %v", stored, err)
	}
	if _, err := b.Report(t.Context(), fleet, fleet, 7, commit(3)); err == nil || errors.Is(err, reviews.ErrNone) {
		t.Errorf("a report that cannot be read now is %v", err)
	}
	if !readable(t, a, commit(3)) {
		t.Error("the replica lost its own report")
	}
	h.down = false
	name, good := h.lists[0].name, h.lists[0].data
	h.lists = []list{
		{"", good},
		{"../x-7", good},
		{strings.Replace(name, "-7", "-8", 1), good},
		{name, []byte("{}")},
		{name + "-1", good},
	}
	refused := 0
	must(t, b.Follow(t.Context(), func(string, error) { refused++ }))
	if refused != len(h.lists) {
		t.Errorf("%d of %d damaged lists are refused", refused, len(h.lists))
	}
}
