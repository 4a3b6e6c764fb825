package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// String returns the pattern, followed by the number of clusters if it can match several: prod/eu-* (12), or
// prod/eu-* (12 of 20) if it matches others too.
func (r Reach) String() string {
	switch {
	case r.Of > 0:
		return fmt.Sprintf("%s (%d of %d)", r.Pattern, r.Clusters, r.Of)
	case r.Clusters == 1 && !strings.HasSuffix(r.Pattern, "*"):
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

// Fleet knows where apps run.
type Fleet interface {
	// Placed returns the clusters that have an app before or after the change, and for "" all clusters of the fleet.
	// nil means that they are not known. Nobody changes the result. Apps on the same clusters should share one list,
	// because the cost of naming grows with the number of lists.
	Placed(app string) []Cluster
}

// Cluster is a cluster with what can name a group of clusters.
type Cluster struct {
	Name, Environment string
	Labels            map[string]string
}

// place is a cluster in its environment.
type place struct{ cluster, environment string }

// namer names sets of clusters by what they have in common. For the clusters of an app, it takes the shortest
// expression that describes exactly these among all clusters that have the app:
//
//   - all clusters of an environment (prod/*), or of the fleet;
//   - one to three labels that all of them have and no other cluster has, within an environment (prod class=edge) or in
//     all of them (class=edge);
//   - the same without the clusters that another label, an environment or a name describes
//     (prod except region=eu-west-1);
//   - where no label does, names, and beginnings of names (prod/eu-*). If such a pattern matches other clusters of the
//     app too, it says so: prod/eu-* (12 of 20).
//
// Clusters of one environment always have its name, and a single cluster has its own name. Environments keep their
// order. Of expressions with equally many terms, the shorter text counts, then the alphabet.
type namer struct {
	fleet        Fleet
	environments []string
	known        map[*Cluster]*population // by the first element of the list
	apps         map[string]*population
}

func newNamer(f Fleet, environments []string) *namer {
	return &namer{
		fleet: f, environments: environments, known: map[*Cluster]*population{}, apps: map[string]*population{},
	}
}

// population returns the clusters of an app; for "", all.
func (n *namer) population(app string) *population {
	if p, ok := n.apps[app]; ok {
		return p
	}
	list := n.fleet.Placed(app)
	var p *population
	if len(list) > 0 {
		p = n.known[&list[0]]
	}
	if p == nil || len(p.clusters) != len(list) {
		p = newPopulation(list)
		if len(list) > 0 {
			n.known[&list[0]] = p
		}
	}
	n.apps[app] = p
	return p
}

// order returns the environments of places: known ones in their order, then others by name.
func (n *namer) order(places []place) []string {
	has := map[string]bool{}
	for _, p := range places {
		has[p.environment] = true
	}
	var out []string
	for _, e := range n.environments {
		if has[e] {
			out = append(out, e)
			delete(has, e)
		}
	}
	unknown := has[""]
	delete(has, "")
	out = append(out, slices.Sorted(maps.Keys(has))...)
	if unknown {
		out = append(out, "")
	}
	return out
}

// where describes clusters that have an app, and returns their environments.
func (n *namer) where(app string, places []place) (where []Reach, environments []string) {
	environments = n.order(places)
	p := n.population(app)
	byEnvironment := map[string][]string{}
	for _, one := range places {
		byEnvironment[one.environment] = append(byEnvironment[one.environment], one.cluster)
	}
	terms := 0
	for _, e := range environments {
		slices.Sort(byEnvironment[e])
		list, cost := p.reach(e, byEnvironment[e])
		where, terms = append(where, list...), terms+cost
	}
	if len(environments) == 1 || environments[len(environments)-1] == "" {
		return where, environments
	}
	group, ok := p.set(places)
	if ok && group.count() == len(p.clusters) { // what the app's clusters are in the whole fleet
		p = n.population("")
		group, ok = p.set(places)
	}
	if !ok {
		return where, environments
	}
	e, ok := p.expression(p.all(), group, environmentLabel)
	if !ok {
		return where, environments
	}
	across := Reach{Pattern: e.text(allClusters), Clusters: len(places)}
	if cost := e.terms(); cost < terms || cost == terms && len(across.String()) < len(Patterns(where)) {
		where = []Reach{across}
	}
	return where, environments
}

// Costs of a description, in terms.
const (
	costExcept = 2  // of "except", in addition to what follows it
	costNames  = 10 // of a name or pattern: any expression is better
)

// reach describes clusters of one environment, by name.
func (p *population) reach(environment string, names []string) (out []Reach, terms int) {
	base := p.sets[term{environmentLabel, environment}]
	if len(names) == 1 {
		return []Reach{{Environment: environment, Pattern: Place(environment, names[0]), Clusters: 1}}, 1
	}
	places := make([]place, len(names))
	for i, name := range names {
		places[i].cluster = name
	}
	group, ok := p.set(places)
	if !ok || environment == "" || base == nil {
		return p.patterns(environment, names)
	}
	if group.equal(base) {
		return []Reach{{Environment: environment, Pattern: environment + "/*", Clusters: len(names)}}, 1
	}
	if e, ok := p.expression(base, group, ""); ok {
		return []Reach{{Environment: environment, Pattern: e.text(environment), Clusters: len(names)}}, 1 + e.terms()
	}
	return p.patterns(environment, names)
}

// patterns describes clusters of one environment by name if they are few, otherwise by common prefixes.
func (p *population) patterns(environment string, clusters []string) (out []Reach, terms int) {
	const most = 3
	if len(clusters) <= most {
		for _, c := range clusters {
			out = append(out, Reach{Environment: environment, Pattern: Place(environment, c), Clusters: 1})
		}
		return out, costNames * len(out)
	}
	byPrefix := map[string][]string{}
	for _, c := range clusters {
		byPrefix[prefix(c)] = append(byPrefix[prefix(c)], c)
	}
	if len(byPrefix) > most {
		byPrefix = map[string][]string{common(clusters): clusters}
	}
	for begin, names := range byPrefix {
		r := Reach{Environment: environment, Clusters: len(names), Of: p.begin(environment, begin)}
		switch {
		case len(names) == 1:
			r.Pattern, r.Of = Place(environment, names[0]), 0
		case begin == "":
			r.Pattern = environment
		default:
			r.Pattern = Place(environment, begin) + "*"
		}
		if r.Of <= r.Clusters {
			r.Of = 0
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Reach) int { return cmp.Compare(a.Pattern, b.Pattern) })
	return out, costNames * len(out)
}

// begin returns the number of clusters of an environment whose names begin so.
func (p *population) begin(environment, prefix string) int {
	n := 0
	for i := range p.clusters {
		if c := &p.clusters[i]; c.Environment == environment && strings.HasPrefix(c.Name, prefix) {
			n++
		}
	}
	return n
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
