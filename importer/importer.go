package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/sourceignore"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer/flux"
	"github.com/sluice-gitops/sluice/importer/internal/pinned"
	"github.com/sluice-gitops/sluice/importer/internal/wire"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Archives returns packed charts by their entry in sluice.lock. *fetch.Fetcher implements it.
type Archives interface {
	Archive(ctx context.Context, r fetch.Ref, l fetch.Locked) ([]byte, error)
}

// Importer implements fleet.Importer for all tools in the process that calls it. Content of a merge request must only
// be read by an Importer that is in a worker process; see Isolated. It is safe for concurrent use.
type Importer struct {
	builder  flux.Builder
	memory   flux.Memory // nil: none
	archives Archives
	exclude  map[string]string       // units that are not built → why
	begin    func(unit string) error // is called before each unit is built; nil calls nothing
}

// New returns an importer that reads and builds in this process.
func New(archives Archives) *Importer {
	return &Importer{builder: newBuilder(), archives: archives}
}

func newBuilder() flux.Builder {
	return newCached(kustomize.NewBuilder(manifest.DefaultBudget()).AnyFile())
}

// starting returns an error for a unit that must not be built. Otherwise it tells the parent process that the unit is
// built next.
func (i *Importer) starting(unit string) error {
	if why, ok := i.exclude[unit]; ok {
		return errors.New(why)
	}
	if i.begin == nil {
		return nil
	}
	return i.begin(unit)
}

