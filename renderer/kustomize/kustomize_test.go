package kustomize_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// tree parses `-- path --` sections into files.
func tree(text string) []kustomize.File {
	var out []kustomize.File
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			out = append(out, kustomize.File{Path: strings.TrimSuffix(strings.TrimSpace(name), " --")})
		} else if len(out) > 0 {
			last := &out[len(out)-1]
			last.Data = append(last.Data, line...)
		}
	}
	return out
}

func build(t *testing.T, files []kustomize.File, root string) []manifest.Object {
	t.Helper()
	got, err := kustomize.NewBuilder(manifest.DefaultBudget()).Build(t.Context(), files, root)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// objects decodes YAML written in a test.
func objects(t *testing.T, text string) []manifest.Object {
	t.Helper()
	got, err := manifest.Decode([]byte(text), manifest.DefaultBudget())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func equal(t *testing.T, got []manifest.Object, want string) {
	t.Helper()
	if diff := cmp.Diff(objects(t, want), got); diff != "" {
		t.Errorf("unwanted (-) and wanted (+):\n%s", cmp.Diff(text(t, got), text(t, objects(t, want))))
	}
}

func text(t *testing.T, list []manifest.Object) string {
	t.Helper()
	var out []byte
	for _, o := range list {
		one, err := manifest.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, "---\n"...), one...)
	}
	return string(out)
}

func errorOf(t *testing.T, files []kustomize.File, root string) string {
	t.Helper()
	got, err := kustomize.NewBuilder(manifest.DefaultBudget()).Build(t.Context(), files, root)
	if err == nil {
		t.Fatalf("got no error but\n%s", text(t, got))
	}
	return err.Error()
}

// mapFS returns files as a Tree that has links too.
func mapFS(files []kustomize.File) fstest.MapFS {
	out := fstest.MapFS{}
	for _, f := range files {
		out[f.Path] = &fstest.MapFile{Data: f.Data}
	}
	return out
}
