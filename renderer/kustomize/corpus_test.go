package kustomize_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const corpus = "../../../shared/corpus/kustomize"

// snapshot reads a directory.
func snapshot(t *testing.T, dir string) []kustomize.File {
	t.Helper()
	var files []kustomize.File
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		inner, err := filepath.Rel(dir, name)
		files = append(files, kustomize.File{Path: filepath.ToSlash(inner), Data: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func roots(files []kustomize.File) []string {
	var out []string
	for _, f := range files {
		switch path.Base(f.Path) {
		case "kustomization.yaml", "kustomization.yml", "Kustomization":
			out = append(out, path.Dir(f.Path))
		}
	}
	return out
}

// only picks the files of a closure.
func only(t *testing.T, files []kustomize.File, names []string) []kustomize.File {
	t.Helper()
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var out []kustomize.File
	for _, f := range files {
		if wanted[f.Path] {
			out = append(out, f)
		}
	}
	if len(out) != len(names) {
		t.Fatalf("%d of %d files exist", len(out), len(names))
	}
	return out
}

func TestCorpusBuildsFromItsClosure(t *testing.T) {
	repositories, err := os.ReadDir(corpus)
	if err != nil {
		t.Skip("no corpus here")
	}
	built := 0
	for _, repository := range repositories {
		dir := filepath.Join(corpus, repository.Name())
		files := snapshot(t, dir)
		walker := kustomize.NewWalker(os.DirFS(dir).(kustomize.Tree), manifest.DefaultBudget())
		for _, root := range roots(files) {
			names, err := walker.Closure(root)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, build(t, only(t, files, names), root), text(t, build(t, files, root)))
			built++
		}
	}
	const inCorpus = 49
	if built < inCorpus {
		t.Errorf("built %d roots, not %d", built, inCorpus)
	}
	t.Logf("%d roots built from their closures alone", built)
}
