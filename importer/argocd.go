package importer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer/argocd"
	"github.com/sluice-gitops/sluice/importer/internal/pinned"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// argocd reads an entry of Argo CD.
func (i *Importer) argocd(ctx context.Context, tree fleet.Tree, request fleet.ImportRequest) ([]fleet.Imported,
	fleet.Problems,
) {
	entry := request.Entry.ArgoCD
	// as Argo CD names them; to the fleet's names
	clusters, names := slices.Clone(request.Clusters), map[string]string{}
	for n := range clusters {
		c := &clusters[n]
		c.Name = cmp.Or(entry.Clusters[c.Name].Name, c.Name)
		if other, twice := names[c.Name]; twice {
			return nil, fleet.Problems{{
				File: "sluice.yaml", Severity: fleet.SeverityError,
				Message: fmt.Sprintf("spec.import: argocd: the clusters %s and %s have the same name %q in Argo CD",
					other, request.Clusters[n].Name, c.Name),
			}}
		}
		names[c.Name] = request.Clusters[n].Name
	}
	o := i.argocdOptions(tree, clusters)
	var err error
	if o.EnableHelm, err = entry.Kustomize.EnableHelm(); err != nil {
		return nil, fleet.Problems{{
			File: "sluice.yaml", Severity: fleet.SeverityError,
			Message: "spec.import: argocd: kustomize.buildOptions: " + err.Error(),
		}}
	}
	o.TemplatesValues = entry.TemplatesValues()
	o.Apps, o.Repositories, o.Trunk = entry.Apps, entry.Repositories, request.Trunk
	for _, c := range request.Clusters {
		own := entry.Clusters[c.Name]
		o.Clusters = append(o.Clusters, argocd.Cluster{
			Name: cmp.Or(own.Name, c.Name), Server: own.Server,
			Labels: entry.LabelsOf(c.Name, c.Labels), Annotations: own.Annotations,
		})
	}
	for _, p := range request.Pinned {
		o.Pinned = append(o.Pinned, pinned.Commit{URL: p.URL, Commit: p.Commit, Dir: p.Dir, Missing: p.Missing})
	}
	o.Ignore = Ignored(request.Entry.Ignore)
	o.Starting = func(name string) error { return i.starting("argocd: " + name) }
	units, found, err := argocd.Import(ctx, o)
	if err != nil {
		return nil, fleet.Problems{{
			File: "sluice.yaml", Severity: fleet.SeverityError,
			Message: "spec.import: argocd: " + err.Error(),
		}}
	}
	for n := range units {
		inFleet(&units[n], names)
	}
	var out []fleet.Imported
	var problems fleet.Problems
	placed := map[[2]string]bool{} // cluster and app: sets of one name fail together
	type place struct {
		app, file string
		line      int
	}
	written := map[place]bool{} // a set in a file, which an Application brings, too
	for _, p := range found {
		at := place{p.App, p.Origin.File, p.Origin.Line}
		if p.Object != nil && written[at] {
			continue
		}
		written[at] = true
		p.Cluster = names[p.Cluster] // any of them, if only a Secret describes the cluster
		for _, t := range unread(&p, request.Clusters) {
			if at := [2]string{t.Cluster, t.App}; t.Cluster == "" || !placed[at] {
				placed[at] = true
				out = append(out, t)
			}
		}
		problems = append(problems, fleet.Problem{
			File: p.Origin.File, Line: p.Origin.Line, Severity: fleet.SeverityWarning,
			Message: p.Message + ": its Applications are not rendered",
			Hint:    "repair it, or leave the file out with spec.import ignore",
		})
	}
	byName := clustersOf(units)
	for n := range units {
		t := argocdTarget(&units[n])
		if t.ParentCluster = byName[t.Parent]; t.ParentCluster == t.Cluster {
			t.ParentCluster = ""
		}
		out = append(out, t)
		if t.Cluster == "" { // it has no place in the fleet
			problems = append(problems, fleet.Problem{
				File: t.File, Line: t.Line, Severity: fleet.SeverityWarning,
				Message: fmt.Sprintf("the Application %s is not rendered: %v", t.App, t.Err),
			})
			continue
		}
		problems = append(problems, warnings(&t)...)
		if t.Brings != fleet.BringsNone {
			problems = append(problems, lostChildren(&t))
		}
	}
	return out, problems
}

