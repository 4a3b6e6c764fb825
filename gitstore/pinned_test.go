package gitstore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// A commit of another repository is fetched without files and mounted; its files are fetched when they are read.
// Revisions still resolve to branches of the store's own remote.
func TestPinnedRepository(t *testing.T) {
	origin, other := source(t), source(t)
	generous(t, other)
	write(t, other, "charts/web/values.yaml", "replicas: 3\n")
	runGit(t, other, "add", ".")
	runGit(t, other, "commit", "-qm", "chart")
	clone := filepath.Join(t.TempDir(), "c")
	runGit(t, origin, "clone", "-q", "file://"+origin, clone)
	s := open(t, Options{Dir: clone})
	pin := resolve(t, open(t, Options{Dir: other}), "HEAD")
	if err := s.FetchPinned(t.Context(), "file://"+other, Auth{}, pin.Hash); err != nil {
		t.Fatal(err)
	}
	if n := sidePacks(t, filepath.Join(clone, ".git")); n != 1 {
		t.Errorf("%d requests for the commit and its trees", n)
	}
	head := resolve(t, s, "HEAD")
	tree, err := s.Graft(t.Context(), head.Tree, ".repositories", map[string]Hash{"components": pin.Tree})
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.Snapshot(t.Context(), tree).ReadFile(".repositories/components/charts/web/values.yaml")
	if err != nil || string(data) != "replicas: 3\n" {
		t.Errorf("the data is %q, the error is %v", data, err)
	}
	if _, err := s.Graft(t.Context(), tree, ".repositories", nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second graft in one directory: %v", err)
	}
	main, err := s.FetchRevision(t.Context(), "main")
	if err != nil || main.Hash != head.Hash {
		t.Errorf("main is %v of another repository: %v", main.Hash, err)
	}
	if err := s.FetchPinned(t.Context(), "file://"+origin, Auth{}, pin.Hash); err != nil {
		t.Errorf("a commit that is there: %v", err)
	}
	missing := Hash{1}
	if err := s.FetchPinned(t.Context(), "file://"+other, Auth{}, missing); err == nil {
		t.Error("a commit that the repository does not have was fetched")
	}
}

