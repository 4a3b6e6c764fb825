package gitstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// maxOther limits the bytes that one request to another repository may store. Its owner need not be that of the fleet.
const maxOther = 1 << 30

// maxPublic limits the bytes of one answer to FetchPublic.
const maxPublic = 128 << 20

// maxAdvertised limits the bytes of the list of refs of another repository, and maxRefs its branches and tags. Process
// memory holds them.
const (
	maxAdvertised = 64 << 20
	maxRefs       = 100_000
)

// boundedRefs bounds the lists of refs that a host sends over HTTP: the only answers to GET in Git's protocol.
type boundedRefs struct {
	next http.RoundTripper
	most int64
}

// RoundTrip implements http.RoundTripper.
func (b boundedRefs) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{&bounded{answer.Body, b.most, b.most, "delete old branches and tags"}, answer.Body}
	}
	return answer, err
}

// transport returns the client for the endpoint, and the endpoint to give to it, which go-git may change.
func (e endpoint) transport() (transport.Transport, *transport.Endpoint, error) {
	ep := copyOf(e.ep)
	if e.most == 0 || ep.Protocol != "http" && ep.Protocol != "https" {
		t, err := client.NewClient(ep)
		return t, ep, err
	}
	next := http.DefaultTransport
	if len(ep.CaBundle) > 0 { // go-git adds certificates to an *http.Transport only
		own, ok := next.(*http.Transport)
		if !ok {
			return nil, nil, errors.New("certificates need Go's own HTTP transport")
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, nil, err
		}
		pool.AppendCertsFromPEM(ep.CaBundle)
		own = own.Clone()
		own.TLSClientConfig, own.DisableKeepAlives = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, true
		next, ep.CaBundle = own, nil
	}
	return githttp.NewClient(&http.Client{Transport: boundedRefs{next, maxAdvertised}}), ep, nil
}

// bounded is a stream that fails beyond a number of bytes.
type bounded struct {
	io.Reader
	left, most int64
	advice     string
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes, the limit for another repository: %s", b.most,
			b.advice)
	}
	return n, err
}

// AddRemote adds another repository as a source of missing objects. The store asks its own remote first, and never
// reads branches or history from the other one.
func (s *Store) AddRemote(address string, auth Auth) error {
	_, err := s.addOther(address, auth)
	return err
}

func (s *Store) addOther(address string, auth Auth) (endpoint, error) {
	e, err := newEndpoint(address, auth)
	if err != nil && e.ep == nil {
		return e, err
	}
	e.most = maxOther
	s.mu.Lock()
	defer s.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(s.others), func(known endpoint) bool { return known.url == e.url })
	s.others = append(others, e)
	return e, nil
}

// FetchPinned fetches a commit of another repository without its history, and without files if the server supports
// that. The store then fetches missing files from that repository, as after AddRemote.
func (s *Store) FetchPinned(ctx context.Context, address string, auth Auth, commit Hash) error {
	if s.Has(commit) {
		return s.AddRemote(address, auth) // files may still be missing
	}
	if s.supply != nil {
		return s.fromSupply(ctx, []Hash{commit})
	}
	e, err := s.addOther(address, auth)
	if err != nil {
		return err
	}
	return s.fetchOne(ctx, e, commit, func() bool { return s.Has(commit) }) // another fetch may have added it
}

// fetchOne fetches a commit from one repository, one caller at a time, unless had says that nothing is left to fetch.
func (s *Store) fetchOne(ctx context.Context, e endpoint, commit Hash, had func() bool) error {
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if had() {
		return nil
	}
	want := fetchRequest{objects: []Hash{commit}, depth: 1, filter: packp.FilterBlobNone()}
	if err := s.fetch(ctx, e, want); err != nil {
		return err
	}
	if !s.Has(commit) {
		return fmt.Errorf("%s: the server sent no commit with the id %s", e.url, commit)
	}
	return nil
}

// FetchPublic is FetchPinned without credentials, for an address that somebody without rights may have chosen. It asks
// the repository even if the store has the commit: whoever gets it here must be able to get it there. Only HTTP is
// accepted, because SSH always has a key.
func (s *Store) FetchPublic(ctx context.Context, address string, caBundle []byte, commit Hash) error {
	e, err := newEndpoint(address, Auth{CABundle: caBundle})
	if err != nil {
		return err
	}
	if e.ep.Protocol != "http" && e.ep.Protocol != "https" {
		return fmt.Errorf("%s: a repository that anybody may read needs an address with https://", e.url)
	}
	if e.method != nil { // of an address with a password
		return fmt.Errorf("%s: the address of a public repository needs no credentials", e.url)
	}
	e.most = maxPublic
	if err := s.fetchOne(ctx, e, commit, func() bool { return false }); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.others, func(known endpoint) bool { return known.url == e.url }) {
		s.others = append(slices.Clone(s.others), e)
	}
	return nil
}

// RemoteRefs lists the branches and tags of a repository by full name, with the commit of an annotated tag below
// `refs/tags/NAME^{}`. Nothing is stored.
func RemoteRefs(ctx context.Context, address string, auth Auth) (map[string]Hash, error) {
	e, err := newEndpoint(address, auth)
	if err != nil {
		return nil, err
	}
	e.most = maxOther
	session, advertised, err := e.upload(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }() // it was only read
	out := refsOf(advertised)
	maps.DeleteFunc(out, func(name string, _ Hash) bool {
		// a forge has refs of its own, such as refs/pull
		return !strings.HasPrefix(name, heads) && !strings.HasPrefix(name, "refs/tags/")
	})
	if len(out) > maxRefs {
		return nil, e.explain(fmt.Errorf("it has %d branches and tags, more than %d, the limit for another repository: delete old ones", len(out), maxRefs))
	}
	for name, h := range advertised.Peeled {
		out[name+"^{}"] = Hash(h)
	}
	return out, nil
}
