package gitops

import (
	"context"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/fluxcd/pkg/oci"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// distribution runs the CNCF's registry in process and returns its host.
func distribution(t *testing.T) string {
	t.Helper()
	c := &configuration.Configuration{Storage: configuration.Storage{"inmemory": configuration.Parameters{}}}
	c.Log.Level, c.Log.AccessLog.Disabled = "error", true
	c.HTTP.Secret = "a secret of this test"
	logrus.SetOutput(io.Discard)
	server := httptest.NewServer(handlers.NewApp(context.Background(), c))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// Flux's own client pulls the artifacts that Sluice pushed to the CNCF's registry, and Flux's own libraries build what
// the printed Kustomizations name. The result is exactly what the branch of the cluster has.
func TestFluxReadsArtifacts(t *testing.T) {
	first := newSource(t)
	host := distribution(t)
	bare := filepath.Join(work, "served", "acme", "artifacts.git")
	first.run("git", "clone", "-q", "--bare", filepath.Join(work, "served", "acme", "fleet.git"), bare)
	s := &source{t: t, dir: filepath.Join(work, "artifacts")}
	first.run("git", "clone", "-q", server.URL+"/acme/artifacts.git", s.dir)
	first.run("git", "-C", bare, "config", "http.receivepack", "true")
	s.write("sluice.yaml", strings.Replace(s.read("sluice.yaml"), "\nspec:\n",
		"\nspec:\n  output: {oci: {repository: \"oci://"+host+"/gitops\"}}\n", 1))
	s.run("git", "commit", "-qam", "artifacts")
	s.run("git", "push", "-q", "origin", "HEAD:main")
	s.run(binary, "publish")
	if out := s.run(binary, "verify", "--oci"); strings.Count(out, "ok ") != 7 {
		t.Errorf("verify --oci says\n%s", out)
	}
	kinds := crds(t)
	for _, cluster := range []string{"dev-1", "prod-eu-1", "prod-edge-1"} {
		branch := t.TempDir()
		s.run("git", "--git-dir", bare, "--work-tree", branch, "checkout", "-q", "-f", "cluster/"+cluster, "--", ".")
		written := contents(t, branch)
		printed := s.bootstrap("flux", cluster, "--oci", "--forge", "github")
		address, tag := "", ""
		for _, o := range printed {
			if o.GetKind() == "OCIRepository" {
				address, _, _ = unstructured.NestedString(o.Object, "spec", "url")
				tag, _, _ = unstructured.NestedString(o.Object, "spec", "ref", "tag")
			}
			if o.GetKind() == "Namespace" {
				continue
			}
			if err := kinds.check(t.Context(), o); err != nil {
				t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
		folder := t.TempDir()
		meta, err := oci.NewClient(oci.DefaultOptions()).Pull(t.Context(), strings.TrimPrefix(address, "oci://")+":"+tag, folder)
		if err != nil {
			t.Fatal(err)
		}
		if commit := strings.TrimSpace(s.run("git", "--git-dir", bare, "rev-parse", "cluster/"+cluster)); meta.Revision != "cluster/"+cluster+"@sha1:"+commit ||
			!strings.HasSuffix(meta.Source, "/acme/artifacts") || meta.Created == "" {
			t.Errorf("%s: Flux reads the revision %s of %s, created %s", cluster, meta.Revision, meta.Source, meta.Created)
		}
		if a, b := list(t, folder), list(t, branch); a != b {
			t.Errorf("%s: the artifact has\n%s\nthe branch\n%s", cluster, a, b)
		}
		built := map[string]string{}
		for _, k := range printed {
			if k.GetKind() != "Kustomization" {
				continue
			}
			if kind, _, _ := unstructured.NestedString(k.Object, "spec", "sourceRef", "kind"); kind != "OCIRepository" {
				t.Errorf("%s refers to a %s", k.GetName(), kind)
			}
			for id, text := range build(t, folder, k) {
				built[id] = text
			}
		}
		if len(written) < 8 || len(built) != len(written) {
			t.Errorf("%s: %d objects are written, %d are built", cluster, len(written), len(built))
		}
		for id, text := range written {
			if built[id] != text {
				t.Errorf("%s: Sluice wrote\n%s\nFlux builds\n%s", id, text, built[id])
			}
		}
	}
	for _, o := range s.bootstrap("argocd", "prod-eu-1", "--oci") {
		if err := kinds.check(t.Context(), o); err != nil && o.GetKind() != "Namespace" {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// list returns the names and contents of all files of a folder.
func list(t *testing.T, root string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		out.WriteString(name + "\n" + string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
