package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// branchRule has the parts of a ruleset's rule that decide who may move a branch. The library fails on types of rules
// that it does not know.
type branchRule struct {
	Type       string `json:"type"`
	Parameters struct {
		Approvals int `json:"required_approving_review_count"`
	} `json:"parameters"`
}

// protects reports whether the rules prevent a single writer from moving, deleting and resetting a branch. GitHub has
// separate rules for these: without the rule deletion, a writer deletes the branch and creates it at another commit.
func protects(rules []branchRule) bool {
	var moves, deletes, rewrites bool
	for _, r := range rules {
		switch r.Type {
		case "update":
			moves = true
		case "pull_request":
			moves = moves || r.Parameters.Approvals > 0
		case "deletion":
			deletes = true
		case "non_fast_forward":
			rewrites = true
		}
	}
	return moves && deletes && rewrites
}

// Protected implements forge.Protection. Rulesets count if they restrict updates or require an approval, and
// restrict deletions and force pushes (https://docs.github.com/rest/repos/rules). Classic branch protection
// counts if it restricts who may push, requires an approval or locks the branch, and allows neither deletions
// nor force pushes (https://docs.github.com/rest/branches/branch-protection); reading it needs the permission
// "Administration: read".
func (f *Forge) Protected(ctx context.Context, repo forge.Repository, branch string) (bool, error) {
	what := fmt.Sprintf("read the protection of branch %.200q of %.200s", branch, repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return false, wrap(what, err)
	}
	protected, err := f.protectedByRules(ctx, p, branch)
	if err == nil && !protected {
		protected, err = f.protectedClassic(ctx, p, branch)
	}
	return protected, wrap(what, err)
}

func (f *Forge) protectedByRules(ctx context.Context, p place, branch string) (bool, error) {
	rules, err := pages(func(o github.ListOptions) ([]branchRule, *github.Response, error) {
		var some []branchRule
		path := fmt.Sprintf("repos/%s/%s/rules/branches/%s?per_page=%d&page=%d", p.owner, p.name,
			url.PathEscape(branch), o.PerPage, o.Page)
		resp, err := f.get(ctx, path, &some)
		return some, resp, err
	})
	if status(err) == http.StatusNotFound { // GitHub Enterprise Server before rulesets
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return protects(rules), nil
}

func (f *Forge) protectedClassic(ctx context.Context, p place, branch string) (bool, error) {
	path := fmt.Sprintf("repos/%s/%s/branches/%s", p.owner, p.name, url.PathEscape(branch))
	var b struct {
		Protected bool `json:"protected"`
	}
	if _, err := f.get(ctx, path, &b); err != nil || !b.Protected {
		return false, err
	}
	var rule struct {
		Restrictions *struct{} `json:"restrictions"`
		Reviews      struct {
			Approvals int `json:"required_approving_review_count"`
		} `json:"required_pull_request_reviews"`
		Lock      toggle `json:"lock_branch"`
		Deletions toggle `json:"allow_deletions"`
		Forced    toggle `json:"allow_force_pushes"`
	}
	_, err := f.get(ctx, path+"/protection", &rule)
	switch status(err) {
	case http.StatusNotFound, http.StatusForbidden:
		return false, fmt.Errorf("%w: the rule of the branch is readable with the permission Administration: read (grant it, or protect the branch with a ruleset that restricts updates, deletions and force pushes)", forge.ErrForbidden)
	}
	moves := rule.Restrictions != nil || rule.Reviews.Approvals > 0 || rule.Lock.Enabled
	return moves && !rule.Deletions.Enabled && !rule.Forced.Enabled, err
}

// toggle is a setting of classic branch protection.
type toggle struct {
	Enabled bool `json:"enabled"`
}

// get reads one address of the API.
func (f *Forge) get(ctx context.Context, path string, into any) (*github.Response, error) {
	req, err := f.client.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return f.client.Do(ctx, req, into)
}
