// Package handover lists what a cluster runs, and what it needs that is not on its branch, for people who take it over.
//
// It reads the tip of a cluster branch and nothing else, and changes nothing. Secrets are named, never shown.
//
// The package is not API: it can change in every release.
package handover

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// App is an app as the branch of a cluster has it.
type App struct {
	Name    string   `json:"name"`
	Folder  string   `json:"folder"`           // on the branch
	Commit  string   `json:"commit,omitempty"` // of the source, that it was rendered from
	Charts  []string `json:"charts,omitempty"` // with versions, as that commit declares them
	Images  []string `json:"images,omitempty"`
	Objects int      `json:"objects"`
}

// Secret is one that workloads refer to and that nothing on the branch makes.
type Secret struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Optional means that every workload that refers to it can do without.
	Optional bool     `json:"optional,omitempty"`
	UsedBy   []string `json:"usedBy"` // apps, sorted
}

// Contents are what the branch of a cluster has.
type Contents struct {
	Apps    []App    `json:"apps"`
	Images  []string `json:"images"`
	Secrets []Secret `json:"secrets"`
}

// Request asks for the contents of a cluster branch.
type Request struct {
	Tree gitstore.Hash // of the tip of the branch
	// Commit returns the source commit of an app; "" if it is not known.
	Commit func(app string) string
	// Fleet returns the fleet of a source commit; nil if it cannot be read.
	Fleet   func(commit string) *fleet.Fleet
	Cluster string
}

// Read reads the contents. A file that is not a Kubernetes object is an error.
func Read(ctx context.Context, store *gitstore.Store, r Request) (*Contents, error) {
	entries, err := branch.Apps(ctx, store, r.Tree)
	if err != nil {
		return nil, err
	}
	s := secrets{wanted: map[secretKey]*Secret{}, made: map[secretKey]bool{}}
	out := &Contents{Apps: []App{}, Images: []string{}, Secrets: []Secret{}}
	for _, e := range entries {
		one := App{Name: e.Name, Folder: fleet.AppDir(e.Name), Commit: r.Commit(e.Name)}
		if f := r.Fleet(one.Commit); f != nil {
			one.Charts = charts(f, r.Cluster, e.Name)
		}
		files, err := store.Tree(ctx, e.Hash)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := store.Blob(ctx, file.Hash)
			if err != nil {
				return nil, err
			}
			list, err := manifest.Decode(data, manifest.DefaultBudget())
			if err != nil {
				return nil, fmt.Errorf("%s/%s: %w", one.Folder, file.Name, err)
			}
			for _, o := range list {
				one.Objects++
				s.object(o, e.Name)
				one.Images = append(one.Images, images(map[string]any(o))...)
			}
		}
		slices.Sort(one.Images)
		one.Images = slices.Compact(one.Images)
		out.Images = append(out.Images, one.Images...)
		out.Apps = append(out.Apps, one)
	}
	slices.SortFunc(out.Apps, func(a, b App) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(out.Images)
	out.Images = slices.Compact(out.Images)
	out.Secrets = s.list()
	return out, nil
}

// charts lists the charts of an app with their versions.
func charts(f *fleet.Fleet, cluster, app string) []string {
	c, ok := f.Cluster(cluster)
	a, known := f.App(app)
	if !ok || !known {
		return nil
	}
	resolved, err := f.Resolve(fleet.Target{App: a, Cluster: c})
	if err != nil {
		return nil
	}
	var out []string
	for _, s := range resolved.Sources {
		if s.Helm == nil {
			continue
		}
		text := cmp.Or(s.Helm.Chart, s.Helm.Path)
		if s.Helm.Version != "" {
			text += " " + s.Helm.Version
		}
		out = append(out, text)
	}
	return out
}

// images lists the images of the containers below a value.
func images(v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			switch key {
			case "containers", "initContainers":
				list, _ := v[key].([]any)
				for _, c := range list {
					if m, ok := c.(map[string]any); ok {
						if name, _ := m["image"].(string); name != "" {
							out = append(out, name)
						}
					}
				}
			case "metadata", "data", "stringData":
			default:
				out = append(out, images(v[key])...)
			}
		}
	case []any:
		for _, one := range v {
			out = append(out, images(one)...)
		}
	}
	return out
}

type secretKey struct{ namespace, name string }

// secrets collects which Secrets objects refer to, and which they make.
type secrets struct {
	wanted map[secretKey]*Secret
	made   map[secretKey]bool
}

func (s *secrets) object(o manifest.Object, app string) {
	namespace := text(o, "metadata", "namespace")
	name := text(o, "metadata", "name")
	switch o.Kind() {
	case "Secret":
		s.made[secretKey{namespace, name}] = true
		return
	case "SealedSecret":
		s.made[secretKey{namespace, cmp.Or(text(o, "spec", "template", "metadata", "name"), name)}] = true
		return
	case "ExternalSecret":
		s.made[secretKey{namespace, cmp.Or(text(o, "spec", "target", "name"), name)}] = true
	case "Certificate":
		s.made[secretKey{namespace, text(o, "spec", "secretName")}] = true
		return
	case "ConfigMap", "CustomResourceDefinition":
		return
	}
	s.walk(map[string]any(o), namespace, app)
}

func text(o manifest.Object, at ...string) string {
	var v any = map[string]any(o)
	for _, key := range at {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	out, _ := v.(string)
	return out
}

// walk looks for the fields in which Kubernetes and common controllers name Secrets.
func (s *secrets) walk(v any, namespace, app string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			switch key {
			case "metadata":
				continue
			case "secretKeyRef", "secretRef":
				s.want(value, "name", namespace, app)
			case "secret": // of a volume
				s.want(value, "secretName", namespace, app)
				s.want(value, "name", namespace, app) // projected
			case "secretName":
				if name, ok := value.(string); ok && v["items"] == nil && v["defaultMode"] == nil && v["optional"] == nil {
					s.want(map[string]any{"name": name}, "name", namespace, app)
				}
			case "imagePullSecrets":
				list, _ := value.([]any)
				for _, one := range list {
					s.want(one, "name", namespace, app)
				}
			}
			s.walk(value, namespace, app)
		}
	case []any:
		for _, one := range v {
			s.walk(one, namespace, app)
		}
	}
}

func (s *secrets) want(v any, field, namespace, app string) {
	m, _ := v.(map[string]any)
	name, _ := m[field].(string)
	if name == "" {
		return
	}
	if other, ok := m["namespace"].(string); ok && other != "" {
		namespace = other
	}
	optional, _ := m["optional"].(bool)
	key := secretKey{namespace, name}
	one := s.wanted[key]
	if one == nil {
		one = &Secret{Namespace: namespace, Name: name, Optional: optional}
		s.wanted[key] = one
	}
	one.Optional = one.Optional && optional
	if !slices.Contains(one.UsedBy, app) {
		one.UsedBy = append(one.UsedBy, app)
	}
}

func (s *secrets) list() []Secret {
	out := []Secret{}
	for key, one := range s.wanted {
		if s.made[key] {
			continue
		}
		slices.Sort(one.UsedBy)
		out = append(out, *one)
	}
	slices.SortFunc(out, func(a, b Secret) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}
