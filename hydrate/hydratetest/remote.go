package hydratetest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
)

// Remote is a clone whose output goes to branches of its remote or of another repository.
type Remote struct {
	*Repo
	Bare   *Repo
	Output string // another repository for the branches; "" for the remote
}

// NewRemote returns a clone of a bare repository with the fleet of Demo.
func NewRemote(t testing.TB) *Remote {
	t.Helper()
	r := Demo(t)
	bare := filepath.Join(t.TempDir(), "bare.git")
	r.Git("clone", "-q", "--bare", r.Dir, bare)
	r.Git("remote", "add", "origin", "file://"+bare)
	return &Remote{Repo: r, Bare: &Repo{T: t, Dir: bare}}
}

// Push hydrates a revision to dev.
func (r *Remote) Push(revision string, change func(*hydrate.Config, *hydrate.Request)) hydrate.EnvironmentResult {
	r.T.Helper()
	return r.PushAll(revision, change).Environments[0]
}

// PushAll is Push with the results of all environments.
func (r *Remote) PushAll(revision string, change func(*hydrate.Config, *hydrate.Request)) *hydrate.Result {
	r.T.Helper()
	h := r.Hydrator(2)
	c, err := h.Store.Resolve(r.T.Context(), revision)
	if err != nil {
		r.T.Fatal(err)
	}
	config := h.Config
	if config.Source, err = h.Store.Remote("origin", gitstore.Auth{}); err != nil {
		r.T.Fatal(err)
	}
	config.Branches = config.Source
	if r.Output != "" {
		if config.Branches, err = h.Store.Remote(r.Output, gitstore.Auth{}); err != nil {
			r.T.Fatal(err)
		}
	}
	request := hydrate.Request{Commit: c, Write: true, Environments: []string{"dev"}}
	if change != nil {
		change(&config, &request)
	}
	result, err := hydrate.New(config).Hydrate(r.T.Context(), request)
	if err != nil {
		r.T.Fatal(err)
	}
	return result
}

// Feature commits a change on a new branch.
func (r *Remote) Feature() {
	r.T.Helper()
	r.Git("checkout", "-q", "-b", "feature")
	r.Write("apps/shop/layers/environment/dev/values.yaml", "replicas: 7\n")
	r.Commit("seven")
}

// NewSignedRemote returns a remote whose trunk lists one signer, and a change for Push that signs with its key.
func NewSignedRemote(t testing.TB) (*Remote, func(*hydrate.Config, *hydrate.Request)) {
	t.Helper()
	r := NewRemote(t)
	signer, line := NewKey(t)
	r.SetSigners(line)
	r.Commit("signers")
	r.Git("push", "-q", "origin", "main")
	return r, func(c *hydrate.Config, _ *hydrate.Request) { c.Signer = signer }
}

// Next commits to the trunk.
func (r *Remote) Next(currency string) {
	r.T.Helper()
	r.Write("apps/shop/layers/global/values.yaml", strings.Replace(r.Read("apps/shop/layers/global/values.yaml"),
		"currency: ", "currency: "+currency, 1))
	r.Commit("currency " + currency)
	r.Git("push", "-q", "origin", "main")
}

// WithPart returns the tree of env/dev with another tree for the cluster dev-1.
func (r *Remote) WithPart(tree string) string {
	r.T.Helper()
	var entries []string
	for line := range strings.SplitSeq(r.Bare.Git("ls-tree", "env/dev"), "\n") {
		if strings.HasSuffix(line, "\tdev-1") {
			line = "040000 tree " + r.Bare.Git("rev-parse", tree) + "\tdev-1"
		}
		entries = append(entries, line)
	}
	return r.Bare.Pipe(strings.Join(entries, "\n")+"\n", "mktree")
}

// WantStatus fails the test unless the result has a status, and a reason that contains a text.
func WantStatus(t testing.TB, got hydrate.EnvironmentResult, status hydrate.Status, reason string) {
	t.Helper()
	if got.Status != status || !strings.Contains(got.Reason, reason) {
		t.Errorf("got %s %q, want %s %q", got.Status, got.Reason, status, reason)
	}
}

// AllowUnmerged is a change for Push that accepts an unmerged commit for dev.
func AllowUnmerged(_ *hydrate.Config, q *hydrate.Request) { q.AllowUnmerged = []string{"dev"} }
