package kustomize_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// outside records every fetch of the library, and every git and helm process that it starts, in all tests of this
// package.
var outside struct {
	fetched atomic.Int64
	started string // the file that the commands create
}

type noNetwork struct{}

func (noNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	outside.fetched.Add(1)
	return nil, fmt.Errorf("%s was fetched", r.URL)
}

func reached() string {
	var what []string
	if outside.fetched.Swap(0) > 0 {
		what = append(what, "fetched")
	}
	if err := os.Remove(outside.started); err == nil {
		what = append(what, "started a command")
	}
	return strings.Join(what, " and ")
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "outside")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	outside.started = filepath.Join(dir, "started")
	for _, name := range []string{"git", "helm", "docker", "podman"} {
		script := "#!/bin/sh\n: > '" + outside.started + "'\nexit 1\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			panic(err)
		}
	}
	_ = os.Setenv("PATH", dir)
	http.DefaultTransport = noNetwork{}
	m.Run()
	if what := reached(); what != "" {
		panic("some test " + what)
	}
}

// Without this package's checks the library fetches and starts processes, and these tests detect it.
func TestLibraryFetchesWithoutChecks(t *testing.T) {
	bare := filesys.MakeFsInMemory()
	if err := bare.WriteFile("/kustomization.yaml", []byte("resources: [https://example.com/o/r]\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(bare, "/"); err == nil {
		t.Error("there is something at example.com")
	}
	if got := reached(); got != "fetched and started a command" {
		t.Errorf("the library %q", got)
	}
}

// For any repository, a build fetches nothing, ends, and does not panic. A build that succeeds gives the same result
// from the closure alone.
func FuzzBuild(f *testing.F) {
	for field := range fields() {
		for ref := range references() {
			f.Add(fmt.Sprintf(field, fmt.Sprintf("%q", ref)), configMap)
		}
		f.Add(fmt.Sprintf(field, "base"), configMap)
		f.Add(fmt.Sprintf(field, "a.yaml"),
			"apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: a}\npath: https://example.com/x\n")
	}
	f.Add("resources: [a.yaml]\nopenapi: {path: a.yaml}\n", "definitions: {}\n")
	f.Add("resources: [a.yaml]\nnamePrefix: x\nvars: [{name: A, objref: {kind: ConfigMap, name: a, apiVersion: v1}}]\n",
		configMap)
	f.Fuzz(func(t *testing.T, kustomization, file string) {
		files := []kustomize.File{
			{Path: "kustomization.yaml", Data: []byte(kustomization)},
			{Path: "a.yaml", Data: []byte(file)},
			{Path: "base/kustomization.yaml", Data: []byte(file)},
			{Path: "c/kustomization.yaml", Data: []byte(component + "namePrefix: c-\n")},
			{Path: "github.com/o/r/kustomization.yaml", Data: []byte("namePrefix: a\n")},
			{Path: "git@host/o/r/kustomization.yaml", Data: []byte("namePrefix: a\n")},
			{Path: "https:/example.com/o/r", Data: []byte(file)},
		}
		budget := manifest.Budget{Bytes: 1 << 16, Nodes: 10_000, Depth: 50, Aliases: 100}
		b := kustomize.NewBuilder(budget)
		got, err := b.Build(t.Context(), files, ".")
		if what := reached(); what != "" {
			t.Fatalf("the build %s", what)
		}
		if err != nil {
			if err.Error() == "" || errors.Is(err, os.ErrExist) {
				t.Errorf("an unexpected error: %#v", err)
			}
			return
		}
		names := closure(t, files, ".")
		again, err := b.Build(t.Context(), only(t, files, names), ".")
		if err != nil || text(t, again) != text(t, got) {
			t.Errorf("from the closure %v: %v\n%s\nand from all\n%s", names, err, text(t, again), text(t, got))
		}
	})
}
