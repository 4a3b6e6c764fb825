package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/provenance"
	"helm.sh/helm/v3/pkg/registry"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// packChart makes a real chart archive; note lands in it, so that equal versions can have different bytes.
func packChart(tb testing.TB, note string) []byte {
	tb.Helper()
	file, err := chartutil.Save(&chart.Chart{Metadata: &chart.Metadata{
		APIVersion: chart.APIVersionV2, Name: "web",
		Version: "1.0.0", Description: note,
	}}, tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// chartRepo is a chart repository with one chart.
type chartRepo struct {
	*httptest.Server
	files map[string][]byte // written before the first request
	prov  atomic.Int32      // requests for provenance files
}

func newChartRepo(tb testing.TB) *chartRepo {
	tb.Helper()
	r := &chartRepo{files: map[string][]byte{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, ".prov") {
			r.prov.Add(1)
		}
		data, ok := r.files[strings.TrimPrefix(req.URL.Path, "/")]
		if !ok {
			http.NotFound(w, req)
			return
		}
		_, _ = w.Write(data)
	}))
	tb.Cleanup(r.Close)
	return r
}

func (r *chartRepo) offer(tb testing.TB) []byte {
	tb.Helper()
	archive := packChart(tb, "")
	r.files["web-1.0.0.tgz"] = archive
	r.files["index.yaml"] = []byte("apiVersion: v1\nentries:\n  web:\n  - {apiVersion: v2, name: web, version: 1.0.0, urls: [web-1.0.0.tgz]}\n")
	return archive
}

// ociServer is a real registry in process.
type ociServer struct {
	*httptest.Server
	referrers bool // it lists them
}

func newOCI(tb testing.TB, options ...ociregistry.Option) *ociServer {
	tb.Helper()
	s := &ociServer{Server: httptest.NewServer(ociregistry.New(append(options,
		ociregistry.Logger(log.New(io.Discard, "", 0)))...))}
	tb.Cleanup(s.Close)
	return s
}

func (s *ociServer) host() string  { return strings.TrimPrefix(s.URL, "http://") }
func (s *ociServer) chart() string { return "oci://" + s.host() + "/charts/web" }

// push publishes with Helm's own client.
func (s *ociServer) push(tb testing.TB, archive []byte, options ...registry.PushOption) {
	tb.Helper()
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := client.Push(archive, s.host()+"/charts/web:1.0.0", options...); err != nil {
		tb.Fatal(err)
	}
}

func put(tb testing.TB, s *ociServer, address, mediaType string, body []byte) {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPut, address, bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Content-Type", mediaType)
	resp, err := s.Client().Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		tb.Fatalf("PUT %s: %s", address, resp.Status)
	}
}

// pgp is a key of a person who signs charts.
func pgp(tb testing.TB, name string) (*openpgp.Entity, Signer) {
	tb.Helper()
	entity, err := openpgp.NewEntity(name, "", name+"@example.com", nil)
	if err != nil {
		tb.Fatal(err)
	}
	var ring bytes.Buffer
	if err := entity.Serialize(&ring); err != nil {
		tb.Fatal(err)
	}
	return entity, Signer{Name: name, File: "keys/" + name + ".gpg", Keyring: ring.Bytes()}
}

// prove makes a provenance file as `helm package --sign` does.
func prove(tb testing.TB, entity *openpgp.Entity, file string, archive []byte) []byte {
	tb.Helper()
	name := filepath.Join(tb.TempDir(), file)
	if err := os.WriteFile(name, archive, 0o600); err != nil {
		tb.Fatal(err)
	}
	text, err := (&provenance.Signatory{Entity: entity}).ClearSign(name)
	if err != nil {
		tb.Fatal(err)
	}
	return []byte(text)
}

