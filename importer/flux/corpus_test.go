package flux_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/importer/flux"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

type dirTree struct{ fs.FS }

func (d dirTree) ReadFile(name string) ([]byte, error)       { return fs.ReadFile(d.FS, name) }
func (d dirTree) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(d.FS, name) }
func (d dirTree) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(d.FS, name) }

// Real repositories: every unit is read, but for those whose source is not in the repository, or whose files the corpus
// leaves out (it has manifests only).
func TestCorpus(t *testing.T) {
	corpus := os.Getenv("CORPUS")
	if corpus == "" {
		corpus = "../../../shared/corpus"
	}
	if _, err := os.Stat(corpus); err != nil {
		t.Skip("the corpus of real repositories is not on this machine")
	}
	for _, c := range []struct {
		dir, root    string
		units, built int // at least
	}{
		{"flux/bjw-s--home-ops", "kubernetes/main/flux", 170, 160},
		{"kustomize/fluxcd--flux2-kustomize-helm-example", "clusters/production", 7, 7},
		{"kustomize/fluxcd--flux2-kustomize-helm-example", "clusters/staging", 7, 7},
		{"kustomize/fluxcd--flux2-multi-tenancy", "clusters/production", 6, 4},
		{"kustomize/fluxcd--flux2-multi-tenancy", "clusters/staging", 6, 4},
	} {
		t.Run(c.dir+"/"+c.root, func(t *testing.T) {
			i, err := flux.New(dirTree{os.DirFS(filepath.Join(corpus, c.dir))},
				kustomize.NewBuilder(manifest.DefaultBudget()).AnyFile())
			if err != nil {
				t.Fatal(err)
			}
			roots, err := i.Detect()
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, root := range roots {
				found = found || root.Path == c.root
			}
			if !found {
				t.Errorf("Detect does not find %s: %v", c.root, roots)
			}
			units, err := i.Import(t.Context(), c.root)
			if err != nil {
				t.Fatal(err)
			}
			built, total := 0, 0
			for _, u := range units {
				total += len(objects(t, u))
				if u.Origin.File == "" {
					t.Errorf("%s has no origin", u.Key)
				}
				if u.Err == nil {
					built++
					continue
				}
				if text := u.Err.Error(); !strings.Contains(text, "is not this repository") &&
					!strings.Contains(text, "does not exist") &&
					!strings.Contains(text, "is not in Git") && !strings.Contains(text, "is remote") {
					t.Errorf("the origin is %s, the key is %s: the error is %v", u.Origin, u.Key, u.Err)
				}
			}
			t.Logf("%d units, %d of them read, %d objects", len(units), built, total)
			if len(units) < c.units || built < c.built {
				t.Errorf("%d units, %d read; want %d and %d", len(units), built, c.units, c.built)
			}
		})
	}
}
