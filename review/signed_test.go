package review

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/session"

	"github.com/ProtonMail/go-crypto/openpgp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/provenance"

	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/report"
)

// signedFleet is a repository with an app whose chart comes from a chart repository.
type signedFleet struct {
	t      *testing.T
	dir    string
	files  map[string][]byte // of the chart repository
	server *httptest.Server
}

func newSignedFleet(t *testing.T) *signedFleet {
	t.Helper()
	f := &signedFleet{t: t, dir: t.TempDir(), files: map[string][]byte{}}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := f.files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(f.server.Close)
	f.git("init", "-q", "-b", "main")
	f.write("clusters/one.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: one}\nspec: {environment: dev, kubeVersion: 1.33.2}\n")
	return f
}

func (f *signedFleet) git(args ...string) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), "git", append([]string{
		"-C", f.dir, "-c", "user.name=A", "-c",
		"user.email=a@example.com",
	}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (f *signedFleet) write(name, text string) {
	f.t.Helper()
	file := filepath.Join(f.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		f.t.Fatal(err)
	}
}

// fleet writes sluice.yaml.
func (f *signedFleet) fleet(charts string) {
	f.write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec:\n  environments: [{name: dev}]\n"+charts)
}

// publish puts a chart into the repository, signed if there is a key, and locks it.
func (f *signedFleet) publish(version string, key *openpgp.Entity, verify string) {
	f.t.Helper()
	file, err := chartutil.Save(&chart.Chart{
		Metadata: &chart.Metadata{APIVersion: chart.APIVersionV2, Name: "web", Version: version},
		Templates: []*chart.File{{
			Name: "templates/cm.yaml",
			Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {version: \"" + version +
				"\"}\n"),
		}},
	}, f.t.TempDir())
	if err != nil {
		f.t.Fatal(err)
	}
	archive, err := os.ReadFile(file)
	if err != nil {
		f.t.Fatal(err)
	}
	f.files[filepath.Base(file)] = archive
	if key != nil {
		text, err := (&provenance.Signatory{Entity: key}).ClearSign(file)
		if err != nil {
			f.t.Fatal(err)
		}
		f.files[filepath.Base(file)+".prov"] = []byte(text)
	}
	f.files["index.yaml"] = fmt.Appendf(nil,
		"apiVersion: v1\nentries:\n  web:\n  - {apiVersion: v2, name: web, version: %s, urls: [%s]}\n", version,
		filepath.Base(file))
	ref := fetch.Ref{Repo: f.server.URL, Chart: "web", Version: version}
	locked, err := fetch.New(fetch.Options{}).Resolve(f.t.Context(), ref)
	if err != nil {
		f.t.Fatal(err)
	}
	lock := &fetch.Lock{}
	lock.Set(ref, locked)
	data, err := lock.Bytes()
	if err != nil {
		f.t.Fatal(err)
	}
	f.write("sluice.lock", string(data))
	f.write("apps/web/app.yaml",
		fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: web}\nspec:\n  namespace: web\n  placement: {}\n"+
			"  source: {helm: {chart: web, repo: %q, version: %s%s}}\n", f.server.URL, version, verify))
}

func (f *signedFleet) commit(tag string) {
	f.git("add", "-A")
	f.git("commit", "-qm", tag)
	f.git("tag", tag)
}

