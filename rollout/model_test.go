package rollout_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay one history of the model")
	firstSeed = flag.Uint64("first", 1, "seed of the first history")
	histories = flag.Int("histories", 1000,
		"how many histories of the model to play; SLUICE_MODEL_HISTORIES overrides it")
)

// TestModel plays random histories against the invariants of docs/promotion-model.md: commits, approvals, time, health,
// freezes, halts, rollbacks of every scope, merge requests, two people at once, interrupted runs, lost records, and
// people who write to branches. A history that fails is shrunk to the fewest steps that still fail. Replay one with
// -run TestModel -seed N -v.
func TestModel(t *testing.T) {
	first, count := *firstSeed, *histories
	if n, err := strconv.Atoi(os.Getenv("SLUICE_MODEL_HISTORIES")); err == nil {
		count = n
	}
	if testing.Short() {
		count = min(count, 50)
	}
	if *seedFlag != 0 {
		first, count = *seedFlag, 1
	}
	// the histories leave much garbage and keep a few megabytes: almost half of the time
	defer debug.SetGCPercent(debug.SetGCPercent(4000))
	done := map[string]int{}
	var mu sync.Mutex
	var players sync.WaitGroup
	var next, failed atomic.Uint64 // failed is a seed, or 0
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for i := next.Add(1) - 1; i < uint64(count) && failed.Load() == 0; i = next.Add(1) - 1 {
				w, err := play(first+i, history(first+i))
				if err != nil {
					failed.Store(first + i)
					return
				}
				mu.Lock()
				for k, n := range w.done {
					done[k] += n
				}
				mu.Unlock()
			}
		})
	}
	players.Wait()
	if seed := max(failed.Load(), *seedFlag); seed != 0 {
		steps := history(seed)
		w, err := play(seed, steps)
		if err != nil {
			steps, w, err = shrink(seed, steps, w, err)
		}
		for _, l := range w.log {
			t.Log(l)
		}
		if err != nil {
			t.Fatalf("seed %d fails after %d steps: %v", seed, len(steps), err)
		}
	}
	t.Logf("%d histories: %v", count, done)
	for _, k := range []string{
		"moveEnvironment", "moveWave", "rollback", "halt", "overtaken", "partial", "openRequest", "closeRequest",
		"thawed", "arrived", "cut off",
		"lost record", "old record", "rebuilt", "set back", "restored", "adopted", "rewritten trunk", "clock", "lost swap", "rollback of clusters", "rollback of apps", "rollback of all", "stopped", "held",
		"released", "resumed hold", "refused return", "declined",
		"refused second rollback", "workspace back", "workspace back, interrupted", "workspace back, refused",
		"went on without a workspace",
		"left out", "left out, refused", "left out, requested", "left out, rest goes on", "left out, caught up",
	} {
		if done[k] == 0 && *seedFlag == 0 && count >= 300 {
			t.Errorf("no history has %q: the model shows nothing about it", k)
		}
	}
}

// turn is one thing that happens, with its own randomness, so that a history without other steps plays it alike.
type turn struct{ seed uint64 }

func history(seed uint64) []turn {
	r := rand.New(rand.NewPCG(seed, 3))
	out := make([]turn, 60)
	for i := range out {
		out[i] = turn{r.Uint64()}
	}
	return out
}

func play(seed uint64, steps []turn) (*world, error) {
	w := newWorld(seed)
	for _, s := range steps {
		w.r = rand.New(rand.NewPCG(s.seed, 7))
		w.happen()
		if w.r.IntN(8) == 0 && !w.lost {
			kept := w.record
			w.kept = &kept
		}
		if err := w.reconcile(true); err != nil {
			return w, err
		}
		if err := w.invariants(); err != nil {
			return w, err
		}
	}
	return w, w.arrive()
}

