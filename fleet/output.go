package fleet

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// EnvironmentBranch returns the branch of an environment, without refs/heads/.
func (f *Fleet) EnvironmentBranch(environment string) string {
	template := cmp.Or(f.Spec.Output.EnvironmentBranch, "env/${environment}")
	return strings.ReplaceAll(template, "${environment}", environment)
}

// ClusterBranch returns the branch of a cluster, without refs/heads/.
func (f *Fleet) ClusterBranch(c *Cluster) string {
	template := cmp.Or(f.Spec.Output.ClusterBranch, "cluster/${cluster.name}")
	// a name has no $
	return strings.ReplaceAll(strings.ReplaceAll(template, "${cluster.name}", c.Name), "${environment}", c.Environment)
}

// BranchPrefixes returns the text before the first reference of each branch template. Every branch begins with one of
// them.
func (f *Fleet) BranchPrefixes() []string {
	before := func(template string) string {
		prefix, _, _ := strings.Cut(template, "${")
		return prefix
	}
	return []string{
		before(cmp.Or(f.Spec.Output.EnvironmentBranch, "env/${environment}")),
		before(cmp.Or(f.Spec.Output.ClusterBranch, "cluster/${cluster.name}")),
	}
}

// AsRendered reports whether objects keep their rendered namespace, or none.
func (f *Fleet) AsRendered() bool { return f.Spec.Output.Namespaces == "asRendered" }

func (fc fleetChecks) output() {
	out := fc.fleet.Spec.Output
	at := []string{"spec", "output"}
	if t := out.EnvironmentBranch; t != "" && !strings.Contains(t, "${environment}") {
		fc.errorf(fc.file, append(at, "environmentBranch"), "such as env/${environment}",
			"every environment would have the branch %q", t)
	}
	if t := out.ClusterBranch; t != "" && !strings.Contains(t, "${cluster.name}") {
		fc.errorf(fc.file, append(at, "clusterBranch"), "such as cluster/${cluster.name}",
			"every cluster would have the branch %q", t)
	}
	probe := &Cluster{Name: "c", Environment: "e"}
	environment, cluster := fc.fleet.EnvironmentBranch("e"), fc.fleet.ClusterBranch(probe)
	for _, branch := range []string{environment, cluster} {
		if !validBranch(branch) {
			fc.errorf(fc.file, at, "letters, digits, -, _, . and /; ${environment} and ${cluster.name}",
				"%q is not a branch name", branch)
		}
	}
	for name, address := range map[string]string{
		"repository":       out.Repository,
		"hydratorMetadata": out.HydratorMetadata,
	} {
		if hasPassword(address) {
			fc.errorf(fc.file, append(at, name), "leave them out; credentials come from the environment",
				"a URL must not hold credentials")
		}
	}
	if strings.HasPrefix(out.Repository, ociScheme) {
		if err := CheckRegistry(out.Repository); err != nil {
			fc.errorf(fc.file, append(at, "repository"), "such as oci://registry.example.com/gitops, in lower case and without a tag", "%v",
				err)
		}
		fc.withoutForge()
	}
}

// withoutForge refuses what needs a forge that has the rendered commits, for branches in a registry.
func (fc fleetChecks) withoutForge() {
	for i, e := range fc.fleet.Spec.Environments {
		at := []string{"spec", "environments", strconv.Itoa(i), "promotion"}
		if e.Promotion.Mode == "request" {
			fc.errorf(fc.file, append(slices.Clone(at), "mode"), "auto or manual",
				"environment %s: branches in a registry have no merge requests", e.Name)
		}
		if len(e.Promotion.Health.CommitStatuses) > 0 {
			fc.errorf(fc.file, append(slices.Clone(at), "health", "commitStatuses"), "use checks",
				"environment %s: branches are in a registry, so no forge has statuses of their commits", e.Name)
		}
	}
}

// branches refuses equal branch names, and a branch name that is a parent folder of another: Git cannot store
// both.
func (fc fleetChecks) branches() {
	at := []string{"spec", "output"}
	owners := make(map[string]branchOwner, len(fc.fleet.Clusters))
	add := func(branch string, owner branchOwner) {
		if other, ok := owners[branch]; ok {
			fc.errorf(fc.file, at, "give them prefixes of their own", "%s and %s would have one branch, %s", other,
				owner, branch)
			return
		}
		owners[branch] = owner
	}
	if fc.fleet.Spec.Output.Repository == "" {
		add(fc.fleet.Spec.Trunk, branchOwner{"the trunk", ""})
	}
	for _, name := range fc.fleet.environmentNames() {
		add(fc.fleet.EnvironmentBranch(name), branchOwner{"environment ", name})
	}
	for _, c := range fc.fleet.Clusters {
		add(fc.fleet.ClusterBranch(c), branchOwner{"cluster ", c.Name})
	}
	var below []string // branches, a zero byte, and a branch that is a folder above
	for branch := range owners {
		for i := range len(branch) {
			if branch[i] != '/' {
				continue
			}
			if _, ok := owners[branch[:i]]; ok {
				below = append(below, branch+"\x00"+branch[:i])
			}
		}
	}
	slices.Sort(below)
	for _, b := range below {
		branch, above, _ := strings.Cut(b, "\x00")
		fc.errorf(fc.file, at, "give them prefixes of their own", "Git cannot hold the branch %s (%s) beside %s (%s)",
			branch, owners[branch], above, owners[above])
	}
}

// branchOwner is what a branch belongs to.
type branchOwner struct{ kind, name string }

// String returns the owner as messages name it.
func (o branchOwner) String() string { return o.kind + o.name }

var branchName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_./]*[-A-Za-z0-9_]$`)

// validBranch is stricter than git check-ref-format: it allows only characters that never need quoting.
func validBranch(name string) bool {
	if !branchName.MatchString(name) {
		return false
	}
	return !strings.Contains(name, "..") && !strings.Contains(name, "//") && !strings.Contains(name, "/.") &&
		!strings.Contains(name, "./") &&
		!strings.Contains(name, ".lock/") && !strings.HasSuffix(name, ".lock")
}
