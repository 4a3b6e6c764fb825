package fleet

// ChartUse is a chart of a repository or registry, with the position in the app's file that names it.
type ChartUse struct {
	Repo, Chart, Version string
	File                 string
	Line, Column         int
	Targets              []Target
}

// Charts lists the charts of repositories and registries, each with the targets that use it. It leaves out targets
// that cannot be resolved; check.Targets reports them.
func (f *Fleet) Charts() []ChartUse {
	var out []ChartUse
	index := map[[4]string]int{}
	for _, t := range f.Targets() {
		resolved, err := f.Resolve(t)
		if err != nil {
			continue
		}
		for i, s := range resolved.Sources {
			if s.Helm == nil || s.Helm.Chart == "" {
				continue
			}
			use := ChartUse{Repo: s.Helm.Repo, Chart: s.Helm.Chart, Version: s.Helm.Version, File: t.App.File}
			imported := t.Imported()
			if imported != nil {
				use.File, use.Line = imported.File, imported.Line
			}
			key := [4]string{use.File, use.Repo, use.Chart, use.Version}
			at, ok := index[key]
			if !ok {
				at = len(out)
				index[key] = at
				if imported == nil {
					if n := findScalar(t.App.doc.root, t.App.sourcesIn(t.Cluster.Environment)[i].Helm.Chart); n != nil {
						use.Line, use.Column = n.Line, n.Column
					}
				}
				out = append(out, use)
			}
			out[at].Targets = append(out[at].Targets, t)
		}
	}
	return out
}
