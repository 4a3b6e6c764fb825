package artifacts_test

import (
	"crypto/elliptic"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/sluice-gitops/sluice/hydrate/artifacts"
	"github.com/sluice-gitops/sluice/hydrate/session"
)

const password = "correct horse"

// newKey gives a key pair as `cosign generate-key-pair` writes it to the trunk and to the environment of runs.
func (p *place) newKey(file string) session.ArtifactKey {
	p.T.Helper()
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), cryptoutils.StaticPasswordFunc([]byte(password)))
	if err != nil {
		p.T.Fatal(err)
	}
	p.Write(file, string(public))
	p.setOCI("{repository: \"oci://" + p.server.host() + "/gitops\", key: " + file + "}")
	return session.ArtifactKey{PEM: private, Password: []byte(password), Name: "SLUICE_COSIGN_KEY_FILE"}
}

// Signatures come before the tag moves. Another key signs what is there already, and nobody signs with a wrong one.
func TestSignatures(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	p := newPlace(t)
	p.publish(artifacts.Options{}) // not signed
	unsigned := p.digest("latest")
	first := p.newKey("keys/cosign.pub")
	p.private = session.ArtifactKey{Name: first.Name}
	if v := p.verify(); v.Status != artifacts.VerifyUnsigned || !strings.Contains(v.Reason, "no signature of the manifest") {
		t.Errorf("without a signature: %+v", v)
	}
	if r := p.publish(artifacts.Options{}); r.OK() || !strings.Contains(r.Unfinished, "set SLUICE_COSIGN_KEY_FILE") || r.Waiting != 2 {
		t.Errorf("without a private key: %+v", r)
	}
	p.private = first
	p.want(p.publish(artifacts.Options{}), "artifacts: 2 pushed")
	if v := p.verify(); v.Status != artifacts.VerifyOK || v.Digest != unsigned {
		t.Errorf("with a signature: %+v", v)
	}
	p.server.answer(nil)
	p.want(p.publish(artifacts.Options{}), "")
	p.want(p.publish(artifacts.Options{Rebuild: true}), "artifacts: 2 present")

	p.Next("X")
	p.hydrate()
	p.server.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, ".sig") {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	if r := p.publish(artifacts.Options{}); r.OK() || p.digest("latest") != unsigned {
		t.Errorf("the tag moves without a signature: %+v", r)
	}
	p.server.answer(nil)
	p.want(p.publish(artifacts.Options{}), "artifacts: 1 pushed")

	second := p.newKey("keys/second.pub")
	if r := p.publish(artifacts.Options{}); r.OK() || !strings.Contains(r.Unfinished, "does not belong to the public key keys/second.pub") {
		t.Errorf("with the key before: %+v", r)
	}
	p.private = second
	if v := p.verify(); v.Status != artifacts.VerifyUnsigned || !strings.Contains(v.Reason, "not by that key") {
		t.Errorf("with the signature of the key before: %+v", v)
	}
	p.want(p.publish(artifacts.Options{}), "artifacts: 2 pushed")
	if v := p.verify(); v.Status != artifacts.VerifyOK {
		t.Errorf("signed again: %+v", v)
	}
	// the signature of another artifact
	registry, err := p.fetcher().Registry(p.config().Fleet.Artifact(p.cluster()))
	if err != nil {
		t.Fatal(err)
	}
	sig := func(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".sig" }
	now := p.digest("latest")
	d, data, err := registry.Manifest(t.Context(), sig(unsigned))
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Tag(t.Context(), d, data, sig(now)); err != nil {
		t.Fatal(err)
	}
	if v := p.verify(); v.Status != artifacts.VerifyUnsigned {
		t.Errorf("with the signature of another artifact: %+v", v)
	}
	p.want(p.publish(artifacts.Options{Rebuild: true}), "artifacts: 1 pushed, 1 present")
}

// Keys that cannot be read are errors that show nothing of them.
func TestKeys(t *testing.T) {
	t.Parallel()
	p := &place{server: newServer(t)}
	p.Remote = newPlace(t).Remote
	good := p.newKey("keys/cosign.pub")
	for name, c := range map[string]struct {
		file    string
		private session.ArtifactKey
		want    string
	}{
		"no file":        {"keys/other.pub", good, "spec.output.oci.key"},
		"no public key":  {"sluice.yaml", good, "sluice.yaml is not a public key in PEM form"},
		"wrong password": {"keys/cosign.pub", session.ArtifactKey{PEM: good.PEM, Password: []byte("x"), Name: "KEY"}, "KEY is not a private key in PEM form"},
		"no private key": {"keys/cosign.pub", session.ArtifactKey{PEM: []byte("s3cret"), Name: "KEY"}, "KEY is not a private key"},
	} {
		h := p.Hydrator(1)
		_, err := artifacts.ReadKeys(t.Context(), h.Store.Snapshot(t.Context(), p.Resolve("main").Tree), c.file, c.private)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error is %v, want %s", name, err, c.want)
		}
	}
}

// Many registries deny access to a repository that does not exist yet.
func TestSignsWhereNothingIsYet(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	p := newPlace(t)
	p.private = p.newKey("keys/cosign.pub")
	var mu sync.Mutex
	exists := map[string]bool{}
	p.server.answer(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		path, _, _ := strings.Cut(strings.Replace(r.URL.Path, "/manifests/", "/blobs/", 1), "/blobs/")
		if r.Method == http.MethodPost {
			exists[path] = true
		}
		if exists[path] || r.URL.Path == "/v2/" {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	p.want(p.publish(artifacts.Options{}), "artifacts: 2 pushed")
}
