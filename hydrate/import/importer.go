package imports

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/import/flux"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Importer implements fleet.Importer for all tools. It is safe for concurrent use.
type Importer struct {
	builder flux.Builder
}

// New returns an importer that builds Kustomize roots in this process.
func New() *Importer {
	return &Importer{builder: newCached(kustomize.NewBuilder(manifest.DefaultBudget()).AnyFile())}
}

// Import implements fleet.Importer.
func (i *Importer) Import(ctx context.Context, tree fleet.Tree, entry fleet.Import) ([]fleet.Imported, fleet.Problems) {
	if entry.Flux == nil {
		return nil, nil
	}
	importer, err := flux.New(tree, i.builder)
	if err != nil {
		return nil, fleet.Problems{{File: "sluice.yaml", Severity: fleet.SeverityError, Message: "spec.import: " + err.Error()}}
	}
	var out []fleet.Imported
	var problems fleet.Problems
	for _, name := range slices.Sorted(maps.Keys(entry.Flux.Clusters)) {
		c := entry.Flux.Clusters[name]
		units, err := importer.Import(ctx, c.Path)
		if err != nil {
			problems = append(problems, fleet.Problem{
				File: "sluice.yaml", Severity: fleet.SeverityError, Message: fmt.Sprintf("spec.import: flux: cluster %s: %s: %v", name, c.Path, err),
				Hint: "path is the directory that the cluster's first Kustomization applies",
			})
			continue
		}
		for j := range units {
			t := fluxTarget(name, &units[j])
			out = append(out, t)
			problems = append(problems, warnings(&t)...)
		}
	}
	return out, problems
}

// warnings are what the owner of the fleet should know of a target.
func warnings(t *fleet.Imported) fleet.Problems {
	var out fleet.Problems
	for _, n := range t.Notes {
		out = append(out, fleet.Problem{File: t.File, Line: t.Line, Severity: fleet.SeverityWarning, Message: fmt.Sprintf("%s on %s: %s", t.App, t.Cluster, n)})
	}
	if t.Suspended {
		out = append(out, fleet.Problem{File: t.File, Line: t.Line, Severity: fleet.SeverityWarning, Message: fmt.Sprintf("%s on %s is suspended: it is not rendered", t.App, t.Cluster)})
	}
	return out
}

// fluxTarget converts a unit. Its app has the Kustomization's name, or `namespace.name` of a HelmRelease; Kustomizations outside
// of flux-system get their namespace too.
func fluxTarget(cluster string, u *flux.Unit) fleet.Imported {
	out := fleet.Imported{
		Cluster: cluster, App: fluxApp(u.Key), File: u.Origin.File, Line: u.Origin.Line, Kind: u.Key.Kind, Namespace: u.Namespace,
		Reads: u.Reads, Keeps: !u.Prune && !u.Suspended && u.Err == nil, Suspended: u.Suspended, Notes: u.Notes, Err: u.Err,
	}
	for _, k := range u.DependsOn {
		out.DependsOn = append(out.DependsOn, fluxApp(k))
	}
	if r := u.Release; r != nil {
		out.Helm = &fleet.HelmSource{Chart: r.Chart, Path: r.Path, Repo: r.Repo, Version: r.Version, ReleaseName: r.Name, IncludeCRDs: r.IncludeCRDs}
		if r.DropHooks {
			out.Helm.Hooks = "drop"
		}
		if r.SkipSchema {
			out.Helm.Schema = "skip"
		}
		out.Values, out.Component = r.Values, r.Component
		return out
	}
	out.Objects, out.Err = stream(u.Objects, out.Err)
	return out
}

func fluxApp(k flux.Key) string {
	switch {
	case k.Kind == "HelmRelease":
		return k.Namespace + "." + k.Name
	case k.Namespace == "flux-system":
		return k.Name
	default:
		return k.Namespace + "." + k.Name + ".ks"
	}
}

func stream(objects []manifest.Object, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, o := range objects {
		text, err := manifest.Encode(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Identity(), err)
		}
		out = append(append(out, "---\n"...), text...)
	}
	return out, nil
}
