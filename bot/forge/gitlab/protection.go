package gitlab

import (
	"context"
	"fmt"
	"strings"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Protected implements forge.Protection. A branch is protected if a rule matches it and no matching rule lets
// every Developer push or merge: GitLab applies the most permissive rule
// (https://docs.gitlab.com/user/project/repository/branches/protected/).
func (f *Forge) Protected(ctx context.Context, repo forge.Repository, branch string) (bool, error) {
	rules, err := pages(func(p gitlab.ListOptions) ([]*gitlab.ProtectedBranch, *gitlab.Response, error) {
		return f.client.ProtectedBranches.ListProtectedBranches(repo.Path,
			&gitlab.ListProtectedBranchesOptions{ListOptions: p}, with(ctx))
	})
	if err != nil {
		return false, wrap(fmt.Sprintf("read the protected branches of %.200s", repo.Path), err)
	}
	matched := false
	for _, r := range rules {
		if !matchesBranch(r.Name, branch) {
			continue
		}
		matched = true
		if open(r.PushAccessLevels) || open(r.MergeAccessLevels) {
			return false, nil
		}
	}
	return matched, nil
}

// open reports whether an access level names every Developer. Entries for a single user, group or deploy key
// do not.
func open(levels []*gitlab.BranchAccessDescription) bool {
	for _, l := range levels {
		if l.UserID == 0 && l.GroupID == 0 && l.DeployKeyID == 0 && l.AccessLevel > gitlab.NoPermissions &&
			l.AccessLevel <= gitlab.DeveloperPermissions {
			return true
		}
	}
	return false
}

// matchesBranch matches a branch against the name of a protected branch, in which * matches any characters,
// slashes included.
func matchesBranch(pattern, branch string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == branch
	}
	rest, ok := strings.CutPrefix(branch, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}
