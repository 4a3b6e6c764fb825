package mirror_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bundle/mirror"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
)

// world is a store with objects of tests.
type world struct {
	*testing.T
	store *gitstore.Store
	w     *gitstore.Writer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := gitstore.OpenMemory()
	w, err := s.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return &world{t, s, w}
}

func (w *world) hash(h gitstore.Hash, err error) gitstore.Hash {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	return h
}

func (w *world) blob(text string) gitstore.Hash { return w.hash(w.w.Blob([]byte(text))) }

func (w *world) tree(a *mirror.Additions, before gitstore.Hash) gitstore.Hash {
	w.Helper()
	return w.hash(a.Tree(w.Context(), w.store, w.w, before))
}

func (w *world) mirror(tree gitstore.Hash) *mirror.Mirror {
	m := mirror.New(w.store, func() time.Time { return time.Unix(0, 0) })
	m.With(tree)
	return m
}

// commit returns the bytes of a commit of a tree, which is not in the store.
func (w *world) commit(tree gitstore.Hash) (gitstore.Hash, []byte) {
	data := []byte("tree " + tree.String() + "\nparent " + tree.String() + "\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n")
	return gitstore.Sum("commit", data), data
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestAMirrorChangesNothing holds that what a mirror has under a wrong name does not count.
func TestAMirrorChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good, other := w.hash(w.w.Tree([]gitstore.Entry{{Name: "a", Mode: gitstore.ModeFile, Hash: w.blob("good")}})),
		w.hash(w.w.Tree([]gitstore.Entry{{Name: "a", Mode: gitstore.ModeFile, Hash: w.blob("bad")}}))
	id, data := w.commit(good)
	fake, fakeData := w.commit(other)
	var a mirror.Additions
	a.File(mirror.ChartFile(digest("chart")), w.blob("chart"))
	a.File(mirror.ChartFile(digest("real")), w.blob("forged"))
	a.File(mirror.SignaturesFile(digest("chart")), w.blob("no JSON"))
	if err := a.Commit(w.w, id, data, good, false); err != nil {
		t.Fatal(err)
	}
	m := w.mirror(w.tree(&a, gitstore.Hash{}))
	if got, err := m.Chart(t.Context(), "sha256:"+digest("chart")); string(got) != "chart" || err != nil {
		t.Errorf("the chart is %q, %v", got, err)
	}
	for _, d := range []string{"sha256:" + digest("real"), "sha256:" + digest("none"), "sha256:../../x", "sha512:" + digest("chart"), ""} {
		if got, err := m.Chart(t.Context(), d); got != nil || err != nil {
			t.Errorf("%q is %q, %v", d, got, err)
		}
	}
	if got, err := m.Evidence(t.Context(), "sha256:"+digest("chart")); got != nil || err != nil {
		t.Errorf("the signatures are %v, %v", got, err)
	}
	if ok, err := m.Commit(t.Context(), id, true); ok || err != nil {
		t.Errorf("a commit that not everybody may read: %v %v", ok, err)
	}
	if ok, err := m.Commit(t.Context(), id, false); !ok || err != nil {
		t.Errorf("the commit: %v %v", ok, err)
	}
	if c, err := w.store.Commit(t.Context(), id); err != nil || c.Tree != good {
		t.Errorf("the commit is %+v, %v", c, err)
	}
	for name, change := range map[string]func(*mirror.Additions) error{
		"the bytes of another commit": func(a *mirror.Additions) error { return a.Commit(w.w, fake, data, good, false) },
		"another tree":                func(a *mirror.Additions) error { return a.Commit(w.w, fake, fakeData, good, false) },
		"more bytes":                  func(a *mirror.Additions) error { return a.Commit(w.w, fake, append(fakeData, 'x'), other, false) },
		"too many bytes": func(a *mirror.Additions) error {
			return a.Commit(w.w, fake, append(fakeData, make([]byte, mirror.MaxCommit)...), other, false)
		},
	} {
		var a mirror.Additions
		if err := change(&a); err != nil {
			t.Fatal(err)
		}
		if ok, err := w.mirror(w.tree(&a, gitstore.Hash{})).Commit(t.Context(), fake, false); ok || err != nil {
			t.Errorf("%s: %v %v", name, ok, err)
		}
	}
}

// TestABrokenMirrorHidesNoOther holds that a branch that cannot be read hides nothing of the others, and that a call without a
// result says so.
func TestABrokenMirrorHidesNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.hash(w.w.Tree([]gitstore.Entry{{Name: "a", Mode: gitstore.ModeFile, Hash: w.blob("good")}}))
	id, data := w.commit(good)
	var a mirror.Additions
	a.File(mirror.ChartFile(digest("chart")), w.blob("chart"))
	if err := a.Commit(w.w, id, data, good, false); err != nil {
		t.Fatal(err)
	}
	m := w.mirror(gitstore.Hash{1}) // which nobody has
	if got, err := m.Chart(t.Context(), "sha256:"+digest("chart")); got != nil || err == nil {
		t.Errorf("the chart is %q, %v", got, err)
	}
	m.With(w.tree(&a, gitstore.Hash{}))
	if got, err := m.Chart(t.Context(), "sha256:"+digest("chart")); string(got) != "chart" || err != nil {
		t.Errorf("the chart is %q, %v", got, err)
	}
	if ok, err := m.Commit(t.Context(), id, false); !ok || err != nil {
		t.Errorf("the commit: %v %v", ok, err)
	}
}