func TestRemoteRefs(t *testing.T) {
	dir := source(t)
	runGit(t, dir, "tag", "-a", "v1.0.0", "-m", "one")
	refs, err := RemoteRefs(t.Context(), "file://"+dir, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	at := resolve(t, open(t, Options{Dir: dir}), "HEAD").Hash
	if refs["refs/heads/main"] != at || refs["refs/tags/v1.0.0^{}"] != at || refs["refs/tags/v1.0.0"] == at {
		t.Errorf("the refs are %v", refs)
	}
}

// A store reads the objects of another store without copying them.
func TestBorrowedObjects(t *testing.T) {
	s := open(t, Options{Dir: source(t)})
	other, err := Open(t.Context(), Options{Dir: source(t)})
	if err != nil {
		t.Fatal(err)
	}
	blob, err := other.Keep(Raw{Kind: "blob", Data: []byte("text")})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := other.keepTree([]Entry{{Name: "new", Mode: ModeFile, Hash: blob}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Has(tree) {
		t.Fatal("the tree is in both")
	}
	s.Borrow(other)
	if data, err := s.Snapshot(t.Context(), tree).ReadFile("new"); err != nil || string(data) != "text" {
		t.Errorf("the data is %q, the error is %v", data, err)
	}
	replaced, err := s.Replace(t.Context(), tree, "new", []byte("other"))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := s.Snapshot(t.Context(), replaced).ReadFile("new"); err != nil || string(data) != "other" {
		t.Errorf("the data is %q, the error is %v", data, err)
	}
}

// Another repository cannot fill the disk: beyond the limit, nothing of its answer is stored.
func TestLimitOfAnotherRepository(t *testing.T) {
	t.Parallel()
	other := source(t)
	generous(t, other)
	write(t, other, "large.yaml", "a: 1\n")
	runGit(t, other, "add", ".")
	runGit(t, other, "commit", "-qm", "large")
	pin := resolve(t, open(t, Options{Dir: other}), "HEAD")
	s := open(t, Options{Dir: source(t)})
	e, err := s.addOther("file://"+other, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	if e.most != maxOther {
		t.Errorf("the limit is %d", e.most)
	}
	request := fetchRequest{objects: []Hash{pin.Hash}, depth: 1}
	e.most = 64
	if err := s.fetch(t.Context(), e, request); err == nil || !strings.Contains(err.Error(), "more than 64 bytes") ||
		s.Has(pin.Hash) {
		t.Errorf("the error is %v", err)
	}
	e.most = 1 << 20
	if err := s.fetch(t.Context(), e, request); err != nil || !s.Has(pin.Hash) {
		t.Errorf("within the limit: %v", err)
	}
}

// A host that sends refs without end is cut off, whatever it fetches: the list of refs comes before each pack, too.
func TestLimitOfRefs(t *testing.T) {
	t.Parallel()
	endless := func(refs int, name string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			out := bufio.NewWriter(w)
			line := func(text string) { _, _ = fmt.Fprintf(out, "%04x%s", len(text)+4, text) }
			line("# service=git-upload-pack\n")
			_, _ = out.WriteString("0000")
			line(strings.Repeat("1", 40) + " refs/heads/main\x00side-band-64k\n")
			for i := range refs {
				line(fmt.Sprintf("%s refs/%s%07d\n", strings.Repeat("1", 40), name, i))
			}
			_, _ = out.WriteString("0000")
			_ = out.Flush()
		}))
		t.Cleanup(srv.Close)
		return srv.URL + "/a/b"
	}
	if _, err := RemoteRefs(t.Context(), endless(maxRefs, "tags/v"), Auth{}); err == nil ||
		!strings.Contains(err.Error(), "branches and tags, more than") {
		t.Errorf("too many tags: %v", err)
	}
	if refs, err := RemoteRefs(t.Context(), endless(maxRefs, "pull/"), Auth{}); err != nil || len(refs) != 1 {
		t.Errorf("refs of a forge: %d, %v", len(refs), err)
	}
	if testing.Short() {
		return
	}
	long := endless(1500, "heads/"+strings.Repeat("x", 50_000))
	if _, err := RemoteRefs(t.Context(), long, Auth{}); err == nil ||
		!strings.Contains(err.Error(), "delete old branches") {
		t.Errorf("a long list: %v", err)
	}
	s := open(t, Options{Dir: source(t)})
	if err := s.FetchPinned(t.Context(), long, Auth{}, Hash{1}); err == nil ||
		!strings.Contains(err.Error(), "delete old branches") {
		t.Errorf("a long list before a pack: %v", err)
	}
}

// A remote that cannot be asked, such as one whose key file does not exist, does not make a file of the tree one that
// does not exist.
func TestMissingContentIsNoMissingFile(t *testing.T) {
	s := open(t, Options{Dir: source(t)})
	const address = "ssh://git@git.example.com/acme/lib.git"
	dir := t.TempDir()
	write(t, dir, "known_hosts", "")
	if err := s.AddRemote(address, Auth{
		KnownHostsFiles: []string{filepath.Join(dir, "known_hosts")},
		SSHKeyFile:      filepath.Join(dir, "key"),
	}); err != nil {
		t.Fatal(err)
	}
	head := resolve(t, s, "HEAD")
	tree, err := s.Graft(t.Context(), head.Tree, ".repositories", map[string]Hash{"lib": {1}})
	if err != nil {
		t.Fatal(err)
	}
	var lacking []string
	snap := s.Snapshot(t.Context(), tree).OnLack(func(name string, err error) error {
		lacking = append(lacking, name)
		return Refusal(err, address)
	})
	_, err = snap.ReadFile(".repositories/lib/values.yaml")
	if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(),
		"git.example.com/acme/lib.git: SSH key") || strings.Contains(err.Error(), "not in this repository") {
		t.Errorf("the error is %v", err)
	}
	if _, err = snap.ReadDir(".repositories/lib"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	if _, err = snap.ReadFile("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	if got := strings.Join(lacking, " "); got != ".repositories/lib/values.yaml .repositories/lib" {
		t.Errorf("lacking: %s", got)
	}
}

// FetchPublic asks the repository for what the store has already, without credentials, and over HTTP only.
func TestFetchPublic(t *testing.T) {
	dir := source(t)
	runGit(t, dir, "config", "uploadpack.allowAnySHA1InWant", "true")
	s, tip := open(t, Options{Dir: dir}), resolve(t, open(t, Options{Dir: dir}), "HEAD")
	asked, public := 0, false
	served := backend(t, filepath.Dir(dir), "", "").Config.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.Header.Get("Authorization") != "" {
			t.Error("a credential was sent")
		}
		if !public {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		served.ServeHTTP(w, r)
	}))
	defer server.Close()
	address := server.URL + "/" + filepath.Base(dir)
	credential := Auth{Token: "s3cret", PlainHTTP: []string{strings.TrimPrefix(server.URL, "http://")}}
	if err := s.AddRemote(address, credential); err != nil {
		t.Fatal(err)
	}
	if err := s.FetchPublic(t.Context(), address, nil, tip.Hash); err == nil || asked == 0 {
		t.Errorf("a private repository's commit that the store has: asked %d times, %v", asked, err)
	}
	public = true
	if err := s.FetchPublic(t.Context(), address, nil, tip.Hash); err != nil {
		t.Errorf("a commit of a public repository: %v", err)
	}
	if err := s.FetchPublic(t.Context(), address, nil, Hash{1}); err == nil {
		t.Error("a commit that the repository does not have was fetched")
	}
	for _, address := range []string{"file://" + dir, dir, "ssh://git@git.example.com/a/b"} {
		if err := s.FetchPublic(t.Context(), address, nil, tip.Hash); err == nil {
			t.Errorf("%s was accepted", address)
		}
	}
}

// The store knows what it gets by the ids that it computes: a server cannot give another commit for the one asked for.
func TestAServerThatSendsAnotherCommit(t *testing.T) {
	dir := source(t)
	runGit(t, dir, "config", "uploadpack.allowAnySHA1InWant", "true")
	tip := resolve(t, open(t, Options{Dir: dir}), "HEAD").Hash.String()
	const wanted = "1111111111111111111111111111111111111111"
	served := backend(t, filepath.Dir(dir), "", "").Config.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		body = bytes.ReplaceAll(body, []byte(wanted), []byte(tip))
		r.Body = io.NopCloser(bytes.NewReader(body))
		served.ServeHTTP(w, r)
	}))
	defer server.Close()
	h, err := ParseHash(wanted)
	if err != nil {
		t.Fatal(err)
	}
	address := server.URL + "/" + filepath.Base(dir)
	const want = "the server sent no commit with the id " + wanted
	err = OpenMemory().FetchPublic(t.Context(), address, nil, h)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("FetchPublic: the error is %v, want %q", err, want)
	}
	err = OpenMemory().FetchPinned(t.Context(), address, Auth{}, h)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("FetchPinned: the error is %v, want %q", err, want)
	}
}
