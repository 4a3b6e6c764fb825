package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/go-git/go-billy/v5/osfs"
)

// endpoint is a remote with the credentials for it.
type endpoint struct {
	url    string // without credentials, for people
	ep     *transport.Endpoint
	method transport.AuthMethod
	secret []string
}

func newEndpoint(raw string, auth Auth) (endpoint, error) {
	out := endpoint{url: redactURL(raw)}
	ep, err := transport.NewEndpoint(raw)
	if err != nil {
		return out, fmt.Errorf("the address %s is no Git address", out.url)
	}
	if ep.Password != "" || ep.User != "" && ep.Protocol != "ssh" {
		if auth.User == "" && auth.Password == "" && auth.Token == "" {
			auth.User, auth.Password = ep.User, ep.Password
		}
		out.secret = append(out.secret, ep.Password)
		if ep.Protocol != "ssh" {
			ep.User, ep.Password = "", ""
		}
	}
	out.ep = ep
	out.secret = append(out.secret, auth.Password, auth.Token)
	if out.method, err = auth.method(ep); err != nil {
		return out, fmt.Errorf("%s: %w", out.url, err)
	}
	return out, nil
}

// redactURL removes credentials from an address.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return regexp.MustCompile(`//[^/]*@`).ReplaceAllString(raw, "//")
	}
	if u.Scheme == "" || u.User == nil {
		return raw
	}
	if u.Scheme == "ssh" {
		u.User = url.User(u.User.Username())
	} else {
		u.User = nil
	}
	return u.String()
}

// explain puts the address into an error, takes credentials out, and adds what helps.
func (e endpoint) explain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, s := range e.secret {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	hint := ""
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed):
		hint = ": set SLUICE_GIT_USERNAME and SLUICE_GIT_PASSWORD, or SLUICE_GIT_TOKEN"
	case strings.Contains(text, "knownhosts") || strings.Contains(text, "known_hosts"):
		hint = ": check the host's key and add it with `ssh-keyscan HOST >> ~/.ssh/known_hosts`"
	}
	return &remoteError{fmt.Sprintf("%s: %s%s", e.url, text, hint), err}
}

// remoteError hides the original text, which may hold credentials, and keeps the error for errors.Is.
type remoteError struct {
	text  string
	cause error
}

// Error is the redacted text.
func (e *remoteError) Error() string { return e.text }

// Is compares with the hidden cause; Unwrap would show its text.
func (e *remoteError) Is(target error) bool { return errors.Is(e.cause, target) }

// openMirror clones or updates a bare mirror of the trunk's history; branches with rendered content are not fetched here.
func openMirror(ctx context.Context, o Options) (*Store, error) {
	e, err := newEndpoint(o.URL, o.Auth)
	if err != nil {
		return nil, err
	}
	dir, temp := "", ""
	if o.CacheDir == "" {
		if temp, err = os.MkdirTemp("", "sluice-mirror-"); err != nil {
			return nil, err
		}
		dir = temp
	} else {
		dir = filepath.Join(o.CacheDir, hashObject("blob", []byte(e.url)).String())
	}
	s, err := openOrInit(dir)
	if err != nil {
		return nil, fmt.Errorf("mirror of %s: %w", e.url, err)
	}
	s.remote, s.auth, s.temp = o.URL, o.Auth, temp
	return s, nil
}

func openOrInit(dir string) (*Store, error) {
	if isGitDir(dir) {
		return openGitDir(dir)
	}
	storer := filesystem.NewStorage(osfs.New(dir), cache.NewObjectLRUDefault())
	if _, err := git.Init(storer, nil); err != nil {
		return nil, err
	}
	return openGitDir(dir)
}

// FetchRevision makes a revision of the remote readable here and gives its commit: a hash, a branch, a tag, or HEAD. With
// history, its ancestors come too.
func (s *Store) FetchRevision(ctx context.Context, rev string) (Commit, error) {
	e, err := newEndpoint(s.remote, s.auth)
	if err != nil {
		return Commit{}, err
	}
	refs, err := e.list(ctx)
	if err != nil {
		return Commit{}, err
	}
	name, h, err := e.choose(refs, rev)
	if err != nil {
		return Commit{}, err
	}
	if !s.Has(h) {
		refspec := config.RefSpec(fmt.Sprintf("+%s:refs/sluice/source", name))
		remote := git.NewRemote(s.storer, &config.RemoteConfig{Name: "source", URLs: []string{s.remote}})
		err := remote.FetchContext(ctx, &git.FetchOptions{RefSpecs: []config.RefSpec{refspec}, Auth: e.method, Tags: git.NoTags})
		if err != nil && !errors.Is(err, git.NoErrAlreadyUpToDate) {
			return Commit{}, e.explain(err)
		}
		s.reindex()
	}
	return s.Commit(ctx, h)
}