// TestAdditionsKeep holds that a mirror keeps what it has, and that equal additions are an equal tree.
func TestAdditionsKeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var one, two mirror.Additions
	one.File("a.tgz", w.blob("a"))
	two.File("b.tgz", w.blob("b"))
	first := w.tree(&one, gitstore.Hash{})
	both := w.tree(&two, first)
	if w.tree(&two, both) != both || w.tree(&one, both) != both {
		t.Error("the same additions give another tree")
	}
	snap := w.store.Snapshot(t.Context(), both)
	for name, want := range map[string]string{"charts/a.tgz": "a", "charts/b.tgz": "b"} {
		if got, err := snap.ReadFile(name); string(got) != want || err != nil {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}

// TestArchivesOfAMirrorAlone holds that archives without a fetcher ask nobody.
func TestArchivesOfAMirrorAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var a mirror.Additions
	a.File(mirror.ChartFile(digest("chart")), w.blob("chart"))
	archives := mirror.Archives{Mirror: w.mirror(w.tree(&a, gitstore.Hash{}))}
	ref := fetch.Ref{Repo: "https://charts.example.com", Chart: "x", Version: "1"}
	if got, err := archives.Archive(t.Context(), ref, fetch.Locked{Version: "1", Digest: "sha256:" + digest("chart")}); !bytes.Equal(got, []byte("chart")) || err != nil {
		t.Errorf("the chart is %q, %v", got, err)
	}
	if _, err := archives.Archive(t.Context(), ref, fetch.Locked{Version: "1", Digest: "sha256:" + digest("other")}); err == nil {
		t.Error("a chart that is nowhere is found")
	}
	if err := archives.Verify(t.Context(), ref, fetch.Locked{Version: "1", Digest: "sha256:" + digest("chart")}, []signature.Signer{{Name: "x", Key: []byte("x")}}); err == nil {
		t.Error("a chart without signatures passes")
	}
	err := (mirror.Commits{Mirror: archives.Mirror}).FetchCommit(t.Context(), fleet.GitCommit{URL: "https://x", Commit: digest("x")[:40]})
	if err == nil || errors.Is(err, gitstore.ErrNotFound) {
		t.Errorf("a commit that is nowhere: %v", err)
	}
}

// cosigned returns the signature of a chart in a registry by a new key, and the key.
func (w *world) cosigned(chart string) (fetch.Evidence, signature.Signer) {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		w.Fatal(err)
	}
	manifest := fmt.Sprintf(`{"layers": [{"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "digest": "sha256:%s"}]}`, digest(chart))
	payload := fmt.Sprintf(`{"critical": {"image": {"docker-manifest-digest": "sha256:%s"}, "type": "cosign container image signature"}}`, digest(manifest))
	sum := sha256.Sum256([]byte(payload))
	made, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		w.Fatal(err)
	}
	return fetch.Evidence{Manifest: []byte(manifest), Cosign: []fetch.Cosign{{Payload: []byte(payload), Signature: base64.StdEncoding.EncodeToString(made)}}},
		signature.Signer{Name: "release", Key: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})}
}

// TestSignaturesOfAMirror holds that signatures in a mirror are verified like those of a registry.
func TestSignaturesOfAMirror(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	evidence, signer := w.cosigned("chart")
	_, stranger := w.cosigned("chart")
	ofAnother, _ := w.cosigned("another chart")
	verify := func(e fetch.Evidence, by signature.Signer) error {
		t.Helper()
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var a mirror.Additions
		a.File(mirror.ChartFile(digest("chart")), w.blob("chart"))
		a.File(mirror.SignaturesFile(digest("chart")), w.blob(string(text)))
		archives := mirror.Archives{Mirror: w.mirror(w.tree(&a, gitstore.Hash{}))}
		return archives.Verify(t.Context(), fetch.Ref{Chart: "oci://r.example.com/chart", Version: "1"},
			fetch.Locked{Version: "1", Digest: "sha256:" + digest("chart")}, []signature.Signer{by})
	}
	if err := verify(evidence, signer); err != nil {
		t.Error(err)
	}
	if err := verify(evidence, stranger); !errors.Is(err, signature.ErrUnsigned) {
		t.Errorf("another key: %v", err)
	}
	if err := verify(ofAnother, signer); !errors.Is(err, signature.ErrUnsigned) {
		t.Errorf("the signature of another chart: %v", err)
	}
}
