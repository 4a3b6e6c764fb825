package bot

import (
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/report"
)

// What people can open beside the comment never stops a review: a task logs the errors of Reports.

// note records why the head of a merge request has no review.
func (t *task) note(mr *forge.MergeRequest, why string) {
	if err := t.Reports.Note(t.place, mr, why); err != nil {
		t.log.Warn("the list of merge requests is not current", "merge_request", mr.Number, "error", err)
	}
}

// store stores the report of a head in a fleet, which can be that of another repository, and links to its page.
func (t *task) store(fleet hint.Place, mr *forge.MergeRequest, review *report.Review) {
	var err error
	if review.Links.HTML, err = t.Reports.Keep(t.place, fleet, mr, review); err != nil {
		t.log.Warn("the page of the report is not stored", "merge_request", mr.Number, "head", mr.Head, "fleet", fleet,
			"error", err)
	}
}

// noteClosed records that a merge request is no longer open. The next sweep repeats it after an error.
func (t *task) noteClosed(mr *forge.MergeRequest) {
	if err := t.Reports.Closed(t.place, mr); err != nil {
		t.log.Warn("the list of merge requests is not current", "merge_request", mr.Number, "error", err)
	}
}

// noteGone records that the forge no longer has a merge request.
func (t *task) noteGone(number int) {
	if err := t.Reports.Gone(t.place, number); err != nil {
		t.log.Warn("the list of merge requests is not current", "merge_request", number, "error", err)
	}
}

// noReports keeps nothing.
type noReports struct{}

func (noReports) Keep(hint.Place, hint.Place, *forge.MergeRequest, *report.Review) (string, error) {
	return "", nil
}
func (noReports) Note(hint.Place, *forge.MergeRequest, string) error { return nil }
func (noReports) Closed(hint.Place, *forge.MergeRequest) error       { return nil }
func (noReports) Gone(hint.Place, int) error                         { return nil }
func (noReports) OpenRequests(hint.Place) []int                      { return nil }
