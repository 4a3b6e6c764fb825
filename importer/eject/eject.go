// Package eject turns an imported app into files of the fleet: app.yaml, layers, and an exclusion in sluice.yaml. It
// decides what to write and writes nothing. A Plan is a proposal: the repository's own layers can change an app that
// they could not reach as an imported one. The caller therefore renders the fleet with the files and compares.
//
// New collects the targets of the app, one on each cluster, and refuses those that app.yaml cannot describe. Plans
// finds the sources (sources.go), then adds app.yaml and the changes to sluice.yaml (fleetfile.go).
//
// The package is not API: it can change in every release.
package eject

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer/internal/layered"
)

// Plan is one way to write an app.
type Plan struct {
	Files map[string][]byte // by path in the repository; sluice.yaml is among them
	Notes []string          // behaviour of the tool that the files do not keep
}

// App is an imported app on all its clusters.
type App struct {
	fleet   *fleet.Fleet
	targets []*fleet.Imported // one on each cluster, at least one
	dir     string            // of app.yaml
	read    func(name string) ([]byte, error)
	exists  func(name string) bool
}

// refusal returns an error at the line of the user's object about what app.yaml cannot say.
func refusal(t *fleet.Imported, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s on %s: %s", t.Located(), t.Line, t.App, t.Cluster, fmt.Sprintf(format, args...))
}

// New returns the imported app of a name, to be written into the directory dir. read reads a file of the repository.
// New refuses an app that app.yaml cannot describe.
func New(f *fleet.Fleet, name, dir string, read func(string) ([]byte, error)) (*App, error) {
	if hidden := fleet.Unread(f); len(hidden) > 0 {
		return nil, fmt.Errorf("%s cannot be rendered, so it is not known which clusters have %s (repair it first: `sluice import` shows why it fails)", strings.Join(hidden, ", "), name)
	}
	a := &App{fleet: f, dir: dir, read: read, exists: func(file string) bool {
		_, err := read(file)
		return err == nil
	}}
	for _, t := range f.Imports() {
		switch {
		case t.App != name && t.Parent == name:
			return nil, refusal(t, "its parent is %s, whose objects decide whether it exists (eject %s first)", name,
				t.App)
		case t.App != name:
			continue
		}
		if err := describable(t); err != nil {
			return nil, err
		}
		a.targets = append(a.targets, t)
	}
	if len(a.targets) == 0 {
		return nil, fmt.Errorf("%s is not an imported app: `sluice import` lists them", name)
	}
	for _, t := range a.targets[1:] {
		if t.Namespace != a.targets[0].Namespace {
			return nil, refusal(t, "its namespace is %q, and %q on %s: an app has one namespace", t.Namespace,
				a.targets[0].Namespace, a.targets[0].Cluster)
		}
		if len(t.Sources) != len(a.targets[0].Sources) {
			return nil, refusal(t, "it has %d sources, and %d on %s", len(t.Sources), len(a.targets[0].Sources),
				a.targets[0].Cluster)
		}
	}
	return a, nil
}

// describable returns an error if app.yaml cannot describe a target.
func describable(t *fleet.Imported) error {
	setsVersions := func(s fleet.ImportedSource) bool { return s.KubeVersion != "" || len(s.APIVersions) > 0 }
	switch {
	case t.Err != nil:
		return refusal(t, "it cannot be rendered, so nothing can prove that the files are equal: %v", t.Err)
	case t.Cluster == "":
		return refusal(t, "its cluster is not known")
	case t.Suspended:
		return refusal(t, "it is suspended (resume it, or delete it, first)")
	case slices.ContainsFunc(t.Sources, setsVersions):
		return refusal(t, "it sets kubeVersion or apiVersions itself (set them for the cluster, and remove them here)")
	}
	return nil
}

