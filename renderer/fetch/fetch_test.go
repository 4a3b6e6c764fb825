package fetch

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestResolveChoosesAsHelmDoes(t *testing.T) {
	t.Parallel()
	offered := []string{"1.0.0", "1.2.3", "v1.4.0", "1.10.0", "2.0.0-rc.1", "0.9.0", "3.0.0-beta.2", "1.2.3+build.7"}
	for _, digests := range []bool{true, false} {
		repo := newChartRepo(t, httptest.NewServer)
		archives := repo.offer(t, digests, offered...)
		f := newFetcher(t)
		for want, version := range map[string]string{
			"1.2.3": "1.2.3", "v1.2.3": "1.2.3+build.7", "1.4.0": "v1.4.0", "v1.4.0": "v1.4.0", "*": "1.10.0",
			"^1.0.0": "1.10.0", "~1.2": "1.2.3+build.7",
			">=1.0.0 <1.5.0": "v1.4.0", "2.0.0-rc.1": "2.0.0-rc.1", "^2.0.0-0": "2.0.0-rc.1", ">0-0": "3.0.0-beta.2",
			"0.9.x": "0.9.0",
		} {
			ref := Ref{Repo: repo.repo() + "/", Chart: "web", Version: want}
			locked, err := f.Resolve(t.Context(), ref)
			if err != nil || locked != (Locked{version, digestOf(archives[version])}) {
				t.Errorf("want %s: the locked is %v, the error is %v; want %s", want, locked, err, version)
				continue
			}
			data, err := f.Archive(t.Context(), ref, locked)
			if err != nil || !bytes.Equal(data, archives[version]) {
				t.Errorf("%s: archive differs: %v", want, err)
			}
		}
		if n := repo.asked("index.yaml"); n != 1 {
			t.Errorf("the index was read %d times, want once per run", n)
		}
	}
}

func TestResolveErrorsNameTheNextStep(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	repo.offer(t, true, "1.2.3", "2.0.0-rc.1")
	f := newFetcher(t)
	for _, c := range []struct {
		ref  Ref
		kind error
		text string
	}{
		{Ref{repo.repo(), "web", ""}, ErrInvalid, "no version is given"},
		{Ref{repo.repo(), "web", "latest"}, ErrInvalid, `"latest" is neither a version nor a range`},
		{Ref{repo.repo(), "web", "^4"}, ErrNotFound, "the newest is 1.2.3"},
		{Ref{repo.repo(), "web", "^2.0.0"}, ErrNotFound, "write ^2.0.0-0 to include them"},
		{Ref{repo.repo(), "web", "9.9.9"}, ErrNotFound, "the version 9.9.9 is not offered; the newest is 1.2.3"},
		{Ref{repo.repo(), "nope", "*"}, ErrNotFound, "index does not have this chart"},
		{Ref{repo.URL + "/nowhere", "web", "*"}, ErrNotFound, "404 Not Found"},
		{Ref{"", "web", "*"}, ErrInvalid, "no `repo` is given"},
		{Ref{repo.repo(), "", "*"}, ErrInvalid, "name is empty"},
		{Ref{repo.repo(), "../web", "*"}, ErrInvalid, "characters that no chart has"},
		{Ref{"@stable", "web", "*"}, ErrInvalid, "write its URL"},
		{Ref{"file://../web", "web", "*"}, ErrInvalid, `scheme "file" is not supported`},
		{Ref{"ftp://example.com/", "web", "*"}, ErrInvalid, `scheme "ftp" is not supported`},
		{
			Ref{"http://charts.example.com", "web", "*"},
			ErrInvalid,
			"allow plain HTTP for this host by --plain-http charts.example.com",
		},
		{Ref{"", "oci://registry.example.com/web:1.2.3", "*"}, ErrInvalid, "belongs into `version`"},
		{Ref{"", "oci://registry.example.com", "*"}, ErrInvalid, "oci://REGISTRY/PATH"},
		{Ref{"https://charts.example.com?token=abc", "web", "*"}, ErrInvalid, "must have no query"},
		{Ref{strings.Repeat("h", 2000), "web", "*"}, ErrInvalid, "longer than"},
	} {
		_, err := f.Resolve(t.Context(), c.ref)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) ||
			!strings.Contains(err.Error(), "chart ") {
			t.Errorf("%v: the error is %v; want %q", c.ref, err, c.text)
		}
	}
}

