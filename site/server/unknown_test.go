package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/site"
	"github.com/sluice-gitops/sluice/site/server"
)

// TestUnknownIsNotNotFound: while the list of repositories is not complete, a page of a repository that is not in it
// cannot be read. While the forge confirms no rights, it looks like one of a repository that exists. Otherwise it does
// not exist, also if the forge fails for one repository alone.
func TestUnknownIsNotNotFound(t *testing.T) {
	t.Parallel()
	from := &source{tips: "1"}
	rights := func(_ context.Context, person, repository string) (bool, error) {
		switch {
		case person == "eve":
			return false, errors.New("the forge does not answer")
		case person == "half" && repository != "acme/fleet":
			return false, errors.New("the forge does not answer")
		}
		return person == "ada" || person == "half", nil
	}
	h := start(t, server.Config{Source: from, Access: everybody{}, Rights: rights})
	check := func(person, path string, want int, text string) {
		t.Helper()
		if code, body := get(t, h.Client(), h.URL+path, "X-Person", person); code != want ||
			!strings.Contains(body, text) {
			t.Errorf("%s of %s: %d, want %d and %q: %.300s", path, person, code, want, text, body)
		}
	}
	check("ada", "/acme/fleet/-/index.html", 200, "")
	check("ada", "/acme/none/-/index.html", 404, "")
	check("ada", "/", 200, "acme/fleet")
	check("bob", "/acme/none/-/index.html", 404, "")
	check("bob", "/acme/fleet/-/index.html", 404, "")
	check("bob", "/", 200, "There is no repository that you may read.")
	check("eve", "/acme/fleet/-/index.html", 503, "try again")
	check("eve", "/acme/none/-/index.html", 503, "try again")
	check("eve", "/", 503, "The forge did not confirm your access to all repositories: try again.")
	check("half", "/", 200, "acme/fleet")
	check("half", "/", 200, "The forge did not confirm your access to all repositories: try again.")
	for _, name := range []string{"secret/fleet", "secret/none", "acme/none", "x"} {
		check("half", "/"+name+"/-/index.html", 404, "the forge does not confirm that you may read it")
	}
	from.incomplete = errors.New("github has not listed its repositories yet")
	check("ada", "/acme/none/-/index.html", 503, "the list of repositories is not complete: try again")
	check("ada", "/acme/fleet/-/index.html", 200, "")
	check("ada", "/", 200, "The list of repositories is not complete")
	check("bob", "/", 503, "The list of repositories is not complete")
	check("bob", "/acme/fleet/-/index.html", 503, "the list of repositories is not complete: try again")
	check("bob", "/acme/none/-/index.html", 503, "the list of repositories is not complete: try again")
}

// TestExistenceStaysSecret: whatever the service knows of a person's rights, the answer for a repository that the
// person may not read is that for a repository that does not exist, also while the forge does not answer.
func TestExistenceStaysSecret(t *testing.T) {
	t.Parallel()
	c := &clock{}
	var broken atomic.Bool
	var asked atomic.Int64
	rights := func(_ context.Context, person, repository string) (bool, error) {
		asked.Add(1)
		if broken.Load() {
			return false, errors.New("the forge does not answer")
		}
		return person == "ada" && repository == "acme/fleet", nil
	}
	h := start(t, server.Config{Source: &source{tips: "1"}, Access: everybody{}, Rights: rights, Clock: c.now})
	alike := func(person string, want int) {
		t.Helper()
		for _, name := range []string{"secret/none", "secret/fleet", "acme/none"} {
			if code, body := get(t, h.Client(), h.URL+"/"+name+"/-/index.html", "X-Person", person); code != want {
				t.Errorf("%s of %s: %d, want %d: %s", name, person, code, want, body)
			}
		}
	}
	alike("ada", 404)
	before := asked.Load()
	alike("ada", 404)
	if now := asked.Load(); now != before {
		t.Errorf("unknown addresses ask the forge %d times again", now-before)
	}
	broken.Store(true)
	alike("bob", 503) // the first one does not exist
	c.advance(2 * time.Minute)
	alike("ada", 503) // the answers for ada are still kept
	if code, _ := get(t, h.Client(), h.URL+"/acme/fleet/-/index.html", "X-Person", "ada"); code != 200 {
		t.Errorf("a repository that ada may read: %d", code)
	}
	broken.Store(false)
	c.advance(time.Minute)
	alike("ada", 404)
	alike("bob", 404)
}

// TestOutageTellsNothing: in the first minute of an outage, when some answers of the forge are still kept, an address
// of a repository that a person may not read is answered as one of a repository that does not exist, and costs the
// forge as many questions.
func TestOutageTellsNothing(t *testing.T) {
	t.Parallel()
	for before, paths := range map[string][]string{
		"nothing": nil, "the list": {"/"}, "a repository that does not exist": {"/acme/none/-/index.html"},
		"their own repository": {"/acme/fleet/-/index.html"}, "another unknown one": {"/secret/other/-/index.html"},
	} {
		type told struct {
			codes [2]int
			asked int64
		}
		look := func(name string) (out told) {
			c := &clock{}
			var broken atomic.Bool
			var asked atomic.Int64
			h := start(t, server.Config{
				Source: &source{tips: "1"}, Access: everybody{}, Clock: c.now,
				Rights: func(_ context.Context, _, repository string) (bool, error) {
					asked.Add(1)
					if broken.Load() {
						return false, &promote.UnavailableError{Err: errors.New("the forge does not answer")}
					}
					return repository == "acme/fleet", nil
				},
			})
			for _, p := range paths {
				get(t, h.Client(), h.URL+p, "X-Person", "bob")
			}
			broken.Store(true)
			c.advance(20 * time.Second)
			asked.Store(0)
			out.codes[0], _ = get(t, h.Client(), h.URL+"/"+name+"/-/index.html", "X-Person", "bob")
			out.codes[1], _ = get(t, h.Client(), h.URL+"/acme/no/-/index.html", "X-Person", "bob")
			out.asked = asked.Load()
			return out
		}
		exists := look("secret/fleet")
		for _, name := range []string{"secret/float", "acme/float", "x"} {
			if none := look(name); exists != none {
				t.Errorf("after %s: a hidden repository is answered with %v, %s, which does not exist, with %v", before,
					exists, name, none)
			}
		}
	}
}

