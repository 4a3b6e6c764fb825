package github

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

// graphCredential separates the rate limit of GraphQL from that of REST, as GitHub does.
type graphCredential struct{ rest.Credential }

// Key implements rest.Credential.
func (c graphCredential) Key() string { return c.Credential.Key() + " graphql" }

// bulk implements forge.BulkStatuses for a Forge.
type bulk struct {
	forge *Forge

	mu     sync.Mutex
	quotas map[string]forge.Quota // of GraphQL in the latest answers, by credential
}

func (g *bulk) set(key string, q forge.Quota) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.quotas[key] = q
}

// at returns the quota of a credential; false if it is unknown, or its period has ended.
func (g *bulk) at(key string, now time.Time) (forge.Quota, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q, ok := g.quotas[key]
	return q, ok && now.Before(q.Reset)
}

// BulkSize implements forge.BulkStatuses.
func (g *bulk) BulkSize() int { return bulkCommits }

// BulkQuota implements forge.BulkStatuses.
func (g *bulk) BulkQuota() (forge.Quota, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.forge.requests.Clock()
	var least forge.Quota
	found := false
	for _, q := range g.quotas {
		if now.Before(q.Reset) && (!found || q.Share() < least.Share()) {
			least, found = q, true
		}
	}
	return least, found
}

// The fragment and the fields of each commit. GitHub charges one point for a hundred lists, so that a query of 100
// commits costs one or two of 5,000 points per hour.
const (
	bulkCommits = 100

	rollup = "fragment r on Commit{statusCheckRollup{contexts(first:100){pageInfo{hasNextPage} nodes{__typename" +
		" ...on StatusContext{context state createdAt} ...on CheckRun{name status conclusion startedAt completedAt}}}}}"
)

// graphLimited are the types of the error at the rate limit: the documented one, and the one of today's answers.
func graphLimited(kind string) bool { return kind == "RATE_LIMITED" || kind == "RATE_LIMIT" }

// bulkQuery returns the query for the statuses of a number of commits, named $c0, $c1, ….
func bulkQuery(n int) string {
	var head, body strings.Builder
	for i := range n {
		fmt.Fprintf(&head, ",$c%d:GitObjectID!", i)
		fmt.Fprintf(&body, " c%d:object(oid:$c%d){__typename ...r}", i, i)
	}
	return "query($owner:String!,$name:String!" + head.String() +
		"){rateLimit{limit remaining resetAt} repository(owner:$owner,name:$name){" + body.String() + "}} " + rollup
}

// graphAnswer is the answer to a bulkQuery. A field with an error is null, and Errors names its path.
type graphAnswer struct {
	Data struct {
		RateLimit *struct {
			Limit     int       `json:"limit"`
			Remaining int       `json:"remaining"`
			ResetAt   time.Time `json:"resetAt"`
		} `json:"rateLimit"`
		Repository map[string]*graphCommit `json:"repository"`
	} `json:"data"`
	Errors []rest.GraphError `json:"errors"`
}

type graphCommit struct {
	Typename string `json:"__typename"`
	Rollup   *struct {
		Contexts struct {
			PageInfo struct {
				HasNextPage bool `json:"hasNextPage"`
			} `json:"pageInfo"`
			Nodes []*graphContext `json:"nodes"`
		} `json:"contexts"`
	} `json:"statusCheckRollup"`
}

// graphContext is a StatusContext or a CheckRun.
type graphContext struct {
	Typename    string    `json:"__typename"`
	Context     string    `json:"context"`
	State       string    `json:"state"`
	CreatedAt   time.Time `json:"createdAt"`
	Name        string    `json:"name"`
	Status      string    `json:"status"`
	Conclusion  string    `json:"conclusion"`
	StartedAt   time.Time `json:"startedAt"`
	CompletedAt time.Time `json:"completedAt"`
}