// inFleet gives a unit its cluster in the fleet. A cluster that only a Secret describes is not in the fleet.
func inFleet(u *argocd.Unit, names map[string]string) {
	if name, ok := names[u.Cluster]; ok || u.Cluster == "" {
		u.Cluster = name
		return
	}
	if u.Err == nil {
		u.Err = argocd.UnknownCluster(u.Cluster)
	}
	u.Cluster, u.Sources = "", nil
}

// unread stands for what a file or an ApplicationSet describes that cannot be read: a target that fails on each cluster
// that may lack something, which is each one that a destination may name. It has no cluster if the fleet has none, or
// if a server or another repository describes the Applications: then the commit lacks none.
func unread(p *argocd.Problem, clusters []fleet.ImportCluster) []fleet.Imported {
	one := fleet.Imported{
		App: p.App, File: p.Origin.File, Line: p.Origin.Line, Kind: p.Kind, Err: errors.New(p.Message),
		Brings: fleet.BringsAny, Foreign: p.Foreign, Reads: p.Reads,
	}
	one.Lacks = lacking(p.Err)
	if p.Object != nil {
		one.Object, one.Declared = declaredText(p.Object)
	} else {
		one.Reads = append(one.Reads, p.Origin.File)
	}
	if one.Kind == "" {
		one.Kind = fleet.KindFile
	}
	if p.Foreign || len(clusters) == 0 {
		return []fleet.Imported{one}
	}
	if p.Cluster != "" {
		one.Cluster = p.Cluster
		return []fleet.Imported{one}
	}
	out := make([]fleet.Imported, len(clusters))
	for n := range clusters {
		out[n] = one
		out[n].Cluster = clusters[n].Name
	}
	return out
}

// declaredText returns an object as YAML, and a digest of it.
func declaredText(o manifest.Object) (text, digest string) {
	data, err := manifest.Encode(o)
	if err != nil {
		data = []byte(err.Error()) // not possible: the object was decoded from YAML
	}
	sum := sha256.Sum256(data)
	return string(data), hex.EncodeToString(sum[:])
}

// clustersOf maps Applications to their clusters.
func clustersOf(units []argocd.Unit) map[string]string {
	out := map[string]string{}
	for n := range units {
		if _, known := out[units[n].Name]; !known {
			out[units[n].Name] = units[n].Cluster
		}
	}
	return out
}

// argocdOptions are those that do not depend on the entry. The clusters say which versions charts see that bring
// Applications.
func (i *Importer) argocdOptions(tree fleet.Tree, clusters []fleet.ImportCluster) argocd.Options {
	engine := renderer.NewEngine(renderer.DefaultLimits())
	plain := kustomize.NewBuilder(manifest.DefaultBudget())
	known := map[string]fleet.ImportCluster{}
	for _, c := range clusters {
		known[c.Name] = c
	}
	return argocd.Options{
		Tree: tree, Build: plain.Build,
		BuildWithoutCharts: func(ctx context.Context, files []kustomize.File, root string) ([]manifest.Object, error) {
			return plain.BuildCharts(ctx, files, root, func(context.Context, *kustomize.Release) ([]manifest.Object,
				error,
			) {
				return nil, nil
			})
		},
		Render: func(ctx context.Context, c *argocd.Chart, u *argocd.Unit) ([]manifest.Object, error) {
			on := known[u.Cluster]
			return renderChart(ctx, engine, tree, c, renderer.Bundle{
				Namespace:   cmp.Or(u.Namespace, "default"),
				KubeVersion: on.KubeVersion, APIVersions: on.APIVersions, Helm: on.Helm,
			})
		},
	}
}

