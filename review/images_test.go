package review

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/report"
)

// someImages has the images that it lists, and answers for others with the error of their registry. It is safe for
// concurrent use.
type someImages struct {
	has    []string
	errors map[string]error // by registry; else fetch.ErrNotFound

	mu    sync.Mutex
	asked []string
}

func (s *someImages) Image(_ context.Context, image string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, image)
	host, _, _ := strings.Cut(image, "/")
	switch err := s.errors[host]; {
	case slices.Contains(s.has, image):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s: %w", image, fetch.ErrNotFound)
}

// imageFleet has a pod for each image. An image may refer to ${cluster.name}.
func imageFleet(t *testing.T, mustExist string) *hydratetest.Repo {
	t.Helper()
	r := hydratetest.New(t)
	r.Write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec:\n"+
		"  environments: [{name: dev}, {name: prod, after: [dev]}]\n  layers: [cluster]\n"+mustExist)
	r.Write("clusters/all.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: one}\n"+
		"spec: {environment: dev}\n---\napiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: two}\n"+
		"spec: {environment: prod}\n")
	r.Write("apps/web/app.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: web}\n"+
		"spec: {namespace: web, placement: {}, source: {helm: {path: charts/web}}}\n")
	r.Write("apps/web/layers/global/values.yaml", "cluster: ${cluster.name}\n")
	r.Write("charts/web/Chart.yaml", routineChart)
	return r
}

func commitImages(r *hydratetest.Repo, message string, images ...string) {
	var text strings.Builder
	for i, image := range images {
		fmt.Fprintf(&text, "apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec: {containers: [{name: a, image: %q}]}\n---\n",
			i, image)
	}
	r.Write("charts/web/templates/pods.yaml", text.String())
	r.Commit(message)
}

// A review looks for the new images that the base wants to exist, once each and on all clusters, in this process and
// from a worker process alike.
func TestImages(t *testing.T) {
	t.Parallel()
	const wanted = "  images: {mustExist: [\"ghcr.io/acme/**\", \"down.example.com/**\", \"shut.example.com/**\"]}\n"
	repo := imageFleet(t, wanted)
	commitImages(repo, "base", "ghcr.io/acme/old:1", "ghcr.io/acme/web:1")
	repo.Write("sluice.yaml", strings.Replace(repo.Read("sluice.yaml"), wanted, "", 1)) // the base's rule counts
	commitImages(repo, "head", "ghcr.io/acme/old:1", "ghcr.io/acme/web:2", "ghcr.io/acme/on-{{ .Values.cluster }}:1",
		"ghcr.io/other/web:2", "down.example.com/a/b:1", "shut.example.com/a:1", "shut.example.com/b:1")
	for name, isolated := range map[string]bool{"in this process": false, "in a worker process": true} {
		t.Run(name, func(t *testing.T) {
			images := &someImages{has: []string{"ghcr.io/acme/on-one:1"}, errors: map[string]error{
				"down.example.com": fmt.Errorf("502 Bad Gateway: %w", fetch.ErrUnavailable),
				"shut.example.com": fmt.Errorf("403 Forbidden: %w", fetch.ErrDenied),
			}}
			review := func(r Request) *report.Review {
				s, err := session.Open(t.Context(), session.Runtime{
					Cache: t.TempDir(), Version: "test", Fingerprint: []byte("k"), Clock: time.Now, Images: images,
				}, session.Options{Repo: repo.Dir, Jobs: 2, Renderer: renderer.NewEngine(renderer.DefaultLimits())}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				r.Request = compare.Request{Base: repo.Resolve("HEAD~1"), Head: repo.Resolve("HEAD"), Key: []byte("k")}
				r.Policy, r.Offline = repo.Resolve("HEAD~1").Tree, true
				if isolated {
					out, err := inProcess(t, s, r)
					if err != nil {
						t.Fatal(err)
					}
					return out
				}
				out, err := (Local{s}).Review(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				return out.Review
			}
			out := review(Request{Images: true})
			var missing []string
			for _, f := range out.Findings.Introduced {
				if f.Rule == ruleImageExists {
					missing = append(missing, fmt.Sprintf("%s %s %v %s", f.Object.Name, f.Environment, f.Clusters, f.Message))
				}
			}
			want := []string{
				"p2 prod [two] ghcr.io/acme/on-two:1: not found", "p1 dev [one] ghcr.io/acme/web:2: not found",
				"p1 prod [two] ghcr.io/acme/web:2: not found",
			}
			if !slices.Equal(missing, want) || out.Verdict != report.VerdictFail || out.Findings.Advisory {
				t.Errorf("missing images: got %q and the verdict %s, want %q and a failure", missing, out.Verdict, want)
			}
			notes := strings.Join(out.Findings.Notes, "\n")
			for _, text := range []string{
				"whether the image down.example.com/a/b:1 exists: 502 Bad Gateway",
				"whether 2 images exist, such as shut.example.com/a:1: 403 Forbidden",
			} {
				if !strings.Contains(notes, text) {
					t.Errorf("notes of the review: got %q, want %q in them", notes, text)
				}
			}
			slices.Sort(images.asked)
			asked := []string{
				"down.example.com/a/b:1", "ghcr.io/acme/on-one:1", "ghcr.io/acme/on-two:1", "ghcr.io/acme/web:2",
				"shut.example.com/a:1", "shut.example.com/b:1",
			}
			if !slices.Equal(images.asked, asked) {
				t.Errorf("images that were looked for: got %q, want %q", images.asked, asked)
			}
			images.asked = nil
			if out := review(Request{}); len(images.asked) > 0 || out.Verdict == report.VerdictFail {
				t.Errorf("an untrusted change: got questions about %q and the verdict %s", images.asked, out.Verdict)
			}
		})
	}
}

// Docker Hub's images have short names.
func TestMustExist(t *testing.T) {
	t.Parallel()
	for image, patterns := range map[string]map[string]bool{
		"acme/web:1":           {"docker.io/acme/*": true, "acme/*": true, "docker.io/library/*": false, "ghcr.io/acme/*": false},
		"docker.io/acme/web:1": {"docker.io/acme/*": true, "acme/*": true},
		"nginx:1":              {"docker.io/library/*": true, "nginx": true, "acme/*": false},
		"ghcr.io/acme/web:1":   {"docker.io/**": false, "ghcr.io/acme/*": true, "acme/*": false},
	} {
		for pattern, want := range patterns {
			if got := mustExist([]string{pattern}, image); got != want {
				t.Errorf("%s for %s: got %t, want %t", pattern, image, got, want)
			}
		}
	}
}

// A compromised worker makes the parent ask no registry that the trunk does not name.
func TestParentAsksForNoOtherImage(t *testing.T) {
	t.Parallel()
	images := &someImages{}
	p := &parent{session: &session.Session{Runtime: session.Runtime{Images: images}}, images: []string{"ghcr.io/acme/**"}}
	for _, image := range []string{"169.254.169.254/latest/meta-data:1", "ghcr.io/acme/../evil:1", "evil.example.com/ghcr.io/acme/web:1"} {
		if out, err := p.answer(t.Context(), askImage, fmt.Appendf(nil, "%q", image)); err == nil {
			t.Errorf("%s: got the answer %s, want a refusal", image, out)
		}
	}
	for range reviewImages {
		_, _ = p.answer(t.Context(), askImage, []byte(`"ghcr.io/acme/web:1"`)) // refused from some number on
	}
	if n := len(images.asked); n >= reviewImages || n == 0 {
		t.Errorf("questions of one review: got %d, want fewer than %d", n, reviewImages)
	}
}
