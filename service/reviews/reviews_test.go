package reviews_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/service/reviews"
)

const fleet = hint.Place("hub:acme/fleet")

func commit(i int) string { return fmt.Sprintf("%040x", i) }

func request(number int) *forge.MergeRequest {
	return &forge.MergeRequest{
		Number: number, Title: fmt.Sprintf("Change %d", number), State: forge.Open,
		URL: "https://hub.example.com/1", Author: forge.User{Login: "ada"}, TargetBranch: "main",
	}
}

func review(head string) *report.Review {
	return &report.Review{
		Fleet: "demo", Base: commit(1), Head: head, Version: "test", Verdict: report.VerdictPass,
		Changes: &diff.ChangeSet{},
	}
}

// ticking is a clock that advances with each look.
func ticking() func() time.Time {
	var mu sync.Mutex
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
}

func open(t *testing.T, dir string, limit int64) *reviews.Store {
	t.Helper()
	s, err := reviews.Open(dir, reviews.Limits{Bytes: limit, Requests: 20}, ticking())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keep(t *testing.T, s *reviews.Store, mr *forge.MergeRequest, r *report.Review) {
	t.Helper()
	if stored, err := s.Keep(fleet, fleet, mr, r); !stored || err != nil {
		t.Fatalf("stored %t, %v", stored, err)
	}
}

// pageOf returns the HTML of a report.
func pageOf(t *testing.T, r *reviews.Report) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(r.Gzip))
	must(t, err)
	html, err := io.ReadAll(z)
	must(t, err)
	return string(html)
}

// TestEveryHeadKeepsItsReport: heads of a merge request keep their reports after later pushes, after a merge and after
// a restart.
func TestEveryHeadKeepsItsReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	before := s.Changes(fleet)
	keep(t, s, request(7), review(commit(2)))
	keep(t, s, request(7), review(commit(3)))
	must(t, s.Note(fleet, request(8), "waits for trust"))
	if s.Changes(fleet) == before {
		t.Error("the list changed and its text did not")
	}
	merged := request(7)
	merged.State = forge.Merged
	must(t, s.Closed(fleet, merged))
	must(t, s.Closed(fleet, request(99)))
	for _, s := range []*reviews.Store{s, open(t, dir, 1<<20)} {
		list := s.List(fleet)
		if open := s.OpenRequests(fleet); len(open) != 1 || open[0] != 8 {
			t.Errorf("open: %v", open)
		}
		if len(list) != 2 || list[0].State != "merged" || len(list[0].Heads) != 2 ||
			list[0].Heads[0].Commit != commit(3) || list[0].Heads[0].Verdict != "pass" ||
			list[1].Waits != "waits for trust" {
			t.Fatalf("the list is %+v", list)
		}
		for _, h := range list[0].Heads {
			got, err := s.Report(t.Context(), fleet, fleet, 7, h.Commit)
			must(t, err)
			html := pageOf(t, got)
			if !strings.Contains(html, h.Commit[:12]) || !strings.Contains(html, "<!doctype html>") ||
				!strings.Contains(got.Policy, "script-src 'sha256-") {
				t.Errorf("%s: the html is %.200s, the policy is %s", h.Commit, html, got.Policy)
			}
		}
		for _, c := range []string{commit(4), "", "../7", "index"} {
			if _, err := s.Report(t.Context(), fleet, fleet, 7, c); !errors.Is(err, reviews.ErrNone) {
				t.Errorf("head %q: %v", c, err)
			}
		}
		if _, err := s.Report(t.Context(), "hub:acme/other", "hub:acme/other", 7, commit(3)); !errors.Is(err,
			reviews.ErrNone) {
			t.Errorf("another repository has the report: %v", err)
		}
	}
}

// TestLimit deletes the oldest reports, keeps their heads in the list, and counts a head that is reviewed again once.
func TestLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	keep(t, s, request(1), review(commit(2)))
	one := size(t, dir)
	limit := 3*one + one/2
	s = open(t, dir, limit)
	for range 5 {
		keep(t, s, request(1), review(commit(2)))
	}
	for i := 3; i < 9; i++ {
		keep(t, s, request(i), review(commit(i)))
	}
	if got := size(t, dir); got > limit {
		t.Errorf("%d bytes are stored, the limit is %d", got, limit)
	}
	stored := ""
	for _, m := range s.List(fleet) {
		if m.Heads[0].Stored {
			stored += fmt.Sprint(" ", m.Number)
		}
	}
	if stored != " 6 7 8" {
		t.Errorf("stored:%s", stored)
	}
	if _, err := s.Report(t.Context(), fleet, fleet, 3, commit(3)); !errors.Is(err, reviews.ErrNone) {
		t.Errorf("a deleted report: %v", err)
	}
	large := review(commit(8))
	for i := range 2000 { // hardly compressible
		large.Findings.Notes = append(large.Findings.Notes, fmt.Sprintf("%x",
			sha256.Sum256([]byte{byte(i), byte(i >> 8)})))
	}
	if stored, err := s.Keep(fleet, fleet, request(8), large); stored || err != nil {
		t.Errorf("a report that is larger than the limit: stored %t, %v", stored, err)
	}
	if _, err := s.Report(t.Context(), fleet, fleet, 8, commit(8)); !errors.Is(err, reviews.ErrNone) ||
		size(t, dir) != 2*one {
		t.Errorf("the earlier report of the head is there: %v, %d bytes", err, size(t, dir))
	}
}

