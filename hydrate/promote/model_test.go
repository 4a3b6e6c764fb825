package promote_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay one history of the model")
	histories = flag.Int("histories", 2000, "how many histories of the model to play")
)

// TestModel plays random histories against the promises: commits, approvals, clocks, health, freezes, failures, runs that
// are cut off, lost records, and humans. Replay one with -run TestModel -seed N -v.
func TestModel(t *testing.T) {
	first, count := uint64(1), *histories
	if testing.Short() {
		count = 300
	}
	if *seedFlag != 0 {
		first, count = *seedFlag, 1
	}
	done := map[string]int{}
	for seed := first; seed < first+uint64(count); seed++ {
		w := newWorld(seed)
		if err := w.play(60); err != nil {
			for _, l := range w.log[max(0, len(w.log)-60):] {
				t.Log(l)
			}
			t.Fatalf("seed %d: %v", seed, err)
		}
		if *seedFlag != 0 {
			for _, l := range w.log {
				t.Log(l)
			}
		}
		for k, n := range w.done {
			done[k] += n
		}
	}
	t.Logf("%d histories: %v", count, done)
	for _, k := range []string{"moveEnvironment", "moveWave", "rollback", "halt", "overtaken", "partial", "openRequest", "closeRequest", "thawed", "arrived", "cut off", "lost record", "lost swap"} {
		if done[k] == 0 && *seedFlag == 0 {
			t.Errorf("no history has %q: the model proves nothing about it", k)
		}
	}
}

// tree is what an environment branch may hold.
type tree struct {
	source promote.Source
	subs   map[string]string
}

type branch struct {
	id, tip string
	tree    tree
}

type world struct {
	r       *rand.Rand
	log     []string
	done    map[string]int
	now     time.Time
	env     fleet.Environment
	members []promote.Cluster
	trunk   promote.Trunk
	touches map[string]map[string]bool // commit → cluster/app
	commits int

	prod     branch
	clusters map[string]string // cluster branch
	movedAt  map[string]time.Time
	trees    map[string]tree
	red      map[string]bool // clusters of prod that do not get healthy
	pending  map[string]bool // clusters of prod whose statuses are not there yet
	record   promote.Record
	failed   []promote.Source // by rollback or halt, until asked for
	lost     bool             // the record was lost: times are not the world's any more
	progress time.Time        // of the last move of prod's branch
	now_     bool             // whether that move overtook
	restored bool             // whether it was a rollback
	changed  map[string]bool

	wasFrozen map[string]bool

	staging    promote.Source
	stagingLog []ran
	stagingRed time.Time // when it was last red
	isRed      bool
	request    *promote.MergeRequest
	events     int
	foreign    bool
}

type ran struct {
	source promote.Source
	at     time.Time
}

func newWorld(seed uint64) *world {
	w := &world{
		r: rand.New(rand.NewPCG(seed, 7)), done: map[string]int{}, now: time.Date(2026, 3, 27, 6, 0, 0, 0, time.UTC),
		touches: map[string]map[string]bool{}, clusters: map[string]string{}, movedAt: map[string]time.Time{}, trees: map[string]tree{}, record: promote.NewRecord("prod"),
		red: map[string]bool{}, pending: map[string]bool{}, changed: map[string]bool{}, wasFrozen: map[string]bool{},
	}
	p := fleet.Promotion{
		Mode: pick(w.r, "auto", "auto", "manual", "request"), Bake: fleet.Duration(pick(w.r, "", "30m", "1h")),
		OnFailure: pick(w.r, "", "halt", "rollback"), RestartBake: w.r.IntN(4) == 0,
		Health: fleet.Health{CommitStatuses: []string{"kustomization/*"}, Healthy: pick(w.r, "", "100%")},
	}
	p.Waves = []fleet.Wave{
		{Name: "canary", Clusters: &fleet.Selector{MatchLabels: map[string]string{"ring": "canary"}}, Bake: fleet.Duration(pick(w.r, "", "20m"))},
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
	w.env = fleet.Environment{Name: "prod", After: []string{"staging"}, Promotion: p}
	for i := range 6 {
		c := promote.Cluster{Name: fmt.Sprintf("c%d", i), Labels: map[string]string{"pair": fmt.Sprint(i / 2)}}
		if i < 1 {
			c.Labels["ring"] = "canary"
		}
		w.members = append(w.members, c)
	}
	w.commit()
	w.stage()
	w.setProd(promote.Source{Commit: w.trunk[0]}, nil)
	for _, c := range w.members {
		w.clusters[c.Name] = w.prod.tree.subs[c.Name]
	}
	return w
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, w.now.Format("02 15:04 ")+fmt.Sprintf(format, args...))
}

