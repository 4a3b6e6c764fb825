package gitops

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/git"
	"github.com/fluxcd/pkg/git/gogit"
	"github.com/fluxcd/pkg/git/repository"
	"github.com/fluxcd/pkg/kustomize"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Flux's own libraries clone the branch that the printed GitRepository names, and build the folders that the printed
// Kustomizations name. The result is exactly the set of objects that Sluice wrote.
func TestFluxBuildsWhatSluiceWrote(t *testing.T) {
	s := newSource(t)
	for _, cluster := range []string{"dev-1", "prod-eu-1", "prod-edge-1"} {
		t.Run(cluster, func(t *testing.T) {
			printed := s.bootstrap("flux", cluster, "--forge", "github")
			folder := clone(t, printed)
			written := contents(t, folder)
			built, names := map[string]string{}, map[string]bool{}
			for _, k := range printed {
				names[k.GetKind()+"/"+k.GetName()] = true
			}
			for _, k := range printed {
				if k.GetKind() != "Kustomization" {
					continue
				}
				if name, _, _ := unstructured.NestedString(k.Object, "spec", "sourceRef",
					"name"); !names["GitRepository/"+name] {
					t.Errorf("%s refers to the source %q, which does not exist", k.GetName(), name)
				}
				after, _, _ := unstructured.NestedSlice(k.Object, "spec", "dependsOn")
				for _, before := range after {
					if name := before.(map[string]any)["name"].(string); !names["Kustomization/"+name] {
						t.Errorf("%s depends on %s, which does not exist", k.GetName(), name)
					}
				}
				list := build(t, folder, k)
				if len(list) == 0 {
					t.Errorf("%s builds nothing", k.GetName())
				}
				for id, text := range list {
					if _, twice := built[id]; twice {
						t.Errorf("%s is in two Kustomizations", id)
					}
					built[id] = text
				}
			}
			if len(written) < 8 || len(built) != len(written) {
				t.Errorf("%d objects are written, %d are built", len(written), len(built))
			}
			for id, text := range written {
				if built[id] != text {
					t.Errorf("%s: Sluice wrote\n%s\nFlux builds\n%s", id, text, built[id])
				}
			}
		})
	}
}

// clone does the same as source-controller with a GitRepository.
func clone(t *testing.T, printed []*unstructured.Unstructured) string {
	t.Helper()
	for _, o := range printed {
		if o.GetKind() != "GitRepository" {
			continue
		}
		url, _, _ := unstructured.NestedString(o.Object, "spec", "url")
		branch, _, _ := unstructured.NestedString(o.Object, "spec", "ref", "branch")
		dir := t.TempDir()
		client, err := gogit.NewClient(dir, &git.AuthOptions{Transport: git.HTTP}, gogit.WithDiskStorage())
		if err != nil {
			t.Fatal(err)
		}
		commit, err := client.Clone(t.Context(), url,
			repository.CloneConfig{CheckoutStrategy: repository.CheckoutStrategy{Branch: branch}, ShallowClone: true})
		if err != nil {
			t.Fatalf("clone %s of %s: %v", branch, url, err)
		}
		if !strings.HasPrefix(commit.String(), branch+"@sha1:") {
			t.Errorf("cloned %s", commit)
		}
		if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Fatal("no GitRepository is printed")
	return ""
}

// build does the same as kustomize-controller with a Kustomization, except for applying the result to a cluster.
func build(t *testing.T, root string, k *unstructured.Unstructured) map[string]string {
	t.Helper()
	path, _, _ := unstructured.NestedString(k.Object, "spec", "path")
	dir := filepath.Join(root, path)
	if _, err := kustomize.NewGenerator(root, *k).WriteFile(dir); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	built, err := kustomize.SecureBuild(root, dir, false)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	out := map[string]string{}
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		id, object := identity(t, text)
		out[id] = object
	}
	if len(out) != built.Size() {
		t.Errorf("%s: two objects have the same identity", path)
	}
	return out
}

// contents returns all objects of a branch. Each file holds one.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		id, object := identity(t, data)
		if _, twice := out[id]; twice {
			t.Errorf("%s is there twice", id)
		}
		out[id] = object
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// identity returns the identity of an object, and its content as a text that is equal for equal objects.
func identity(t *testing.T, data []byte) (id, text string) {
	t.Helper()
	as, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(as); err != nil {
		t.Fatalf("%v:\n%s", err, data)
	}
	content, err := json.MarshalIndent(u.Object, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join([]string{u.GetAPIVersion(), u.GetKind(), u.GetNamespace(), u.GetName()}, "/"), string(content)
}
