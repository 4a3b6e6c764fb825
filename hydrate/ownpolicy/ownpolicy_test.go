package ownpolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// elsewhere is a renderer that says nothing of worker processes.
type elsewhere struct{ renderer.Renderer }

// The own policy of a workspace is never evaluated in this process because a renderer hides its worker processes.
func TestOwnPolicyNeedsWorkers(t *testing.T) {
	t.Parallel()
	engine := renderer.NewEngine(renderer.DefaultLimits())
	if _, err := InWorker(t.Context(), elsewhere{engine}, []byte("{}")); !errors.Is(err, renderer.ErrNoWorkers) {
		t.Errorf("hidden workers: %v", err)
	}
	if _, err := InWorker(t.Context(), engine, []byte("{}")); err != nil {
		t.Errorf("an engine: %v", err)
	}
}

// A part counts what is known of the clusters too: an app of thousands of clusters has the same objects on all of them.
func TestPartsOfManyClusters(t *testing.T) {
	t.Parallel()
	vars := map[string]any{"note": strings.Repeat("x", 8<<10)}
	var subjects []policy.Subject
	for i := range 3000 {
		subjects = append(subjects, policy.Subject{
			Cluster: &policy.Cluster{Name: fmt.Sprintf("c-%d", i), Vars: vars}, App: &policy.App{Name: "team-a/web"},
			Objects: []policy.Object{{Key: "same", Object: manifest.Object{"kind": "ConfigMap"}}},
		})
	}
	parts, sent, err := divided(subjects)
	if err != nil || len(parts) < 3 || sent < 3000*8<<10 || sent > len(parts)*ownInput {
		t.Fatalf("%d parts, %d bytes: %v", len(parts), sent, err)
	}
	n := 0
	for _, p := range parts {
		n += len(p.Subjects)
		if data, err := json.Marshal(p); err != nil || len(data) > ownInput+1<<20 {
			t.Errorf("a part has %d bytes: %v", len(data), err)
		}
	}
	if n != len(subjects) {
		t.Errorf("%d of %d targets", n, len(subjects))
	}
}

// slowOwn returns the own policies of a workspace of which each call takes a time, and a target whose objects need ten
// calls.
func slowOwn(t *testing.T) (judge func(each time.Duration, used *policy.OwnUse) (*policy.OwnResult, int),
	forget func(),
) {
	t.Helper()
	repo := hydratetest.New(t)
	const header = "apiVersion: sluice.dev/v1alpha1\nkind: "
	for name, text := range map[string]string{
		"sluice.yaml": header +
			"Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n",
		"clusters/dev.yaml": header + "Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev}\n",
		"workspaces/team-a.yaml": header +
			"Workspace\nmetadata: {name: team-a}\nspec: {clusters: {}, namespaces: [team-a], policy: {path: policy}}\n",
		"workspaces/team-a/policy/own.rego": "package main\n",
	} {
		repo.Write(name, text)
	}
	repo.Commit("start")
	head := repo.Resolve("HEAD")
	e := Evaluator{Fleets: repo.Hydrator(1), Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }}
	f, _, err := e.Fleets.Fleet(t.Context(), head.Tree)
	if err != nil {
		t.Fatal(err)
	}
	o := &own{e, head.Tree, f}
	forget = func() { o.Exceeded = NewExceeded() }
	forget()
	subject := policy.Subject{Cluster: &policy.Cluster{Name: "dev-1"}, App: &policy.App{Name: "team-a/web"}}
	for n := range 10 { // one fills a call
		subject.Objects = append(subject.Objects, policy.Object{
			Key:    fmt.Sprint(n),
			Object: manifest.Object{"kind": "ConfigMap", "data": strings.Repeat("x", ownInput-1000)},
		})
	}
	return func(each time.Duration, used *policy.OwnUse) (*policy.OwnResult, int) {
		t.Helper()
		calls := 0
		o.Evaluator.Judge = func(context.Context, []byte) ([]byte, error) {
			calls++
			return withCPU(each, []byte("{}")), nil
		}
		got, err := o.Judge(t.Context(), "team-a", []policy.Subject{subject}, used)
		if err != nil {
			t.Fatal(err)
		}
		return got, calls
	}, forget
}

// A policy that is slow in each call, and in none too slow, ends when its calls together took too much processor time.
func TestOwnPolicyThatIsSlowInEveryCall(t *testing.T) {
	judge, forget := slowOwn(t)
	const slow = "more than 2m0s of processor time"
	if got, calls := judge(ownTotal/10, &policy.OwnUse{}); calls != 10 || got.Failed != "" {
		t.Errorf("%d calls, %+v", calls, got)
	}
	if got, calls := judge(ownTotal/4, &policy.OwnUse{}); calls != 5 || !strings.Contains(got.Failed, slow) {
		t.Errorf("%d calls, %+v", calls, got)
	}
	if got, calls := judge(ownTotal/4, &policy.OwnUse{}); calls != 0 || !strings.Contains(got.Failed, slow) {
		t.Errorf("the next check: %d calls, %+v", calls, got)
	}
	// A later batch of the same check continues with what the first ones have used.
	forget()
	if got, calls := judge(0, &policy.OwnUse{CPU: ownTotal + 1}); calls != 0 || !strings.Contains(got.Failed, slow) {
		t.Errorf("after batches that took long: %d calls, %+v", calls, got)
	}
	if got, calls := judge(0, &policy.OwnUse{}); calls != 0 || !strings.Contains(got.Failed, slow) {
		t.Errorf("the next check waits for a policy that took too long over several batches: %d calls, %+v", calls, got)
	}
	forget()
	if got, calls := judge(0, &policy.OwnUse{Sent: ownSent - ownInput}); calls != 0 ||
		!strings.Contains(got.Failed, "more than 128 MiB") {
		t.Errorf("after large batches: %d calls, %+v", calls, got)
	}
}