// shrink removes steps for as long as the history still fails.
func shrink(seed uint64, steps []turn, w *world, err error) ([]turn, *world, error) {
	for size := len(steps) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(steps); {
			fewer := slices.Delete(slices.Clone(steps), at, at+size)
			if w2, err2 := play(seed, fewer); err2 != nil {
				steps, w, err = fewer, w2, err2
				continue
			}
			at += size
		}
	}
	return steps, w, err
}

// tree is what an environment branch may hold.
type tree struct {
	source rollout.Source
	subs   map[string]string // cluster → "c0 a@S01 b@S02"
}

type world struct {
	r        *rand.Rand
	log      []string
	done     map[string]int
	now      time.Time
	env      fleet.Environment
	apps     []string          // that every cluster has
	tenants  bool              // two of the apps belong to workspaces, which may go back alone
	broken   map[string]bool   // app@version that is red wherever it runs
	ran      map[string]string // what clusters ran when the rollout began
	members  []rollout.Cluster
	trunk    rollout.Trunk
	touches  map[string]map[string]bool // commit → cluster/app
	versions map[string]string          // cluster/app@commit → the commit that changed it last
	commits  int

	tip        string // commit of prod's branch
	id         string // its tree
	prod       tree
	past       []rollout.PastState // of prod's branch, newest first
	clusters   map[string]string   // cluster branch → content
	provenance map[string]rollout.ClusterSource
	movedAt    map[string]time.Time
	trees      map[string]tree
	red        map[string]bool // clusters of prod that are unhealthy
	pending    map[string]bool // clusters of prod whose statuses are missing
	record     rollout.Record
	bad        map[string]map[string]bool // cluster/app → contents that went back and that nobody asked for since
	declined   string                     // newest commit of a merge request that a person closed
	merged     string
	forgotten  *rollout.MergeRequest // the open merge request when the record was lost
	lost       bool                  // the record was lost
	progress   time.Time             // of the last move of prod's branch
	overtakes  bool                  // whether that move overtook its gates
	expedited  bool                  // whether somebody asked for that move with --now before it landed by a merge
	restored   []string              // clusters that a rollback named
	restores   bool
	changed    map[string]bool

	wasFrozen map[string]bool
	continues string // the tree of a rollout that continues without a workspace

	staging    rollout.Source
	stagingLog []ran
	stagingRed time.Time // when it was last red
	isRed      bool
	sick       map[string]string // app → its status in staging, if that is not success
	ill        map[string]bool   // workspaces that were seen red in staging alone, and not green since
	recovered  map[string]ran    // workspaces that were seen green again, and what staging ran then
	request    *rollout.MergeRequest
	events     int
	passes     int
	foreign    bool

	behind   time.Duration           // by which the clock was set back
	lineages map[string][]string     // commit → the trunk up to it, oldest first
	was      *setBack                // somebody set prod's branch back; nil if nobody did
	history  []rollout.RestoredState // of prod's branch, oldest first
	kept     *rollout.Record         // an older one
	repaired bool                    // the record was rebuilt
}

type ran struct {
	source rollout.Source
	at     time.Time
}