// choose finds the name to ask the server for: servers give a ref to everybody, and any other commit only if they are set
// up to.
func (e endpoint) choose(refs map[string]Hash, rev string) (string, Hash, error) {
	if h, err := ParseHash(rev); err == nil {
		for name, at := range refs {
			if at == h {
				return name, h, nil
			}
		}
		return rev, h, nil
	}
	for _, name := range []string{rev, heads + rev, "refs/tags/" + rev} {
		if h, ok := refs[name]; ok {
			return name, h, nil
		}
	}
	return "", Hash{}, fmt.Errorf("%w: %s has no branch or tag %q", ErrNotFound, e.url, rev)
}

// list reads the remote's refs.
func (e endpoint) list(ctx context.Context) (map[string]Hash, error) {
	t, err := client.NewClient(e.ep)
	if err != nil {
		return nil, e.explain(err)
	}
	session, err := t.NewUploadPackSession(e.ep, e.method)
	if err != nil {
		return nil, e.explain(err)
	}
	defer func() { _ = session.Close() }()
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return map[string]Hash{}, nil
	}
	if err != nil {
		return nil, e.explain(err)
	}
	return refsOf(advertised), nil
}

func refsOf(advertised *packp.AdvRefs) map[string]Hash {
	out := make(map[string]Hash, len(advertised.References)+1)
	for name, h := range advertised.References {
		out[name] = Hash(h)
	}
	if advertised.Head != nil {
		out["HEAD"] = Hash(*advertised.Head)
	}
	return out
}

// Ensure makes objects readable here, asking the remote for those that are missing in one request. Commits come without
// their history.
func (s *Store) Ensure(ctx context.Context, hashes ...Hash) error {
	var missing []Hash
	for _, h := range hashes {
		if !s.Has(h) {
			missing = append(missing, h)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if s.remote == "" {
		return fmt.Errorf("%w: %s, and the repository has no remote to fetch it from", ErrNotFound, missing[0])
	}
	e, err := newEndpoint(s.remote, s.auth)
	if err != nil {
		return err
	}
	return s.fetch(ctx, e, missing)
}

// fetch asks a server for objects by name. It keeps no refs: what is fetched stays as long as Git keeps objects that
// nothing refers to, and can be fetched again.
func (s *Store) fetch(ctx context.Context, e endpoint, wants []Hash) error {
	t, err := client.NewClient(e.ep)
	if err != nil {
		return e.explain(err)
	}
	session, err := t.NewUploadPackSession(e.ep, e.method)
	if err != nil {
		return e.explain(err)
	}
	defer func() { _ = session.Close() }()
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return e.explain(err)
	}
	req := packp.NewUploadPackRequestFromCapabilities(advertised.Capabilities)
	for _, h := range wants {
		req.Wants = append(req.Wants, plumbing.Hash(h))
	}
	if advertised.Capabilities.Supports(capability.Shallow) {
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return err
		}
		req.Depth = packp.DepthCommits(1)
	}
	response, err := session.UploadPack(ctx, req)
	if err != nil {
		return e.explain(fmt.Errorf("fetch %d objects, such as %s: %w", len(wants), wants[0], err))
	}
	defer func() { _ = response.Close() }()
	var stream io.Reader = response
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		stream = sideband.NewDemuxer(sideband.Sideband64k, response)
	case req.Capabilities.Supports(capability.Sideband):
		stream = sideband.NewDemuxer(sideband.Sideband, response)
	}
	s.mu.Lock()
	err = packfile.UpdateObjectStorage(s.storer, stream)
	s.mu.Unlock()
	if err != nil {
		return e.explain(fmt.Errorf("fetch %d objects: %w", len(wants), err))
	}
	s.reindex()
	return nil
}

// reindex makes go-git see packs that came since it looked.
func (s *Store) reindex() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fsStorage, ok := s.storer.(*filesystem.Storage); ok {
		fsStorage.Reindex()
	}
}