func argocdTarget(u *argocd.Unit) fleet.Imported {
	out := fleet.Imported{
		Cluster: u.Cluster, App: u.Name, File: u.Origin.File, Line: u.Origin.Line, Kind: "Application",
		Namespace: u.Namespace,
		Keeps:     !u.Prune && u.Err == nil, KeepsDeleted: u.Orphan && u.Err == nil, Notes: u.Notes, Err: u.Err,
		Parent: u.Parent, Set: u.Set, Reads: u.Reads, Lacks: lacking(u.Err),
	}
	text, sum := declaredText(u.Object)
	if out.Declared = sum; u.Err != nil {
		out.Object = text
	}
	if u.Brings {
		out.Brings = fleet.BringsAny
	}
	for _, s := range u.Sources {
		if c := s.Chart; c != nil {
			helm := &fleet.HelmSource{
				Chart: c.Chart, Path: c.Path, Repo: c.Repo, Version: c.Version,
				ReleaseName: c.Release, Namespace: c.Namespace, IncludeCRDs: !c.SkipCRDs,
			}
			if c.SkipSchema {
				helm.Schema = "skip"
			}
			out.Sources = append(out.Sources, fleet.ImportedSource{
				Helm: helm, Values: c.Values,
				ValuesFiles: c.ValuesFiles, KubeVersion: c.KubeVersion, APIVersions: c.APIVersions,
			})
			continue
		}
		if r := s.Root; r != nil {
			out.Sources = append(out.Sources, fleet.ImportedSource{Kustomize: &fleet.ImportedRoot{
				Path:   r.Path,
				Edited: r.Edited,
			}, KubeVersion: r.KubeVersion, APIVersions: r.APIVersions})
			continue
		}
		objects, err := stream(s.Objects, nil)
		if out.Err == nil {
			out.Err = err
		}
		out.Sources = append(out.Sources, fleet.ImportedSource{Objects: objects})
	}
	component, err := without(u.Followed)
	if out.Err == nil {
		out.Component, out.Err = component, err
	}
	return out
}

// without returns the kustomization of a component that removes objects; nil for none.
func without(objects []manifest.Object) ([]byte, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	var patches []map[string]string
	for _, o := range objects {
		metadata := map[string]any{"name": o.Name()}
		if o.Namespace() != "" {
			metadata["namespace"] = o.Namespace()
		}
		patch, err := yaml.Marshal(map[string]any{
			"$patch": "delete", "apiVersion": o.APIVersion(), "kind": o.Kind(),
			"metadata": metadata,
		})
		if err != nil {
			return nil, err
		}
		patches = append(patches, map[string]string{"patch": string(patch)})
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component",
		"patches": patches,
	})
}