func newWorld(seed uint64) *world {
	w := &world{
		r: rand.New(rand.NewPCG(seed, 7)), done: map[string]int{}, now: time.Date(2026, 3, 27, 6, 0, 0, 0, time.UTC),
		lineages: map[string][]string{}, touches: map[string]map[string]bool{}, versions: map[string]string{}, clusters: map[string]string{},
		provenance: map[string]rollout.ClusterSource{},
		movedAt:    map[string]time.Time{}, trees: map[string]tree{}, record: rollout.NewRecord("prod"),
		bad: map[string]map[string]bool{},
		red: map[string]bool{}, pending: map[string]bool{}, changed: map[string]bool{}, wasFrozen: map[string]bool{},
		apps: []string{"a", "b"}, broken: map[string]bool{}, sick: map[string]string{}, ill: map[string]bool{},
		recovered: map[string]ran{},
	}
	p := fleet.Promotion{
		Mode: pick(w.r, "auto", "auto", "manual", "request"), Bake: fleet.Duration(pick(w.r, "", "30m", "1h")),
		OnFailure: pick(w.r, "", "halt", "rollback"), RestartBake: w.r.IntN(4) == 0,
		Health: fleet.Health{CommitStatuses: []string{"kustomization/*"}, Healthy: pick(w.r, "", "100%")},
	}
	p.Waves = []fleet.Wave{
		{
			Name: "canary", Clusters: &fleet.Selector{MatchLabels: map[string]string{"ring": "canary"}},
			Bake: fleet.Duration(pick(w.r, "", "20m")),
		},
		{Name: "half", Percent: 50, MaxParallel: w.r.IntN(3), Bake: fleet.Duration(pick(w.r, "", "20m"))},
		{Name: "rest"},
	}
	if w.r.IntN(2) == 0 {
		p.AvoidTogether = []string{"pair"}
	}
	if w.r.IntN(2) == 0 {
		p.Windows = []fleet.Window{{From: "08:00", To: "20:00", TimeZone: "Europe/Berlin"}}
	}
	if w.r.IntN(3) == 0 {
		p.Approvers = fleet.Approvers{Teams: []string{"sre"}, Count: 1 + w.r.IntN(2)}
	}
	if seed%4 == 3 {
		w.settle(&p)
	}
	w.env = fleet.Environment{Name: "prod", After: []string{"staging"}, Promotion: p}
	for i := range 6 {
		c := rollout.Cluster{Name: fmt.Sprintf("c%d", i), Labels: map[string]string{"pair": fmt.Sprint(i / 2)}}
		if i < 1 {
			c.Labels["ring"] = "canary"
		}
		w.members = append(w.members, c)
	}
	w.commit(false)
	w.stage()
	id, t := w.render(rollout.Source{Commit: w.trunk[0]})
	w.begin(id, t, false, nil, false)
	for _, c := range w.members {
		w.clusters[c.Name], w.provenance[c.Name] = t.subs[c.Name], t.source.On(c.Name)
	}
	return w
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, w.now.Format("02 15:04 ")+fmt.Sprintf(format, args...))
}

func (w *world) names() []string {
	var out []string
	for _, m := range w.members {
		out = append(out, m.Name)
	}
	return out
}

// commit adds a commit to the trunk. Most change some targets; one with all changes every target.
func (w *world) commit(all bool) {
	c := fmt.Sprintf("S%03d", w.commits)
	w.commits++
	w.touches[c] = map[string]bool{}
	apps := pick(w.r, w.apps[:1], w.apps[1:2], w.apps, w.apps)
	for _, m := range w.members {
		for _, app := range w.apps {
			w.touches[c][m.Name+"/"+app] = all || slices.Contains(apps, app) && w.r.IntN(6) > 0
		}
	}
	w.trunk = append(w.trunk, c)
	w.lineages[c] = slices.Clone(w.trunk)
	w.logf("commit %s of %v", c, apps)
	if w.tenants && !all && w.r.IntN(4) == 0 {
		app := pick(w.r, w.apps[:2]...)
		w.broken[app+"@"+c] = true
		w.logf("%s of %s is broken", app, c)
	}
}

func (w *world) stage() {
	w.staging = rollout.Source{Commit: w.trunk[len(w.trunk)-1]}
	w.stagingLog = append(w.stagingLog, ran{w.staging, w.elapsed()})
}

// content is what a cluster gets from source commits.
func (w *world) content(cluster string, s rollout.ClusterSource) string {
	sub := cluster
	for _, app := range w.apps {
		sub += " " + app + "@" + w.version(cluster, app, s.Of(app))
	}
	return sub
}