// Plans returns the ways to write the app, the best first: a Kustomization as its own directory where that is the same,
// then the way that every app has, with the rendered objects where nothing shorter describes them.
func (a *App) Plans() ([]Plan, error) {
	var out []Plan
	if a.targets[0].Kind == "Kustomization" {
		if sources, ok := a.inPlace(); ok {
			p, err := a.plan(sources, map[string][]byte{})
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	files := map[string][]byte{}
	sources, err := a.sources(files)
	if err != nil {
		return nil, err
	}
	p, err := a.plan(sources, files)
	if err != nil {
		return nil, err
	}
	return append(out, p), nil
}

// helm returns the version of Helm that app.yaml must name so that the charts are rendered as before; 0 if that is the
// version of all its clusters anyway.
func (a *App) helm() (int, error) {
	app, _ := a.fleet.App(a.targets[0].App) // imported
	used, isDefault := 0, true
	for _, t := range a.targets {
		cluster, _ := a.fleet.Cluster(t.Cluster) // describable requires it
		version := a.fleet.Helm(fleet.Target{App: app, Cluster: cluster})
		if used != 0 && used != version {
			return 0, refusal(t, "Helm %d renders its charts, and Helm %d on %s (name one version for all its clusters first)", version, used, a.targets[0].Cluster)
		}
		used = version
		isDefault = isDefault && version == cmp.Or(cluster.Helm, a.fleet.Spec.Helm, fleet.Helm3)
	}
	if isDefault {
		return 0, nil
	}
	return used, nil
}

// plan adds app.yaml, the components and sluice.yaml to the files that the sources need.
func (a *App) plan(sources appSources, files map[string][]byte) (Plan, error) {
	first := a.targets[0]
	app := fleet.AppFile{
		APIVersion: fleet.APIVersion, Kind: "App", Metadata: fleet.Metadata{Name: first.App},
		Spec: fleet.AppSpec{
			Namespace: first.Namespace, Unstable: "keep",
			Placement: &fleet.Selector{MatchExpressions: []fleet.Requirement{{
				Key: "cluster", Operator: "In",
				Values: a.Clusters(),
			}}},
		},
	}
	known, _ := a.fleet.App(first.App) // imported
	app.Spec.DependsOn = known.Spec.DependsOn
	app.Spec.Source, app.Spec.Sources = sourceFields(sources.all)
	usesHelm := func(s fleet.ImportedSource) bool { return s.Helm != nil || s.Kustomize != nil }
	if slices.ContainsFunc(first.Sources, usesHelm) {
		var err error
		if app.Spec.Helm, err = a.helm(); err != nil {
			return Plan{}, err
		}
	}
	for name, list := range sources.environments {
		var e fleet.AppEnvironment
		e.Source, e.Sources = sourceFields(list)
		if app.Spec.Environments == nil {
			app.Spec.Environments = map[string]fleet.AppEnvironment{}
		}
		app.Spec.Environments[name] = e
	}
	text, err := yaml.Marshal(app)
	if err != nil {
		return Plan{}, err
	}
	files[path.Join(a.dir, "app.yaml")] = text
	a.components(files)
	data, err := a.read("sluice.yaml")
	if err != nil {
		return Plan{}, err
	}
	if files["sluice.yaml"], err = a.fleetFile(data, slices.Collect(maps.Keys(files))); err != nil {
		return Plan{}, err
	}
	return Plan{Files: files, Notes: a.notes()}, nil
}

// sourceFields returns the fields source and sources of app.yaml. A single source needs no name.
func sourceFields(list []fleet.Source) (*fleet.Source, []fleet.Source) {
	if len(list) == 1 {
		single := list[0]
		single.Name = ""
		return &single, nil
	}
	return nil, list
}

// Clusters returns the clusters of the app.
func (a *App) Clusters() []string {
	out := make([]string, len(a.targets))
	for i, t := range a.targets {
		out[i] = t.Cluster
	}
	return out
}

// notes returns what the tool did with the objects of the app, and Sluice's branches cannot say.
func (a *App) notes() []string {
	var out []string
	for _, t := range a.targets {
		if t.Keeps {
			field := "prune: false"
			if t.Kind == "Application" {
				field = "syncPolicy.automated without prune: true"
			}
			out = append(out, fmt.Sprintf("%s:%d: %s on %s: %s is not carried over: the tool that applies the branch decides", t.Located(), t.Line, t.App, t.Cluster, field))
		}
	}
	return out
}

// components writes the post-renderers as Kustomize components: in the layer global if all clusters have the same one,
// otherwise in the layer cluster.
func (a *App) components(files map[string][]byte) {
	same := true
	for _, t := range a.targets {
		same = same && string(t.Component) == string(a.targets[0].Component)
	}
	for _, t := range a.targets {
		if t.Component == nil {
			continue
		}
		dir := path.Join("layers", "cluster", t.Cluster)
		if same {
			dir = "layers/global"
		}
		files[path.Join(a.dir, dir, "kustomization.yaml")] = []byte(layered.Escape(string(t.Component)))
	}
}

// equal compares two values by their JSON, the form in which values cross processes: the Go types of a value can differ
// before and after that.
func equal(a, b any) bool {
	x, xErr := json.Marshal(a)
	y, yErr := json.Marshal(b)
	return xErr == nil && yErr == nil && string(x) == string(y)
}
