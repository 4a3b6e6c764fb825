package promote_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/rollout"
)

// TestModelOnTrees plays random histories with the real code on real repositories: it renders, commits, pushes and
// reads the branches and records of a small fleet. After every pass it checks the invariants of docs/promotion-model.md
// against the trees on the branches. TestModel of package promote plays many more histories on simulated trees. A
// history that fails is shrunk; SLUICE_MODEL_SEED repeats one.
func TestModelOnTrees(t *testing.T) {
	t.Parallel()
	first, count := 1, 60
	if n, err := strconv.Atoi(os.Getenv("SLUICE_TREE_HISTORIES")); err == nil {
		count = n
	}
	if testing.Short() {
		count = 2
	}
	if n, err := strconv.Atoi(os.Getenv("SLUICE_MODEL_SEED")); err == nil {
		first, count = n, 1
	}
	done := map[string]int{}
	for seed := first; seed < first+count; seed++ {
		r := rand.New(rand.NewPCG(uint64(seed), 11))
		steps := make([]uint64, 14)
		for i := range steps {
			steps[i] = r.Uint64()
		}
		w, err := playTrees(t, uint64(seed), steps)
		if err != nil {
			steps, w, err = shrinkTrees(t, uint64(seed), steps, w, err)
			t.Fatalf("seed %d fails after %d steps: %v\n%s", seed, len(steps), err, strings.Join(w.log, "\n"))
		}
		for k, n := range w.done {
			done[k] += n
		}
	}
	t.Logf("%d histories: %v", count, done)
	for _, k := range []string{
		"promoted", "rollback of all", "rollback of clusters", "rollback of apps", "moved late",
		"held", "halt", "request", "arrived", "verified", "behind as planned",
		"env/prod back", "cluster back", "env/prod deleted", "cluster deleted", "foreign commit", "records refused",
		"rebuilt", "restored", "adopted", "rewritten trunk", "clock",
	} {
		if done[k] == 0 && count >= 300 {
			t.Errorf("no history has %q: the model shows nothing about it", k)
		}
	}
}

func playTrees(t *testing.T, seed uint64, steps []uint64) (*trees, error) {
	t.Helper()
	w, err := newTrees(t, seed)
	if err != nil {
		return w, err
	}
	defer w.close()
	for _, s := range steps {
		w.r = rand.New(rand.NewPCG(s, 13))
		w.now = w.now.Add(time.Duration(w.r.IntN(50)) * time.Minute)
		if err := w.step(); err != nil {
			return w, err
		}
	}
	return w, w.arrive()
}

// shrinkTrees removes steps for as long as the history still fails.
func shrinkTrees(t *testing.T, seed uint64, steps []uint64, w *trees, err error) ([]uint64, *trees, error) {
	t.Helper()
	for at := 0; at < len(steps); {
		fewer := slices.Delete(slices.Clone(steps), at, at+1)
		if w2, err2 := playTrees(t, seed, fewer); err2 != nil {
			steps, w, err = fewer, w2, err2
			continue
		}
		at++
	}
	return steps, w, err
}

// trees is a fleet in a real repository: dev with one cluster, prod with four, and two apps.
type trees struct {
	ctx      context.Context //nolint:containedctx // of the test
	r        *rand.Rand
	dir      string
	h        *hydrate.Hydrator
	now      time.Time
	graph    string // sluice.yaml
	manual   bool
	versions map[string]int
	trunk    []gitstore.Commit
	dropped  []gitstore.Commit // of the trunk, by people who rewrote it
	// the next hydration is told that the trunk was rewritten
	rewritten bool
	red       map[string]bool
	requests  requests
	rendered  map[string]map[string]string // source commit → cluster/app → tree
	bad       map[string]map[string]bool   // cluster/app → trees that went back and that nobody asked for since
	events    int
	done      map[string]int
	log       []string
}

var treeClusters = []string{"p0", "p1", "p2", "p3"}

