package gitea

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gobwas/glob"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// rule is a rule of branch protection, with what decides who may move a branch. The type of Gitea's library has no
// priority.
type rule struct {
	Name             string    `json:"rule_name"`
	BranchName       string    `json:"branch_name"` // before Gitea 1.20
	Priority         int64     `json:"priority"`
	Created          time.Time `json:"created_at"`
	Push             bool      `json:"enable_push"`
	PushList         bool      `json:"enable_push_whitelist"`
	MergeList        bool      `json:"enable_merge_whitelist"`
	Approvals        int64     `json:"required_approvals"`
	UnprotectedFiles string    `json:"unprotected_file_patterns"`
}

func (r *rule) pattern() string { return cmp.Or(r.Name, r.BranchName) }

// plain reports whether the pattern is the name of one branch.
func (r *rule) plain() bool { return !strings.ContainsAny(r.pattern(), `*?{}[]\`) }

// matches matches a branch as Gitea does: a * matches no slash, ** does. Gitea matches a pattern that is not valid as a
// name.
func (r *rule) matches(branch string) bool {
	if r.plain() {
		return strings.EqualFold(r.pattern(), branch)
	}
	g, err := glob.Compile(r.pattern(), '/')
	if err != nil {
		return r.pattern() == branch
	}
	return g.Match(branch)
}

// protects reports whether the rule prevents a single writer from moving the branch by a push, by merging a merge
// request of their own, and by changing files that the rule leaves out. A protected branch cannot be deleted, and
// nobody may force a push who may not push.
func (r *rule) protects() bool {
	return (!r.Push || r.PushList) && (r.MergeList || r.Approvals > 0) && strings.Trim(r.UnprotectedFiles, "; ") == ""
}

// Protected implements forge.Protection. Only the first of the rules that match a branch counts: in the order of their
// priority, names before patterns, older ones first. Reading the rules needs administrator access.
func (f *Forge) Protected(ctx context.Context, repo forge.Repository, branch string) (bool, error) {
	what := fmt.Sprintf("read the protected branches of %.200s", repo.Path)
	path, err := at(repo, "/branch_protections")
	if err != nil {
		return false, wrap(what, err)
	}
	rules, err := get[[]*rule](ctx, f, path)
	if err != nil {
		return false, wrap(what, err)
	}
	rank := map[bool]int{true: -1}
	slices.SortStableFunc(rules, func(a, b *rule) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(rank[a.plain()], rank[b.plain()]),
			a.Created.Compare(b.Created))
	})
	i := slices.IndexFunc(rules, func(r *rule) bool { return r.matches(branch) })
	return i >= 0 && rules[i].protects(), nil
}