func TestArchiveComesFromTheCacheWhenTheServerIsDown(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	archives := repo.offer(t, true, "1.2.3")
	dir := t.TempDir()
	ref := Ref{repo.repo(), "web", "^1"}
	locked, err := New(Options{CacheDir: dir}).Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	repo.Close()
	offline := New(Options{CacheDir: dir, Sleep: (&instant{}).sleep})
	data, err := offline.Archive(t.Context(), ref, locked)
	if err != nil || !bytes.Equal(data, archives["1.2.3"]) {
		t.Fatalf("cache: %v", err)
	}
	_, err = New(Options{Sleep: (&instant{}).sleep}).Archive(t.Context(), ref, locked)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "sluice deps vendor") {
		t.Errorf("offline without cache: %v", err)
	}
}

func TestCorruptCacheFileIsFetchedAgain(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	archives := repo.offer(t, true, "1.2.3")
	f := newFetcher(t)
	ref := Ref{repo.repo(), "web", "1.2.3"}
	locked, err := f.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	hex, _ := hexDigest(locked.Digest)
	name := f.cache.path(hex)
	for _, bad := range [][]byte{nil, archives["1.2.3"][:100], append(bytes.Clone(archives["1.2.3"]), 'x')} {
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		data, err := f.Archive(t.Context(), ref, locked)
		if err != nil || !bytes.Equal(data, archives["1.2.3"]) {
			t.Fatalf("got %d bytes, %v", len(data), err)
		}
		if stored, err := os.ReadFile(name); err != nil || digestOf(stored) != locked.Digest {
			t.Errorf("the cache was not repaired: %v", err)
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(name), ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
	if n := repo.asked(".tgz"); n != 4 {
		t.Errorf("%d downloads, want one and three again", n)
	}
}

func TestUnwritableCacheIsNoError(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	repo.offer(t, true, "1.2.3")
	f := newFetcher(t, func(o *Options) { o.CacheDir = writeFile(t, "file", "in the way") })
	ref := Ref{repo.repo(), "web", "1.2.3"}
	locked, err := f.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := f.Archive(t.Context(), ref, locked); err != nil || digestOf(data) != locked.Digest {
		t.Error(err)
	}
}

func TestTamperedArchiveIsRefused(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	repo.offer(t, true, "1.2.3")
	ref := Ref{repo.repo(), "web", "1.2.3"}
	locked, err := newFetcher(t).Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	evil := packChart(t, "web", "1.2.3", "evil")
	repo.files["web-1.2.3.tgz"] = evil

	f := newFetcher(t)
	for range 2 { // the second time, nothing must have been cached
		_, err = f.Archive(t.Context(), ref, locked)
		if !errors.Is(err, ErrDigest) || !strings.Contains(err.Error(), locked.Digest) ||
			!strings.Contains(err.Error(), digestOf(evil)) ||
			!strings.Contains(err.Error(), "sluice deps lock") {
			t.Errorf("archive: %v", err)
		}
	}
	if _, err = newFetcher(t).Resolve(t.Context(), ref); !errors.Is(err, ErrDigest) ||
		!strings.Contains(err.Error(), digestOf(evil)) {
		t.Errorf("resolve with an index that lies: %v", err)
	}
	repo.files["web-1.2.3.tgz"] = []byte("<html>please log in</html>")
	if _, err = newFetcher(t).Resolve(t.Context(), ref); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "not a chart archive") {
		t.Errorf("login page: %v", err)
	}
}

func TestIndexChangedAfterLock(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	old := repo.offer(t, true, "1.2.3")
	ref := Ref{repo.repo(), "web", "^1"}
	locked, err := newFetcher(t).Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	repo.offer(t, true, "1.2.3", "1.3.0")
	repo.files["web-1.2.3.tgz"] = old["1.2.3"]
	if data, err := newFetcher(t).Archive(t.Context(), ref, locked); err != nil || !bytes.Equal(data, old["1.2.3"]) {
		t.Errorf("a newer version must not matter: %v", err)
	}
	repo.offer(t, true, "1.3.0")
	_, err = newFetcher(t).Archive(t.Context(), ref, locked)
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "1.2.3 is no longer in the repository's index") {
		t.Errorf("a version that left: %v", err)
	}
}