func newTrees(t *testing.T, seed uint64) (*trees, error) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 17))
	w := &trees{
		ctx: t.Context(), r: r, now: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), versions: map[string]int{},
		red:      map[string]bool{},
		rendered: map[string]map[string]string{}, bad: map[string]map[string]bool{}, done: map[string]int{},
	}
	mode := choose(r, "auto", "auto", "manual", "request")
	w.manual = mode == "manual"
	options := "mode: " + mode +
		", health: {commitStatuses: [sync]}, waves: [{name: canary, clusters: {matchLabels: {cluster: p0}}, bake: " +
		choose(r, "0s", "30m") +
		"}, {name: half, count: 2}, {name: rest}]" + choose(r, "", ", onFailure: rollback", ", onFailure: halt") +
		choose(r, "", ", bake: 20m") +
		choose(r, "", `, windows: [{from: "06:00", to: "22:00"}]`) +
		choose(r, "", ", approvers: {users: [ann, bob], count: 1}")
	w.graph = "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: model}\nspec:\n  trunk: main\n  environments:\n    - name: dev\n    - name: prod\n      after: [dev]\n      promotion: {" + options + "}\n"
	w.logf("%s", options)
	w.dir = t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", "--bare", "-b", "main",
		w.dir).CombinedOutput(); err != nil {
		return w, fmt.Errorf("git init: %w: %s", err, out)
	}
	store, err := gitstore.Open(t.Context(), gitstore.Options{Dir: w.dir})
	if err != nil {
		return w, err
	}
	w.h = hydrate.New(hydrate.Config{
		Store: store, Branches: store.Local(), Renderer: renderer.NewEngine(renderer.DefaultLimits()),
		Archives: hydratetest.Offline{}, Jobs: 1, Version: "test",
	})
	return w, w.release("dev", "prod")
}

func (w *trees) close() {
	_ = w.h.Store.Close()   // the folder goes with the test
	_ = os.RemoveAll(w.dir) // 300 repositories are many
}

func choose(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func (w *trees) logf(format string, args ...any) {
	w.log = append(w.log, w.now.Format("02 15:04 ")+fmt.Sprintf(format, args...))
}

// release commits new versions of some apps to the trunk, and hydrates environments.
func (w *trees) release(environments ...string) error {
	apps := [][]string{{"a"}, {"b"}, {"a", "b"}}[w.r.IntN(3)]
	if len(w.trunk) == 0 {
		apps = []string{"a", "b"}
	}
	for _, app := range apps {
		w.versions[app]++
	}
	return w.commit(environments...)
}

func (w *trees) commit(environments ...string) error {
	files := map[string]string{"sluice.yaml": w.graph, "clusters/all.yaml": ""}
	for _, name := range append([]string{"d0"}, treeClusters...) {
		environment := map[bool]string{true: "dev", false: "prod"}[name == "d0"]
		files["clusters/all.yaml"] += fmt.Sprintf("---\napiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: %s}\nspec: {environment: %s}\n", name, environment)
	}
	for _, app := range []string{"a", "b"} {
		files["apps/"+app+"/app.yaml"] = fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: %[1]s}\nspec: {namespace: %[1]s, placement: {}, source: {manifests: {path: manifests/%[1]s}}}\n", app)
		files["manifests/"+app+"/c.yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {version: \"%d\"}\n", app, w.versions[app])
	}
	writer, err := w.h.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = writer.Close() }() // what was pushed is on the branch
	tree, err := writeFiles(writer, files)
	if err != nil {
		return err
	}
	var parent gitstore.Hash
	if n := len(w.trunk); n > 0 {
		parent = w.trunk[n-1].Hash
	}
	who := gitstore.Signature{Name: "A", Email: "a@example.com", When: w.now}
	hash, err := branch.Commit{
		Tree: tree, Parent: parent, Author: who, Committer: who,
		Subject: fmt.Sprint("versions ", w.versions),
	}.Write(writer)
	if err != nil {
		return err
	}
	if _, err := w.h.Branches.Push(w.ctx, writer, []gitstore.Move{{Branch: "main", Old: parent, New: hash}},
		gitstore.PushOptions{}); err != nil {
		return err
	}
	c, err := w.h.Store.Commit(w.ctx, hash)
	if err != nil {
		return err
	}
	w.trunk = append(w.trunk, c)
	w.logf("commit %s: %v", hash.Short(), w.versions)
	result, err := w.h.Hydrate(w.ctx, hydrate.Request{
		Commit: c, Write: true, Environments: environments, Overwrite: w.rewritten,
	})
	if err == nil && !result.OK() {
		err = fmt.Errorf("hydration: %+v", result)
	}
	return err
}