func TestProvenanceOfChartRepositories(t *testing.T) {
	t.Parallel()
	acme, acmeSigner := pgp(t, "acme")
	_, other := pgp(t, "other")
	for name, c := range map[string]struct {
		prov    func(archive []byte) []byte
		signers []Signer
		want    string // "" for a chart that passes
	}{
		"signed": {
			func(a []byte) []byte { return prove(t, acme, "web-1.0.0.tgz", a) },
			[]Signer{acmeSigner},
			"",
		},
		"signed by one of two": {
			func(a []byte) []byte { return prove(t, acme, "web-1.0.0.tgz", a) },
			[]Signer{other, acmeSigner},
			"",
		},
		"no provenance file": {nil, []Signer{acmeSigner}, "has no provenance file"},
		"another key": {
			func(a []byte) []byte { return prove(t, acme, "web-1.0.0.tgz", a) },
			[]Signer{other},
			"a key that the keyring does not have",
		},
		"of another archive": {func([]byte) []byte {
			return prove(t, acme, "web-1.0.0.tgz",
				packChart(t, "other"))
		}, []Signer{acmeSigner}, "sum does not match"},
		"of a file of another name": {
			func(a []byte) []byte { return prove(t, acme, "web-0.9.0.tgz", a) },
			[]Signer{acmeSigner},
			"does not contain a SHA",
		},
		"changed after it was signed": {func(a []byte) []byte {
			return bytes.Replace(prove(t, acme, "web-1.0.0.tgz", a), []byte("name: web"), []byte("name: wed"), 1)
		}, []Signer{acmeSigner}, "does not prove"},
		"no signature at all": {
			func([]byte) []byte { return []byte("web-1.0.0.tgz is fine\n") },
			[]Signer{acmeSigner},
			"signature block not found",
		},
		"only for cosign": {
			func(a []byte) []byte { return prove(t, acme, "web-1.0.0.tgz", a) },
			[]Signer{cosignKey(t).Signer},
			"cosign signs charts in OCI registries",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := newChartRepo(t)
			archive := repo.offer(t)
			if c.prov != nil {
				repo.files["web-1.0.0.tgz.prov"] = c.prov(archive)
			}
			f := Archives{fetch.New(fetch.Options{CacheDir: t.TempDir()})}
			ref := fetch.Ref{Repo: repo.URL, Chart: "web", Version: "1.0.0"}
			checkVerify(t, f, ref, c.signers, c.want)
			if c.want == "" {
				checkVerify(t, f, ref, c.signers, "")
				if asked := repo.prov.Load(); asked != 1 {
					t.Errorf("the provenance file was asked for %d times: the cache has it", asked)
				}
				// what is kept is checked again
				checkVerify(t, f, ref, []Signer{other}, "a key that the keyring does not have")
			}
		})
	}
}

// checkVerify locks and verifies a chart; want "" is a chart that passes.
func checkVerify(tb testing.TB, f Archives, ref fetch.Ref, signers []Signer, want string) {
	tb.Helper()
	locked, err := f.Resolve(tb.Context(), ref)
	if err != nil {
		tb.Fatal(err)
	}
	err = f.Verify(tb.Context(), ref, locked, signers)
	if want == "" {
		if err != nil {
			tb.Errorf("refused: %v", err)
		}
		return
	}
	if !errors.Is(err, ErrUnsigned) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "web") {
		tb.Errorf("the error is %v; want %q", err, want)
	}
	for _, s := range signers {
		if err != nil && !strings.Contains(err.Error(), s.Name) {
			tb.Errorf("%v does not name the signer %s", err, s.Name)
		}
	}
}

// TestSignatureWithoutBundles: a registry that refuses the list of referrers does not hide a signature that it shows.
// Without one, the refusal is the error, because a bundle can be there.
func TestSignatureWithoutBundles(t *testing.T) {
	t.Parallel()
	release := cosignKey(t)
	for name, signed := range map[string]bool{"signed": true, "not signed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0)))
			s := &ociServer{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/referrers/") {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				all.ServeHTTP(w, r)
			}))}
			t.Cleanup(s.Close)
			s.push(t, packChart(t, "refused"))
			digest := s.manifestOf(t)
			if signed {
				s.attach(t, digest, payloadOf(digest), map[string]string{fetch.AnnotationSignature: release.sign(t,
					payloadOf(digest))})
			}
			f, ref := Archives{fetch.New(fetch.Options{})}, fetch.Ref{Chart: s.chart(), Version: "1.0.0"}
			locked, err := f.Resolve(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			err = f.Verify(t.Context(), ref, locked, []Signer{release.Signer})
			if signed && err != nil || !signed && !errors.Is(err, fetch.ErrDenied) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// cosigner signs with a key as `cosign sign --key` does.
type cosigner struct {
	Signer
	private *ecdsa.PrivateKey
}

func cosignKey(tb testing.TB) cosigner {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		tb.Fatal(err)
	}
	return cosigner{Signer{
		Name: "release", File: "keys/cosign.pub",
		Key: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
	}, key}
}

func (c cosigner) sign(tb testing.TB, payload []byte) string {
	tb.Helper()
	sum := sha256.Sum256(payload)
	out, err := c.private.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		tb.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(out)
}

// payloadOf is what cosign signs for a manifest.
func payloadOf(digest string) []byte {
	return []byte(`{"critical":{"identity":{"docker-reference":"example.com/charts/web"},"image":{"docker-manifest-digest":"` + digest +
		`"},"type":"cosign container image signature"},"optional":null}`)
}

