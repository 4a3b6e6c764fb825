package rollout_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// exceptions returns a source in which some clusters run other commits of 50 apps than the environment. With
// distinct, no two of them run the same.
func exceptions(clusters []string, turn int, distinct bool) rollout.Source {
	out := rollout.Source{Commit: fmt.Sprintf("%040x", turn), Clusters: map[string]rollout.ClusterSource{}}
	for i, name := range clusters {
		one := rollout.ClusterSource{Commit: out.Commit, Apps: map[string]string{}}
		for app := range 50 {
			n := app
			if distinct {
				n += 50 * i
			}
			one.Apps[fmt.Sprintf("some-application-%02d", app)] = fmt.Sprintf("%040x", 1000*turn+n+1)
		}
		out.Clusters[name] = one
	}
	return out
}

func clusterNames(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("prod-region-%05d", i)
	}
	return out
}

func encoded(t *testing.T, r rollout.Record) []byte {
	t.Helper()
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A record of a large fleet with a long history stays within the size that a later run reads, and keeps what
// decisions need.
func TestRecordOfALargeFleet(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	size := 5000
	if testing.Short() {
		size = 1000
	}
	names := clusterNames(size)
	r := rollout.NewRecord("prod")
	r.Tips = map[string]string{}
	for i, name := range names {
		r.Tips[name] = fmt.Sprintf("%040x", i)
	}
	apply := func(e rollout.Event) {
		t.Helper()
		at = at.Add(time.Minute)
		e.At = at
		next, err := rollout.Apply(r, e)
		if err != nil {
			t.Fatal(err)
		}
		r = next
	}
	const turns = 60
	for i := range turns { // partial rollbacks of half of the clusters, one after another
		source := exceptions(names[:size/2], i, false)
		tree := fmt.Sprintf("%040x", i)
		apply(rollout.Event{Kind: rollout.EventMoved, Source: source, Tree: tree, Clusters: names})
		if i%4 == 0 {
			apply(rollout.Event{Kind: rollout.EventBefore, Target: "staging", Source: source})
		}
		apply(rollout.Event{Kind: rollout.EventHalt, By: "mia", Reason: strings.Repeat("x", 300)})
		apply(rollout.Event{Kind: rollout.EventResume, By: "mia"})
		if i%6 == 0 {
			apply(rollout.Event{
				Kind: rollout.EventRollback, By: "mia",
				To: rollout.PastState{Source: source, Tree: "t"}, Source: source, Tree: tree,
				Clusters: names[size/100*i : size/100*i+size/5],
			})
			apply(rollout.Event{Kind: rollout.EventRolledBack})
		}
	}
	data := encoded(t, r)
	if len(data) > 4<<20 {
		t.Errorf("the record has %d bytes", len(data))
	}
	again, err := r.Encode()
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("it is encoded in two ways: %v", err)
	}
	back, err := rollout.DecodeRecord("prod", data)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := back.Encode(); err != nil || !bytes.Equal(data, again) {
		t.Errorf("it changes by being stored: %v", err)
	}
	keepsWhatDecisionsNeed(t, r, back, size)
}

// keepsWhatDecisionsNeed compares a record of a large fleet with the record that was read back.
func keepsWhatDecisionsNeed(t *testing.T, r, back rollout.Record, size int) {
	t.Helper()
	if len(back.Ran) < 3 || len(back.Holds) != len(r.Holds) || !maps.Equal(back.Tips, r.Tips) ||
		back.Progress == nil || !back.Progress.Source.Equal(r.Progress.Source) {
		t.Errorf("%d states, %d of %d holds, %d tips", len(back.Ran), len(back.Holds), len(r.Holds),
			len(back.Tips))
	}
	sameHolds(t, r, back, size)
	newest := func(r rollout.Record) rollout.PastState { return r.Ran[len(r.Ran)-1] }
	if newest(back).Tree != newest(r).Tree || !newest(back).Source.Equal(newest(r).Source) {
		t.Error("the newest state is lost")
	}
}

// sameHolds compares the sources that the holds of two records name for some clusters.
func sameHolds(t *testing.T, r, back rollout.Record, size int) {
	t.Helper()
	for i := range back.Holds {
		for _, name := range []string{back.Holds[i].Clusters[0], back.Holds[i].Clusters[size/5-1]} {
			if !back.Holds[i].Source.On(name).Equal(r.Holds[i].Source.On(name)) {
				t.Fatalf("hold %d names another source of %s", i, name)
			}
		}
	}
}

