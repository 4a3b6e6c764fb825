package rollout

import (
	"fmt"
	"maps"
	"slices"
)

// groupFrom is the number of exceptions from which a record groups clusters with equal commits.
const groupFrom = 16

// sourceFile is the YAML form of a Source. Many clusters with equal commits form one group.
type sourceFile struct {
	Commit   string                   `yaml:"commit,omitempty"`
	Apps     map[string]string        `yaml:"apps,omitempty"`
	Clusters map[string]ClusterSource `yaml:"clusters,omitempty"`
	Groups   []clusterGroup           `yaml:"groups,omitempty"`
}

// clusterGroup has the commits of some clusters.
type clusterGroup struct {
	Commit   string            `yaml:"commit,omitempty"`
	Apps     map[string]string `yaml:"apps,omitempty"`
	Clusters []string          `yaml:"clusters,flow"`
}

// MarshalYAML groups the clusters of a source with many exceptions, so that its size does not grow with clusters times
// apps.
func (s Source) MarshalYAML() (any, error) {
	out := sourceFile{Commit: s.Commit, Apps: s.Apps, Clusters: s.Clusters}
	if len(s.Clusters) < groupFrom {
		return out, nil
	}
	groups := map[string]*clusterGroup{}
	var previous ClusterSource
	var key string
	for _, name := range slices.Sorted(maps.Keys(s.Clusters)) {
		c := s.Clusters[name]
		// neighbours often run the same
		if key == "" || c.Commit != previous.Commit || !maps.Equal(c.Apps, previous.Apps) {
			previous, key = c, c.key()
		}
		if groups[key] == nil {
			groups[key] = &clusterGroup{Commit: c.Commit, Apps: c.tidy().Apps}
		}
		groups[key].Clusters = append(groups[key].Clusters, name)
	}
	out.Clusters = nil
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		out.Groups = append(out.Groups, *groups[key])
	}
	return out, nil
}

// UnmarshalYAML reads both forms. Unknown keys are errors, as in the rest of the record.
func (s *Source) UnmarshalYAML(unmarshal func(any) error) error {
	var in sourceFile
	if err := unmarshal(&in); err != nil {
		return err
	}
	*s = Source{Commit: in.Commit, Apps: in.Apps, Clusters: in.Clusters}
	for _, g := range in.Groups {
		for _, name := range g.Clusters {
			if _, twice := s.Clusters[name]; twice {
				return fmt.Errorf("cluster %s is listed twice", name)
			}
			if s.Clusters == nil {
				s.Clusters = map[string]ClusterSource{}
			}
			s.Clusters[name] = ClusterSource{Commit: g.Commit, Apps: maps.Clone(g.Apps)}
		}
	}
	return nil
}
