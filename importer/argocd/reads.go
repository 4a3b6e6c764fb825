package argocd

import (
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/importer/internal/reach"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// mayRead returns the files and directories that an Application may be built from that cannot be built. A source of
// another repository or revision reads none.
func (i *importer) mayRead(app *application) []string {
	list := app.Spec.Sources
	if len(list) == 0 && app.Spec.Source != nil {
		list = []source{*app.Spec.Source}
	}
	var names []string
	for n := range list {
		s := &list[n]
		dir := "."
		if s.Chart == "" {
			if i.thisCommit(s.RepoURL, s.TargetRevision) != nil {
				continue
			}
			if at, err := inside(".", s.Path); err == nil && s.Path != "" {
				names, dir = append(names, at), at
			}
		}
		if s.Helm == nil {
			continue
		}
		for _, name := range s.Helm.ValueFiles {
			if ref, rest, ok := strings.Cut(name, "/"); ok && strings.HasPrefix(ref, "$") {
				names = append(names, reach.Literal(rest))
			} else if at, err := inside(dir, name); err == nil && s.Chart == "" {
				names = append(names, at)
			}
		}
	}
	return reach.Paths(i.sortedFiles(), i.Tree.ReadFile, names...)
}

// setReads returns the files and directories that the Applications of an ApplicationSet may be generated or built from.
// Of a pattern or a template, it is the directory before it.
func (i *importer) setReads(o manifest.Object) []string {
	text, err := yaml.Marshal(o["spec"])
	if err != nil {
		return nil // not possible: it was decoded from YAML
	}
	return reach.Paths(i.sortedFiles(), i.Tree.ReadFile, reach.Named(i.sortedFiles(), text)...)
}
