// Command sluice-reference-flux builds a Flux repository with Flux's own libraries, for `sluice import --check`. It
// reads one request in JSON from standard input and writes one answer. It changes the files of the directory in the
// request.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"

	"github.com/Masterminds/semver/v3"

	"github.com/sluice-gitops/sluice/tools/gitops/fluxref"
)

// request is what `sluice import --check` sends: an entry of spec.import, and a copy of the repository.
type request struct {
	Dir   string `json:"dir"`
	Entry struct {
		Ignore []string `json:"ignore"`
		Helm   int      `json:"helm"`
		Flux   *struct {
			Version  string `json:"version"`
			Strict   *bool  `json:"strictPostBuildSubstitutions"`
			Clusters map[string]struct {
				Path string `json:"path"`
			} `json:"clusters"`
		} `json:"flux"`
	} `json:"entry"`
	Clusters     map[string]cluster   `json:"clusters"`
	Repositories []fluxref.Repository `json:"repositories"`
}

type cluster struct {
	KubeVersion string   `json:"kubeVersion"`
	APIVersions []string `json:"apiVersions"`
	Helm        int      `json:"helm"` // that the registry names; 0 for none
}

// app is what Flux applies for an app of Sluice. One field is set; an app without objects has an empty list.
type app struct {
	Objects   []any  `json:"objects"`
	Namespace string `json:"namespace,omitempty"` // of namespaced objects that name none
	Error     string `json:"error,omitempty"`
	Skipped   string `json:"skipped,omitempty"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sluice-reference-flux:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer) error {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	if r.Entry.Flux == nil {
		return fmt.Errorf("the entry of spec.import is not one of Flux")
	}
	answer := map[string]map[string]app{}
	helm, lenient, err := shipped(r.Entry.Flux.Version)
	if err != nil {
		return err
	}
	if r.Entry.Flux.Strict != nil {
		lenient = !*r.Entry.Flux.Strict
	}
	for _, name := range slices.Sorted(maps.Keys(r.Entry.Flux.Clusters)) {
		result, err := fluxref.Build(ctx, fluxref.Options{
			Dir: r.Dir, Root: r.Entry.Flux.Clusters[name].Path, Ignore: r.Entry.Ignore, Lenient: lenient,
			Helm:         cmp.Or(r.Clusters[name].Helm, r.Entry.Helm, helm),
			Repositories: r.Repositories,
			KubeVersion:  r.Clusters[name].KubeVersion, APIVersions: r.Clusters[name].APIVersions,
		})
		if err != nil {
			return fmt.Errorf("the cluster %s: %w", name, err)
		}
		answer[name] = apps(result)
	}
	return json.NewEncoder(out).Encode(map[string]any{"clusters": answer})
}

// shipped returns the version of Helm that a version of Flux renders charts with, and whether its kustomize-controller
// accepts variables that are not set.
func shipped(version string) (helm int, lenient bool, err error) {
	if version == "" { // the current one
		return 4, false, nil
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return 0, false, fmt.Errorf("the version of Flux is %q: %w", version, err)
	}
	before := func(minor uint64) bool { return v.Major() < 2 || v.Major() == 2 && v.Minor() < minor }
	if helm = 4; before(8) {
		helm = 3
	}
	return helm, before(9), nil
}

func apps(r *fluxref.Result) map[string]app {
	out := map[string]app{}
	for name, list := range r.Built {
		one := app{Objects: make([]any, len(list)), Namespace: r.Namespaces[name]}
		for i, o := range list {
			one.Objects[i] = fluxref.Typed(o.Object)
		}
		out[name] = one
	}
	for name, err := range r.Failed {
		out[name] = app{Error: err.Error()}
	}
	for name, why := range r.Skipped {
		out[name] = app{Skipped: why}
	}
	return out
}
