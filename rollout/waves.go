package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
)

// Cluster is a member of an environment.
type Cluster struct {
	Name   string
	Labels map[string]string
	State  string // active, frozen or retired; "" is active
}

// Wave is an ordered part of an environment's clusters, cut into steps. The clusters of a step move together.
type Wave struct {
	Name  string
	Steps [][]string
	Bake  time.Duration
}

// Clusters returns the clusters of all steps, by name.
func (w Wave) Clusters() []string {
	out := slices.Concat(w.Steps...)
	slices.Sort(out)
	return out
}

// Waves assigns every cluster of an environment to exactly one wave, or returns an error that names a cluster in none
// or in two. Waves that select by labels alone get all clusters that they match; the others take from the rest, in
// order and by name. A frozen cluster belongs to its wave, so that unfreezing it changes no other wave; a retired one
// belongs to none.
func Waves(env fleet.Environment, clusters []Cluster) ([]Wave, error) {
	active := slices.DeleteFunc(slices.Clone(clusters), func(c Cluster) bool { return c.State == "retired" })
	slices.SortStableFunc(active, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(active); i++ {
		if active[i].Name == active[i-1].Name {
			return nil, fmt.Errorf("environment %s has two clusters %s: rename one", env.Name, active[i].Name)
		}
	}
	specs := env.Promotion.Waves
	if len(specs) == 0 {
		specs = []fleet.Wave{{Name: "all"}}
	}
	owner, err := selected(env.Name, specs, active)
	if err != nil {
		return nil, err
	}
	waves := make([]Wave, 0, len(specs))
	for i, spec := range specs {
		bake, err := duration(spec.Bake)
		if err != nil {
			return nil, fmt.Errorf("environment %s, wave %s: bake: %w", env.Name, spec.Name, err)
		}
		mine := take(i, spec, active, owner)
		waves = append(waves, Wave{Name: spec.Name, Bake: bake, Steps: steps(mine, spec.MaxParallel,
			env.Promotion.AvoidTogether)})
	}
	var left []string
	for _, c := range active {
		if _, ok := owner[c.Name]; !ok {
			left = append(left, c.Name)
		}
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("environment %s: in no wave: %s: end with a wave that has only a name, which takes all other clusters", env.Name, Few(left))
	}
	return waves, nil
}

// selected assigns the clusters of waves that select by labels alone.
func selected(environment string, specs []fleet.Wave, clusters []Cluster) (map[string]int, error) {
	owner := map[string]int{}
	for i, spec := range specs {
		if spec.Clusters == nil || spec.Percent > 0 || spec.Count > 0 {
			continue
		}
		for _, c := range clusters {
			if !spec.Clusters.Matches(c.Labels) {
				continue
			}
			if j, ok := owner[c.Name]; ok {
				return nil, fmt.Errorf("environment %s: cluster %s is in two waves, %s and %s: narrow one of the selectors", environment, c.Name, specs[j].Name, spec.Name)
			}
			owner[c.Name] = i
		}
	}
	return owner, nil
}

func take(i int, spec fleet.Wave, clusters []Cluster, owner map[string]int) []Cluster {
	most := len(clusters)
	switch {
	case spec.Percent > 0:
		most = (len(clusters)*spec.Percent + 99) / 100 // rounded up, so that it is never empty
	case spec.Count > 0:
		most = spec.Count
	}
	var out []Cluster
	for _, c := range clusters {
		j, taken := owner[c.Name]
		if taken && j != i || !taken && (len(out) >= most || spec.Clusters != nil && !spec.Clusters.Matches(c.Labels)) {
			continue
		}
		owner[c.Name] = i
		out = append(out, c)
	}
	return out
}

// steps cuts a wave so that no step has more than maxParallel clusters, nor two with the same value of a label in
// avoid.
func steps(clusters []Cluster, maxParallel int, avoid []string) [][]string {
	var out [][]string
	var used []map[string]bool
	first := 0 // earlier steps are full
	for _, c := range clusters {
		var values []string
		for _, key := range avoid {
			if v, ok := c.Labels[key]; ok && v != "" {
				values = append(values, key+"="+v)
			}
		}
		i := first
		for i < len(out) && (maxParallel > 0 && len(out[i]) >= maxParallel ||
			slices.ContainsFunc(values, func(v string) bool { return used[i][v] })) {
			i++
		}
		if i == len(out) {
			out, used = append(out, nil), append(used, map[string]bool{})
		}
		out[i] = append(out[i], c.Name)
		for _, v := range values {
			used[i][v] = true
		}
		for maxParallel > 0 && first < len(out) && len(out[first]) >= maxParallel {
			first++
		}
	}
	return out
}

func duration(d fleet.Duration) (time.Duration, error) {
	if d == "" {
		return 0, nil
	}
	return d.Parse()
}

// Few lists at most five names, and counts the others.
func Few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