// version is the newest commit up to one that changes an app on a cluster.
func (w *world) version(cluster, app, commit string) string {
	key := cluster + "/" + app
	if v, ok := w.versions[key+"@"+commit]; ok {
		return v
	}
	version := "-"
	for _, c := range w.lineages[commit] {
		if w.touches[c][key] {
			version = c
		}
	}
	w.versions[key+"@"+commit] = version
	return version
}

// apps splits the content of a cluster.
func apps(sub string) map[string]string {
	out := map[string]string{}
	for _, part := range strings.Fields(sub)[1:] {
		app, version, _ := strings.Cut(part, "@")
		out[app] = version
	}
	return out
}

// read is the promote.Contents of the world.
func (w *world) read(id, cluster string) (map[string]string, error) {
	t, ok := w.trees[id]
	if !ok {
		return nil, rollout.ErrNoTree
	}
	return apps(t.subs[cluster]), nil
}

// render is the tree of a source. It contains its record, so that trees of different sources differ.
func (w *world) render(s rollout.Source) (string, tree) {
	t := tree{source: s, subs: map[string]string{}}
	for _, m := range w.members {
		t.subs[m.Name] = w.content(m.Name, s.On(m.Name))
	}
	return w.keep(t), t
}

func (w *world) keep(t tree) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.source.Clusters)) {
		parts = append(parts, fmt.Sprint(name, t.source.Clusters[name]))
	}
	id := fmt.Sprint("T(", t.source.Commit, t.source.Apps, parts, ")")
	w.trees[id] = t
	return id
}

func (w *world) situation() (rollout.Situation, error) {
	record, err := rollout.CompleteHolds(w.record, w.id, w.names(), w.read)
	if err != nil {
		return rollout.Situation{}, err
	}
	s := rollout.Situation{
		Environment: w.env, Trunk: w.trunk, Record: record, Request: w.request, RequestKnown: true, Now: w.now,
		Running: rollout.Running{
			Source: w.prod.source, Tree: w.id, Commit: w.tip, Overtakes: w.overtakes,
			Restores: w.restores, Restored: w.restored,
		},
		Before: []rollout.Upstream{{
			Name: "staging", Source: w.staging, Complete: true,
			Clusters: []rollout.ClusterState{{
				Cluster: rollout.Cluster{Name: "s"}, Tree: "x", Desired: "x",
				Statuses: status(w.isRed, false),
			}},
		}},
	}
	if w.foreign {
		s.Running.Foreign = "its commit abc was not made by Sluice"
	}
	for _, m := range w.members {
		s.Clusters = append(s.Clusters, rollout.ClusterState{
			Cluster: m, Tree: w.clusters[m.Name], Desired: w.prod.subs[m.Name],
			Statuses: status(w.red[m.Name], w.pending[m.Name]),
		})
	}
	if err := w.tenantsOf(&s); err != nil {
		return s, err
	}
	next, err := rollout.Next(s)
	if err != nil || next == nil {
		return s, err
	}
	if next, err = w.leaves(&s, next); err != nil || next == nil {
		return s, err
	}
	if len(record.Holds) > 0 {
		id, _ := w.render(next.Promoted)
		if s.Changes, err = rollout.ChangesOf(record, next.Promoted, id, w.id, w.names(), w.read); err != nil {
			return s, err
		}
		if next, err = rollout.Next(s); err != nil || next == nil {
			return s, err
		}
	}
	id, t := w.render(next.Source)
	s.Candidate = &rollout.Candidate{
		Source: next.Source, Tree: id, Same: maps.Equal(t.subs, w.prod.subs), Base: w.tip,
		Policy: rollout.Green, Authors: []string{"author"},
	}
	if w.r.IntN(20) == 0 {
		s.Candidate.Policy = rollout.Red
	}
	return s, nil
}

func status(red, pending bool) []rollout.Status {
	switch {
	case pending:
		return nil
	case red:
		return []rollout.Status{{Name: "kustomization/apps/1a2b", State: "failure"}, {Name: "other", State: "success"}}
	default:
		return []rollout.Status{{Name: "kustomization/apps/1a2b", State: "success"}, {Name: "other", State: "failure"}}
	}
}

