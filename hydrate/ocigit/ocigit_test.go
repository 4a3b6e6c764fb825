package ocigit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/ocigit"
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

func newServer(tb testing.TB) *server {
	tb.Helper()
	s := &server{real: ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0)))}
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

func (s *server) answer(before func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.asked = before, nil
}

func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

const path = "/v2/gitops/acme/manifests/"

func (s *server) registry(tb testing.TB) *fetch.Registry {
	tb.Helper()
	out, err := fetch.New(fetch.Options{Sleep: func(context.Context, time.Duration) error { return nil }}).
		Registry("oci://" + strings.TrimPrefix(s.URL, "http://") + "/gitops/acme")
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// replica is a process with the repository.
type replica struct {
	*ocigit.Repository
	tb    testing.TB
	store *gitstore.Store
}

func fast() ocigit.Timing {
	return ocigit.Timing{Settle: 60 * time.Millisecond, Lease: 3 * time.Second, Skew: time.Millisecond}
}

func (s *server) replica(tb testing.TB, cache string) *replica {
	tb.Helper()
	store := gitstore.OpenMemory()
	r, err := ocigit.Open(ocigit.Options{
		Name: "oci://registry.example.com/gitops/acme", Registry: s.registry(tb), Store: store, Cache: cache, Owner: "a test",
		Timing: fast(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		r.Close()
		_ = store.Close()
	})
	return &replica{r, tb, store}
}

// commit adds a commit with files on top of another one.
func (r *replica) commit(w *gitstore.Writer, parent gitstore.Hash, files map[string]string) gitstore.Hash {
	r.tb.Helper()
	var entries []gitstore.Entry
	for name, text := range files {
		h, err := w.Blob([]byte(text))
		if err != nil {
			r.tb.Fatal(err)
		}
		entries = append(entries, gitstore.Entry{Name: name, Mode: gitstore.ModeFile, Hash: h})
	}
	tree, err := w.Tree(entries)
	if err != nil {
		r.tb.Fatal(err)
	}
	who := gitstore.Signature{Name: "Sluice", Email: "sluice@localhost", When: time.Unix(1_700_000_000, 0).UTC()}
	spec := gitstore.CommitSpec{Tree: tree, Author: who, Committer: who, Message: "m\n"}
	if !parent.IsZero() {
		spec.Parents = []gitstore.Hash{parent}
	}
	h, err := w.Commit(spec)
	if err != nil {
		r.tb.Fatal(err)
	}
	return h
}

// push commits files to a branch where it is now. It returns the commit and the result.
func (r *replica) push(name string, files map[string]string) (gitstore.Hash, []gitstore.MoveResult, error) {
	r.tb.Helper()
	refs, err := r.List(r.tb.Context(), "")
	if err != nil {
		return gitstore.Hash{}, nil, err
	}
	if at := refs[name]; !at.IsZero() {
		if err := r.Fetch(r.tb.Context(), at); err != nil {
			return gitstore.Hash{}, nil, err
		}
	}
	w, err := r.store.NewWriter()
	if err != nil {
		r.tb.Fatal(err)
	}
	defer w.Close() //nolint:errcheck // a test
	tip := r.commit(w, refs[name], files)
	results, err := r.Push(r.tb.Context(), w, []gitstore.Move{{Branch: name, Old: refs[name], New: tip}}, gitstore.PushOptions{})
	return tip, results, err
}

func (r *replica) mustPush(name string, files map[string]string) gitstore.Hash {
	r.tb.Helper()
	tip, results, err := r.push(name, files)
	if err != nil || results[0].State != gitstore.Updated {
		r.tb.Fatalf("the push to %s: %v, %v", name, results, err)
	}
	return tip
}

// files reads all that a commit has.
func (r *replica) files(tip gitstore.Hash) map[string]string {
	r.tb.Helper()
	ctx := r.tb.Context()
	if err := r.Fetch(ctx, tip); err != nil {
		r.tb.Fatal(err)
	}
	c, err := r.store.Commit(ctx, tip)
	if err != nil {
		r.tb.Fatal(err)
	}
	entries, err := r.store.Tree(ctx, c.Tree)
	if err != nil {
		r.tb.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		data, err := r.store.Blob(ctx, e.Hash)
		if err != nil {
			r.tb.Fatal(err)
		}
		out[e.Name] = string(data)
	}
	return out
}

// layers returns the layers of the newest version.
func (s *server) layers(tb testing.TB) []ocispec.Descriptor {
	tb.Helper()
	_, data, err := s.registry(tb).Manifest(tb.Context(), ocigit.StateTag)
	if err != nil {
		tb.Fatal(err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		tb.Fatal(err)
	}
	return m.Layers
}

func lines(n int, changed string) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "line %d: %x\n", i, digest.FromString(fmt.Sprint(i)).Encoded())
	}
	return out.String() + changed
}

