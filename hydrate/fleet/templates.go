package fleet

import (
	"slices"
	"strconv"
	"strings"
)

// checkTemplates refuses path templates that refer to what a cluster does not have. The label that the layer is about
// may be missing: the layer then does not apply to the cluster.
func (l *loader) checkTemplates() {
	for i, layer := range l.fleet.Spec.Layers {
		for _, list := range []struct {
			name      string
			templates []string
		}{{"values", layer.Values}, {"components", layer.Components}} {
			for j, template := range list.templates {
				at := []string{"spec", "layers", strconv.Itoa(i), list.name, strconv.Itoa(j)}
				l.checkTemplate(layer.Name, template, at)
			}
		}
	}
}

func (l *loader) checkTemplate(layer, template string, at []string) {
	segments, err := parseReferences(template)
	if err != nil {
		return // checkFleet has said so
	}
	for _, s := range segments {
		if s.ref == nil || s.ref.optional || s.ref.name == "app" || s.ref.name == "cluster.labels."+layer {
			continue
		}
		var without []string
		for _, c := range l.fleet.Clusters {
			if _, ok := (Target{Cluster: c}).lookup(s.ref.name); !ok && c.State != stateRetired {
				without = append(without, c.Name)
			}
		}
		if len(without) > 0 {
			l.errorf(l.file, at, "set it, or write a fallback with :=", "layer %s: %s is not set for %s", layer, s.ref.text, someOf(without))
		}
	}
	for _, c := range l.fleet.Clusters {
		p, err := (Target{Cluster: c, App: &App{Name: "app"}}).text(template)
		if err == nil && leavesRepository(p) {
			l.errorf(l.file, at, "relative to the repository's root, with forward slashes", "layer %s: the path %q of cluster %s leaves the repository", layer, p, c.Name)
			return
		}
	}
}

func leavesRepository(p string) bool {
	return strings.HasPrefix(p, "/") || strings.Contains(p, `\`) || slices.Contains(strings.Split(p, "/"), "..")
}

// someOf names the first few of a list, and how many more there are.
func someOf(names []string) string {
	const most = 3
	kind := "clusters "
	if len(names) == 1 {
		kind = "cluster "
	}
	text := kind + strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}
