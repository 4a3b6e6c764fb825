package gitlab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

// GitLab refuses queries above a complexity of 250 (https://docs.gitlab.com/api/graphql/#maximum-query-complexity). A
// connection costs what its fields cost, and a hundredth of that more for each entry that it may have; the filter sha
// costs 2. A commit of the query below costs 17, so that bulkCommits commits cost 205 with the project.
const (
	bulkCommits   = 12
	bulkPipelines = 5  // of a commit
	bulkJobs      = 50 // of a pipeline
)

// bulkQuery returns the query for the statuses of a number of commits, named $c0, $c1, …. What other systems post, such
// as Flux, are jobs of the commit's newest pipeline of the branch, or of one that GitLab makes for them. retried:false
// leaves out what the REST API leaves out.
func bulkQuery(n int) string {
	var head, body strings.Builder
	for i := range n {
		fmt.Fprintf(&head, ",$c%d:String!", i)
		fmt.Fprintf(&body, " c%d:pipelines(sha:$c%d,first:%d){...p}", i, i, bulkPipelines)
	}
	jobs := fmt.Sprintf("fragment p on PipelineConnection{nodes{jobs(first:%d,retried:false){nodes{id name kind status createdAt startedAt finishedAt}}}}", bulkJobs)
	return "query($path:ID!" + head.String() + "){project(fullPath:$path){" + body.String() + "}} " + jobs
}

// graphAnswer is the answer to a bulkQuery. A field with an error is null, and Errors names its path.
type graphAnswer struct {
	Data struct {
		Project map[string]*graphPipelines `json:"project"`
	} `json:"data"`
	Errors []rest.GraphError `json:"errors"`
}

type graphPipelines struct {
	Nodes []*struct {
		Jobs *struct {
			Nodes []*graphJob `json:"nodes"`
		} `json:"jobs"`
	} `json:"nodes"`
}

// graphJob is a job of a pipeline: one of GitLab's own, or a status that another system posted.
type graphJob struct {
	ID         string     `json:"id"` // gid://gitlab/GenericCommitStatus/42
	Name       string     `json:"name"`
	Kind       string     `json:"kind"`
	Status     string     `json:"status"`
	CreatedAt  *time.Time `json:"createdAt"`
	StartedAt  *time.Time `json:"startedAt"`
	FinishedAt *time.Time `json:"finishedAt"`
}

// BulkSize implements forge.BulkStatuses. The token of a job cannot send queries.
func (f *Forge) BulkSize() int {
	if f.job {
		return 0
	}
	return bulkCommits
}

// BulkQuota implements forge.BulkStatuses. GitLab has one rate limit for both of its APIs.
func (f *Forge) BulkQuota() (forge.Quota, bool) { return f.requests.Quota() }

// StatusesOf implements forge.BulkStatuses by one GraphQL query. It leaves out commits with child pipelines, which
// GitLab does not list by commit, and those whose pipelines or jobs do not fit. A credential that may not read
// pipelines gets empty lists in place of an error, so that an answer without any pipeline says nothing of its commits.
func (f *Forge) StatusesOf(ctx context.Context, repo forge.Repository, commits []string) (map[string][]forge.Status,
	error,
) {
	what := fmt.Sprintf("read the statuses of %d commits of %.200s", len(commits), repo.Path)
	if len(commits) > f.BulkSize() {
		return nil, wrap(what, fmt.Errorf("%w: more than %d commits", forge.ErrUnsupported, f.BulkSize()))
	}
	variables := map[string]string{"path": repo.Path}
	for i, c := range commits {
		variables[fmt.Sprintf("c%d", i)] = c
	}
	body := map[string]any{"query": bulkQuery(len(commits)), "variables": variables}
	req, err := f.client.NewRequest(http.MethodPost, "graphql", body, nil)
	if err != nil {
		return nil, wrap(what, err)
	}
	req.URL.Path = strings.TrimSuffix(req.URL.Path, "/v4/graphql") + "/graphql" // beside the REST API
	req.URL.RawPath = ""
	var answer graphAnswer
	if _, err := f.client.Do(req.WithContext(rest.Repeatable(ctx)), &answer); err != nil {
		return nil, wrap(what, err)
	}
	out, failed, found := map[string][]forge.Status{}, rest.FailedFields(answer.Errors, maps.Keys(answer.Data.Project)),
		false
	for i, c := range commits {
		name := fmt.Sprintf("c%d", i)
		pipelines := answer.Data.Project[name]
		if pipelines == nil || failed[name] {
			continue
		}
		found = found || len(pipelines.Nodes) > 0
		if list, ok := pipelines.statuses(); ok {
			out[c] = list
		}
	}
	switch {
	case len(answer.Errors) > 0 && len(out) == 0:
		return nil, wrap(what, fmt.Errorf("%w: %.200s", forge.ErrUnsupported, answer.Errors[0].Message))
	case answer.Data.Project == nil:
		return nil, wrap(what, fmt.Errorf("%w: GitLab shows the project to no query of this credential",
			forge.ErrUnsupported))
	case !found:
		return map[string][]forge.Status{}, nil
	}
	return out, nil
}

// statuses returns the newest status of each name; false if the answer does not have all of them.
func (p *graphPipelines) statuses() ([]forge.Status, bool) {
	if p.Nodes == nil || len(p.Nodes) >= bulkPipelines { // null is not an empty list: GitLab could not read it
		return nil, false
	}
	newest, ids := map[string]forge.Status{}, map[string]int64{}
	for _, one := range p.Nodes {
		if one == nil || one.Jobs == nil || one.Jobs.Nodes == nil || len(one.Jobs.Nodes) >= bulkJobs {
			return nil, false
		}
		for _, j := range one.Jobs.Nodes {
			id, ok := j.number()
			if !ok || j.Kind == "BRIDGE" { // which may have a child pipeline
				return nil, false
			}
			if old, have := ids[j.Name]; have && old > id {
				continue
			}
			ids[j.Name] = id
			newest[j.Name] = forge.Status{
				Context: j.Name, State: stateOf(strings.ToLower(j.Status)),
				Updated: cmp.Or(when(j.FinishedAt), when(j.StartedAt), when(j.CreatedAt)),
			}
		}
	}
	out := make([]forge.Status, 0, len(newest))
	for _, s := range newest {
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b forge.Status) int { return strings.Compare(a.Context, b.Context) })
	return out, true
}

// number returns the number of a job's id; false if a field is missing, which the credential may not read.
func (j *graphJob) number() (int64, bool) {
	if j == nil || j.Name == "" || j.Status == "" {
		return 0, false
	}
	id, err := strconv.ParseInt(j.ID[strings.LastIndexByte(j.ID, '/')+1:], 10, 64)
	return id, err == nil
}