func (w *world) apply(e rollout.Event) bool {
	if w.lost { // every command is refused
		return false
	}
	w.events++
	e.At, e.ID = w.now, fmt.Sprint("event", w.events)
	next, err := rollout.Apply(w.record, e)
	if err != nil {
		return false
	}
	if again, err := rollout.Apply(next, e); err != nil || !reflect.DeepEqual(again, next) {
		panic("an event that comes twice changes something")
	}
	w.store(next)
	return true
}

func (w *world) store(r rollout.Record) {
	w.record = r
	if w.events++; w.events%150 != 0 { // YAML costs more than all the rest
		return
	}
	data, err := r.Encode()
	if err != nil {
		panic(err)
	}
	back, err := rollout.DecodeRecord("prod", data)
	if err != nil {
		panic(err)
	}
	if again, _ := back.Encode(); !bytes.Equal(again, data) { // an error gives no bytes, which differ
		panic("a record changes by being stored:\n" + string(data) + string(again))
	}
	w.record = back
}

func (w *world) merge() {
	if w.was != nil { // the forge does not merge into a branch that went back
		return
	}
	t, ok := w.trees[w.request.Tree]
	w.logf("merge request of %s merged", w.request.Source)
	if ok {
		// with the record, the holds were lost, so that another merge request brings the held parts
		if w.request != w.forgotten {
			w.merged = t.source.Commit
		}
		w.begin(w.request.Tree, t, false, nil, false)
		q := w.record.Request // one with --now expedites the rollout, although no move of Sluice overtook anything
		w.expedited = q != nil && q.Now && len(q.Apps) == 0 && t.source.Equal(q.Source)
	}
	w.request = nil
}

// begin moves prod's branch.
func (w *world) begin(id string, t tree, overtakes bool, restored []string, restores bool) {
	w.id, w.prod, w.tip = id, t, fmt.Sprintf("%s#%d", id, w.r.Uint32())
	w.remember(id, t.source)
	w.progress, w.overtakes, w.restored, w.restores, w.changed = w.elapsed(), overtakes, restored, restores, map[string]bool{}
	w.expedited, w.ran = false, maps.Clone(w.clusters)
	for _, c := range w.members {
		if w.clusters[c.Name] != t.subs[c.Name] {
			w.changed[c.Name] = true
		}
	}
}

// remember adds a state to the history of prod's branch.
func (w *world) remember(id string, source rollout.Source) {
	state := rollout.PastState{Source: source, Tree: id, At: w.now}
	w.past = append([]rollout.PastState{state}, w.past...)
	w.history = append(w.history, rollout.RestoredState{PastState: state})
}

// invariants are checked whenever Sluice rests.
func (w *world) invariants() error {
	for _, m := range w.members { // 1: the provenance of a cluster names the commits of its tree
		if want := w.content(m.Name, w.prod.source.On(m.Name)); w.prod.subs[m.Name] != want {
			return fmt.Errorf("the record of prod says %s for %s, whose tree is %s", want, m.Name, w.prod.subs[m.Name])
		}
		if want := w.content(m.Name, w.provenance[m.Name]); w.clusters[m.Name] != want {
			return fmt.Errorf("the trailers of %s say %s, its tree is %s", m.Name, want, w.clusters[m.Name])
		}
	}
	for _, m := range w.members { // 5: verify is clean: what is behind is so as planned
		if w.foreign || w.lost || w.clusters[m.Name] == w.prod.subs[m.Name] {
			continue
		}
		if why, ok := rollout.BehindAsPlanned(w.record, w.id, m, w.now); !ok {
			return fmt.Errorf("verify finds no reason why %s is behind: %s", m.Name, why)
		}
	}
	return nil
}