func (w *world) commit() {
	c := fmt.Sprintf("S%02d", w.commits)
	w.commits++
	w.touches[c] = map[string]bool{}
	for _, m := range w.members {
		for _, app := range []string{"a", "b"} {
			w.touches[c][m.Name+"/"+app] = w.r.IntN(4) > 0
		}
	}
	w.trunk = append(w.trunk, c)
	w.logf("commit %s", c)
}

func (w *world) stage() {
	w.staging = promote.Source{Commit: w.trunk[len(w.trunk)-1]}
	w.stagingLog = append(w.stagingLog, ran{w.staging, w.now})
	w.logf("staging runs %s", w.staging)
}

// render is the tree of a source.
func (w *world) render(s promote.Source) (string, tree) {
	t := tree{source: s, subs: map[string]string{}}
	for _, m := range w.members {
		sub := m.Name
		for _, app := range []string{"a", "b"} {
			version := "-"
			for _, c := range w.trunk[:1+slices.Index(w.trunk, s.Of(app))] {
				if w.touches[c][m.Name+"/"+app] {
					version = c
				}
			}
			sub += " " + app + "@" + version
		}
		t.subs[m.Name] = sub
	}
	id := "T(" + s.String() + ")"
	w.trees[id] = t
	return id, t
}

func (w *world) setProd(s promote.Source, subs map[string]string) {
	id, t := w.render(s)
	if subs != nil {
		t.subs = subs
		id = fmt.Sprintf("T(%s %v)", s, subs)
		w.trees[id] = t
	}
	w.prod = branch{id: id, tip: fmt.Sprintf("%s#%d", id, w.r.Uint32()), tree: t}
}

func (w *world) situation() (promote.Situation, error) {
	s := promote.Situation{
		Environment: w.env, Trunk: w.trunk, Record: w.record, Request: w.request, Now: w.now,
		Running: promote.Running{Source: w.prod.tree.source, Tree: w.prod.id, Commit: w.prod.tip, Overtakes: w.now_, Restores: w.restored},
		Before:  []promote.Earlier{{Name: "staging", Source: w.staging, Complete: true, Clusters: []promote.ClusterState{{Cluster: promote.Cluster{Name: "s"}, Tree: "x", Want: "x", Statuses: status(w.isRed, false)}}}},
	}
	if w.foreign {
		s.Running.Foreign = "its commit abc was not made by Sluice"
	}
	for _, m := range w.members {
		s.Clusters = append(s.Clusters, promote.ClusterState{
			Cluster: m, Tree: w.clusters[m.Name], Want: w.prod.tree.subs[m.Name], Statuses: status(w.red[m.Name], w.pending[m.Name]),
		})
	}
	want, err := promote.Next(s)
	if err != nil {
		return s, err
	}
	if want != nil {
		id, _ := w.render(want.Source)
		s.Candidate = &promote.Candidate{Source: want.Source, Tree: id, Base: w.prod.tip, Policy: promote.Green, Authors: []string{"author"}}
		if w.r.IntN(20) == 0 {
			s.Candidate.Policy = promote.Red
		}
	}
	return s, nil
}

func status(red, pending bool) []promote.Status {
	switch {
	case pending:
		return nil
	case red:
		return []promote.Status{{Name: "kustomization/apps/1a2b", State: "failure"}, {Name: "other", State: "success"}}
	default:
		return []promote.Status{{Name: "kustomization/apps/1a2b", State: "success"}, {Name: "other", State: "failure"}}
	}
}