// What one machine pushes, another one reads, with its history; each push costs as much as its change.
func TestPushAndFetch(t *testing.T) {
	s := newServer(t)
	a, b := s.replica(t, ""), s.replica(t, "")
	if refs, err := a.List(t.Context(), ""); err != nil || len(refs) != 0 {
		t.Fatalf("an empty repository has %v, %v", refs, err)
	}
	first := a.mustPush("env/dev", map[string]string{"large": lines(5000, ""), "small": "1\n"})
	second := a.mustPush("env/dev", map[string]string{"large": lines(5000, "one more\n"), "small": "1\n"})
	a.mustPush("cluster/one", map[string]string{"small": "1\n"})
	layers := s.layers(t)
	if len(layers) != 3 || layers[1].Size*20 > layers[0].Size || layers[2].Size > 300 {
		t.Errorf("the layers are %v", layers)
	}
	refs, err := b.List(t.Context(), "env/")
	if err != nil || !maps.Equal(refs, map[string]gitstore.Hash{"env/dev": second}) {
		t.Fatalf("the branches are %v, %v", refs, err)
	}
	if got := b.files(second); got["large"] != lines(5000, "one more\n") || got["small"] != "1\n" {
		t.Error("the files of the second commit differ")
	}
	if got := b.files(first); got["large"] != lines(5000, "") {
		t.Error("the files of the first commit differ")
	}
	if ok, err := b.store.IsAncestor(t.Context(), first, second); !ok || err != nil {
		t.Errorf("the history is lost: %v", err)
	}

	// The same branches again cost one request.
	a.Close() // else it gives its lease back meanwhile
	s.answer(nil)
	if _, err := b.List(t.Context(), ""); err != nil || len(s.requests()) != 1 {
		t.Errorf("an unchanged repository cost %v, %v", s.requests(), err)
	}
	// A branch that Git could not have beside the others is refused, and breaks nothing.
	if _, results, err := a.push("env", map[string]string{"a": "1"}); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("a branch that is a folder of others: %v, %v", results, err)
	}
	// A branch that is deleted, and one that is elsewhere than the caller thinks.
	results, err := b.Push(t.Context(), nil, []gitstore.Move{{Branch: "env/dev", Old: first, New: second}}, gitstore.PushOptions{})
	if err != nil || results[0].State != gitstore.Conflict {
		t.Errorf("a move from an old value: %v, %v", results, err)
	}
	results, err = b.Push(t.Context(), nil, []gitstore.Move{{Branch: "cluster/one", Old: refs["cluster/one"], New: first}},
		gitstore.PushOptions{Unmoved: map[string]gitstore.Hash{"env/dev": first}})
	if err != nil || results[0].State != gitstore.Conflict {
		t.Errorf("an unmoved branch that moved: %v, %v", results, err)
	}
	refs, _ = b.List(t.Context(), "")
	results, err = b.Push(t.Context(), nil, []gitstore.Move{{Branch: "cluster/one", Old: refs["cluster/one"]}}, gitstore.PushOptions{})
	if err != nil || results[0].State != gitstore.Updated {
		t.Errorf("deleting a branch: %v, %v", results, err)
	}
	if refs, err := a.List(t.Context(), ""); err != nil || len(refs) != 1 {
		t.Errorf("after the deletion: %v, %v", refs, err)
	}
}