// review reviews the change from the tag trunk to the tag head, as a worker and its parent do.
func (f *signedFleet) review() (*report.Review, error) {
	f.t.Helper()
	r := session.Runtime{
		Cache: f.t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
	s, err := session.Open(f.t.Context(), r, session.Options{
		Repo: f.dir, Jobs: 2,
		Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(s.Close)
	trunk, err := s.Commit(f.t.Context(), "trunk")
	if err != nil {
		f.t.Fatal(err)
	}
	head, err := s.Commit(f.t.Context(), "head")
	if err != nil {
		f.t.Fatal(err)
	}
	return inProcess(f.t, s, Request{
		Request: compare.Request{Base: trunk, Head: head, Key: []byte("k")},
		Policy:  trunk.Tree,
	})
}

// TestSignersComeFromTheTrunk: a merge request cannot choose the keys that its charts are held against, whatever its
// fleet says.
func TestSignersComeFromTheTrunk(t *testing.T) {
	t.Parallel()
	ring := func(e *openpgp.Entity) string {
		var out bytes.Buffer
		if err := e.Serialize(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	keys := map[string]*openpgp.Entity{}
	for _, name := range []string{"acme", "mallory"} {
		key, err := openpgp.NewEntity(name, "", name+"@example.com", nil)
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = key
	}
	const signers = "    signers: [{name: acme, provenance: {keyring: keys/acme.gpg}}]\n"
	const demanded = "  charts:\n    verify: [acme]\n" + signers
	const offered = "  charts:\n" + signers
	for name, c := range map[string]struct {
		trunk string // of sluice.yaml
		head  func(f *signedFleet)
		want  string // "" for a change that passes
	}{
		"signed": {demanded, func(f *signedFleet) { f.publish("2.0.0", keys["acme"], "") }, ""},
		"asked by the app": {offered, func(f *signedFleet) {
			f.publish("2.0.0", keys["acme"],
				", verify: [acme]")
		}, ""},
		"nothing demanded": {offered, func(f *signedFleet) { f.publish("2.0.0", nil, "") }, ""},
		"unsigned": {
			demanded, func(f *signedFleet) { f.publish("2.0.0", nil, "") },
			"has no provenance file",
		},
		"unsigned, asked by the app": {
			offered, func(f *signedFleet) { f.publish("2.0.0", nil, ", verify: [acme]") },
			"has no provenance file",
		},
		"by a stranger": {
			demanded, func(f *signedFleet) { f.publish("2.0.0", keys["mallory"], "") },
			"a key that the keyring does not have",
		},
		"with the stranger's keyring": {demanded, func(f *signedFleet) {
			f.publish("2.0.0", keys["mallory"], "")
			f.write("keys/acme.gpg", ring(keys["mallory"]))
		}, "a key that the keyring does not have"},
		"without the demand": {
			demanded, func(f *signedFleet) { f.publish("2.0.0", nil, ""); f.fleet("") },
			"has no provenance file",
		},
		"with a signer of the change": {demanded, func(f *signedFleet) {
			f.publish("2.0.0", keys["mallory"], ", verify: [mallory]")
			f.write("keys/mallory.gpg", ring(keys["mallory"]))
			f.fleet(strings.Replace(demanded, "[{name: acme",
				"[{name: mallory, provenance: {keyring: keys/mallory.gpg}}, {name: acme", 1))
		}, "the trunk has no signer of charts"},
		"with the keyring that the trunk lacks": {demanded, func(f *signedFleet) {
			f.publish("2.0.0", keys["mallory"], "")
			f.write("keys/acme.gpg", ring(keys["mallory"]))
		}, "the trunk has no signer of charts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSignedFleet(t)
			f.fleet(c.trunk)
			if !strings.HasSuffix(name, "that the trunk lacks") {
				f.write("keys/acme.gpg", ring(keys["acme"]))
			}
			f.publish("1.0.0", keys["acme"], "")
			f.commit("trunk")
			c.head(f)
			// The repository still has the version of the trunk.
			f.files["index.yaml"] = append(f.files["index.yaml"],
				"  - {apiVersion: v2, name: web, version: 1.0.0, urls: [web-1.0.0.tgz]}\n"...)
			f.commit("head")
			got, err := f.review()
			if err != nil {
				t.Fatal(err)
			}
			text, _ := report.Markdown(got, 60_000)
			failed := got.Verdict == report.VerdictFail || got.Verdict == report.VerdictError
			if failed != (c.want != "") || !strings.Contains(text, c.want) {
				t.Fatalf("the verdict is %s; want %q\nthe text is\n%s", got.Verdict, c.want, text)
			}
			if c.want == "" {
				return
			}
			for _, word := range []string{"web", "2.0.0"} { // the app and the chart have one name
				if !strings.Contains(text, word) {
					t.Errorf("%q is not named:\n%s", word, text)
				}
			}
		})
	}
}
