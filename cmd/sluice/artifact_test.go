package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// artifactRegistry runs a registry and sets $REGISTRY; `artifact-registry down` and `up` switch it off and on.
func artifactRegistry(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 1 {
		ts.Value("registry-down").(*atomic.Bool).Store(args[0] == "down") //nolint:forcetypeassert // the test sets it
		return
	}
	down, handler := ts.Value("registry-down").(*atomic.Bool), registry.New(registry.Logger(log.New(io.Discard, "", 0))) //nolint:forcetypeassert // as above
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	ts.Defer(server.Close)
	ts.Setenv("REGISTRY", strings.TrimPrefix(server.URL, "http://"))
}

// artifactIs compares an artifact with a commit, as another program reads both: artifact REF GIT-DIR REVISION
func artifactIs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: artifact HOST/REPOSITORY:TAG GIT-DIR REVISION")
	}
	same, err := sameTree(context.Background(), args[0], ts.MkAbs(args[1]), args[2])
	ts.Check(err)
	if same == neg {
		ts.Fatalf("%s is the tree of %s: %v", args[0], args[2], same)
	}
}

func sameTree(ctx context.Context, ref, gitDir, revision string) (bool, error) {
	repository, tag, _ := strings.Cut(strings.TrimPrefix(ref, "127.0.0.1:"), ":")
	from, err := fetch.New(fetch.Options{}).Registry("oci://127.0.0.1:" + repository)
	if err != nil {
		return false, err
	}
	_, data, err := from.Manifest(ctx, tag)
	if err != nil {
		return false, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(data, &m); err != nil || len(m.Layers) != 1 {
		return false, fmt.Errorf("the artifact has not one layer: %s", data)
	}
	body, err := from.Blob(ctx, m.Layers[0], 1<<20)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "artifact")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	if err := untar(bytes.NewReader(body), dir); err != nil {
		return false, err
	}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"--git-dir", gitDir}, args...)...).CombinedOutput() //nolint:noctx // a moment
		return strings.TrimSpace(string(out)), err
	}
	index := filepath.Join(dir, ".index")
	add := exec.Command("git", "--git-dir", gitDir, "--work-tree", dir, "add", "-A", ".") //nolint:noctx // a moment
	add.Dir, add.Env = dir, append(os.Environ(), "GIT_INDEX_FILE="+index)
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("/.index*\n/.gitignore\n"), 0o600); err != nil {
		return false, err
	}
	if out, err := add.CombinedOutput(); err != nil {
		return false, errors.New(string(out))
	}
	write := exec.Command("git", "--git-dir", gitDir, "write-tree") //nolint:noctx // a moment
	write.Env = append(os.Environ(), "GIT_INDEX_FILE="+index)
	tree, err := write.Output()
	if err != nil {
		return false, err
	}
	want, err := git("rev-parse", revision+"^{tree}")
	return strings.TrimSpace(string(tree)) == want, err
}

// artifactTag gives an artifact another tag: artifact-tag HOST/REPOSITORY TAG NEW
func artifactTag(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: artifact-tag HOST/REPOSITORY TAG NEW")
	}
	r, err := fetch.New(fetch.Options{}).Registry("oci://" + args[0])
	ts.Check(err)
	desc, data, err := r.Manifest(context.Background(), args[1])
	ts.Check(err)
	ts.Check(r.Tag(context.Background(), desc, data, args[2]))
}

// cosignKey writes a pair of keys as `cosign generate-key-pair` does: cosign-key PRIVATE PUBLIC PASSWORD
func cosignKey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: cosign-key PRIVATE PUBLIC PASSWORD")
	}
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), cryptoutils.StaticPasswordFunc([]byte(args[2])))
	ts.Check(err)
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[1])), 0o755))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), private, 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), public, 0o600))
}

func untar(body io.Reader, dir string) error {
	z, err := gzip.NewReader(body)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		file := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(file, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(file, data, h.FileInfo().Mode())
			}
		}
		if err != nil {
			return err
		}
	}
}
