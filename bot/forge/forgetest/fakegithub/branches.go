package fakegithub

import (
	"net/http"
	"path"
	"strings"
)

// Rule is a rule of a ruleset.
type Rule struct {
	Pattern   string // of branches, as path.Match reads it
	Type      string // update, pull_request, deletion, non_fast_forward …
	Approvals int    // of pull_request
}

// Protection is the classic protection of a branch.
type Protection struct {
	Restricted bool // only listed people and Apps may push
	Approvals  int  // reviews that a pull request needs
	Locked     bool
	Deletions  bool // people with write access may delete the branch
	Forced     bool // and push what is no descendant
}

// AddRules adds the rules that keep people with write access from moving, deleting and rewriting branches.
func (s *World) AddRules(repo, pattern string) {
	for _, kind := range []string{"update", "deletion", "non_fast_forward"} {
		s.AddRule(repo, Rule{Pattern: pattern, Type: kind})
	}
}

// AddRule adds a rule to the repository's rulesets.
func (s *World) AddRule(repo string, r Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to := s.repo(repo); to != nil {
		to.rules = append(to.rules, r)
	}
}

// ClearRules removes all rules of the repository's rulesets.
func (s *World) ClearRules(repo string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to := s.repo(repo); to != nil {
		to.rules = nil
	}
}

// Protect protects a branch in the classic way. In a repository without Git it creates the branch.
func (s *World) Protect(repo, branch string, p Protection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.repo(repo)
	if to == nil {
		return
	}
	if to.tip(branch) == "" && to.git == nil {
		s.grow(to, branch)
	}
	to.protections[branch] = p
}

func (s *Server) branchRoutes(repo string) {
	s.handle("GET "+repo+"/rules/branches/{branch}", reader, branchRules)
	s.handle("GET "+repo+"/branches/{branch}", reader, getBranch)
	s.handle("GET "+repo+"/branches/{branch}/protection", reader, getProtection)
}

// branchRules lists the rules that match a branch, which need not exist.
func branchRules(c *call) answer {
	all := []fields{}
	for _, r := range c.repo.rules {
		if ok, err := path.Match(r.Pattern, c.r.PathValue("branch")); err != nil || !ok {
			continue
		}
		one := fields{
			"type": r.Type, "ruleset_source_type": "Repository", "ruleset_source": c.repo.path(),
			"ruleset_id": 1,
		}
		if r.Type == "pull_request" {
			one["parameters"] = fields{
				"dismiss_stale_reviews_on_push": true, "require_code_owner_review": false,
				"require_last_push_approval":      false,
				"required_approving_review_count": r.Approvals, "required_review_thread_resolution": false,
			}
		}
		all = append(all, one)
	}
	return c.paged(all)
}

func getBranch(c *call) answer {
	name := c.r.PathValue("branch")
	sha := c.repo.tip(name)
	if sha == "" {
		return problem(http.StatusNotFound, "Branch not found")
	}
	_, protected := c.repo.protections[name]
	u, h := c.s.o.APIURL+"/repos/"+c.repo.path(), c.s.o.URL+"/"+c.repo.path()
	by := fields{"name": "ada", "email": "ada@example.com", "date": stamp(c.repo.created)}
	return answer{code: http.StatusOK, value: fields{
		"name": name, "protected": protected, "protection_url": u + "/branches/" + name + "/protection",
		"protection": fields{"enabled": protected, "required_status_checks": fields{
			"enforcement_level": "off",
			"contexts":          []string{}, "checks": []string{},
		}},
		"_links": fields{"self": u + "/branches/" + name, "html": h + "/tree/" + name},
		"commit": fields{
			"sha": sha, "node_id": node("Commit", c.repo.id), "url": u + "/commits/" + sha,
			"html_url": h + "/commit/" + sha, "comments_url": u + "/commits/" + sha + "/comments",
			"author": c.s.user(c.repo.owner), "committer": c.s.user(c.repo.owner), "parents": []fields{},
			"commit": fields{
				"author": by, "committer": by, "message": "a commit",
				"tree": fields{"sha": sha, "url": u + "/git/trees/" + sha}, "url": u + "/git/commits/" + sha,
				"comment_count": 0,
				"verification": fields{
					"verified": false, "reason": "unsigned", "signature": nil, "payload": nil,
					"verified_at": nil,
				},
			},
		},
	}}
}

// getProtection needs the right to administer, as https://docs.github.com/rest/branches/branch-protection says.
func getProtection(c *call) answer {
	if c.who.install != nil && !c.who.app.Administration {
		return problem(http.StatusForbidden, "Resource not accessible by integration")
	}
	if c.who.install == nil && c.role() != "admin" {
		return notFound()
	}
	p, ok := c.repo.protections[c.r.PathValue("branch")]
	if !ok {
		return problem(http.StatusNotFound, "Branch not protected")
	}
	u := c.s.o.APIURL + strings.TrimSuffix(c.r.URL.Path, "/")
	out := fields{
		"url": u, "enforce_admins": fields{"url": u + "/enforce_admins", "enabled": true},
		"lock_branch":     fields{"enabled": p.Locked},
		"allow_deletions": fields{"enabled": p.Deletions}, "allow_force_pushes": fields{"enabled": p.Forced},
	}
	if p.Restricted {
		out["restrictions"] = fields{
			"url": u + "/restrictions", "users_url": u + "/restrictions/users", "teams_url": u + "/restrictions/teams",
			"apps_url": u + "/restrictions/apps",
			"users":    []fields{}, "teams": []fields{}, "apps": []fields{},
		}
	}
	if p.Approvals > 0 {
		out["required_pull_request_reviews"] = fields{
			"url": u + "/required_pull_request_reviews", "dismiss_stale_reviews": true,
			"require_code_owner_reviews":      false,
			"required_approving_review_count": p.Approvals, "require_last_push_approval": false,
		}
	}
	return answer{code: http.StatusOK, value: out}
}