func writeFiles(w *gitstore.Writer, files map[string]string) (gitstore.Hash, error) {
	folders, entries := map[string]map[string]string{}, []gitstore.Entry{}
	for name, text := range files {
		if dir, rest, ok := strings.Cut(name, "/"); ok {
			if folders[dir] == nil {
				folders[dir] = map[string]string{}
			}
			folders[dir][rest] = text
			continue
		}
		blob, err := w.Blob([]byte(text))
		if err != nil {
			return blob, err
		}
		entries = append(entries, gitstore.Entry{Name: path.Base(name), Mode: gitstore.ModeFile, Hash: blob})
	}
	for dir, inside := range folders {
		tree, err := writeFiles(w, inside)
		if err != nil {
			return tree, err
		}
		entries = append(entries, gitstore.Entry{Name: dir, Mode: gitstore.ModeTree, Hash: tree})
	}
	return w.Tree(entries)
}

func (w *trees) request(commands ...promote.Command) promote.Request {
	return promote.Request{
		Trunk: w.trunk[len(w.trunk)-1], Environments: []string{"prod"}, Commands: commands, Now: w.now,
		Adapters: promote.Adapters{Statuses: w, MergeRequests: &w.requests},
	}
}

// Statuses implements promotion.StatusReader: a cluster is red or green.
func (w *trees) Statuses(ctx context.Context, commit string) ([]rollout.Status, error) {
	refs, err := w.h.Branches.List(ctx, "cluster/")
	for name, hash := range refs {
		if hash.String() == commit && w.red[strings.TrimPrefix(name, "cluster/")] {
			return []rollout.Status{{Name: "sync", State: "failure"}}, err
		}
	}
	return []rollout.Status{{Name: "sync", State: "success"}}, err
}

// step is one thing that happens, and a pass or two after it.
func (w *trees) step() error {
	cluster := treeClusters[w.r.IntN(len(treeClusters))]
	switch w.r.IntN(20) {
	case 0, 1, 2:
		if err := w.release("dev"); err != nil {
			return err
		}
		return w.passes(2)
	case 3:
		clear(w.red)
		if w.r.IntN(2) == 0 {
			w.red[cluster] = true
		}
		w.logf("red: %v", w.red)
	case 4, 5:
		return w.passes(1, w.command(rollout.EventPromote, cluster))
	case 6, 7, 8:
		return w.passes(1, w.command(rollout.EventRollback, cluster))
	case 9: // two people at once
		return w.late(w.command(rollout.EventRollback, cluster),
			w.command(rollout.EventRollback, treeClusters[w.r.IntN(4)]))
	case 10:
		return w.late(w.command(rollout.EventPromote, cluster), w.command(rollout.EventHalt, cluster))
	case 11:
		return w.passes(1, w.command(rollout.EventFreeze, cluster))
	case 12:
		return w.passes(1, w.command(rollout.EventUnfreeze, cluster))
	case 13:
		return w.passes(1, w.command(rollout.EventHalt, cluster))
	case 14:
		return w.passes(1, w.command(rollout.EventResume, cluster))
	case 15:
		if open := w.requests.open; open != nil {
			return w.merge(*open, w.r.IntN(3) == 0)
		}
		return w.passes(1, w.command(rollout.EventApprove, cluster))
	case 16, 17:
		return w.incident(cluster)
	case 18:
		return w.rewriteTrunk()
	case 19:
		w.setClock()
	}
	return w.passes(2)
}

// merge merges the open merge request, or closes it.
func (w *trees) merge(open promote.MergeRequest, refuse bool) error {
	w.requests.open = nil
	if refuse {
		w.logf("merge request closed")
		return w.passes(1)
	}
	refs, err := w.h.Branches.List(w.ctx, open.To)
	if err != nil {
		return err
	}
	head, err := gitstore.ParseHash(open.Head)
	if err != nil {
		return err
	}
	commit, err := w.h.Store.Commit(w.ctx, head)
	if err != nil || len(commit.Parents) != 1 || commit.Parents[0] != refs[open.To] {
		return err // the branch has moved: a forge would not fast-forward
	}
	before, err := w.read()
	if err != nil {
		return err
	}
	writer, err := w.h.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = writer.Close() }() // nothing is written
	if _, err := w.h.Branches.Push(w.ctx, writer, []gitstore.Move{{Branch: open.To, Old: refs[open.To], New: head}},
		gitstore.PushOptions{}); err != nil {
		return err
	}
	w.logf("merge request merged: %s", open.Title)
	if err := w.check(before); err != nil {
		return err
	}
	return w.passes(2)
}

