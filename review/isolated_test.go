package review

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/report"
)

// demo commits the demo fleet, then a change of it, and opens the repository.
func demo(tb testing.TB) (s *session.Session, base, head gitstore.Commit) {
	tb.Helper()
	const values = "apps/shop/layers/global/values.yaml"
	repo := hydratetest.Demo(tb)
	repo.Write(values, strings.ReplaceAll(repo.Read(values), "EUR", "CAD"))
	repo.Commit("change")
	r := session.Runtime{
		Cache: tb.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
	s, err := session.Open(tb.Context(), r, session.Options{
		Repo: repo.Dir, Jobs: 2,
		Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s, repo.Resolve("HEAD~1"), repo.Resolve("HEAD")
}

// inProcess runs the job of a worker in this process, with answers of a parent.
func inProcess(t *testing.T, s *session.Session, o Request) (*report.Review, error) {
	t.Helper()
	host, err := newParent(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer host.close()
	return answered(t, host, o)
}

// answered runs the job of a worker in this process, with answers of the given parent.
func answered(t *testing.T, host *parent, o Request) (*report.Review, error) {
	t.Helper()
	o.Key = derivedKey(o.Key, "hub:acme/fleet")
	input, err := json.Marshal(host.task(t.Context(), o))
	if err != nil {
		t.Fatal(err)
	}
	data, err := reviewJob(t.Context(), input, host.answer)
	if err != nil {
		return nil, err
	}
	out, err := readAnswer(data, o)
	if err != nil {
		return nil, err
	}
	return out.Review, nil
}

// A review in a worker process equals one in this process.
func TestIsolatedReviewEqualsLocalReview(t *testing.T) {
	t.Parallel()
	s, base, head := demo(t)
	o := Request{Request: compare.Request{Base: base, Head: head, Key: []byte("k")}, Policy: head.Tree}
	got, err := inProcess(t, s, o)
	if err != nil {
		t.Fatal(err)
	}
	o.Key = derivedKey(o.Key, "hub:acme/fleet")
	local, err := Local{s}.Review(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := local.Review
	if want.Changes == nil || len(want.Changes.Groups) == 0 {
		t.Fatalf("nothing changes: %+v", want)
	}
	// An empty list and no list mean the same to every reader, and print alike.
	if got, want := fmt.Sprintf("%+v", *got.Changes), fmt.Sprintf("%+v", *want.Changes); got != want {
		t.Errorf("the change sets differ:\n%s\n%s", got, want)
	}
	left, _ := report.Markdown(got, 60_000)
	right, _ := report.Markdown(want, 60_000)
	if left != right {
		t.Errorf("the reports differ:\n%s\n%s", left, right)
	}
}

// Requests of a compromised worker that the parent refuses.
func TestParentRefuses(t *testing.T) {
	t.Parallel()
	s, base, head := demo(t)
	o := Request{Request: compare.Request{
		Base: base, Head: head, Key: []byte("k"),
		Preview: &compare.Preview{Branch: "sluice/preview/1"},
	}}
	p, err := newParent(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	move := func(branches ...string) []byte {
		var moves []gitstore.Move
		for _, b := range branches {
			moves = append(moves, gitstore.Move{Branch: b, New: head.Hash})
		}
		text, err := json.Marshal(moves)
		if err != nil {
			t.Fatal(err)
		}
		return appendFrame(nil, 'm', text)
	}
	for name, c := range map[string]struct {
		question string
		input    []byte
	}{
		"move an environment branch":            {askPush, move("env/prod")},
		"move the records":                      {askPush, move("sluice/state")},
		"move a branch beside the preview":      {askPush, move("sluice/preview/1", "main")},
		"move no branch":                        {askPush, move()},
		"a frame that is cut off":               {askPush, append(move("sluice/preview/1"), 'b', 0, 0, 9, 9, 1)},
		"an object of no kind":                  {askPush, append(move("sluice/preview/1"), 'x', 0, 0, 0, 0)},
		"an object that does not exist":         {askObjects, make([]byte, 20)},
		"half a hash":                           {askObjects, make([]byte, 19)},
		"too many objects":                      {askObjects, make([]byte, 20*(objectsAtOnce+1))},
		"a bundle whose contents were not sent": {renderer.QuestionRender, []byte{0xa0, 0xa0}},
		"an archive on a file": {
			askArchive,
			[]byte(`{"Ref":{"Repo":"file:///etc","Chart":"passwd","Version":"1.0.0"},"Locked":{"Version":"1.0.0","Digest":"sha256:00"}}`),
		},
		"a question that does not exist": {"credentials", nil},
	} {
		if out, err := p.answer(t.Context(), c.question, c.input); err == nil {
			t.Errorf("%s: %d bytes", name, len(out))
		}
	}
}

// A review lacks what a server may have later, but not what it refuses.
func TestParentLacks(t *testing.T) {
	t.Parallel()
	s, base, head := demo(t)
	for name, c := range map[string]struct {
		question string
		input    []byte
		want     bool
	}{
		"an object that does not exist": {askObjects, make([]byte, 20), true},
		"half a hash":                   {askObjects, make([]byte, 19), false},
		"an archive whose digest is wrong": {
			askArchive,
			[]byte(`{"Ref":{"Repo":"https://127.0.0.1:1","Chart":"x","Version":"1.0.0"},"Locked":{"Version":"1.0.0","Digest":"sha256:00"}}`), false,
		},
		"a server that does not answer": {
			askArchive,
			[]byte(`{"Ref":{"Repo":"https://127.0.0.1:1","Chart":"x","Version":"1.0.0"},"Locked":{"Version":"1.0.0","Digest":"sha256:` + strings.Repeat("0", 64) + `"}}`), true,
		},
	} {
		p, err := newParent(t.Context(), s, Request{Request: compare.Request{Base: base, Head: head}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.answer(t.Context(), c.question, c.input)
		if p.wasUnreached() != c.want || err == nil {
			t.Errorf("%s: lacks content: %t: %v", name, p.wasUnreached(), err)
		}
		p.close()
	}
}

// A supplier cannot replace an object.
func TestSuppliedContentIsChecked(t *testing.T) {
	t.Parallel()
	store := gitstore.OpenSupplied(func(_ context.Context, hashes []gitstore.Hash) ([]gitstore.Raw, error) {
		return []gitstore.Raw{{Kind: "blob", Data: []byte("forged")}}[:len(hashes)], nil
	})
	if err := store.Ensure(t.Context(), gitstore.Hash{1}); !errors.Is(err, gitstore.ErrDamaged) {
		t.Errorf("a forged object is accepted: %v", err)
	}
}

// hanging is a renderer for which one chart never ends.
type hanging struct {
	renderer.Renderer
	chart string
}

func (h hanging) Render(ctx context.Context, b *renderer.Bundle) (*renderer.Rendering, error) {
	if len(b.Sources) > 0 && b.Sources[0].Helm != nil && b.Sources[0].Helm.Release == h.chart {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.Renderer.Render(ctx, b)
}

// A review whose time for rendering is over compares what was rendered, and names the targets that were not: all of
// them in JSON, a bounded list and the number of the others in the comment.
func TestReviewNamesTargetsThatAreNotRendered(t *testing.T) {
	t.Parallel()
	s, base, head := demo(t)
	s.Renderer = hanging{s.Renderer, "shop"}
	o := Request{Request: compare.Request{Base: base, Head: head, Against: compare.AgainstNothing, Key: []byte("k")}}
	host, err := newParent(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer host.close()
	if err := host.renderWithin(3 * time.Second); err != nil {
		t.Fatal(err)
	}
	r, err := answered(t, host, o)
	if err != nil {
		t.Fatal(err)
	}
	if !host.budget.Over() || r.Verdict != report.VerdictError {
		t.Errorf("over: %t, verdict %s", host.budget.Over(), r.Verdict)
	}
	held := map[string]bool{}
	for _, w := range r.Changes.Withheld {
		held[w.App+" on "+w.Cluster] = true
		if !strings.Contains(w.Message, "not rendered: the time for rendering is over, after 3s") {
			t.Errorf("%s on %s: %s", w.App, w.Cluster, w.Message)
		}
	}
	f, _, err := s.Fleet(t.Context(), head.Tree)
	if err != nil {
		t.Fatal(err)
	}
	shops := 0
	shop, _ := f.App("shop")
	for _, c := range f.Clusters {
		if f.Places(shop, c) {
			shops++
			if !held["shop on "+c.Name] {
				t.Errorf("shop on %s is not named", c.Name)
			}
		}
	}
	if shops < 3 || len(r.Changes.Groups) == 0 {
		t.Errorf("%d targets of shop, %d groups of others", shops, len(r.Changes.Groups))
	}
	text, _ := report.Markdown(r, 60_000)
	for _, want := range []string{
		report.Count(len(held), "target") + " cannot be rendered", "`shop`",
		"the time for rendering is over",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the comment lacks %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "the time for rendering is over"); n != 1 {
		t.Errorf("the comment gives the reason %d times", n)
	}
}

// TestLimitsInTheDocumentation holds the table of docs/security.md to the limits of a review.
func TestLimitsInTheDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		fmt.Sprintf("| time, processor time | %d minutes, %d minutes |", reviewTimeout/time.Minute,
			reviewCPU/time.Minute),
		fmt.Sprintf("| memory, answer | %d GiB, %d MiB of at most %d million values |", reviewMemory>>30,
			reviewOutput>>20, reviewValues>>20),
		fmt.Sprintf("| time of all renderings | %d minutes |", reviewRender/time.Minute),
		fmt.Sprintf("| charts and files | %d GiB |", reviewContents>>30),
	} {
		if !strings.Contains(string(text), row+"\n") {
			t.Errorf("docs/security.md lacks the row %q", row)
		}
	}
}

// TestUnlockedCharts: a change of an exact version gives a diff without a lock, from servers that the trunk uses, and
// from no other.
func TestUnlockedCharts(t *testing.T) {
	t.Parallel()
	requests := map[string]int{}
	var mu sync.Mutex
	serve := func(name string) *httptest.Server {
		index, files := "apiVersion: v1\nentries:\n  tiny:\n", map[string][]byte{}
		for _, version := range []string{"1.0.0", "1.1.0"} {
			files["/tiny-"+version+".tgz"] = tinyChart(t, version)
			index += "  - {apiVersion: v2, name: tiny, version: " + version + ", urls: [tiny-" + version + ".tgz]}\n"
		}
		files["/index.yaml"] = []byte(index)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			requests[name]++
			mu.Unlock()
			_, _ = w.Write(files[r.URL.Path])
		}))
		t.Cleanup(server.Close)
		return server
	}
	known, other := serve("known"), serve("other")
	app := func(server *httptest.Server, version string) string {
		return "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: tiny}\nspec: {namespace: tiny, placement: {}, source: {helm: {chart: tiny, repo: \"" + server.URL + "\", version: \"" + version + "\"}}}\n"
	}
	repo := hydratetest.New(t)
	repo.Write("sluice.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec: {environments: [{name: dev}]}\n")
	repo.Write("clusters/a.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {environment: dev, kubeVersion: 1.33.0}\n")
	repo.Write("apps/tiny/app.yaml", app(known, "1.0.0"))
	repo.Commit("base")
	base := repo.Resolve("HEAD")
	r := session.Runtime{
		Cache: t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
	reviewed := func(policy gitstore.Commit) *report.Review {
		t.Helper()
		s, err := session.Open(t.Context(), r, session.Options{
			Repo: repo.Dir, Jobs: 2,
			Renderer: renderer.NewEngine(renderer.DefaultLimits()),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got, err := inProcess(t, s, Request{Request: compare.Request{
			Base: base, Head: repo.Resolve("HEAD"),
			Key: []byte("k"),
		}, Policy: policy.Tree, Offline: true})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	change := func(text, lock string) *report.Review {
		t.Helper()
		repo.Git("reset", "-q", "--hard", base.Hash.String())
		repo.Write("apps/tiny/app.yaml", text)
		if lock != "" {
			repo.Write("sluice.lock", lock)
		}
		repo.Commit("change")
		return reviewed(base)
	}
	text := func(r *report.Review) string {
		out, _ := report.Markdown(r, 60_000)
		return strings.ReplaceAll(out, "`", "")
	}

	bump := change(app(known, "1.1.0"), "")
	if bump.Verdict != report.VerdictPass || bump.Changes.Totals.Changed != 1 ||
		!strings.Contains(text(bump),
			"2 charts are not in sluice.lock, and taken in the version that the commit names: tiny 1.0.0 from ") {
		t.Errorf("a new exact version: got %s, want a pass with one change and a note:\n%s", bump.Verdict, text(bump))
	}
	// A repository with a lock is hydrated: the bump without `deps lock` must not pass in silence.
	locked := change(app(known, "1.1.0"), "apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts: []\n")
	if locked.Verdict != report.VerdictFail || !strings.Contains(text(locked), "tiny 1.1.0 from "+known.URL+
		" is not in sluice.lock, so no hydration can render it") {
		t.Errorf("a new version that sluice.lock lacks: got %s, want a warning:\n%s", locked.Verdict, text(locked))
	}
	ranged := change(app(known, "^1.0.0"), "")
	if ranged.Verdict != report.VerdictError || !strings.Contains(text(ranged), "^1.0.0 from "+known.URL+
		" is not in sluice.lock") {
		t.Errorf("a range: got %s, want an incomplete review that names the chart:\n%s", ranged.Verdict, text(ranged))
	}
	moved := change(app(other, "1.1.0"), "")
	if moved.Verdict != report.VerdictError || requests["other"] != 0 ||
		!strings.Contains(text(moved), "the trunk takes no chart from "+other.URL) {
		t.Errorf("a server that the trunk does not use: got %s with %d requests to it, want an incomplete review with none:\n%s", moved.Verdict, requests["other"], text(moved))
	}
	// A hydration that works must not break in silence: a change deletes the lock, or has the first remote chart of a
	// repository.
	const broken = "is not in sluice.lock, so no hydration can render it"
	unlocked := base
	repo.Git("reset", "-q", "--hard", unlocked.Hash.String())
	repo.Write("sluice.lock",
		fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts:\n- {chart: tiny, repo: %q, version: 1.0.0, resolved: 1.0.0, digest: \"sha256:%x\"}\n",
			known.URL, sha256.Sum256(tinyChart(t, "1.0.0"))))
	repo.Commit("locked")
	base = repo.Resolve("HEAD")
	repo.Git("rm", "-q", "sluice.lock")
	repo.Commit("without the lock")
	if got := reviewed(base); got.Verdict != report.VerdictFail || !strings.Contains(text(got), broken) {
		t.Errorf("a change that deletes sluice.lock: got %s, want a warning:\n%s", got.Verdict, text(got))
	}
	repo.Git("reset", "-q", "--hard", unlocked.Hash.String())
	repo.Git("rm", "-q", "apps/tiny/app.yaml")
	repo.Commit("no remote chart")
	base = repo.Resolve("HEAD")
	repo.Write("apps/tiny/app.yaml", app(known, "1.0.0"))
	repo.Commit("the first remote chart")
	if got := reviewed(unlocked); got.Verdict != report.VerdictFail || !strings.Contains(text(got), broken) {
		t.Errorf("the first remote chart of a repository without sluice.lock: got %s, want a warning:\n%s", got.Verdict,
			text(got))
	}
	if requests["known"] == 0 {
		t.Error("no chart was fetched from the server that the trunk uses")
	}
}

// tinyChart packs a chart whose object has its version.
func tinyChart(t *testing.T, version string) []byte {
	t.Helper()
	return packChart(t, map[string]string{
		"Chart.yaml":            "apiVersion: v2\nname: tiny\nversion: " + version + "\n",
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tiny}\ndata: {version: {{ .Chart.Version }}}\n",
	})
}

// packChart packs the chart tiny.
func packChart(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		if err := errors.Join(archive.WriteHeader(&tar.Header{Name: "tiny/" + name, Mode: 0o644, Size: int64(len(text))}),
			func() error { _, err := archive.Write([]byte(text)); return err }()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
