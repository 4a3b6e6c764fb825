package gitlab

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// MergeRequest implements forge.MergeRequests.
func (f *Forge) MergeRequest(ctx context.Context, repo forge.Repository, number int) (*forge.MergeRequest, error) {
	mr, _, err := f.client.MergeRequests.GetMergeRequest(repo.Path, number, nil, with(ctx))
	if err != nil {
		return nil, wrap(fmt.Sprintf("read merge request %s!%d", repo.Path, number), err)
	}
	return f.neutral(ctx, repo, mr)
}

// OpenMergeRequests implements forge.MergeRequests.
func (f *Forge) OpenMergeRequests(ctx context.Context, repo forge.Repository,
	targetBranch string,
) ([]*forge.MergeRequest, error) {
	o := &gitlab.ListProjectMergeRequestsOptions{State: new("opened"), OrderBy: new("created_at"), Sort: new("asc")}
	if targetBranch != "" {
		o.TargetBranch = &targetBranch
	}
	list, err := pages(func(p gitlab.ListOptions) ([]*gitlab.MergeRequest, *gitlab.Response, error) {
		o.ListOptions = p
		return f.client.MergeRequests.ListProjectMergeRequests(repo.Path, o, with(ctx))
	})
	if err != nil {
		return nil, wrap("list open merge requests of "+repo.Path, err)
	}
	return f.all(ctx, repo, list)
}

// RecentMergeRequests implements forge.Recent.
func (f *Forge) RecentMergeRequests(ctx context.Context, repo forge.Repository, since time.Time) ([]*forge.MergeRequest,
	error,
) {
	o := &gitlab.ListProjectMergeRequestsOptions{UpdatedAfter: &since, OrderBy: new("created_at"), Sort: new("asc")}
	list, err := pages(func(p gitlab.ListOptions) ([]*gitlab.MergeRequest, *gitlab.Response, error) {
		o.ListOptions = p
		return f.client.MergeRequests.ListProjectMergeRequests(repo.Path, o, with(ctx))
	})
	if err != nil {
		return nil, wrap("list recent merge requests of "+repo.Path, err)
	}
	return f.all(ctx, repo, list)
}

// MergeRequestsOf implements forge.MergeRequests.
func (f *Forge) MergeRequestsOf(ctx context.Context, repo forge.Repository, commit string) ([]*forge.MergeRequest,
	error,
) {
	address := fmt.Sprintf("projects/%s/repository/commits/%s/merge_requests", gitlab.PathEscape(repo.Path),
		url.PathEscape(commit))
	list, err := pages(func(p gitlab.ListOptions) (some []*gitlab.MergeRequest, resp *gitlab.Response, err error) {
		// The library's method for this list has no option for the page, and GitLab's pages have 20 items by default.
		req, err := f.client.NewRequest(http.MethodGet, address, p, []gitlab.RequestOptionFunc{with(ctx)})
		if err != nil {
			return nil, nil, err
		}
		resp, err = f.client.Do(req, &some)
		return some, resp, err
	})
	if err != nil {
		return nil, wrap("list merge requests of commit "+commit, err)
	}
	// GitLab lists merge requests of all forks.
	own := map[int]bool{}
	list = slices.DeleteFunc(list, func(mr *gitlab.MergeRequest) bool {
		id := mr.TargetProjectID
		if _, known := own[id]; !known {
			own[id] = f.isProject(ctx, id, repo)
		}
		return !own[id]
	})
	out, err := f.all(ctx, repo, list)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b *forge.MergeRequest) int {
		rank := func(mr *forge.MergeRequest) int {
			if mr.State == forge.Merged {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Number, b.Number))
	})
	return out, nil
}

// MergeRequestRef implements forge.MergeRequests.
func (f *Forge) MergeRequestRef(number int) string {
	return fmt.Sprintf("refs/merge-requests/%d/head", number)
}

// CreateMergeRequest implements forge.Requests.
func (f *Forge) CreateMergeRequest(ctx context.Context, repo forge.Repository, r forge.NewRequest) (*forge.MergeRequest,
	error,
) {
	title := r.Title
	if r.Draft {
		title = "Draft: " + title
	}
	body := forge.Inert(r.Body)
	mr, _, err := f.client.MergeRequests.CreateMergeRequest(repo.Path, &gitlab.CreateMergeRequestOptions{
		Title: &title, Description: &body, SourceBranch: &r.SourceBranch, TargetBranch: &r.TargetBranch,
	}, with(ctx))
	if err != nil {
		return nil, wrap("open a merge request in "+repo.Path, err)
	}
	return f.neutral(ctx, repo, mr)
}