// Many small layers become one. A cache that has them reads none again, and a new machine reads all.
func TestLayersAreJoined(t *testing.T) {
	s := newServer(t)
	dir := t.TempDir()
	a, other := s.replica(t, ""), s.replica(t, dir)
	var tip gitstore.Hash
	most := 0
	for i := range 70 {
		tip = a.mustPush("env/dev", map[string]string{"count": fmt.Sprint(i), "large": lines(200, "")})
		if n := len(s.layers(t)); n < most {
			s.answer(nil)
			if other.files(tip)["count"] != fmt.Sprint(i) {
				t.Fatal("the files differ after layers became one")
			}
			if got := blobs(s.requests()); got > 3 {
				t.Errorf("a cache with nearly all layers read %d blobs: %v", got, s.requests())
			}
			most = n
		} else {
			most = n
			other.files(tip)
		}
		if most > 40 {
			t.Fatalf("there are %d layers", most)
		}
	}
	if got := s.replica(t, "").files(tip); got["count"] != "69" {
		t.Errorf("a new machine reads %q", got["count"])
	}
	s.answer(nil) // another process with the cache
	if got := s.replica(t, dir).files(tip); got["count"] != "69" || blobs(s.requests()) > 0 {
		t.Errorf("a process with a cache reads %q, with %v", got["count"], s.requests())
	}
}

func blobs(requests []string) (n int) {
	for _, r := range requests {
		if strings.HasPrefix(r, "GET ") && strings.Contains(r, "/blobs/") {
			n++
		}
	}
	return n
}

// No push that is reported as done is lost, whoever else pushes at the same time.
func TestRace(t *testing.T) {
	s := newServer(t)
	s.replica(t, "").mustPush("env/dev", map[string]string{"a": "0"})
	const replicas, pushes = 4, 4
	var group sync.WaitGroup
	var mu sync.Mutex
	done := map[string]gitstore.Hash{}
	same := 0
	for i := range replicas {
		r := s.replica(t, "")
		group.Go(func() {
			for n := range pushes {
				name := fmt.Sprintf("cluster/%d", i)
				tip, results, err := r.push(name, map[string]string{"a": fmt.Sprint(i, n)})
				if err == nil && results[0].State == gitstore.Updated {
					mu.Lock()
					done[name] = tip
					mu.Unlock()
				} else if err != nil && !errors.Is(err, gitstore.ErrConflict) {
					t.Errorf("replica %d: %v", i, err)
				}
				if _, results, err = r.push("env/dev", map[string]string{"a": fmt.Sprint(i, n)}); err == nil && results[0].State == gitstore.Updated {
					mu.Lock()
					same++
					mu.Unlock()
				}
				r.Close()
			}
		})
	}
	group.Wait()
	reader := s.replica(t, "")
	refs, err := reader.List(t.Context(), "")
	if err != nil || len(done) == 0 {
		t.Fatal(err, done)
	}
	for name, tip := range done {
		if refs[name] != tip {
			t.Errorf("%s is at %s, and a push to %s was reported as done", name, refs[name], tip)
		}
		reader.files(tip)
	}
	history := 0
	if err := reader.Fetch(t.Context(), refs["env/dev"]); err != nil {
		t.Fatal(err)
	}
	list, err := reader.store.FirstParents(t.Context(), refs["env/dev"], 100)
	if history = len(list) - 1; err != nil || history != same {
		t.Errorf("%d pushes to one branch were reported as done, and it has %d commits more: %v", same, history, err)
	}
}

// A registry that breaks off is no success and no failure: what it has afterwards counts.
func TestRegistryBreaksOff(t *testing.T) {
	for name, c := range map[string]struct {
		stores bool
		want   gitstore.State
	}{"before it moved the tag": {false, gitstore.Unknown}, "after it moved the tag": {true, gitstore.Updated}} {
		s := newServer(t)
		a := s.replica(t, "")
		a.mustPush("env/dev", map[string]string{"a": "0"})
		s.answer(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || r.URL.Path != path+ocigit.StateTag {
				return false
			}
			if c.stores {
				s.real.ServeHTTP(httptest.NewRecorder(), r)
			}
			w.WriteHeader(http.StatusBadGateway)
			return true
		})
		tip, results, err := a.push("env/dev", map[string]string{"a": "1"})
		if len(results) != 1 || results[0].State != c.want || (err == nil) != c.stores {
			t.Errorf("%s: %v, %v", name, results, err)
		}
		s.answer(nil)
		b := s.replica(t, "")
		refs, err := b.List(t.Context(), "")
		if err != nil || (refs["env/dev"] == tip) != c.stores {
			t.Errorf("%s: the branches are %v, %v", name, refs, err)
		}
		b.mustPush("env/dev", map[string]string{"a": "2"})
	}
}

