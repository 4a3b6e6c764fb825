package bot

import (
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/report"
)

// note records why the head of a merge request has no review.
func note(j *job, mr *forge.MergeRequest, why string) {
	if err := j.Reports.Note(j.place, mr, why); err != nil {
		j.log.Warn("the list of merge requests is not current", "merge_request", mr.Number, "error", err)
	}
}

// keepFor stores the report of a head in the fleet of another repository, and links to its page. An error, which has no changes, is in the
// comment.
func keepFor(j *job, fleet hint.Place, mr *forge.MergeRequest, review *report.Review) {
	if review.Changes == nil {
		return
	}
	var err error
	if review.Links.HTML, err = j.Reports.Keep(j.place, fleet, mr, review); err != nil {
		j.log.Warn("the page of the report is not kept", "merge_request", mr.Number, "head", mr.Head, "fleet", fleet, "error", err)
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
