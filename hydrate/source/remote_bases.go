package source

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/giturl"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
)

// remoteBases finds the repositories that kustomizations name by URL: those that the fleet declares, at the pinned
// commit, and commits that the URL names by their whole id. It implements kustomize.Bases, and is safe for concurrent
// use.
type remoteBases struct {
	repositories []remoteBase
	exact        *exactMounts
}

type remoteBase struct {
	address string   // host and path, without scheme, user and .git
	refs    []string // names of the pinned commit: branch or tag, and commit
	dir     string
}

// newRemoteBases returns the remote bases of the repositories whose content is available, and those of exact.
func newRemoteBases(repositories []*fleet.Repository, lock *fetch.Lock, exact *exactMounts) *remoteBases {
	out := &remoteBases{exact: exact}
	for _, r := range repositories {
		pin, ok := lock.Pin(r.Name)
		if r.Commit == "" || !ok {
			continue
		}
		_, name, _ := strings.Cut(strings.TrimPrefix(pin.Resolved, "refs/"), "/")
		out.repositories = append(out.repositories, remoteBase{
			address: giturl.Plain(r.URL), refs: []string{name, pin.Commit}, dir: path.Join(fleet.MountDir, r.Name),
		})
	}
	return out
}

// Find implements kustomize.Bases.
func (b *remoteBases) Find(file, reference string) (string, bool) {
	found, ref := b.named(reference)
	for _, m := range found {
		if ref == "" || slices.Contains(m.refs, ref) {
			return path.Join(m.dir, m.rest), true
		}
	}
	r, ok := kustomize.ParseRemote(reference)
	if !ok || !r.Exact() {
		return "", false
	}
	// Whoever may write to another repository must not choose what the fleet's credentials read.
	c := fleet.GitCommit{URL: r.URL, Commit: r.Ref, Nested: fleet.RepositoryOf(file) != ""}
	dir, err := b.exact.mount(c)
	return path.Join(dir, r.Dir), err == nil
}

// Unpinned implements kustomize.Bases.
func (b *remoteBases) Unpinned(reference string) error {
	if r, ok := kustomize.ParseRemote(reference); ok && r.Exact() {
		if err := b.exact.failure(r.URL, r.Ref); err != nil {
			return err
		}
	}
	found, _ := b.named(reference) // whichever ref it asks for
	if len(found) == 0 {
		return nil
	}
	var pins []string
	for _, m := range found {
		pins = append(pins, fmt.Sprintf("%s at %s", path.Base(m.dir), safetext.Shorten(m.refs[0], 100)))
	}
	return errors.New("is not at the pinned commit: sluice.lock pins " + strings.Join(pins, " and ") +
		"; write the pinned ref, or none")
}

// remoteMatch is a repository that a URL names, and the path in it.
type remoteMatch struct {
	remoteBase
	rest string
}

// named returns the repositories that a Kustomize URL can mean, and the ref that it asks for; "" if it asks for none.
// See https://github.com/kubernetes-sigs/kustomize/blob/master/examples/remoteBuild.md for the forms.
func (b *remoteBases) named(reference string) ([]remoteMatch, string) {
	address, query, _ := strings.Cut(reference, "?")
	parameters, err := url.ParseQuery(query)
	if err != nil || !strings.ContainsAny(address, "/:") {
		return nil, ""
	}
	ref := parameters.Get("ref")
	if ref == "" {
		ref = parameters.Get("version")
	}
	address = giturl.Plain(address)
	var out []remoteMatch
	for _, r := range b.repositories {
		rest, ok := strings.CutPrefix(address, r.address)
		if !ok {
			continue
		}
		rest = strings.TrimPrefix(rest, ".git")
		if rest != "" && rest[0] != '/' || slices.Contains(strings.Split(rest, "/"), "..") {
			continue
		}
		out = append(out, remoteMatch{remoteBase: r, rest: rest})
	}
	return out, ref
}