// Import implements fleet.Importer.
func (i *Importer) Import(ctx context.Context, tree fleet.Tree, request fleet.ImportRequest) ([]fleet.Imported,
	fleet.Problems, error,
) {
	var out []fleet.Imported
	var problems fleet.Problems
	if request.Entry.Flux != nil {
		out, problems = i.flux(ctx, tree, request)
	}
	if request.Entry.ArgoCD != nil {
		out, problems = i.argocd(ctx, tree, request)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	for n := range out {
		for k := range out[n].Sources {
			s := &out[n].Sources[k]
			if s.Helm != nil && request.Entry.Schema == "skip" {
				s.Helm.Schema = "skip"
			}
			// so that an input digest does not depend on the process that computes it
			plain, err := wire.Plain(s.Values)
			if err != nil && out[n].Err == nil {
				out[n].Err = fmt.Errorf("the values: %w", err)
			}
			s.Values = plain
			if s.Packing == nil {
				continue
			}
			if s.Packing.Defaults, err = wire.Plain(s.Packing.Defaults); err != nil && out[n].Err == nil {
				out[n].Err = fmt.Errorf("the values files: %w", err)
			}
		}
	}
	return out, problems, nil
}

// Ignored matches files with the patterns of spec.import[].ignore, as in .gitignore.
func Ignored(patterns []string) func(name string) bool {
	if len(patterns) == 0 {
		return func(string) bool { return false }
	}
	root := []string{"repository"} // an empty domain would match anywhere
	read := sourceignore.ReadPatterns(strings.NewReader(strings.Join(patterns, "\n")), root)
	matcher := sourceignore.NewMatcher(read)
	return func(name string) bool {
		return matcher.Match(append(slices.Clone(root), strings.Split(name, "/")...), false)
	}
}

func (i *Importer) flux(ctx context.Context, tree fleet.Tree, request fleet.ImportRequest) ([]fleet.Imported,
	fleet.Problems,
) {
	entry := request.Entry.Flux
	importer, err := flux.New(tree, i.builder, otherRepositories(&request)...)
	if err != nil {
		return nil, fleet.Problems{{File: "sluice.yaml", Severity: fleet.SeverityError, Message: "spec.import: " +
			err.Error()}}
	}
	importer.Memory = i.memory
	var out []fleet.Imported
	var problems fleet.Problems
	for _, name := range slices.Sorted(maps.Keys(entry.Clusters)) {
		c := entry.Clusters[name]
		importer.Ignore = Ignored(request.Entry.Ignore)
		importer.Lenient = !entry.Strict()
		importer.Starting = func(k flux.Key) error { return i.starting(name + ": " + k.String()) }
		units, err := importer.Import(ctx, c.Path)
		if err != nil {
			problems = append(problems, fleet.Problem{
				File: "sluice.yaml", Severity: fleet.SeverityError,
				Message: fmt.Sprintf("spec.import: flux: cluster %s: %s: %v", name, c.Path, err),
				Hint:    "path is the directory that the cluster's first Kustomization applies",
			})
			continue
		}
		problems = append(problems, unknownDependencies(name, units)...)
		for j := range units {
			t := fluxTarget(name, &units[j])
			out = append(out, t)
			problems = append(problems, warnings(&t)...)
			if units[j].Brings {
				problems = append(problems, lostChildren(&t))
			}
		}
	}
	return out, problems
}

// unknownDependencies are warnings about units that wait for one that does not exist: Flux never applies them. Nothing
// is known if a unit fails that may bring others.
func unknownDependencies(cluster string, units []flux.Unit) fleet.Problems {
	known := map[flux.Key]bool{}
	for j := range units {
		if units[j].Brings {
			return nil
		}
		known[units[j].Key] = true
	}
	var out fleet.Problems
	for j := range units {
		for _, on := range units[j].DependsOn {
			if !known[on] {
				out = append(out, fleet.Problem{
					File: units[j].Origin.File, Line: units[j].Origin.Line, Severity: fleet.SeverityWarning,
					Message: fmt.Sprintf("%s on %s: spec.dependsOn: %s does not exist, so Flux never applies it",
						fluxApp(units[j].Key), cluster, on),
					Hint: "correct the name or the namespace, or remove it",
				})
			}
		}
	}
	return out
}

func otherRepositories(request *fleet.ImportRequest) []flux.Repository {
	var out []flux.Repository
	for n, r := range slices.Concat(request.Repositories, request.Pinned) {
		out = append(out, flux.Repository{
			Name: r.Name, URL: r.URL, Dir: r.Dir, Resolved: r.Resolved, Commit: r.Commit,
			Missing: r.Missing, Declared: r.Declared, Exact: n >= len(request.Repositories),
		})
	}
	return out
}

// warnings are what the owner of the fleet should know of a target.
func warnings(t *fleet.Imported) fleet.Problems {
	var out fleet.Problems
	for _, n := range t.Notes {
		out = append(out, fleet.Problem{
			File: t.File, Line: t.Line, Severity: fleet.SeverityWarning,
			Message: fmt.Sprintf("%s on %s: %s", t.App, t.Cluster, n),
		})
	}
	if t.Suspended {
		out = append(out, fleet.Problem{
			File: t.File, Line: t.Line, Severity: fleet.SeverityWarning,
			Message: fmt.Sprintf("%s on %s is suspended: it is not rendered", t.App, t.Cluster),
		})
	}
	return out
}

// lostChildren is the problem of a target that fails although its files may describe other targets.
func lostChildren(t *fleet.Imported) fleet.Problem {
	return fleet.Problem{
		File: t.File, Line: t.Line, Severity: fleet.SeverityWarning,
		Message: fmt.Sprintf("%s on %s cannot be rendered, so the targets that it brings are not known: %v", t.App,
			t.Cluster, t.Err),
	}
}

// fluxTarget converts a unit. Its app has the Kustomization's name, or `namespace.name` of a HelmRelease;
// Kustomizations outside of flux-system get their namespace too. ResourceSets are `namespace.name.rset`.
func fluxTarget(cluster string, u *flux.Unit) fleet.Imported {
	out := fleet.Imported{
		Cluster: cluster, App: fluxApp(u.Key), File: u.Origin.File, Line: u.Origin.Line, Kind: u.Key.Kind,
		Namespace: u.Namespace,
		Force:     u.Force, Keeps: !u.Prune && !u.Suspended && u.Err == nil, KeepsDeleted: u.Orphan,
		Suspended: u.Suspended,
		Notes:     u.Notes, StandIns: u.StandIns, Err: u.Err,
		Reads: u.Own, Declared: u.Declared, Object: string(u.Object),
	}
	out.Lacks = lacking(u.Err)
	if u.Parent != (flux.Key{}) {
		out.Parent = fluxApp(u.Parent)
	}
	if u.Brings {
		out.Brings = fleet.BringsCluster
	}
	for _, k := range u.Refers {
		if name := fluxApp(k); k != (flux.Key{}) && k != u.Key && !slices.Contains(out.Refers, name) {
			out.Refers = append(out.Refers, name)
		}
	}
	for _, k := range u.DependsOn {
		out.DependsOn = append(out.DependsOn, fluxApp(k))
	}
	if r := u.Release; r != nil {
		helm := &fleet.HelmSource{
			Chart: r.Chart, Repository: r.Repository, Path: r.Path, Repo: r.Repo,
			Version: r.Version, ReleaseName: r.Name, IncludeCRDs: r.IncludeCRDs,
		}
		if r.DropHooks {
			helm.Hooks = "drop"
		}
		if r.SkipSchema {
			helm.Schema = "skip"
		}
		out.Sources, out.Component = []fleet.ImportedSource{{
			Helm: helm, Values: r.Values, ValuesFiles: r.ValuesFiles,
			Packing: packingOf(r),
		}}, r.Component
		return out
	}
	out.Sources = []fleet.ImportedSource{{}}
	if u.Err == nil {
		out.Sources[0].Objects = string(u.Stream)
	}
	return out
}

// lacking returns the commits that an error is about.
func lacking(err error) []fleet.GitCommit {
	var out []fleet.GitCommit
	for _, lack := range pinned.Lacking(err) {
		out = append(out, fleet.GitCommit{URL: lack.URL, Commit: lack.Commit})
	}
	return out
}

// packingOf returns what source-controller changes in a release's chart; nil if it is nothing.
func packingOf(r *flux.Release) *fleet.Packing {
	if r.Defaults == nil && len(r.Without) == 0 {
		return nil
	}
	return &fleet.Packing{Replaces: r.Defaults != nil, Defaults: r.Defaults, Without: r.Without}
}

func fluxApp(k flux.Key) string {
	switch {
	case k.Kind == "HelmRelease":
		return k.Namespace + "." + k.Name
	case k.Kind == "ResourceSet":
		return k.Namespace + "." + k.Name + ".rset"
	case k.Namespace == "flux-system":
		return k.Name
	default:
		return k.Namespace + "." + k.Name + ".ks"
	}
}

func stream(objects []manifest.Object, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var out []byte
	for _, o := range objects {
		text, err := manifest.Encode(o)
		if err != nil {
			return "", fmt.Errorf("%s: %w", o.Identity(), err)
		}
		out = append(append(out, "---\n"...), text...)
	}
	return string(out), nil
}
