package artifacts_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/artifacts"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// server is a real registry in process; before can answer first.
type server struct {
	*httptest.Server
	real   http.Handler
	mu     sync.Mutex
	before func(http.ResponseWriter, *http.Request) bool
	asked  []string
}

func newServer(tb testing.TB, options ...ociregistry.Option) *server {
	tb.Helper()
	s := &server{real: ociregistry.New(append(options, ociregistry.Logger(log.New(io.Discard, "", 0)))...)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+r.URL.Path)
		before := s.before
		s.mu.Unlock()
		if before == nil || !before(w, r) {
			s.real.ServeHTTP(w, r)
		}
	}))
	tb.Cleanup(s.Close)
	return s
}

// answer sets what answers first, and forgets the requests.
func (s *server) answer(before func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.asked = before, nil
}

// requests returns the requests since answer.
func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *server) host() string { return strings.TrimPrefix(s.URL, "http://") }

// place is a fleet whose branches and artifacts are on servers.
type place struct {
	*hydratetest.Remote
	server  *server
	private session.ArtifactKey
	own     session.Identity
}

const fleetName = "harbour"

// newPlace hydrates the fleet of testdata/fleet with spec.output.oci to the branches of dev.
func newPlace(tb testing.TB) *place {
	tb.Helper()
	p := &place{Remote: hydratetest.NewRemote(tb), server: newServer(tb)}
	p.setOCI("{repository: \"oci://" + p.server.host() + "/gitops\"}")
	p.hydrate()
	return p
}

// setOCI merges spec.output.oci to the trunk.
func (p *place) setOCI(value string) {
	p.T.Helper()
	text := p.Read("sluice.yaml")
	before, rest, found := strings.Cut(text, "  output: {oci: ")
	if found {
		_, after, _ := strings.Cut(rest, "\n")
		text = before + after
	}
	p.Write("sluice.yaml", strings.Replace(text, "\nspec:\n", "\nspec:\n  output: {oci: "+value+"}\n", 1))
	p.Commit("artifacts")
	p.Git("push", "-q", "origin", "main")
}

func (p *place) hydrate() {
	p.T.Helper()
	hydratetest.WantStatus(p.T, p.Push("main", nil), hydrate.StatusUpdated, "")
}

// config returns a new clone's view of the branches, as another process has it.
func (p *place) config() artifacts.Config {
	p.T.Helper()
	h := p.Hydrator(2)
	remote, err := h.Store.Remote("origin", gitstore.Auth{})
	if err != nil {
		p.T.Fatal(err)
	}
	h = h.WithBranches(remote)
	c, err := h.Store.Resolve(p.T.Context(), "main")
	if err != nil {
		p.T.Fatal(err)
	}
	f, _, err := h.Fleet(p.T.Context(), c.Tree)
	if err != nil {
		p.T.Fatal(err)
	}
	fetcher := p.fetcher()
	var keys *artifacts.Keys
	if file := f.Spec.Output.OCI.Key; file != "" {
		if keys, err = artifacts.ReadKeys(p.T.Context(), h.Store.Snapshot(p.T.Context(), c.Tree), file, p.private); err != nil {
			p.T.Fatal(err)
		}
	}
	if i := f.Spec.Output.OCI.Identity; i != nil {
		if keys, err = artifacts.ReadIdentity(h.Store.Snapshot(p.T.Context(), c.Tree), *i, p.own); err != nil {
			p.T.Fatal(err)
		}
	}
	return artifacts.Config{
		Hydrator: h, Fleet: f, Keys: keys,
		Registries: func(name string) (artifacts.Registry, error) { return fetcher.Registry(name) },
	}
}

func (p *place) fetcher() *fetch.Fetcher {
	return fetch.New(fetch.Options{Timeout: 5 * time.Second, Sleep: noSleep})
}

func (p *place) publish(o artifacts.Options) *artifacts.Result {
	p.T.Helper()
	r, err := artifacts.Publish(p.T.Context(), p.config(), o)
	if err != nil {
		p.T.Fatal(err)
	}
	return r
}

// want fails unless the summary of a run is as wanted.
func (p *place) want(r *artifacts.Result, summary string) {
	p.T.Helper()
	if got := r.Summary(); got != summary {
		p.T.Errorf("the run says %q, want %q: %+v", got, summary, r)
	}
}

func (p *place) cluster() *fleet.Cluster {
	p.T.Helper()
	const name = "dev-1"
	c, ok := p.config().Fleet.Cluster(name)
	if !ok {
		p.T.Fatalf("no cluster %s", name)
	}
	return c
}

// tip returns the commit of a branch of the remote.
func (p *place) tip(branch string) string { return p.Bare.Git("rev-parse", "refs/heads/"+branch) }

// digest returns the digest behind a tag of the artifact of dev-1; "" if there is none.
func (p *place) digest(tag string) string {
	p.T.Helper()
	r, err := p.fetcher().Registry("oci://" + p.server.host() + "/gitops/" + fleetName + "/dev-1")
	if err != nil {
		p.T.Fatal(err)
	}
	d, err := r.Resolve(p.T.Context(), tag)
	if err != nil {
		return ""
	}
	return d.Digest.String()
}