// The lease of a process that was killed ends.
func TestLeaseOfTheDead(t *testing.T) {
	s := newServer(t)
	a := s.replica(t, "")
	a.mustPush("env/dev", map[string]string{"a": "0"})
	s.answer(func(w http.ResponseWriter, r *http.Request) bool { // as if it never gave it back
		if strings.HasSuffix(r.URL.Path, ocigit.LeaseTag) && r.Method == http.MethodPut {
			w.WriteHeader(http.StatusCreated)
			return true
		}
		return false
	})
	a.Close()
	s.answer(nil)
	began := time.Now()
	s.replica(t, "").mustPush("env/dev", map[string]string{"a": "1"})
	if waited := time.Since(began); waited < fast().Lease/2 || waited > 3*fast().Lease {
		t.Errorf("the push waited %s for a lease of %s", waited, fast().Lease)
	}
}

// A tag that somebody sets back or deletes is an error: by the cache on a machine that saw the newer version, by the
// lease on another one before it writes.
func TestSetBack(t *testing.T) {
	s := newServer(t)
	a := s.replica(t, t.TempDir())
	a.mustPush("env/dev", map[string]string{"a": "0"})
	desc, data, err := s.registry(t).Manifest(t.Context(), ocigit.StateTag)
	if err != nil {
		t.Fatal(err)
	}
	a.mustPush("env/dev", map[string]string{"a": "1"})
	a.Close()
	if err := s.registry(t).Tag(t.Context(), desc, data, ocigit.StateTag); err != nil {
		t.Fatal(err)
	}
	if _, err := a.List(t.Context(), ""); !errors.Is(err, ocigit.ErrSetBack) {
		t.Errorf("who saw the newer version: %v", err)
	}
	b := s.replica(t, "")
	if _, err := b.List(t.Context(), ""); err != nil {
		t.Errorf("who saw none: %v", err)
	}
	if _, results, err := b.push("env/dev", map[string]string{"a": "2"}); !errors.Is(err, ocigit.ErrSetBack) {
		t.Errorf("a push: %v, %v", results, err)
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.URL+path+ocigit.StateTag, http.NoBody)
	answer, err := s.Client().Do(request)
	if err != nil || answer.StatusCode >= 300 {
		t.Fatal(err, answer)
	}
	_ = answer.Body.Close() // nothing is in it
	if _, err := s.replica(t, "").List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "somebody deleted the tag") {
		t.Errorf("a deleted tag: %v", err)
	}
}

// A cache with objects that the registry no longer has begins anew, so that a push leaves nothing out.
func TestStaleCache(t *testing.T) {
	s := newServer(t)
	dir := t.TempDir()
	a := s.replica(t, dir)
	a.mustPush("env/dev", map[string]string{"a": "0"})
	a.mustPush("env/dev", map[string]string{"a": "precious"})
	a.Close()
	lost := newServer(t) // another registry, as after a restoration from an empty backup
	a2 := lost.replica(t, dir)
	if _, err := a2.List(t.Context(), ""); !errors.Is(err, ocigit.ErrSetBack) {
		t.Errorf("a registry that lost everything: %v", err)
	}
	other := lost.replica(t, "")
	for i := range 4 { // newer than what the cache knows
		other.mustPush("env/other", map[string]string{"b": fmt.Sprint(i)})
	}
	other.Close()
	tip := a2.mustPush("env/dev", map[string]string{"a": "precious"})
	if got := lost.replica(t, "").files(tip); got["a"] != "precious" {
		t.Errorf("a new machine reads %v", got)
	}
}