// attach puts a signature where cosign does: as a layer of the image sha256-DIGEST.sig.
func (s *ociServer) attach(tb testing.TB, digest string, payload []byte, notes map[string]string) {
	tb.Helper()
	blob := func(data []byte) string {
		put(tb, s, s.URL+"/v2/charts/web/blobs/uploads/1?digest="+digestOf(data), "application/octet-stream", data)
		return digestOf(data)
	}
	config := []byte(`{}`)
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": map[string]any{
			"mediaType": "application/vnd.oci.image.config.v1+json", "size": len(config),
			"digest": blob(config),
		},
		"layers": []any{map[string]any{
			"mediaType": fetch.PayloadType, "size": len(payload), "digest": blob(payload),
			"annotations": notes,
		}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	put(tb, s, s.URL+"/v2/charts/web/manifests/"+strings.Replace(digest, ":", "-", 1)+".sig",
		"application/vnd.oci.image.manifest.v1+json", manifest)
}

// manifestOf is the digest of the manifest of the chart.
func (s *ociServer) manifestOf(tb testing.TB) string {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, s.URL+"/v2/charts/web/manifests/1.0.0", nil)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return digestOf(data)
}

func TestCosignOfRegistries(t *testing.T) {
	t.Parallel()
	release, stranger := cosignKey(t), cosignKey(t)
	for name, c := range map[string]struct {
		attach func(s *ociServer, digest string)
		want   string
	}{
		"signed": {func(s *ociServer, digest string) {
			s.attach(t, digest, payloadOf(digest), map[string]string{fetch.AnnotationSignature: release.sign(t,
				payloadOf(digest))})
		}, ""},
		"not signed": {func(*ociServer, string) {}, "has no signature of the manifest"},
		"by another key": {func(s *ociServer, digest string) {
			s.attach(t, digest, payloadOf(digest), map[string]string{fetch.AnnotationSignature: stranger.sign(t,
				payloadOf(digest))})
		}, "not by that key"},
		"of another manifest": {func(s *ociServer, digest string) {
			p := payloadOf("sha256:" + strings.Repeat("0", 64))
			s.attach(t, digest, p, map[string]string{fetch.AnnotationSignature: release.sign(t, p)})
		}, "not the manifest sha256:"},
		"of another kind": {func(s *ociServer, digest string) {
			p := bytes.Replace(payloadOf(digest), []byte("cosign container image signature"),
				[]byte("atomic container signature"), 1)
			s.attach(t, digest, p, map[string]string{fetch.AnnotationSignature: release.sign(t, p)})
		}, "not that of a signature"},
		"without base64": {func(s *ociServer, digest string) {
			s.attach(t, digest, payloadOf(digest), map[string]string{fetch.AnnotationSignature: "%%%"})
		}, "not base64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newOCI(t)
			s.push(t, packChart(t, name))
			c.attach(s, s.manifestOf(t))
			f := Archives{fetch.New(fetch.Options{})}
			checkVerify(t, f, fetch.Ref{Chart: s.chart(), Version: "1.0.0"}, []Signer{release.Signer}, c.want)
		})
	}
}

// TestSignatureOfAMovedTag: the signatures of what a tag means now are not those of the locked archive.
func TestSignatureOfAMovedTag(t *testing.T) {
	t.Parallel()
	release, s := cosignKey(t), newOCI(t)
	s.push(t, packChart(t, "first"))
	f, ref := Archives{fetch.New(fetch.Options{})}, fetch.Ref{Chart: s.chart(), Version: "1.0.0"}
	locked, err := f.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	s.push(t, packChart(t, "second"))
	digest := s.manifestOf(t)
	s.attach(t, digest, payloadOf(digest), map[string]string{fetch.AnnotationSignature: release.sign(t,
		payloadOf(digest))})
	if err := f.Verify(t.Context(), ref, locked, []Signer{release.Signer}); !errors.Is(err, fetch.ErrDigest) ||
		!strings.Contains(err.Error(), "not the locked") {
		t.Errorf("the error is %v", err)
	}
}

// TestProvenanceInRegistries: Helm pushes the provenance file as a layer of the chart.
func TestProvenanceInRegistries(t *testing.T) {
	t.Parallel()
	acme, signer := pgp(t, "acme")
	_, other := pgp(t, "other")
	s := newOCI(t)
	archive := packChart(t, "")
	s.push(t, archive, registry.PushOptProvData(prove(t, acme, "web-1.0.0.tgz", archive)))
	ref := fetch.Ref{Chart: s.chart(), Version: "1.0.0"}
	checkVerify(t, Archives{fetch.New(fetch.Options{})}, ref, []Signer{signer}, "")
	checkVerify(t, Archives{fetch.New(fetch.Options{})}, ref, []Signer{other}, "a key that the keyring does not have")
}
