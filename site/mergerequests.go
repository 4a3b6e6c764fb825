package site

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MergeRequest is a merge request with what is known of its heads.
type MergeRequest struct {
	Number  int
	Title   string
	URL     string // on the forge
	Author  string
	Target  string // branch
	Draft   bool
	State   string    // open, merged or closed
	Updated time.Time // of the newest entry
	Waits   string    // why the newest head has no review; "" if it has one
	Heads   []Head    // that were reviewed, newest first
}

// Head is a reviewed head of a merge request.
type Head struct {
	Commit   string
	Base     string
	At       time.Time
	Verdict  string // pass, warn, caution, fail or error
	Headline string
	Waits    string // what the merge request waits for although its change may be merged; "" if it waits for nothing
	Stored   bool   // the report is kept
}

// Open reports whether the merge request is open.
func (m *MergeRequest) Open() bool { return m.State == "open" }

// Address is the page of the merge request on the forge; "" if that is no web address.
func (m *MergeRequest) Address() string {
	if strings.HasPrefix(m.URL, "https://") || strings.HasPrefix(m.URL, "http://") {
		return m.URL
	}
	return ""
}

// Name is the number as the forge writes it: #7 on GitHub and Gitea, !7 on GitLab.
func (m *MergeRequest) Name() string {
	if strings.Contains(m.URL, "/pull/") || strings.Contains(m.URL, "/pulls/") {
		return fmt.Sprintf("#%d", m.Number)
	}
	return fmt.Sprintf("!%d", m.Number)
}

// Newest is the head that was reviewed last; nil if none was.
func (m *MergeRequest) Newest() *Head {
	if len(m.Heads) == 0 {
		return nil
	}
	return &m.Heads[0]
}

const mergeRequestsPath = "merge-requests.html"

func mergeRequestPath(number int) string { return fmt.Sprintf("merge-requests/%d.html", number) }

// ReportPath is the path of the report of a head, relative to the folder of the pages.
func ReportPath(number int, head string) string {
	return fmt.Sprintf("merge-requests/%d/%s.html", number, fileName(head))
}

// mergeRequests is what the page of merge requests fills in.
type mergeRequests struct {
	Open, Done []MergeRequest
}

const doneRequests = 100 // merged and closed merge requests that are listed

func newMergeRequests(f *Fleet) *mergeRequests {
	out := &mergeRequests{}
	for i := range f.MergeRequests {
		m := &f.MergeRequests[i]
		if m.Open() {
			out.Open = append(out.Open, *m)
		} else {
			out.Done = append(out.Done, *m)
		}
	}
	slices.SortStableFunc(out.Open, func(a, b MergeRequest) int {
		return cmp.Or(cmp.Compare(gravity(&a), gravity(&b)), b.Updated.Compare(a.Updated),
			cmp.Compare(b.Number, a.Number))
	})
	slices.SortStableFunc(out.Done, func(a, b MergeRequest) int {
		return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(b.Number, a.Number))
	})
	out.Done = out.Done[:min(len(out.Done), doneRequests)]
	return out
}

// gravity sorts merge requests whose verdict needs a person first.
func gravity(m *MergeRequest) int {
	if m.Waits != "" {
		return 0
	}
	if h := m.Newest(); h != nil && (h.Waits != "" || verdictClass(h.Verdict) == "bad") {
		return 1
	}
	return 2
}

// verdictClass is the class of a verdict's colour.
func verdictClass(word string) string {
	switch word {
	case "pass":
		return "ok"
	case "warn":
		return "warn"
	}
	return "bad"
}
