package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// String returns the pattern, followed by the number of clusters if it matches several.
func (r Reach) String() string {
	if r.Clusters == 1 && !strings.HasSuffix(r.Pattern, "*") {
		return r.Pattern
	}
	return fmt.Sprintf("%s (%d)", r.Pattern, r.Clusters)
}

// Place returns a cluster with its environment: prod/eu-1a. If the two names are equal, it returns the name once.
func Place(environment, cluster string) string {
	if cluster == "" {
		return "an unknown cluster"
	}
	if environment == "" || environment == cluster {
		return cluster
	}
	return environment + "/" + cluster
}

// Fleet counts an app's clusters. A group with all clusters of an environment is shown as `env/*`.
type Fleet interface {
	// Placed returns the number of clusters of an environment that have the app before or after the change.
	Placed(app, environment string) int
}

// reach describes clusters of one environment: as env/* if they are all, by name if they are few, otherwise by common
// prefixes.
func reach(environment string, clusters []string, all int) []Reach {
	if len(clusters) == all && all > 1 {
		return []Reach{{
			Environment: environment, Pattern: environment + "/*", Clusters: len(clusters),
			Names: clusters,
		}}
	}
	const most = 3
	if len(clusters) <= most {
		out := make([]Reach, len(clusters))
		for i, c := range clusters {
			out[i] = Reach{
				Environment: environment, Pattern: Place(environment, c), Clusters: 1,
				Names: clusters[i : i+1],
			}
		}
		return out
	}
	byPrefix := map[string][]string{}
	for _, c := range clusters {
		p := prefix(c)
		byPrefix[p] = append(byPrefix[p], c)
	}
	if len(byPrefix) > most {
		byPrefix = map[string][]string{common(clusters): clusters}
	}
	var out []Reach
	for p, names := range byPrefix {
		pattern := environment + "/" + p + "*"
		if len(names) == 1 {
			pattern = Place(environment, names[0])
		}
		out = append(out, Reach{Environment: environment, Pattern: pattern, Clusters: len(names), Names: names})
	}
	slices.SortStableFunc(out, func(a, b Reach) int { return cmp.Compare(a.Pattern, b.Pattern) })
	return out
}

// prefix returns a name up to and including its last separator: eu-west-1a → eu-west-.
func prefix(name string) string {
	i := strings.LastIndexAny(name, "-._")
	if i < 0 {
		return ""
	}
	return name[:i+1]
}

// common returns the longest common prefix.
func common(names []string) string {
	p := names[0]
	for _, n := range names[1:] {
		for !strings.HasPrefix(n, p) {
			p = p[:len(p)-1]
		}
	}
	return p
}

// where describes a group's clusters by environment, in the given order.
func where(app string, byEnvironment map[string][]string, order []string, f Fleet) []Reach {
	var out []Reach
	for _, e := range order {
		if names := byEnvironment[e]; len(names) > 0 {
			slices.Sort(names)
			out = append(out, reach(e, names, f.Placed(app, e))...)
		}
	}
	if names := byEnvironment[""]; len(names) > 0 { // the cluster is not known
		out = append(out, reach("", names, 0)...)
	}
	return out
}
