// Command sluice-reference-flux builds a Flux repository with Flux's own libraries, for `sluice import --check`. It
// reads one request in JSON from standard input and writes one answer. It changes the files of the directory in the
// request.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"

	"github.com/sluice-gitops/sluice/tools/gitops/fluxref"
)

// request is what `sluice import --check` sends: an entry of spec.import, and a copy of the repository.
type request struct {
	Dir   string `json:"dir"`
	Entry struct {
		Ignore []string `json:"ignore"`
		Flux   *struct {
			Strict   *bool `json:"strictPostBuildSubstitutions"`
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
}

// app is what Flux applies for an app of Sluice. One field is set; an app without objects has an empty list.
type app struct {
	Objects   []map[string]any `json:"objects"`
	Namespace string           `json:"namespace,omitempty"` // of namespaced objects that name none
	Error     string           `json:"error,omitempty"`
	Skipped   string           `json:"skipped,omitempty"`
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
	lenient := r.Entry.Flux.Strict != nil && !*r.Entry.Flux.Strict
	for _, name := range slices.Sorted(maps.Keys(r.Entry.Flux.Clusters)) {
		result, err := fluxref.Build(ctx, fluxref.Options{
			Dir: r.Dir, Root: r.Entry.Flux.Clusters[name].Path, Ignore: r.Entry.Ignore, Lenient: lenient,
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

func apps(r *fluxref.Result) map[string]app {
	out := map[string]app{}
	for name, list := range r.Built {
		one := app{Objects: make([]map[string]any, len(list)), Namespace: r.Namespaces[name]}
		for i, o := range list {
			one.Objects[i] = o.Object
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
