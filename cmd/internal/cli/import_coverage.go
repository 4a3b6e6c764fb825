package cli

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer"
	"github.com/sluice-gitops/sluice/importer/flux"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// coverage says which of the Flux objects of a commit are imported.
type coverage struct {
	objects, reached, clusters int
	unreached                  []flux.Declared
}

// fluxCoverage compares what the files of a commit declare with what the entries of a fleet import; nil for a fleet
// without an entry of Flux.
func fluxCoverage(tree fleet.Tree, f *fleet.Fleet) (*coverage, error) {
	var out *coverage
	var patterns []string
	for _, entry := range f.Spec.Import {
		if entry.Flux != nil {
			if out == nil {
				out = &coverage{}
			}
			out.clusters += len(entry.Flux.Clusters)
			patterns = append(patterns, entry.Ignore...)
		}
	}
	if out == nil {
		return nil, nil
	}
	reader, err := flux.New(tree, nil)
	if err != nil {
		return nil, err
	}
	reader.Ignore = importer.Ignored(patterns)
	declared, err := reader.Written()
	if err != nil {
		return nil, err
	}
	imported := map[flux.Origin]bool{}
	for _, t := range slices.Concat(f.Imports(), f.Excluded()) {
		imported[flux.Origin{File: t.File, Line: t.Line}] = true
	}
	for _, d := range declared {
		if out.objects++; imported[d.Origin] {
			out.reached++
		} else {
			out.unreached = append(out.unreached, d)
		}
	}
	return out, nil
}

const shownUnreached = 50 // objects that are listed; the others are counted

// print writes the share of the objects that are imported, and the others with their places.
func (c *coverage) print(o IO) error {
	for _, line := range c.lines() {
		fmt.Fprintln(o.Err, line)
	}
	_, err := fmt.Fprintln(o.Out, c.share())
	return err
}

// share is the share of the objects that is imported.
func (c *coverage) share() string {
	return fmt.Sprintf("%s of %s on %s", thousands(c.reached), objectsOfFlux(c.objects), count(c.clusters, "cluster"))
}

// lines lists the objects that no cluster reaches.
func (c *coverage) lines() []string {
	var out []string
	for n, d := range c.unreached {
		if n == shownUnreached {
			return append(out, fmt.Sprintf("and %s more that no cluster reaches", thousands(len(c.unreached)-n)))
		}
		out = append(out, fmt.Sprintf("%s: %s %s: no cluster reaches it", d.Origin, d.Kind, safetext.Lines(d.Name)))
	}
	return out
}

func objectsOfFlux(n int) string {
	if n == 1 {
		return "1 Flux object"
	}
	return thousands(n) + " Flux objects"
}

// thousands writes a number with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
