package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// sources checks that the folders of a target's sources exist and hold a chart, a Kustomize root or manifests.
func (tc targetChecks) sources(t Target, resolved Resolved) []error {
	var out []error
	written := t.App.SourcesIn(t.Cluster.Environment)
	for i, s := range resolved.Sources {
		what := tc.missing(s)
		if what == "" {
			continue
		}
		p := sourceProblem(t, written[i], fmt.Sprintf("source for cluster %s: %s", t.Cluster.Name, what))
		p.Hint = "write the path from the repository's root; without one, it is the folder of " + path.Base(t.App.File)
		out = append(out, &FileError{Problem: p, Cluster: t.Cluster.Name})
	}
	return out
}

// missing describes what a source's folder lacks; "" if it is complete.
func (tc targetChecks) missing(s Source) string {
	p := s.path()
	if p == "" {
		return ""
	}
	info, err := tc.fleet.tree.Tree.Stat(p) // the renderer does not follow links to sources
	switch {
	case err != nil && !tc.fleet.has(p):
		return fmt.Sprintf("the folder %s does not exist", p)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s is behind a symbolic link, which is not followed: name %s", p, tc.fleet.tree.real(p))
	case err != nil:
		return fmt.Sprintf("%s: %v", p, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Sprintf("%s is a symbolic link, which is not followed", p)
	case s.Helm != nil && !tc.fleet.has(path.Join(p, "Chart.yaml")):
		return fmt.Sprintf("there is no chart in %s: Chart.yaml is missing", p)
	case s.Kustomize != nil && !tc.fleet.isComponent(p):
		return fmt.Sprintf("there is no kustomization.yaml in %s", p)
	}
	return ""
}

// sourceProblem returns an error at the position of a source in the app's file.
func sourceProblem(t Target, written Source, message string) Problem {
	p := Problem{File: t.App.File, Severity: SeverityError, Message: message}
	if n := written.findIn(t.App.doc.root); n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	return p
}

// ChartUse is a chart of a repository or registry, with the position in the app's file that names it.
type ChartUse struct {
	Repo, Chart, Version string
	File                 string
	Line, Column         int
	Targets              []Target
}

// Charts lists the charts of repositories and registries, each with the targets that use it. It leaves out targets
// that cannot be resolved; Check reports them.
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
					if n := findScalar(t.App.doc.root, t.App.SourcesIn(t.Cluster.Environment)[i].Helm.Chart); n != nil {
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
