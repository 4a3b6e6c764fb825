package fleet

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Check checks what Load does not, without rendering: the values files and components of every target, the references
// in them and in the apps, whether charts, Kustomize roots and folders of manifests exist, and files that match the
// paths of a layer but have no effect. It reports a problem of several clusters once.
func (f *Fleet) Check(ctx context.Context) Problems {
	targets := f.Targets()
	found := make([][]error, len(targets))
	if err := inParallel(ctx, len(targets), func(i int) { found[i] = targetChecks{f}.all(targets[i]) }); err != nil {
		return Problems{{
			File: fleetFile, Severity: SeverityError, Message: "checking was cancelled: " + err.Error(),
			Hint: "run it again",
		}}
	}
	out := append(gather(targets, found), f.unusedFiles(ctx)...)
	for _, t := range f.unread {
		if t.Cluster == "" {
			out = append(out, t.unplaced())
		}
	}
	return out.sorted()
}

// targetChecks checks one target at a time. Safe for concurrent use.
type targetChecks struct{ fleet *Fleet }

func (tc targetChecks) all(t Target) []error {
	var out []error
	selected, err := tc.fleet.Select(t)
	if err != nil {
		out = append(out, err)
	} else {
		out = append(out, tc.sources(t, selected.Resolved)...)
	}
	if slices.ContainsFunc(selected.Sources, func(s Source) bool { return s.Helm != nil }) {
		for _, file := range selected.Values {
			if _, err := tc.fleet.layerContent(t, file); err != nil {
				out = append(out, err)
			}
		}
	}
	for _, c := range selected.Components {
		if err := tc.component(t, c.Path); err != nil {
			out = append(out, err)
		}
	}
	return out
}

// component replaces the references of a component's files, if there are any.
func (tc targetChecks) component(t Target, dir string) error {
	id, err := tc.fleet.contentID(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if refs, err := tc.fleet.references(id, dir); err != nil || len(refs) == 0 {
		return err
	}
	entries, err := tc.fleet.tree.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() && tc.fleet.has(path.Join(name, "Chart.yaml")) {
			continue // no reference is replaced in a chart of helmCharts
		}
		if e.IsDir() {
			if err := tc.component(t, name); err != nil {
				return err
			}
			continue
		}
		if !e.Type().IsRegular() {
			continue
		}
		data, err := tc.fleet.tree.ReadFile(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := t.ComponentFile(name, data); err != nil {
			return err
		}
	}
	return nil
}

// gather merges problems that differ only in the cluster.
func gather(targets []Target, found [][]error) Problems {
	type group struct {
		problem  Problem
		clusters []string
	}
	groups := map[string]*group{}
	var order []string
	for i, errs := range found {
		name := targets[i].Cluster.Name
		for _, err := range errs {
			p := asProblem(err, targets[i].App.File)
			p.File, p.Message = targets[i].Locate(p.File), targets[i].Locate(p.Message)
			key := fmt.Sprintf("%s\x00%d\x00%d\x00%s", p.File, p.Line, p.Column,
				strings.ReplaceAll(firstClause(p.Message), "cluster "+name, "cluster"))
			g, ok := groups[key]
			if !ok {
				g = &group{problem: p}
				groups[key] = g
				order = append(order, key)
			}
			if n := len(g.clusters); n == 0 || g.clusters[n-1] != name {
				g.clusters = append(g.clusters, name)
			}
		}
	}
	var out Problems
	for _, key := range order {
		g := groups[key]
		if len(g.clusters) > 1 {
			g.problem.Message += "; the same for " + someOf("cluster", g.clusters[1:])
		}
		out = append(out, g.problem)
	}
	return out.sorted()
}

// firstClause cuts the list of what a cluster has.
func firstClause(message string) string {
	first, _, _ := strings.Cut(message, ", which has")
	return first
}

// asProblem returns an error a place: its own, or the file of the app.
func asProblem(err error, file string) Problem {
	if e, ok := errors.AsType[*FileError](err); ok {
		return e.Problem
	}
	return Problem{File: file, Severity: SeverityError, Message: err.Error()}
}