// A record that a later run could not read is never written. The error says how to make it smaller.
func TestRecordTooLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	r := rollout.NewRecord("prod")
	names := clusterNames(5000)
	r.Progress = &rollout.Progress{Source: exceptions(names, 1, true), Tree: "t"}
	_, err := r.Encode()
	if _, ok := errors.AsType[*rollout.RecordSizeError](err); !ok || !strings.Contains(err.Error(), "sluice resume") {
		t.Fatalf("the error is %v", err)
	}
	r.Progress.Source = exceptions(names[:300], 1, true)
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rollout.DecodeRecord("prod", data); err != nil {
		t.Errorf("a record of %d bytes: %v", len(data), err)
	}
}

// Trimming removes only the oldest states. The next decision is the same before and after.
func TestTrimmedRecordDecidesAlike(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	names := clusterNames(60)
	r := rollout.NewRecord("prod")
	for i := range 50 {
		source := exceptions(names, i, true)
		tree := fmt.Sprintf("t%d", i)
		r.Ran = append(r.Ran, rollout.PastState{Source: source, Tree: tree, At: at})
		r.Progress = &rollout.Progress{
			Source: source, Tree: tree, Started: at, LastMove: at,
			Changed: []string{names[0]}, Current: 1,
		}
	}
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := rollout.DecodeRecord("prod", data)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Ran) >= len(r.Ran) {
		t.Fatalf("nothing was trimmed: %d bytes", len(data))
	}
	decide := func(r rollout.Record) rollout.Decision {
		s := rollout.Situation{
			Environment: environmentWithRollback(), Record: r, Now: at.Add(time.Hour),
			Running: rollout.Running{Source: r.Progress.Source, Tree: r.Progress.Tree, Commit: "c"},
			Clusters: []rollout.ClusterState{{
				Cluster: rollout.Cluster{Name: names[0]}, Tree: "x", Desired: "x",
				Statuses: []rollout.Status{{Name: "sync", State: "failure"}},
			}},
		}
		d, err := rollout.Decide(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one, two := decide(r), decide(back)
	if len(one.Actions) != 1 || one.Actions[0].Kind != rollout.DoRollback || one.Actions[0].Tree != "t48" ||
		two.Actions[0].Tree != one.Actions[0].Tree {
		t.Errorf("%+v and %+v", one.Actions[0].Kind, two.Actions[0].Kind)
	}
}

func environmentWithRollback() fleet.Environment {
	return fleet.Environment{Name: "prod", After: []string{"dev"}, Promotion: fleet.Promotion{
		Mode: "auto", OnFailure: "rollback", Health: fleet.Health{CommitStatuses: []string{"sync"}},
	}}
}

// Groups of clusters are decoded strictly, like the other parts of the record.
func TestRecordGroups(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: sluice.dev/v1alpha1\nkind: PromotionRecord\nenvironment: prod\nprogress:\n  tree: t\n  started: 2026-01-01T00:00:00Z\n  source:\n    commit: c\n"
	for body, want := range map[string]string{
		"    groups: [{commit: d, clusters: [a, b]}]\n":                              "",
		"    groups: [{commit: d, clusters: [a, a]}]\n":                              "twice",
		"    clusters: {a: {commit: d}}\n    groups: [{commit: d, clusters: [a]}]\n": "twice",
		"    groups: [{commit: d, clusters: [a], more: x}]\n":                        "more",
		"    comit: c\n": "comit",
		"    clusters: {a: {commit: d, ap: {}}}\n": "ap",
	} {
		r, err := rollout.DecodeRecord("prod", []byte(head+body))
		switch {
		case want == "" && (err != nil || r.Progress.Source.On("b").Commit != "d" ||
			r.Progress.Source.On("x").Commit != "c"):
			t.Errorf("%s: the error is %v, the progress is %+v", body, err, r.Progress)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: the error is %v", body, err)
		}
	}
}

// A rollout that a person expedites makes no commit, so the record keeps who did that and why, for the history.
func TestExpeditedIsInTheHistory(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	r := rollout.NewRecord("prod")
	for _, e := range []rollout.Event{
		{Kind: rollout.EventMoved, Source: rollout.Source{Commit: "a"}, Tree: "t", Clusters: []string{"eu-1"}, At: at},
		{Kind: rollout.EventExpedited, By: "ada", Reason: "the shop is down", At: at.Add(time.Minute)},
	} {
		var err error
		if r, err = rollout.Apply(r, e); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.Commands) != 1 || r.Commands[0].Actor() != "ada" ||
		r.Commands[0].String() != "expedited; reason: the shop is down" ||
		!r.Commands[0].At.Equal(at.Add(time.Minute)) {
		t.Errorf("the commands are %+v", r.Commands)
	}
}