// Two processes with one cache note what they know beside each other, so that a later one knows all objects that the
// registry may lose.
func TestSharedCache(t *testing.T) {
	s := newServer(t)
	dir := t.TempDir()
	s.replica(t, "").mustPush("env/dev", map[string]string{"a": "0"})
	first, firstData, err := s.registry(t).Manifest(t.Context(), ocigit.StateTag)
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.replica(t, dir), s.replica(t, dir)
	refs, err := b.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	s.answer(func(_ http.ResponseWriter, r *http.Request) bool { // a pushes while b reads the version before
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, s.layer(t, firstData)) {
			once.Do(func() {
				s.answer(nil)
				a.mustPush("env/dev", map[string]string{"a": "precious"})
				a.Close()
			})
		}
		return false
	})
	if err := b.Fetch(t.Context(), refs["env/dev"]); err != nil {
		t.Fatal(err)
	}
	// The registry loses what a pushed, and goes on without it.
	if err := s.registry(t).Tag(t.Context(), first, firstData, ocigit.StateTag); err != nil {
		t.Fatal(err)
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.URL+path+ocigit.LeaseTag, http.NoBody)
	answer, err := s.Client().Do(request)
	if err != nil || answer.StatusCode >= 300 {
		t.Fatal(err, answer)
	}
	_ = answer.Body.Close() // nothing is in it
	other := s.replica(t, "")
	for i := range 3 {
		other.mustPush("env/other", map[string]string{"b": fmt.Sprint(i)})
	}
	other.Close()
	tip := s.replica(t, dir).mustPush("env/dev", map[string]string{"a": "precious"})
	if got := s.replica(t, "").files(tip); got["a"] != "precious" {
		t.Errorf("a new machine reads %v", got)
	}
}

// A cache that cannot be written to after branches moved makes the push no failure.
func TestCacheFull(t *testing.T) {
	s := newServer(t)
	dir := t.TempDir() + "/cache"
	a := s.replica(t, dir)
	a.mustPush("env/dev", map[string]string{"a": "0"})
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	tip := a.mustPush("env/other", map[string]string{"a": "1"})
	if got := s.replica(t, "").files(tip); got["a"] != "1" {
		t.Errorf("another machine reads %v", got)
	}
}

// A process whose lease has ended leaves the lease of the next one alone.
func TestLateRelease(t *testing.T) {
	s := newServer(t)
	a := s.replica(t, "")
	a.mustPush("env/dev", map[string]string{"a": "0"})
	a.EndLease()
	b := s.replica(t, "")
	b.mustPush("env/dev", map[string]string{"a": "1"})
	s.answer(nil)
	a.Close()
	if asked := s.requests(); len(asked) > 0 {
		t.Errorf("the process asked %v", asked)
	}
}

// layer returns the digest of the one layer of a manifest.
func (s *server) layer(tb testing.TB, manifest []byte) string {
	tb.Helper()
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil || len(m.Layers) != 1 {
		tb.Fatal(err, m.Layers)
	}
	return m.Layers[0].Digest.String()
}

// A push that is larger than a layer may be uploads nothing.
func TestLargePush(t *testing.T) {
	s := newServer(t)
	a := s.replica(t, "")
	a.LimitPushes(1000)
	s.answer(nil)
	_, _, err := a.push("env/dev", map[string]string{"a": lines(5000, "")})
	if err == nil || !strings.Contains(err.Error(), "with --env") {
		t.Errorf("a large push: %v", err)
	}
	for _, r := range s.requests() {
		if !strings.HasPrefix(r, http.MethodGet) && !strings.HasPrefix(r, http.MethodHead) {
			t.Errorf("a large push: %s", r)
		}
	}
	a.mustPush("env/dev", map[string]string{"a": "0"})
}

