// Command sluice-reference-argocd builds a repository of Argo CD Applications with Argo CD's own code, for `sluice
// import --check`. It reads one request in JSON from standard input and writes one answer. It calls helm and kustomize,
// which it looks for beside itself first.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"github.com/Masterminds/semver/v3"
	log "github.com/sirupsen/logrus"

	"github.com/sluice-gitops/sluice/tools/gitops/argocd/argoref"
)

// request is what `sluice import --check` sends: an entry of spec.import, and a copy of the repository.
type request struct {
	Dir   string `json:"dir"`
	Trunk string `json:"trunk"`
	Entry struct {
		Ignore []string `json:"ignore"`
		ArgoCD *struct {
			Version      string   `json:"version"`
			Apps         []string `json:"apps"`
			Repositories []string `json:"repositories"`
			Kustomize    struct {
				BuildOptions string `json:"buildOptions"`
			} `json:"kustomize"`
		} `json:"argocd"`
	} `json:"entry"`
	Clusters map[string]cluster `json:"clusters"` // of the fleet
}

type cluster struct {
	KubeVersion string            `json:"kubeVersion"`
	APIVersions []string          `json:"apiVersions"`
	Server      string            `json:"server"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// app is what Argo CD applies for an app of Sluice. One of Objects, Error and Skipped is set; an app without objects
// has an empty list.
type app struct {
	Objects   []map[string]any `json:"objects"`
	Namespace string           `json:"namespace,omitempty"` // of namespaced objects that name none
	File      string           `json:"file,omitempty"`
	Error     string           `json:"error,omitempty"`
	Skipped   string           `json:"skipped,omitempty"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log.SetLevel(log.PanicLevel) // errors are in the answer
	if err := run(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sluice-reference-argocd:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	if r.Entry.ArgoCD == nil {
		return fmt.Errorf("the entry of spec.import is not one of Argo CD")
	}
	if err := sameHelm(r.Entry.ArgoCD.Version); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv("PATH", filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		return err
	}
	o := argoref.Options{
		Dir: r.Dir, Apps: r.Entry.ArgoCD.Apps, Ignore: r.Entry.Ignore,
		Repositories: r.Entry.ArgoCD.Repositories, Trunk: r.Trunk, BuildOptions: r.Entry.ArgoCD.Kustomize.BuildOptions,
	}
	for _, name := range slices.Sorted(maps.Keys(r.Clusters)) {
		c := r.Clusters[name]
		o.Clusters = append(o.Clusters, argoref.Cluster{
			Name: name, Server: c.Server, Labels: c.Labels, Annotations: c.Annotations, KubeVersion: c.KubeVersion,
			APIVersions: c.APIVersions,
		})
	}
	built, err := argoref.Build(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(map[string]any{"clusters": answer(built)})
}

// sameHelm refuses an import of a version of Argo CD that ships another version of Helm: with it, every chart could differ.
func sameHelm(version string) error {
	if version == "" { // the current one
		version = "3.5"
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return fmt.Errorf("the version of the import: %w", err)
	}
	helm, build := 4, ""
	if v.LessThan(semver.New(3, 5, 0, "", "")) {
		helm, build = 3, "-modfile=argocd-3.2.mod -tags=argocd32 "
	}
	if helm == argoref.Helm {
		return nil
	}
	return fmt.Errorf("it is Argo CD %s, which ships Helm %d, and the import is of Argo CD %s, which ships Helm %d "+
		"(build it in a clone of Sluice: go build -C tools/gitops/argocd %s-o \"$HOME/sluice-argocd/\" "+
		"./sluice-reference-argocd helm.sh/helm/v%d/cmd/helm sigs.k8s.io/kustomize/kustomize/v5)",
		argoref.Version, argoref.Helm, version, helm, build, helm)
}

// answer groups apps by cluster. What has no cluster is in "".
func answer(built []argoref.App) map[string]map[string]app {
	out := map[string]map[string]app{}
	for i := range built {
		a := &built[i]
		one := app{
			Objects: make([]map[string]any, len(a.Objects)), Namespace: a.Namespace, File: a.File,
			Skipped: a.Skipped,
		}
		for n, o := range a.Objects {
			one.Objects[n] = o.Object
		}
		if a.Err != nil {
			one.Error = a.Err.Error()
		}
		if out[a.Cluster] == nil {
			out[a.Cluster] = map[string]app{}
		}
		out[a.Cluster][a.Name] = one
	}
	return out
}