// TestProbesAreBounded: a person who tries many names does not use up the rate limit of the forge. Repositories that
// they may read stay readable.
func TestProbesAreBounded(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	c := &clock{}
	h := start(t, server.Config{
		Source: &source{tips: "1"}, Access: everybody{}, Clock: c.now,
		Rights: func(_ context.Context, _, repository string) (bool, error) {
			asked.Add(1)
			return repository == "acme/fleet", nil
		},
	})
	look := func(name string) int {
		code, _ := get(t, h.Client(), h.URL+"/"+name+"/-/index.html", "X-Person", "bob")
		return code
	}
	if code := look("acme/fleet"); code != 200 {
		t.Fatal(code)
	}
	for i := range 100 {
		look(fmt.Sprint("secret/", i))
	}
	if n := asked.Load(); n > 60 {
		t.Errorf("100 names ask the forge %d times", n)
	}
	for name, want := range map[string]int{
		"secret/fleet": 429, "secret/none": 429, "secret/1": 404,
		"acme/fleet": 200,
	} {
		if code := look(name); code != want {
			t.Errorf("%s: the status code is %d, want %d", name, code, want)
		}
	}
	c.advance(time.Minute)
	if code := look("secret/fleet"); code != 404 {
		t.Errorf("a minute later: %d", code)
	}
}

// TestHomeAsksOnce: while the forge does not answer, the list of repositories asks it about one of them.
func TestHomeAsksOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	h := start(t, server.Config{
		Source: &source{tips: "1"}, Access: everybody{},
		Rights: func(context.Context, string, string) (bool, error) {
			asked.Add(1)
			return false, fmt.Errorf("github: %w", &promote.UnavailableError{Err: errors.New("rate limit")})
		},
	})
	if code, _ := get(t, h.Client(), h.URL+"/", "X-Person", "ada"); code != 503 || asked.Load() != 1 {
		t.Errorf("%d, the forge is asked %d times", code, asked.Load())
	}
}

// TestAssets: the files that all pages share are sent compressed, and only once to a client that keeps them.
func TestAssets(t *testing.T) {
	t.Parallel()
	h := start(t, server.Config{Source: &source{tips: "1"}})
	for name, want := range site.Assets() {
		send := func(header ...string) (int, http.Header, []byte) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+"/acme/fleet/-/"+name, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if closed := answer.Body.Close(); err != nil || closed != nil {
				t.Fatal(err, closed)
			}
			return answer.StatusCode, answer.Header, body
		}
		_, plain, body := send("Accept-Encoding", "identity")
		if !bytes.Equal(body, want) || plain.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d bytes, want %d", name, len(body), len(want))
		}
		_, packed, body := send("Accept-Encoding", "gzip")
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(got, want) || len(body) > len(want)/2 ||
			packed.Get("Content-Type") != plain.Get("Content-Type") {
			t.Errorf("%s: %d bytes compressed, %d plain, %v", name, len(body), len(got), err)
		}
		tags := map[string]string{"identity": plain.Get("ETag"), "gzip": packed.Get("ETag")}
		if tags["identity"] == tags["gzip"] {
			t.Errorf("%s has one tag for two encodings", name)
		}
		for encoding, tag := range tags {
			for have, want := range map[string]int{
				tag: 304, "W/" + tag: 304, `"other", ` + tag: 304, "*": 304,
				`"other"`: 200,
			} {
				if code, _, body := send("Accept-Encoding", encoding, "If-None-Match", have); code != want ||
					want == 304 && len(body) > 0 {
					t.Errorf("%s, %s, of which the client has %s: %d, %d bytes", name, encoding, have, code, len(body))
				}
			}
		}
	}
}

// Somebody who leaves before the forge has answered makes nothing unknown for others.
func TestPersonLeaves(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h := start(t, server.Config{
		Source: &source{tips: "1"}, Access: everybody{},
		Rights: func(ctx context.Context, _, _ string) (bool, error) {
			once.Do(func() { close(asked) })
			select {
			case <-answer:
				return true, nil
			case <-ctx.Done():
				return false, ctx.Err()
			}
		},
	})
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/acme/fleet/-/index.html", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Person", "ada")
	var left sync.WaitGroup
	left.Go(func() {
		if resp, err := h.Client().Do(request); err == nil {
			t.Errorf("the page is answered with %s", resp.Status)
			_ = resp.Body.Close() // not read
		}
	})
	<-asked
	leave()
	left.Wait()
	close(answer)
	for path, want := range map[string]int{"/acme/none/-/index.html": 404, "/acme/fleet/-/index.html": 200} {
		if code, body := get(t, h.Client(), h.URL+path, "X-Person", "ada"); code != want {
			t.Errorf("%s: the status code is %d, want %d: the body is %.300s", path, code, want, body)
		}
	}
}