// command is one that a person may give. Most are carried out; some are refused, which is fine.
func (w *trees) command(kind rollout.EventKind, cluster string) promote.Command {
	w.events++
	c := promote.Command{Environment: "prod", Verb: string(kind), CLI: true}
	c.Kind, c.ID, c.By, c.Reason = kind, fmt.Sprint("e", w.events), choose(w.r, "ann", "bob"), "because"
	switch kind {
	case rollout.EventFreeze, rollout.EventUnfreeze:
		c.Target = choose(w.r, "", cluster)
		c.Until = map[bool]time.Time{true: w.now.Add(2 * time.Hour)}[kind == rollout.EventFreeze]
	case rollout.EventPromote:
		c.Now = w.r.IntN(4) == 0
		if w.r.IntN(3) == 0 {
			c.Apps = []string{choose(w.r, "a", "b")}
		}
		if w.r.IntN(4) == 0 {
			c.Revision = w.trunk[w.r.IntN(len(w.trunk))].Hash.String()
		}
	case rollout.EventRollback, rollout.EventResume:
		switch w.r.IntN(6) {
		case 0:
			c.Clusters = []string{cluster}
		case 1:
			c.Apps = []string{choose(w.r, "a", "b")}
		case 2:
			c.Wave = choose(w.r, "canary", "half")
		case 3:
			c.Clusters, c.Apps = []string{cluster}, []string{choose(w.r, "a", "b")}
		}
		if kind == rollout.EventRollback && w.r.IntN(3) == 0 {
			c.Revision = w.trunk[w.r.IntN(len(w.trunk))].Hash.String()
		}
	}
	return c
}

// passes looks at promotions, with commands at first, and checks the invariants after each pass.
func (w *trees) passes(count int, commands ...promote.Command) error {
	for range count {
		before, err := w.read()
		if err != nil {
			return err
		}
		list, err := promote.Look(w.ctx, w.h, w.request(commands...))
		if err != nil {
			return err
		}
		w.note(before, list[0], commands)
		if err := w.check(before); err != nil {
			return err
		}
		commands = nil
		w.now = w.now.Add(time.Minute)
	}
	return nil
}

// late is a pass that another one overtakes between its reading and its acting. It must lose, or change nothing that
// the other one decided.
func (w *trees) late(first, second promote.Command) error {
	before, err := w.read()
	if err != nil {
		return err
	}
	st, err := promote.LookLate(w.ctx, w.h, w.request(first), "prod", func() error {
		err := w.passes(1, second)
		if err == nil {
			before, err = w.read()
		}
		return err
	})
	_, moved := errors.AsType[*promote.MovedError](err)
	switch {
	case moved:
		w.done["moved late"]++
		w.logf("%s by %s came too late", first.Kind, first.By)
	case err != nil:
		return err
	default:
		w.note(before, *st, []promote.Command{first})
	}
	if err := w.check(before); err != nil {
		return err
	}
	return w.passes(2)
}

func (w *trees) note(before *snapshot, st promote.Status, commands []promote.Command) {
	for _, c := range commands {
		w.logf("%s %s %v %v %s by %s, refused %q", c.Kind, c.Target, c.Wave,
			append(slices.Clone(c.Clusters), c.Apps...), c.Revision, c.By, st.Refused)
		w.done[string(c.Kind)]++
		scoped := len(c.Wave)+len(c.Clusters)+len(c.Apps) > 0
		if c.Kind == rollout.EventResume && len(st.Refused) == 0 && (scoped || !before.halted) {
			w.released(c)
		}
	}
	w.logf("done %q, waits for %q", st.Done, st.Decision.WaitsFor)
	if p := st.Decision.Proposal; p != nil && len(p.Held) > 0 {
		w.done["held"]++
	}
	if w.requests.open != nil {
		w.done["request"]++
	}
}

// released forgets what went back in the scope of a resume: it may come again.
func (w *trees) released(c promote.Command) {
	clusters := c.Clusters
	switch c.Wave {
	case "canary":
		clusters = []string{"p0"}
	case "half":
		clusters = []string{"p1", "p2"}
	}
	for key := range w.bad {
		cluster, app, _ := strings.Cut(key, "/")
		if (len(clusters) == 0 || slices.Contains(clusters, cluster)) &&
			(len(c.Apps) == 0 || slices.Contains(c.Apps, app)) {
			delete(w.bad, key)
		}
	}
}