func size(t *testing.T, dir string) int64 {
	t.Helper()
	var total int64
	must(t, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".report") {
			info, err := e.Info()
			must(t, err)
			total += info.Size()
		}
		return err
	}))
	return total
}

// TestDamage: whatever is in the folder, the store opens, deletes what it does not know, and never reads outside of its
// folder.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	keep(t, s, request(1), review(commit(2)))
	keep(t, s, request(2), review(commit(3)))
	folders, err := os.ReadDir(dir)
	must(t, err)
	folder := filepath.Join(dir, folders[0].Name())
	must(t, os.WriteFile(filepath.Join(folder, "1.json"), []byte("{"), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "5.json"), []byte(`{"Number": 6}`), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "2", commit(9)+".html.gz"), []byte("x"), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "2.json.new"), []byte("x"), 0o600))
	s = open(t, dir, 1<<20)
	if list := s.List(fleet); len(list) != 1 || list[0].Number != 2 || !list[0].Heads[0].Stored {
		t.Errorf("the list is %+v", list)
	}
	var left []string
	must(t, filepath.WalkDir(folder, func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			left = append(left, filepath.Base(name))
		}
		return err
	}))
	if got := strings.Join(left, " "); got != commit(3)+".report 2.json" {
		t.Errorf("files %s", got)
	}
	for _, bad := range []string{"", "../../etc/passwd", "HEAD", strings.Repeat("A", 40)} {
		if _, err := s.Keep(fleet, fleet, request(1), review(bad)); err == nil {
			t.Errorf("a report of head %q is stored", bad)
		}
	}
}

// TestManyRequests bounds the list of a repository: closed merge requests go first.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 1<<20)
	must(t, s.Note(fleet, request(1), "waits"))
	for i := range 20 {
		closed := request(i + 2)
		closed.State = forge.Closed
		must(t, s.Note(fleet, closed, "waits"))
	}
	if list := s.List(fleet); len(list) != 20 || list[0].Number != 1 || list[1].Number != 3 {
		t.Errorf("%d entries, the first %d and %d", len(list), list[0].Number, list[1].Number)
	}
}

// TestReportsInOtherFleets: the report of a head in the fleet of another repository is one of its own. The list of the
// repository has only heads that were reviewed in its own fleet.
func TestReportsInOtherFleets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 16<<20)
	const components = hint.Place("hub:acme/components")
	in := func(p, f hint.Place, number, head int, verdict report.Verdict) {
		t.Helper()
		r := review(commit(head))
		r.Verdict = verdict
		if stored, err := s.Keep(p, f, request(number), r); !stored || err != nil {
			t.Fatalf("stored %t, %v", stored, err)
		}
	}
	must(t, s.Note(components, request(3), "its target branch does not exist"))
	in(components, fleet, 3, 9, report.VerdictPass) // the own review still waits
	in(components, components, 7, 2, report.VerdictPass)
	in(components, fleet, 7, 2, report.VerdictFail)
	in(components, "hub:acme/large", 7, 2, report.VerdictWarn)
	in(components, fleet, 8, 5, report.VerdictPass)
	for i := range 100 { // drops heads of this fleet alone
		in(components, fleet, 7, 1000+i, report.VerdictPass)
	}
	in(components, fleet, 7, 2, report.VerdictCaution)
	for _, s := range []*reviews.Store{s, open(t, dir, 16<<20)} {
		list := s.List(components)
		if len(list) != 2 || list[0].Number != 3 || list[0].Waits == "" || list[1].Number != 7 ||
			len(list[1].Heads) != 1 || list[1].Heads[0].Verdict != "pass" {
			t.Errorf("the list is %+v", list)
		}
		if open := s.OpenRequests(components); fmt.Sprint(open) != "[3 7 8]" {
			t.Errorf("open: %v", open)
		}
		texts := map[string]bool{}
		for _, f := range []hint.Place{components, fleet, "hub:acme/large"} {
			got, err := s.Report(t.Context(), components, f, 7, commit(2))
			must(t, err)
			texts[pageOf(t, got)] = true
		}
		if len(texts) != 3 {
			t.Errorf("%d reports of one head in 3 fleets", len(texts))
		}
		for _, none := range []struct {
			p, f   hint.Place
			number int
		}{{components, "hub:acme/unknown", 7}, {fleet, fleet, 7}, {fleet, components, 7}, {components, components, 8}} {
			if _, err := s.Report(t.Context(), none.p, none.f, none.number, commit(2)); !errors.Is(err,
				reviews.ErrNone) {
				t.Errorf("%v: the error is %v", none, err)
			}
		}
	}
	if n := strings.Count(names(t, dir), ".report"); n != 104 {
		t.Errorf("%d files", n)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		out = append(out, filepath.Base(name))
		return err
	}))
	return strings.Join(out, " ")
}