// StatusesOf implements forge.BulkStatuses by one GraphQL query.
func (g *bulk) StatusesOf(ctx context.Context, repo forge.Repository, commits []string) (map[string][]forge.Status,
	error,
) {
	f := g.forge
	what := fmt.Sprintf("read the statuses of %d commits of %.200s", len(commits), repo.Path)
	if len(commits) > bulkCommits {
		return nil, wrap(what, fmt.Errorf("more than %d commits", bulkCommits))
	}
	_, p, cred, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	if q, known := g.at(cred.Key(), f.requests.Clock()); known && q.Limit > 0 && q.Remaining == 0 {
		return nil, wrap(what, &forge.RateLimitError{Until: q.Reset})
	}
	variables := map[string]string{"owner": p.owner, "name": p.name}
	for i, c := range commits {
		if err := checkCommit(c); err != nil {
			return nil, wrap(what, err)
		}
		variables[fmt.Sprintf("c%d", i)] = c
	}
	req, err := f.client.NewRequest(http.MethodPost, f.graph, map[string]any{
		"query":     bulkQuery(len(commits)),
		"variables": variables,
	})
	if err != nil {
		return nil, wrap(what, err)
	}
	var answer graphAnswer
	if _, err := f.client.Do(rest.Repeatable(rest.With(ctx, graphCredential{cred})), req, &answer); err != nil {
		return nil, wrap(what, err)
	}
	if err := g.count(cred.Key(), &answer); err != nil {
		return nil, wrap(what, err)
	}
	out := map[string][]forge.Status{}
	failed := rest.FailedFields(answer.Errors, maps.Keys(answer.Data.Repository))
	for i, c := range commits {
		name := fmt.Sprintf("c%d", i)
		commit := answer.Data.Repository[name]
		if commit == nil || commit.Typename != "Commit" || failed[name] {
			continue
		}
		if list, ok := commit.statuses(); ok {
			out[c] = list
		}
	}
	if len(out) == 0 && len(answer.Errors) > 0 {
		return nil, wrap(what, fmt.Errorf("%w: %.200s", forge.ErrUnsupported, answer.Errors[0].Message))
	}
	return out, nil
}

// count records the quota in an answer. GitHub answers 200 at its limit.
func (g *bulk) count(key string, a *graphAnswer) error {
	now := g.forge.requests.Clock()
	if l := a.Data.RateLimit; l != nil {
		g.set(key, forge.Quota{Limit: l.Limit, Remaining: l.Remaining, Reset: l.ResetAt})
	}
	for _, e := range a.Errors {
		if !graphLimited(e.Type) {
			continue
		}
		q, ok := g.at(key, now)
		if !ok {
			const hourly = 5000
			q = forge.Quota{Limit: hourly, Reset: now.Add(10 * time.Minute)} //nolint:mnd // the answer does not say
		}
		q.Remaining = 0
		g.set(key, q)
		return &forge.RateLimitError{Until: q.Reset}
	}
	return nil
}

// statuses returns the newest status of each context; false if the answer does not have all of them.
func (c *graphCommit) statuses() ([]forge.Status, bool) {
	if c.Rollup == nil {
		return []forge.Status{}, true
	}
	list := c.Rollup.Contexts
	if list.Nodes == nil || list.PageInfo.HasNextPage || slices.Contains(list.Nodes, nil) { // null is not an empty list
		return nil, false
	}
	out := make([]forge.Status, 0, len(list.Nodes))
	for _, n := range list.Nodes {
		switch n.Typename {
		case "StatusContext":
			if n.State == "EXPECTED" {
				continue // a required status that nobody has posted; Statuses does not have it either
			}
			out = append(out, forge.Status{
				Context: n.Context, State: stateOf(strings.ToLower(n.State)),
				Updated: n.CreatedAt,
			})
		case "CheckRun":
			s := forge.Status{Context: n.Name, State: runState(strings.ToLower(n.Status),
				strings.ToLower(n.Conclusion)), Updated: n.CompletedAt, Check: true}
			if s.Updated.IsZero() {
				s.Updated = n.StartedAt
			}
			out = append(out, s)
		default:
			return nil, false
		}
	}
	return newest(out), true
}