// EditMergeRequest implements forge.Requests.
func (f *Forge) EditMergeRequest(ctx context.Context, repo forge.Repository, number int, title, body string,
	shut bool,
) error {
	body = forge.Inert(body)
	o := &gitlab.UpdateMergeRequestOptions{Title: &title, Description: &body}
	if shut {
		mr, _, err := f.client.MergeRequests.GetMergeRequest(repo.Path, number, nil, with(ctx))
		if err != nil {
			return wrap(fmt.Sprintf("read merge request %s!%d", repo.Path, number), err)
		}
		if mr.State == "opened" { // GitLab refuses to close it twice
			o.StateEvent = new("close")
		}
	}
	_, _, err := f.client.MergeRequests.UpdateMergeRequest(repo.Path, number, o, with(ctx))
	return wrap(fmt.Sprintf("edit merge request %s!%d", repo.Path, number), err)
}

// all translates a list of merge requests and sorts it by number.
func (f *Forge) all(ctx context.Context, repo forge.Repository, list []*gitlab.MergeRequest) ([]*forge.MergeRequest,
	error,
) {
	out := make([]*forge.MergeRequest, len(list))
	for i, mr := range list {
		var err error
		if out[i], err = f.neutral(ctx, repo, mr); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b *forge.MergeRequest) int { return cmp.Compare(a.Number, b.Number) })
	return out, nil
}

// neutral translates a merge request. For one of a fork, it asks for the path of the source project. Base is empty for
// a merge request of a list, because GitLab's lists have no diff_refs.
func (f *Forge) neutral(ctx context.Context, repo forge.Repository, mr *gitlab.MergeRequest) (*forge.MergeRequest,
	error,
) {
	out := &forge.MergeRequest{
		Number: mr.IID, Title: mr.Title, Body: mr.Description, Draft: mr.Draft || mr.WorkInProgress,
		Labels: slices.Clone([]string(mr.Labels)),
		Author: basicUser(mr.Author), SourceBranch: mr.SourceBranch, SourceRepo: repo.Path, Head: mr.SHA,
		TargetBranch: mr.TargetBranch,
		Base:         mr.DiffRefs.StartSha, URL: mr.WebURL, Updated: when(mr.UpdatedAt),
	}
	if out.Labels == nil {
		out.Labels = []string{}
	}
	switch mr.State {
	case "opened", "locked": // locked while GitLab merges it
		out.State = forge.Open
	case "merged":
		out.State = forge.Merged
		out.MergeCommit = cmp.Or(mr.MergeCommitSHA, mr.SquashCommitSHA, mr.SHA)
	default: // closed
		out.State = forge.Closed
	}
	if mr.SourceProjectID == mr.TargetProjectID {
		return out, nil
	}
	out.Fork, out.SourceRepo = true, ""
	if mr.SourceProjectID == 0 {
		return out, nil // the fork was deleted
	}
	path, err := f.project(ctx, mr.SourceProjectID)
	if err != nil {
		return nil, wrap(fmt.Sprintf("read the source project of %s!%d", repo.Path, mr.IID), err)
	}
	out.SourceRepo = path
	return out, nil
}

// projectLife is the time for which the path of a project is cached: a project can be renamed or moved to another
// namespace.
const projectLife = 10 * time.Minute

// knownProject is a cached path of a project.
type knownProject struct {
	path string
	at   time.Time
}

// project returns the full path of a project; "" if it does not exist or is hidden.
func (f *Forge) project(ctx context.Context, id int) (string, error) {
	if known, ok := f.projects.Get(strconv.Itoa(id)); ok && f.clock().Sub(known.at) < projectLife {
		return known.path, nil
	}
	p, _, err := f.client.Projects.GetProject(id, nil, with(ctx))
	if err != nil {
		if missing(translated(err)) {
			return "", nil
		}
		return "", err
	}
	f.projects.Add(strconv.Itoa(id), &knownProject{p.PathWithNamespace, f.clock()})
	return p.PathWithNamespace, nil
}

// isProject reports whether an id belongs to the repository. It looks up a cached path that differs again, because
// the project may have been renamed since. If the path cannot be read, it returns true, because GitLab listed the
// project for the repository.
func (f *Forge) isProject(ctx context.Context, id int, repo forge.Repository) bool {
	same := func() (bool, error) {
		path, err := f.project(ctx, id)
		return strings.EqualFold(path, repo.Path), err // the configuration may write it in another case
	}
	is, err := same()
	if err == nil && !is {
		f.projects.Remove(strconv.Itoa(id))
		is, err = same()
	}
	return is || err != nil
}