// TestWaitingReview: the list says what a reviewed merge request waits for, until a later review. A review in another
// fleet changes nothing of the list of the repository.
func TestWaitingReview(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 1<<20)
	r := review(commit(2))
	r.Waits = "waits for acme/components!12"
	keep(t, s, request(7), r)
	first := s.List(fleet)[0]
	if first.Heads[0].Waits != r.Waits || first.Waits != "" {
		t.Errorf("the first one is %+v", first)
	}
	if _, err := s.Keep(fleet, "hub:acme/other", request(7), r); err != nil {
		t.Fatal(err)
	}
	if got := s.List(fleet)[0]; !got.Updated.Equal(first.Updated) || len(got.Heads) != 1 {
		t.Errorf("after a review in another fleet: %+v, before: %+v", got, first)
	}
	keep(t, s, request(7), review(commit(2)))
	if got := s.List(fleet)[0]; got.Heads[0].Waits != "" || got.Updated.Equal(first.Updated) {
		t.Errorf("after the next review: %+v", got)
	}
}

// TestGone: a merge request that the forge no longer has is closed in the list, and open again if the forge has it
// again.
func TestGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 16<<20)
	keep(t, s, request(7), review(commit(2)))
	must(t, s.Note(fleet, request(8), "waits"))
	before := s.Changes(fleet)
	for _, number := range []int{7, 8, 9} {
		must(t, s.Gone(fleet, number))
	}
	must(t, s.Gone("hub:acme/other", 7))
	if len(s.OpenRequests(fleet)) > 0 || s.Changes(fleet) == before {
		t.Errorf("open: %v", s.OpenRequests(fleet))
	}
	again := open(t, dir, 16<<20)
	if list := again.List(fleet); len(list) != 1 || list[0].State != "closed" || !list[0].Heads[0].Stored {
		t.Errorf("the list is %+v", list)
	}
	keep(t, again, request(7), review(commit(3)))
	if got := again.OpenRequests(fleet); len(got) != 1 {
		t.Errorf("open again: %v", got)
	}
}

// The repositories that a reader of a report must be able to read are kept with it.
func TestNeededRights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := review(commit(1))
	r.Companions = []report.Companion{{Name: "acme/one!3", Repository: "lab:acme/one"}, {Name: "acme/two!4"}}
	if _, err := open(t, dir, 16<<20).Keep(fleet, fleet, request(7), r); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, dir, 16<<20).Report(t.Context(), fleet, fleet, 7, commit(1)) // by a later process
	must(t, err)
	if fmt.Sprint(got.Needs) != "[lab:acme/one]" {
		t.Errorf("needs %v", got.Needs)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "7", "*"))
	must(t, err)
	if len(files) != 1 {
		t.Fatal(files)
	}
	must(t, os.WriteFile(files[0], got.Gzip, 0o600))
	s := open(t, dir, 16<<20)
	if _, err := s.Report(t.Context(), fleet, fleet, 7, commit(1)); !errors.Is(err, reviews.ErrNone) {
		t.Errorf("a report without the rights that it needs: %v", err)
	}
	must(t, os.Rename(files[0], strings.TrimSuffix(files[0], ".report")+".html.gz")) // as earlier versions wrote it
	s = open(t, dir, 16<<20)
	if _, err := s.Report(t.Context(), fleet, fleet, 7, commit(1)); !errors.Is(err, reviews.ErrNone) ||
		s.List(fleet)[0].Heads[0].Stored {
		t.Errorf("a report of an earlier version: %v, %+v", err, s.List(fleet))
	}
}
