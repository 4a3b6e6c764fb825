package kustomize_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

var update = flag.Bool("update", false, "write the expected objects anew")

const wanted = "want.yaml"

// fixture is a file of testdata/build: a line `root <directory>`, then files, the last of them the expected objects.
type fixture struct {
	name, root string
	files      []kustomize.File
	want       string
}

func fixtures(t *testing.T) []fixture {
	t.Helper()
	names, err := filepath.Glob("testdata/build/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	var out []fixture
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(data), "\n")
		f := fixture{
			name: strings.TrimSuffix(filepath.Base(name), ".txt"),
			root: strings.Trim(strings.TrimPrefix(first, "root "), `"`),
		}
		for _, file := range tree(string(data)) {
			if file.Path == wanted {
				f.want = string(file.Data)
			} else {
				f.files = append(f.files, file)
			}
		}
		if *update {
			head, _, _ := strings.Cut(string(data), "-- "+wanted+" --\n")
			f.want = text(t, build(t, f.files, f.root))
			if err := os.WriteFile(name, []byte(head+"-- "+wanted+" --\n"+f.want), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, f)
	}
	return out
}

func TestBuild(t *testing.T) {
	for _, f := range fixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			got := build(t, f.files, f.root)
			if diff := cmp.Diff(f.want, text(t, got)); diff != "" {
				t.Errorf("wanted (-), got (+):\n%s", diff)
			}
			if f.name != "metadata" && strings.Contains(text(t, got), "config.kubernetes.io") {
				t.Errorf("an annotation of Kustomize's own leaked:\n%s", text(t, got))
			}
		})
	}
}

// Removes each file in turn. Without a file outside of the closure, the build is the same; without one inside, it
// fails or differs.
func TestClosureIsExact(t *testing.T) {
	b := kustomize.NewBuilder(manifest.DefaultBudget())
	for _, f := range fixtures(t) {
		t.Run(f.name, func(t *testing.T) {
			names := closure(t, f.files, f.root)
			for i, file := range f.files {
				rest := slices.Concat(f.files[:i], f.files[i+1:])
				got, err := b.Build(t.Context(), rest, f.root)
				same := err == nil && text(t, got) == f.want
				if same == slices.Contains(names, file.Path) {
					t.Errorf("without %s (in the closure: %t) the build gives %v\n%s", file.Path, !same, err,
						text(t, got))
				}
			}
			if got := build(t, only(t, f.files, names), f.root); text(t, got) != f.want {
				t.Errorf("the closure alone gives\n%s", text(t, got))
			}
		})
	}
}

func closure(t *testing.T, files []kustomize.File, root string) []string {
	t.Helper()
	names, err := kustomize.NewWalker(mapFS(files), manifest.DefaultBudget()).Closure(root)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestBuildDoesNotKeepItsInput(t *testing.T) {
	files := tree("-- kustomization.yaml --\nresources: [a.yaml]\nnamePrefix: x-\n-- a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n")
	before := string(files[1].Data)
	first := text(t, build(t, files, "."))
	if string(files[1].Data) != before {
		t.Error("the build wrote into the bundle")
	}
	if second := text(t, build(t, files, ".")); first != second {
		t.Errorf("first\n%sthen\n%s", first, second)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := kustomize.NewBuilder(manifest.DefaultBudget())
	f := fixtures(t)[0]
	if _, err := b.Build(ctx, f.files, f.root); !errors.Is(err, context.Canceled) {
		t.Errorf("Build: %v", err)
	}
	component := []kustomize.Component{{Name: "c", Files: tree(labels)}}
	if _, err := b.ApplyComponents(ctx, nil, component, false); !errors.Is(err, context.Canceled) {
		t.Errorf("ApplyComponents: %v", err)
	}
}

func TestOwnDescriptionLeavesNothingBehind(t *testing.T) {
	all := fixtures(t)
	i := slices.IndexFunc(all, func(f fixture) bool { return f.name == "openapi" })
	own := all[i]
	plain := own
	plain.files = slices.Clone(own.files)
	plain.files[0].Data = []byte(strings.Replace(string(own.files[0].Data), "openapi:", "#", 1))
	before := text(t, build(t, plain.files, plain.root))
	if got := text(t, build(t, own.files, own.root)); got != own.want || got == before {
		t.Errorf("the description does not count:\n%s", got)
	}
	if after := text(t, build(t, plain.files, plain.root)); after != before {
		t.Errorf("before\n%sand after a build with a description of its own\n%s", before, after)
	}
}
