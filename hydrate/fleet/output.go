package fleet

import (
	"cmp"
	"regexp"
	"strings"
)

// EnvironmentBranch is the branch of an environment, without refs/heads/.
func (f *Fleet) EnvironmentBranch(environment string) string {
	template := cmp.Or(f.Spec.Output.EnvironmentBranch, "env/${environment}")
	return strings.ReplaceAll(template, "${environment}", environment)
}

// ClusterBranch is the branch of a cluster, without refs/heads/.
func (f *Fleet) ClusterBranch(c *Cluster) string {
	template := cmp.Or(f.Spec.Output.ClusterBranch, "cluster/${cluster.name}")
	return strings.NewReplacer("${cluster.name}", c.Name, "${environment}", c.Environment).Replace(template)
}

// BranchPrefixes are what the names of all branches begin with, up to the first reference of each template.
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

// AsRendered says that objects keep the namespace they were rendered with, or none.
func (f *Fleet) AsRendered() bool { return f.Spec.Output.Namespaces == "asRendered" }

func (l *loader) checkOutput() {
	out := l.fleet.Spec.Output
	at := []string{"spec", "output"}
	if t := out.EnvironmentBranch; t != "" && !strings.Contains(t, "${environment}") {
		l.errorf(l.file, append(at, "environmentBranch"), "such as env/${environment}", "every environment would have the branch %q", t)
	}
	if t := out.ClusterBranch; t != "" && !strings.Contains(t, "${cluster.name}") {
		l.errorf(l.file, append(at, "clusterBranch"), "such as cluster/${cluster.name}", "every cluster would have the branch %q", t)
	}
	probe := &Cluster{Name: "c", Environment: "e"}
	environment, cluster := l.fleet.EnvironmentBranch("e"), l.fleet.ClusterBranch(probe)
	for _, branch := range []string{environment, cluster} {
		if !validBranch(branch) {
			l.errorf(l.file, at, "letters, digits, -, _, . and /; ${environment} and ${cluster.name}", "%q is no branch name", branch)
		}
	}
	same := strings.HasPrefix(environment+"/", cluster+"/") || strings.HasPrefix(cluster+"/", environment+"/")
	if same || l.fleet.EnvironmentBranch("x") == l.fleet.ClusterBranch(&Cluster{Name: "x", Environment: "x"}) {
		l.errorf(l.file, at, "give them prefixes of their own", "environment and cluster branches get in each other's way")
	}
	if trunk := l.fleet.Spec.Trunk; out.Repository == "" && (strings.HasPrefix(environment, trunk+"/") || strings.HasPrefix(cluster, trunk+"/")) {
		l.errorf(l.file, at, "choose another prefix", "Git cannot hold the branch %s beside branches below it", trunk)
	}
	if strings.Contains(out.Repository, "@") && strings.Contains(out.Repository, "://") && !strings.HasPrefix(out.Repository, "ssh://") {
		l.errorf(l.file, append(at, "repository"), "leave them out; credentials come from the environment", "a URL must not hold credentials")
	}
}

// validBranch is git-check-ref-format, and narrower: only characters that need no quoting anywhere.
func validBranch(name string) bool {
	if !regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_./]*[-A-Za-z0-9_]$`).MatchString(name) {
		return false
	}
	return !strings.Contains(name, "..") && !strings.Contains(name, "//") && !strings.Contains(name, "/.") && !strings.Contains(name, "./") &&
		!strings.Contains(name, ".lock/") && !strings.HasSuffix(name, ".lock")
}
