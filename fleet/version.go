package fleet

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// chartVersion returns the version of a source with versionFrom.
func (f *Fleet) chartVersion(t Target, files []LayerFile, s Source) (string, error) {
	from := s.Helm.VersionFrom
	if from.File == "" {
		values, err := f.mergeValues(t, files, s.Name)
		if err != nil {
			return "", err
		}
		v, ok := dig(values, from.Value)
		if !ok {
			return "", fmt.Errorf("no layer sets %s, which is the version of chart %s for cluster %s", from.Value,
				s.Helm.Chart, t.Cluster.Name)
		}
		text, ok := v.(string)
		if !ok || text == "" {
			return "", fmt.Errorf("the value %s, which is the version of chart %s for cluster %s, must be a string: put it in quotes", from.Value, s.Helm.Chart, t.Cluster.Name)
		}
		return text, nil
	}
	data, err := readBounded(f.tree, path.Clean(from.File))
	if err != nil {
		return "", fmt.Errorf("%s, which holds the version of chart %s for cluster %s: %s", from.File, s.Helm.Chart,
			t.Cluster.Name, readError(err))
	}
	text, err := versionIn(from, data)
	if err != nil {
		return "", fmt.Errorf("%s, which holds the version of chart %s for cluster %s: %w", from.File, s.Helm.Chart,
			t.Cluster.Name, err)
	}
	return text, nil
}

// versionIn returns the version in a file. It keeps the text as written: 1.10 does not become the number 1.1.
func versionIn(from *VersionFrom, data []byte) (string, error) {
	text := strings.TrimSpace(string(data))
	if from.Key != "" || isYAML(from.File) {
		if err := manifest.Check(data, yamlnode.Budget()); err != nil {
			return "", err
		}
		var root yaml.Node
		if err := yaml.Unmarshal(data, &root); err != nil {
			return "", err
		}
		var parts []string
		if from.Key != "" {
			parts = strings.Split(from.Key, ".")
		}
		if len(root.Content) == 0 {
			return "", errors.New("the file is empty")
		}
		n := yamlnode.Child(root.Content[0], parts...)
		if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return "", fmt.Errorf("there is no version at %q", from.Key)
		}
		text = strings.TrimSpace(n.Value)
	}
	if text == "" || strings.ContainsAny(text, " \t\n") {
		return "", fmt.Errorf("%.40q is not a version", text)
	}
	return text, nil
}

// isYAML reports by its name whether a file is YAML or JSON.
func isYAML(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
