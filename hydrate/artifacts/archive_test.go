package artifacts

import (
	"os"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// The bytes of an archive depend on the tree alone. Another digest here means that every artifact is pushed again by
// `sluice publish`: with a new version of Go that compresses otherwise, change it.
func TestPackIsReproducible(t *testing.T) {
	t.Parallel()
	r := hydratetest.New(t)
	r.Write("shop/deployment-shop.yaml", strings.Repeat("kind: Deployment\n", 500))
	r.Write("shop.yaml", "kind: Namespace\n")
	r.Write("a/b/"+strings.Repeat("long", 60)+".yaml", "x\n")
	r.Commit("one")
	tree := r.Resolve("HEAD").Tree
	const want = "sha256:055d13707a016e8a276f2165c86a28d0087389ab0b484608085ca72c3626637f"
	for range 2 {
		data, _, err := pack(t.Context(), r.Hydrator(1).Store, tree)
		if err != nil {
			t.Fatal(err)
		}
		if got := digest.FromBytes(data).String(); got != want {
			t.Errorf("the archive has the digest %s, want %s", got, want)
		}
	}
	if err := os.Symlink("/etc/passwd", r.Dir+"/link"); err != nil {
		t.Fatal(err)
	}
	r.Commit("link")
	if _, _, err := pack(t.Context(), r.Hydrator(1).Store, r.Resolve("HEAD").Tree); err == nil || !strings.Contains(err.Error(), "link is neither a file nor a folder") {
		t.Errorf("a link: %v", err)
	}
}

// The address of a repository has one form, however it is written.
func TestSourceOf(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://github.com/acme/fleet.git":      "https://github.com/acme/fleet",
		"git@github.com:acme/fleet.git":          "https://github.com/acme/fleet",
		"ssh://git@github.com/acme/fleet":        "https://github.com/acme/fleet",
		"http://127.0.0.1:3000/acme/fleet.git":   "http://127.0.0.1:3000/acme/fleet",
		"ssh://git@git.example.com:2222/a/b.git": "https://git.example.com/a/b", // the port is SSH's
		"/srv/git/fleet.git":                     "/srv/git/fleet.git",
		"file:///srv/git/fleet.git":              "file:///srv/git/fleet.git",
		"https://git.example.com:8443/a/b/c.git": "https://git.example.com:8443/a/b/c",
	} {
		if got := sourceOf(address); got != want {
			t.Errorf("%s: the source is %s, want %s", address, got, want)
		}
	}
}
