package github

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

const (
	annotationsPerRequest = 50
	maxAnnotationTitle    = 255
	maxAnnotationText     = 16000 // characters; GitHub takes 64 KB
)

// SetCheck writes a check run. GitHub appends annotations and never takes one away, so what has a result is
// not edited: it stays if it says the same, and gets a successor of the same name otherwise, which then
// counts. One that waits or runs is edited.
func (f *Forge) SetCheck(ctx context.Context, repo forge.Repository, c forge.Check) error {
	what := fmt.Sprintf("write check %.100q of commit %.64s of %.200s", c.Name, c.Commit, repo.Path)
	if f.app == nil {
		return wrap(what, errOnlyApps)
	}
	if err := checkCommit(c.Commit); err != nil {
		return wrap(what, err)
	}
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return wrap(what, err)
	}
	self, err := f.appItself(ctx)
	if err != nil {
		return wrap(what, err)
	}
	// not by name: CheckRuns sends the same request, and GitHub does not count it again
	runs, err := checkRuns{f.client}.list(ctx, p, c.Commit)
	if err != nil {
		return wrap(what, err)
	}
	var have *github.CheckRun
	for _, run := range runs {
		if run.GetName() == c.Name && run.GetApp().GetID() == self.GetID() &&
			(have == nil || run.GetID() > have.GetID()) {
			have = run
		}
	}
	return wrap(what, checkRuns{f.client}.write(ctx, p, c, have))
}

// CheckRuns implements forge.Checks.
func (f *Forge) CheckRuns(ctx context.Context, repo forge.Repository, commit string) ([]forge.Status, error) {
	what := fmt.Sprintf("read the check runs of commit %.64s of %.200s", commit, repo.Path)
	if f.app == nil {
		return nil, wrap(what, errOnlyApps)
	}
	if err := checkCommit(commit); err != nil {
		return nil, wrap(what, err)
	}
	ctx, p, cred, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	if i, ok := cred.(*installation); ok {
		if only, err := i.readsChecks(ctx); err != nil {
			return nil, wrap(what, err)
		} else if only {
			return nil, wrap(what, fmt.Errorf("%w: the App has the permission Checks: read, so Sluice writes commit statuses", forge.ErrForbidden))
		}
	}
	all, err := checkRuns{f.client}.statuses(ctx, p, commit)
	return newest(all), wrap(what, err)
}

// errOnlyApps tells who can write check runs.
var errOnlyApps = fmt.Errorf("%w: only a GitHub App may write check runs; set a commit status", forge.ErrUnsupported)

// checkRuns reads and writes the check runs of commits.
type checkRuns struct{ client *github.Client }

// statuses returns all check runs of a commit.
func (r checkRuns) statuses(ctx context.Context, p place, commit string) ([]forge.Status, error) {
	runs, err := r.list(ctx, p, commit)
	all := make([]forge.Status, 0, len(runs))
	for _, run := range runs {
		all = append(all, statusOfRun(run))
	}
	return all, err
}

func (r checkRuns) write(ctx context.Context, p place, c forge.Check, have *github.CheckRun) error {
	notes := annotations(c.Annotations)
	if have != nil && sameCheck(have, c, len(notes)) {
		return nil
	}
	first, rest := notes, []*github.CheckRunAnnotation(nil)
	if len(notes) > annotationsPerRequest {
		first, rest = notes[:annotationsPerRequest], notes[annotationsPerRequest:]
	}
	var id int64
	if have != nil && have.GetStatus() != "completed" && have.GetOutput().GetAnnotationsCount() == 0 {
		id = have.GetID()
		if err := r.update(ctx, p, id, c, first); err != nil {
			return err
		}
	} else {
		o := updateOf(c, first)
		run, _, err := r.client.Checks.CreateCheckRun(ctx, p.owner, p.name, github.CreateCheckRunOptions{
			Name: c.Name, HeadSHA: c.Commit, DetailsURL: o.DetailsURL, Status: o.Status, Conclusion: o.Conclusion,
			Output: o.Output,
		})
		if err != nil {
			return err
		}
		id = run.GetID()
	}
	for some := range slices.Chunk(rest, annotationsPerRequest) {
		if err := r.update(ctx, p, id, c, some); err != nil {
			return err
		}
	}
	return nil
}

// update edits a run. A request with annotations is not repeated, because GitHub would show them twice.
func (r checkRuns) update(ctx context.Context, p place, id int64, c forge.Check,
	notes []*github.CheckRunAnnotation,
) error {
	if len(notes) > 0 {
		ctx = rest.Once(ctx)
	}
	_, _, err := r.client.Checks.UpdateCheckRun(ctx, p.owner, p.name, id, updateOf(c, notes))
	return err
}

func updateOf(c forge.Check, notes []*github.CheckRunAnnotation) github.UpdateCheckRunOptions {
	status, conclusion := checkState(c.State)
	o := github.UpdateCheckRunOptions{
		Name: c.Name, Status: &status,
		Output: &github.CheckRunOutput{Title: &c.Title, Summary: &c.Summary, Annotations: notes},
	}
	if conclusion != "" {
		o.Conclusion = &conclusion
	}
	if c.URL != "" {
		o.DetailsURL = &c.URL
	}
	return o
}

func checkState(s forge.StatusState) (status, conclusion string) {
	switch s {
	case forge.Pending:
		return "queued", ""
	case forge.Running:
		return "in_progress", ""
	case forge.Success:
		return "completed", "success"
	}
	return "completed", "failure"
}

// sameCheck reports whether a run has the wanted contents. It compares only the number of annotations, which
// follow from the commit.
func sameCheck(have *github.CheckRun, c forge.Check, notes int) bool {
	status, conclusion := checkState(c.State)
	return have.GetStatus() == status && have.GetConclusion() == conclusion && have.GetOutput().GetTitle() == c.Title &&
		have.GetOutput().GetSummary() == c.Summary && have.GetOutput().GetAnnotationsCount() == notes &&
		(c.URL == "" || have.GetDetailsURL() == c.URL)
}

func annotations(in []forge.Annotation) []*github.CheckRunAnnotation {
	out := make([]*github.CheckRunAnnotation, 0, len(in))
	for _, a := range in {
		level := "notice"
		switch a.Level {
		case forge.Warning:
			level = "warning"
		case forge.Error:
			level = "failure"
		case forge.Notice:
		}
		line := max(a.Line, 1)
		note := &github.CheckRunAnnotation{
			Path: &a.Path, StartLine: &line, EndLine: &line, AnnotationLevel: &level,
			Message: new(safetext.Shorten(a.Message, maxAnnotationText)),
		}
		if a.Title != "" {
			note.Title = new(safetext.Shorten(a.Title, maxAnnotationTitle))
		}
		out = append(out, note)
	}
	return out
}

// list returns the latest runs of a commit.
func (r checkRuns) list(ctx context.Context, p place, commit string) ([]*github.CheckRun, error) {
	return pages(func(o github.ListOptions) ([]*github.CheckRun, *github.Response, error) {
		options := &github.ListCheckRunsOptions{Filter: new("latest"), ListOptions: o}
		got, resp, err := r.client.Checks.ListCheckRunsForRef(ctx, p.owner, p.name, commit, options)
		if err != nil {
			return nil, nil, err
		}
		return got.CheckRuns, resp, nil
	})
}