// renderChart renders a chart of the repository that may bring Applications.
func renderChart(ctx context.Context, engine *renderer.Engine, tree fleet.Tree, c *argocd.Chart,
	b renderer.Bundle,
) ([]manifest.Object, error) {
	files, err := chartFiles(tree, c.Path, "")
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, f := range files {
		fmt.Fprintf(sum, "%s %d\n", f.Path, len(f.Data))
		sum.Write(f.Data)
	}
	values, err := json.Marshal(c.Values)
	if err != nil {
		return nil, err
	}
	b.Sources = []renderer.Source{{Helm: &renderer.HelmSource{
		Release: c.Release, Namespace: c.Namespace, KubeVersion: c.KubeVersion, APIVersions: c.APIVersions,
		Values: values, IncludeCRDs: !c.SkipCRDs, SkipSchema: c.SkipSchema,
		Chart: renderer.Content{Name: c.Path, Digest: hex.EncodeToString(sum.Sum(nil)), Files: files},
	}}}
	rendering, err := engine.Render(ctx, &b)
	if err != nil {
		return nil, err
	}
	var out []manifest.Object
	for _, o := range rendering.Objects {
		objects, err := manifest.Decode(o.YAML, manifest.DefaultBudget())
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
	return out, nil
}

func chartFiles(tree fleet.Tree, dir, prefix string) ([]renderer.File, error) {
	entries, err := tree.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []renderer.File
	for _, e := range entries {
		name, inner := path.Join(dir, e.Name()), path.Join(prefix, e.Name())
		switch {
		case e.IsDir():
			more, err := chartFiles(tree, name, inner)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		case e.Type() == fs.FileMode(0):
			data, err := tree.ReadFile(name)
			if err != nil {
				return nil, err
			}
			out = append(out, renderer.File{Path: inner, Data: data})
		}
	}
	return out, nil
}

// detectArgoCD finds the clusters of a repository of Applications, and the settings and the version of Argo CD; nothing
// if there are no Applications. The note is what ApplicationSets say of clusters that are registered in Argo CD only.
func (i *Importer) detectArgoCD(ctx context.Context, tree fleet.Tree, into *detected) error {
	o := i.argocdOptions(tree, nil)
	found, err := argocd.Servers(ctx, o)
	if err != nil {
		return err
	}
	registered, err := argocd.FindRegistered(ctx, o)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		if len(registered.Labels)+len(registered.Names)+len(registered.Charts) == 0 {
			return nil
		}
		found = []argocd.Cluster{argocd.Local()} // Argo CD always has it
	}
	settings, err := argocd.FindSettings(o)
	if err != nil {
		return err
	}
	out := map[string]fleet.ArgoCDCluster{}
	for _, valid := range []bool{true, false} { // a name that needs no change stays
		for _, c := range found {
			if fleet.ValidName(c.Name) != valid {
				continue
			}
			one := fleet.ArgoCDCluster{
				Server: c.Server, Environment: c.Name, Labels: c.Labels,
				Annotations: c.Annotations,
			}
			if !valid {
				one.Name, one.Environment = c.Name, freeName(out, c.Name)
			}
			out[one.Environment] = one
		}
	}
	into.argocd, into.note = &fleet.ArgoCDImport{Clusters: out}, registeredNote(registered, out)
	if settings.EnableHelm {
		into.argocd.Kustomize.BuildOptions = "--enable-helm"
	}
	var seen []evidence
	for _, one := range settings.Installed {
		at := fmt.Sprintf("%s:%d", one.Origin.File, one.Origin.Line)
		seen = append(seen, evidence{version: one.Version, of: one.Chart, at: at})
	}
	into.argocdVersion = versionFrom(seen, newestArgoCD)
	return nil
}

// registeredNote is a comment for sluice.yaml; "" for none.
func registeredNote(r argocd.Registered, clusters map[string]fleet.ArgoCDCluster) string {
	var out strings.Builder
	for _, chart := range r.Charts {
		fmt.Fprintf(&out, "# The chart %s has templates of Applications, and no Application of this repository names it. Commit the\n"+
			"# Application that installs it, one for each set of values, and Sluice follows it:\n"+
			"#   kubectl -n argocd get applications -o yaml\n", safetext.Line(chart))
	}
	if len(r.Labels)+len(r.Names) == 0 {
		return out.String()
	}
	out.WriteString(`# ApplicationSets of this repository select clusters by what Argo CD knows of them. Without these clusters, the
# Applications for them are not rendered. List what is registered, and add each cluster below spec.import argocd
# clusters, and its environment to spec.environments:
#   kubectl -n argocd get secrets -l argocd.argoproj.io/secret-type=cluster --show-labels
`)
	if len(r.Names) > 0 {
		out.WriteString("# Clusters that generators name:\n")
		taken := maps.Clone(clusters)
		for _, name := range r.Names {
			server, named, short := "https://…", "", name
			if _, rest, is := strings.Cut(name, "://"); is {
				server, short = name, rest
			}
			as := freeName(taken, short)
			taken[as] = fleet.ArgoCDCluster{}
			if as != name && short == name {
				named = fmt.Sprintf("name: %q, ", name)
			}
			fmt.Fprintf(&out, "#   %s: {%sserver: %q, environment: %s, labels: {}}\n", as, named, server, as)
		}
	}
	if len(r.Labels) > 0 {
		out.WriteString("# Labels that selectors ask for:\n")
		for _, label := range r.Labels {
			fmt.Fprintf(&out, "#   %s\n", safetext.Line(label))
		}
	}
	return out.String()
}
