package compare

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// mostReads bounds the work to find causes: changed places times clusters times apps. Beyond it no group has a cause.
const mostReads = 100_000

// changedPlace is a changed file, or all changed files of one pinned repository.
type changedPlace struct {
	cause   diff.Cause
	targets map[[2]string]bool // that read it, as cluster and app
	any     bool               // every target may depend on it
}

// causes sets the cause of each group whose targets read only one changed place.
func (c *run) causes(ctx context.Context) error {
	changes := c.out.Changes
	if c.views[0] == nil || len(changes.Groups) == 0 {
		return nil
	}
	places, err := c.changedPlaces(ctx)
	if err != nil {
		return err
	}
	for i := range changes.Groups {
		g := &changes.Groups[i]
		var found []*changedPlace
		for j := range places {
			p := &places[j]
			if p.any || slices.ContainsFunc(g.Clusters, func(name string) bool { return p.targets[[2]string{name, g.App}] }) {
				found = append(found, p)
			}
		}
		if len(found) == 1 {
			cause := found[0].cause
			g.Cause = &cause
		}
	}
	return nil
}

// changedPlaces returns what the change changes, with the targets that read it; nothing if that is too much work.
func (c *run) changedPlaces(ctx context.Context) ([]changedPlace, error) {
	base, head := c.views[0], c.views[1]
	paths, err := c.h.ChangedPaths(ctx, base, head)
	if err != nil {
		return nil, nil //nolint:nilerr // a folder of another repository cannot be listed; the review says so
	}
	apps := map[string]bool{}
	for i := range c.out.Changes.Apps {
		apps[c.out.Changes.Apps[i].Name] = true
	}
	if len(paths)*max(len(base.Fleet.Clusters), len(head.Fleet.Clusters))*len(apps) > mostReads {
		return nil, nil
	}
	pins := slices.ContainsFunc(paths, func(p string) bool { return fleet.RepositoryOf(p) != "" })
	trees := [2]*gitstore.Snapshot{base.Files(ctx), head.Files(ctx)}
	same := &changedFiles{run: c, trees: trees}
	var out []changedPlace
	at := map[string]int{} // by repository
	for _, p := range paths {
		name := fleet.RepositoryOf(p)
		if pins && p == "sluice.lock" || name == "" && same.sameMeaning(p) {
			continue // what the pins bring is listed itself; comments and format
		}
		targets, any := c.h.Readers(base, head, p, apps)
		if i, ok := at[name]; ok && name != "" {
			for t := range targets {
				out[i].targets[t] = true
			}
			continue
		}
		one := changedPlace{targets: targets, any: any, cause: diff.Cause{File: p, Repository: name}}
		if name == "" {
			one.cause.Line = changedLine(trees, p)
		} else {
			one.cause.File, at[name] = "sluice.lock", len(out)
		}
		out = append(out, one)
	}
	return out, ctx.Err()
}

// changedLine returns the line of the head at which the only changed part of a file begins; 0 if there are several
// parts, or one side does not have the file.
func changedLine(trees [2]*gitstore.Snapshot, name string) int {
	var sides [2][]string
	for i, tree := range trees {
		data, err := tree.ReadFile(name)
		if err != nil || len(data) > maxCompared {
			return 0
		}
		sides[i] = strings.Split(string(data), "\n")
	}
	begin := 0
	for begin < min(len(sides[0]), len(sides[1])) && sides[0][begin] == sides[1][begin] {
		begin++
	}
	end := 0
	for end < min(len(sides[0]), len(sides[1]))-begin && sides[0][len(sides[0])-1-end] == sides[1][len(sides[1])-1-end] {
		end++
	}
	kept := map[string]bool{}
	for _, l := range sides[0][begin : len(sides[0])-end] {
		kept[strings.TrimSpace(l)] = true
	}
	delete(kept, "")
	for _, l := range sides[1][begin : len(sides[1])-end] {
		if kept[strings.TrimSpace(l)] {
			return 0 // unchanged lines between two parts
		}
	}
	return begin + 1
}