func TestConcurrentRequestsDownloadOnce(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	repo.offer(t, true, "1.2.3")
	ref := Ref{repo.repo(), "web", "1.2.3"}
	locked, err := newFetcher(t).Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	repo.requests = nil
	f := newFetcher(t)
	release := make(chan struct{})
	repo.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			<-release
		}
		return false
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if data, err := f.Archive(t.Context(), ref, locked); err != nil || digestOf(data) != locked.Digest {
				t.Error(err)
			}
		})
	}
	for repo.asked(".tgz") == 0 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	all.Wait()
	if n := repo.asked(".tgz"); n != 1 {
		t.Errorf("%d downloads for 20 requests", n)
	}
	if n := repo.asked("index.yaml"); n != 1 {
		t.Errorf("%d reads of the index for 20 requests", n)
	}
}

// Processes are stood for by Fetchers of their own that share nothing but the directory.
func TestSharedCacheDirectory(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	versions := []string{"1.0.0", "1.0.1", "1.0.2"}
	archives := repo.offer(t, true, versions...)
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			f := New(Options{CacheDir: dir})
			for _, v := range versions {
				locked := Locked{v, digestOf(archives[v])}
				if data, err := f.Archive(t.Context(), Ref{repo.repo(), "web", v}, locked); err != nil ||
					!bytes.Equal(data, archives[v]) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	files, err := os.ReadDir(filepath.Join(dir, "sha256"))
	if err != nil || len(files) != len(versions) {
		t.Errorf("%d files in the cache, %v", len(files), err)
	}
}

func TestCancelledLeaderDoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	archives := repo.offer(t, true, "1.2.3")
	ref, locked := Ref{repo.repo(), "web", "1.2.3"}, Locked{"1.2.3", digestOf(archives["1.2.3"])}
	f := newFetcher(t)
	release := make(chan struct{})
	repo.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return false
	})
	ctx, cancel := context.WithCancel(t.Context())
	leader, follower := make(chan error, 1), make(chan error, 1)
	go func() { _, err := f.Archive(ctx, ref, locked); leader <- err }()
	for repo.asked(".tgz") == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() { _, err := f.Archive(t.Context(), ref, locked); follower <- err }()
	time.Sleep(20 * time.Millisecond)
	cancel()
	if err := <-leader; !errors.Is(err, context.Canceled) {
		t.Errorf("leader: %v", err)
	}
	close(release)
	if err := <-follower; err != nil {
		t.Errorf("follower: %v", err)
	}
}

func TestVendorPath(t *testing.T) {
	t.Parallel()
	digest := digestOf([]byte("x"))
	for _, c := range []struct {
		ref  Ref
		l    Locked
		want string
	}{
		{
			Ref{"https://charts.example.com", "web", "^1"},
			Locked{"1.2.3", digest},
			"vendor/charts/web-1.2.3-2d711642b726.tgz",
		},
		{
			Ref{"", "oci://r.example.com/charts/web/", "^1"},
			Locked{"1.2.3+a", digest},
			"vendor/charts/web-1.2.3+a-2d711642b726.tgz",
		},
		{Ref{"oci://r.example.com/charts", "web", "^1"}, Locked{"v1", digest}, "vendor/charts/web-v1-2d711642b726.tgz"},
		{
			Ref{"https://h", "a b\\c:d*é", "^1"},
			Locked{"1/../2", digest},
			"vendor/charts/a_b_c_d__-1_.._2-2d711642b726.tgz",
		},
		{Ref{"https://h", "..", "^1"}, Locked{"", "nonsense"}, "vendor/charts/..--000000000000.tgz"},
	} {
		if got := VendorPath(c.ref, c.l); got != c.want {
			t.Errorf("%v: the result of VendorPath is %s, want %s", c.ref, got, c.want)
		}
	}
	if long := VendorPath(Ref{"https://h", strings.Repeat("n", 5000), ""},
		Locked{strings.Repeat("1", 5000), digest}); len(long) > 220 {
		t.Errorf("%d bytes", len(long))
	}
}
