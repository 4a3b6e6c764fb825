// Package check looks for mistakes in a fleet that loads: what has no effect, and what rendering would refuse.
//
// It reads the commit that the fleet was loaded from, and nothing else, and renders nothing.
//
// The package is not API: it can change in every release.
package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/parallel"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// Targets checks what Load does not, without rendering: the values files and components of every target, the references
// in them and in the apps, whether charts, Kustomize roots and folders of manifests exist, and files that match the
// paths of a layer but have no effect. It reports a problem of several clusters once.
func Targets(ctx context.Context, f *fleet.Fleet) fleet.Problems {
	targets := f.Targets()
	found := make([][]error, len(targets))
	if err := parallel.Each(ctx, len(targets), func(_ context.Context, i int) error {
		found[i] = targetChecks{f}.all(targets[i])
		return nil
	}); err != nil {
		return fleet.Problems{{
			File: fleet.File, Severity: fleet.SeverityError, Message: "checking was cancelled: " + err.Error(),
			Hint: "run it again",
		}}
	}
	out := slices.Concat(gather(targets, found), unusedFiles(ctx, f), f.PlacementProblems())
	return out.Sorted()
}

// targetChecks checks one target at a time. Safe for concurrent use.
type targetChecks struct{ fleet *fleet.Fleet }

func (tc targetChecks) all(t fleet.Target) []error {
	var out []error
	selected, err := tc.fleet.Select(t)
	if err != nil {
		out = append(out, err)
	} else {
		out = append(out, tc.sources(t, selected.Resolved)...)
	}
	if slices.ContainsFunc(selected.Sources, func(s fleet.Source) bool { return s.Helm != nil }) {
		for _, file := range selected.Values {
			if _, err := tc.fleet.LayerContent(t, file); err != nil {
				out = append(out, err)
			}
		}
	}
	for _, c := range selected.Components {
		if err := tc.fleet.CheckComponent(t, c.Path); err != nil {
			out = append(out, err)
		}
	}
	return out
}

// sources checks that the folders of a target's sources exist and hold a chart, a Kustomize root or manifests.
func (tc targetChecks) sources(t fleet.Target, resolved fleet.Resolved) []error {
	var out []error
	for i, s := range resolved.Sources {
		what := tc.missing(s)
		if what == "" {
			continue
		}
		err := t.SourceError(i, fmt.Errorf("source for cluster %s: %s", t.Cluster.Name, what))
		if e, ok := errors.AsType[*fleet.FileError](err); ok {
			e.Hint = "write the path from the repository's root; without one, it is the folder of " + path.Base(t.App.File)
		}
		out = append(out, err)
	}
	return out
}

// missing describes what a source's folder lacks; "" if it is complete.
func (tc targetChecks) missing(s fleet.Source) string {
	p := s.Path()
	if p == "" {
		return ""
	}
	info, err := tc.fleet.Lstat(p) // the renderer does not follow links to sources
	switch {
	case err != nil && !tc.fleet.Has(p):
		return fmt.Sprintf("the folder %s does not exist", p)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s is behind a symbolic link, which is not followed: name %s", p, tc.fleet.RealPath(p))
	case err != nil:
		return fmt.Sprintf("%s: %v", p, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Sprintf("%s is a symbolic link, which is not followed", p)
	case s.Helm != nil && !tc.fleet.Has(path.Join(p, "Chart.yaml")):
		return fmt.Sprintf("there is no chart in %s: Chart.yaml is missing", p)
	case s.Kustomize != nil && !tc.fleet.IsComponent(p):
		return fmt.Sprintf("there is no kustomization.yaml in %s", p)
	}
	return ""
}

// gather merges problems that differ only in the cluster.
func gather(targets []fleet.Target, found [][]error) fleet.Problems {
	type group struct {
		problem  fleet.Problem
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
	var out fleet.Problems
	for _, key := range order {
		g := groups[key]
		if len(g.clusters) > 1 {
			g.problem.Message += "; the same for " + safetext.Some("cluster", g.clusters[1:])
		}
		out = append(out, g.problem)
	}
	return out.Sorted()
}

// firstClause cuts the list of what a cluster has.
func firstClause(message string) string {
	first, _, _ := strings.Cut(message, ", which has")
	return first
}

// asProblem returns an error a place: its own, or the file of the app.
func asProblem(err error, file string) fleet.Problem {
	if e, ok := errors.AsType[*fleet.FileError](err); ok {
		return e.Problem
	}
	return fleet.Problem{File: file, Severity: fleet.SeverityError, Message: err.Error()}
}