func (w *world) play(steps int) error {
	for range steps {
		w.happen()
		if err := w.reconcile(true); err != nil {
			return err
		}
	}
	return w.settle()
}

// settle lets all be well, and looks whether the environment arrives.
func (w *world) settle() error {
	w.red, w.pending, w.isRed, w.foreign = map[string]bool{}, map[string]bool{}, false, false
	for i := range w.members {
		w.members[i].State = ""
	}
	w.commit()
	w.stage()
	for _, target := range []string{"", "c0", "c1", "c2", "c3", "c4", "c5"} {
		w.apply(promote.Event{Kind: promote.EventUnfreeze, Target: target})
	}
	for range 400 {
		w.now = w.now.Add(15 * time.Minute)
		w.apply(promote.Event{Kind: promote.EventResume, By: "ann"})
		s, err := w.situation()
		if err != nil {
			return err
		}
		if s.Candidate != nil {
			w.apply(promote.Event{Kind: promote.EventApprove, By: "ann", Teams: []string{"sre"}, Tree: s.Candidate.Tree})
			w.apply(promote.Event{Kind: promote.EventApprove, By: "bob", Teams: []string{"sre"}, Tree: s.Candidate.Tree})
		}
		if w.env.Promotion.Mode == "manual" && s.Record.Request == nil && w.prod.tree.source.Commit != w.staging.Commit {
			w.apply(promote.Event{Kind: promote.EventPromote, By: "ann", Source: w.staging})
		}
		if w.request != nil {
			w.merge()
		}
		if err := w.reconcile(false); err != nil {
			return err
		}
		w.pending = map[string]bool{}
		if w.prod.tree.source.Equal(w.staging) && !slices.ContainsFunc(w.members, func(c promote.Cluster) bool { return w.clusters[c.Name] != w.prod.tree.subs[c.Name] }) {
			w.done["arrived"]++
			return nil
		}
	}
	s, _ := w.situation()
	d, _ := promote.Decide(s)
	return fmt.Errorf("prod never arrives at %s: runs %s, waits for %q, gates %v, waves %v", w.staging, w.prod.tree.source, d.WaitsFor, d.Gates, d.WaveGates)
}

func (w *world) apply(e promote.Event) bool {
	w.events++
	e.At, e.ID = w.now, fmt.Sprint("event", w.events)
	next, err := promote.Apply(w.record, e)
	if err != nil {
		return false
	}
	if again, err := promote.Apply(next, e); err != nil || !reflect.DeepEqual(again, next) {
		panic("an event that comes twice changes something")
	}
	w.store(next)
	return true
}

func (w *world) store(r promote.Record) {
	w.record = r
	if w.events++; w.events%50 != 0 { // YAML costs more than all the rest
		return
	}
	data, err := r.Encode()
	if err != nil {
		panic(err)
	}
	back, err := promote.DecodeRecord("prod", data)
	if err != nil {
		panic(err)
	}
	if again, _ := back.Encode(); !bytes.Equal(again, data) {
		panic("a record changes by being stored:\n" + string(data) + string(again))
	}
	w.record = back
}

func (w *world) merge() {
	t := w.trees[w.request.Tree]
	w.logf("merge request of %s merged", t.source)
	if strings.HasPrefix(w.request.Tree, "T(") {
		w.begin(w.request.Tree, t, false, false)
	}
	w.request = nil
}

// begin moves prod's branch.
func (w *world) begin(id string, t tree, overtakes, restores bool) {
	w.prod = branch{id: id, tip: fmt.Sprintf("%s#%d", id, w.r.Uint32()), tree: t}
	w.progress, w.now_, w.restored, w.changed = w.now, overtakes, restores, map[string]bool{}
	for _, c := range w.members {
		if w.clusters[c.Name] != t.subs[c.Name] {
			w.changed[c.Name] = true
		}
	}
}