// What a registry says is bounded and checked.
func TestHostileRegistry(t *testing.T) {
	hash := strings.Repeat("ab", 20)
	blob := func(kind, text string) (ocispec.Descriptor, []byte) {
		return content.NewDescriptorFromBytes(kind, []byte(text)), []byte(text)
	}
	const kind, pack = "application/vnd.sluice.branches.v1+json", "application/vnd.sluice.pack.v1"
	many := make([]string, 0, 100_001)
	for i := range 100_001 {
		many = append(many, fmt.Sprintf(`"b%d":%q`, i, hash))
	}
	for name, c := range map[string]struct{ kind, config, layer, content, want string }{
		"another tool's":          {ocispec.MediaTypeImageConfig, `{}`, pack, "", "Sluice did not write"},
		"no JSON":                 {kind, `{`, pack, "", "Sluice did not write"},
		"no sequence":             {kind, `{"branches":{}}`, pack, "", "Sluice did not write"},
		"no commit":               {kind, `{"sequence":1,"branches":{"a":"x"}}`, pack, "", `the branch "a" has no commit`},
		"the zero commit":         {kind, `{"sequence":1,"branches":{"a":"` + strings.Repeat("0", 40) + `"}}`, pack, "", "no commit"},
		"a path":                  {kind, `{"sequence":1,"branches":{"../../x":"` + hash + `"}}`, pack, "", "not a valid branch name"},
		"a folder and a branch":   {kind, `{"sequence":1,"branches":{"a":"` + hash + `","a/b":"` + hash + `"}}`, pack, "", "exclude each other"},
		"too many branches":       {kind, `{"sequence":1,"branches":{` + strings.Join(many, ",") + `}}`, pack, "", "more than 100000"},
		"another layer":           {kind, `{"sequence":1,"branches":{"a":"` + hash + `"}}`, "text/plain", "x", "a layer of type"},
		"no packfile":             {kind, `{"sequence":1,"branches":{"a":"` + hash + `"}}`, pack, "x", "cannot be read"},
		"a packfile with nothing": {kind, `{"sequence":1,"branches":{"a":"` + hash + `"}}`, pack, empty, "not found"},
	} {
		s := newServer(t)
		r := s.registry(t)
		cd, cdata := blob(c.kind, c.config)
		ld, ldata := blob(c.layer, c.content)
		for _, b := range []struct {
			d    ocispec.Descriptor
			data []byte
		}{{cd, cdata}, {ld, ldata}} {
			if err := r.Upload(t.Context(), b.d, b.data); err != nil {
				t.Fatal(err)
			}
		}
		data, _ := json.Marshal(ocispec.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: cd, Layers: []ocispec.Descriptor{ld},
		})
		if err := r.Tag(t.Context(), content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, data), data, ocigit.StateTag); err != nil {
			t.Fatal(err)
		}
		a := s.replica(t, t.TempDir())
		refs, err := a.List(t.Context(), "")
		if err == nil {
			err = a.Fetch(t.Context(), refs["a"])
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, results, err := a.push("b", map[string]string{"a": "1"}); err == nil && len(results) > 0 && c.want != "not found" {
			t.Errorf("%s: a push went on: %v", name, results)
		}
	}
}

// A registry that claims more than a machine can have is refused before anything is downloaded.
func TestManyLayers(t *testing.T) {
	s := newServer(t)
	r := s.registry(t)
	config := []byte(`{"sequence":1,"branches":{}}`)
	described := content.NewDescriptorFromBytes("application/vnd.sluice.branches.v1+json", config)
	if err := r.Upload(t.Context(), described, config); err != nil {
		t.Fatal(err)
	}
	for want, list := range map[string]struct {
		n    int
		size int64
	}{"more than 1000": {1001, 1}, "more than 64 GiB": {200, 500 << 20}} {
		var layers []ocispec.Descriptor
		for i := range list.n {
			layers = append(layers, ocispec.Descriptor{
				MediaType: "application/vnd.sluice.pack.v1", Digest: digest.FromString(fmt.Sprint(i)), Size: list.size,
			})
		}
		data, _ := json.Marshal(ocispec.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: described, Layers: layers,
		})
		if err := r.Tag(t.Context(), content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, data), data, ocigit.StateTag); err != nil {
			t.Fatal(err)
		}
		if _, err := s.replica(t, "").List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d layers of %d bytes: %v", list.n, list.size, err)
		}
	}
}

// empty is a packfile without objects.
const empty = "PACK\x00\x00\x00\x02\x00\x00\x00\x00\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e"

// A lease that is none, and one without an end that another tool wrote, move nothing.
func TestForeignLease(t *testing.T) {
	s := newServer(t)
	r := s.registry(t)
	config := content.NewDescriptorFromBytes(ocispec.MediaTypeImageConfig, []byte("{}"))
	if err := r.Upload(t.Context(), config, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config})
	if err := r.Tag(t.Context(), content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, data), data, ocigit.LeaseTag); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.replica(t, "").push("env/dev", map[string]string{"a": "1"}); err == nil || !strings.Contains(err.Error(), ocigit.LeaseTag) {
		t.Errorf("the push: %v", err)
	}
}
