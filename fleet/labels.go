package fleet

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// labelChecks refuses labels that no cluster can have in placements, selectors and layers. Nobody would notice the
// difference between a misspelled label and one that selects nothing on purpose.
type labelChecks struct {
	*loader
	known map[string]map[string]bool // values by label, of the labels that were asked for
}

// all checks the whole fleet. It reports nothing if the files of the clusters have errors, which may be why a label is
// missing. In a fleet with spec.import, whose clusters other tools declare, it warns.
func (lc labelChecks) all() {
	for i, layer := range lc.fleet.Spec.Layers {
		if !layer.Custom() && !layer.Optional {
			lc.key(lc.file, layer.Name, "spec", "layers", strconv.Itoa(i))
		}
	}
	for i, e := range lc.fleet.Spec.Environments {
		at := []string{"spec", "environments", strconv.Itoa(i), "promotion"}
		for j, w := range e.Promotion.Waves {
			lc.selector(lc.file, w.Clusters, append(slices.Clone(at), "waves", strconv.Itoa(j), "clusters")...)
		}
		for j, key := range e.Promotion.AvoidTogether {
			lc.key(lc.file, key, append(slices.Clone(at), "avoidTogether", strconv.Itoa(j))...)
		}
	}
	if t := lc.fleet.Spec.Traffic; t != nil {
		lc.key(lc.file, t.Label, "spec", "traffic", "label")
	}
	for _, w := range lc.fleet.Workspaces {
		lc.selector(w.doc, w.Spec.Clusters, "spec", "clusters")
	}
	for _, a := range lc.fleet.Declared() {
		if a.imported != nil {
			continue
		}
		if a.Spec.ForEach != nil {
			lc.selector(a.doc, a.Spec.ForEach.Clusters, "spec", "forEach", "clusters")
		}
		lc.selector(a.doc, a.Spec.Placement, "spec", "placement")
		for _, name := range slices.Sorted(maps.Keys(a.Spec.Environments)) {
			lc.selector(a.doc, a.Spec.Environments[name].Placement, "spec", "environments", name, "placement")
		}
	}
}

func (lc labelChecks) selector(doc document, s *Selector, at ...string) {
	if s == nil || s.Optional {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		place := append(slices.Clone(at), "matchLabels", key)
		if lc.key(doc, key, place...) {
			lc.value(doc, key, s.MatchLabels[key], place)
		}
	}
	for i, r := range s.MatchExpressions {
		place := append(slices.Clone(at), "matchExpressions", strconv.Itoa(i))
		if r.Optional || !lc.key(doc, r.Key, append(place, "key")...) {
			continue
		}
		for j, value := range r.Values {
			lc.value(doc, r.Key, value, append(slices.Clone(place), "values", strconv.Itoa(j)))
		}
	}
}

// key reports a label that neither a cluster nor a class has. It returns whether one of them has it.
func (lc labelChecks) key(doc document, key string, at ...string) bool {
	if slices.Contains(automatic(), key) || !validLabelKey(key) || len(lc.values(key)) > 0 {
		return true // findings has reported an invalid key
	}
	lc.report(doc, at, "no cluster has the label %s%s", key, nearest.DidYouMean(key, lc.keys()))
	return false
}

// value reports the value of a known label that no cluster and no class has.
func (lc labelChecks) value(doc document, key, value string, at []string) {
	known := lc.values(key)
	if known[value] || !validLabelValue(value) {
		return
	}
	const most = 1000 // comparing many names takes long
	similar := ""
	if len(known) <= most {
		if name := nearest.Name(value, slices.Sorted(maps.Keys(known))); name != "" {
			similar = fmt.Sprintf(", did you mean %s=%s?", key, name)
		}
	}
	const few = 10
	if similar == "" && len(known) <= few {
		similar = "; it is " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	}
	lc.report(doc, at, "no cluster has the label %s=%s%s", key, value, similar)
}

func (lc labelChecks) report(doc document, at []string, format string, args ...any) {
	hint := "correct it, give the label to a cluster or a class, or write optional: true beside it"
	if slices.Contains(at, "avoidTogether") || slices.Contains(at, "traffic") && slices.Contains(at, "label") {
		hint = "correct it, give the label to a cluster or a class, or remove it"
	}
	if len(lc.fleet.Spec.Import) > 0 {
		lc.warnf(doc, at, hint, format, args...)
		return
	}
	lc.errorf(doc, at, hint, format, args...)
}

// values returns the values of a label that clusters, also retired ones, and classes have, and the names of all
// environments, classes and clusters.
func (lc labelChecks) values(key string) map[string]bool {
	if out, ok := lc.known[key]; ok {
		return out
	}
	out := map[string]bool{}
	lc.known[key] = out
	for _, c := range lc.fleet.Clusters {
		if value, ok := c.Labels[key]; ok {
			out[value] = true
		}
	}
	for name, c := range lc.classes {
		if value, ok := c.spec.Labels[key]; ok {
			out[value] = true
		}
		if key == labelClass {
			out[name] = true
		}
	}
	if key == labelEnvironment {
		for _, e := range lc.fleet.Spec.Environments {
			out[e.Name] = true
		}
	}
	return out
}

// keys returns all labels of clusters and classes, sorted.
func (lc labelChecks) keys() []string {
	all := map[string]bool{}
	for _, name := range automatic() {
		all[name] = true
	}
	for _, c := range lc.fleet.Clusters {
		for key := range c.Labels {
			all[key] = true
		}
	}
	for _, c := range lc.classes {
		for key := range c.spec.Labels {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// similarPath describes what a pattern without matches was probably meant to find: a folder with nearly its name, or
// files that end in .yml; "" if there is none.
func (l *loader) similarPath(ctx context.Context, pattern string) string {
	dir, _, ok := strings.Cut(pattern, "/")
	if !ok || !isLiteral(dir) {
		return ""
	}
	entries, err := l.tree.ReadDir(".")
	if err != nil {
		return "" // the walk has reported it
	}
	var folders []string
	for _, e := range entries {
		if l.tree.isDir(".", e) {
			folders = append(folders, e.Name())
		}
	}
	if !slices.Contains(folders, dir) {
		if name := nearest.Name(dir, folders); name != "" {
			return fmt.Sprintf("rename the folder %s to %s", name, dir)
		}
		return ""
	}
	stem, yml := strings.CutSuffix(pattern, ".yaml")
	g, err := parseGlob(stem + ".yml")
	if !yml || err != nil {
		return ""
	}
	if names, err := walkGlobs(ctx, l.tree, []glob{g}); err == nil && len(names) > 0 {
		return fmt.Sprintf("rename %s to %s.yaml", names[0], strings.TrimSuffix(path.Base(names[0]), ".yml"))
	}
	return ""
}
