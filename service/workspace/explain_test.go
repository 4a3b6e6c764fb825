package workspace

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// explainInProcess runs the job of a worker in this process, with answers of a parent.
func explainInProcess(t *testing.T, s *Session, task explainTask) *explainAnswer {
	t.Helper()
	host, err := s.newParent(t.Context(), ReviewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.close()
	task.workerTask = s.task()
	input, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	data, err := explainJob(t.Context(), input, host.answer)
	if err != nil {
		t.Fatal(err)
	}
	var out explainAnswer
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestExplainJob(t *testing.T) {
	t.Parallel()
	s, _, head := demo(t)
	out := explainInProcess(t, s, explainTask{Tree: head.Tree, App: "shop", Cluster: "prod-eu-1", Key: []byte("k")})
	if out.Refused != "" || !strings.Contains(strings.Join(out.Lines, "\n"), "apps/shop/layers/global/values.yaml") {
		t.Errorf("%+v", out)
	}
	for name, task := range map[string]explainTask{
		"no such app":     {Tree: head.Tree, App: "none", Cluster: "prod-eu-1"},
		"no such cluster": {Tree: head.Tree, App: "shop", Cluster: "none"},
	} {
		if out := explainInProcess(t, s, task); out.Refused == "" || len(out.Lines) > 0 {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// The parent process does not read the fleet of a head, so without a worker there is no answer.
func TestExplainNeedsAWorker(t *testing.T) {
	t.Parallel()
	s, _, head := demo(t)
	host := worker.NewHost(worker.Options{Command: []string{"/does/not/exist"}})
	t.Cleanup(host.Close)
	workers := func(repository string, folders ...string) *worker.Workers {
		return host.For(worker.Owner{Repository: repository, Trust: worker.Untrusted}, folders...)
	}
	out, err := s.explainIsolated(t.Context(), workers, "hub:acme/fleet", explainTask{workerTask: s.task(), Tree: head.Tree, App: "shop", Cluster: "prod-eu-1"})
	if err == nil {
		t.Errorf("an answer without a worker: %+v", out)
	}
}

func TestFitLines(t *testing.T) {
	lines := []string{strings.Repeat("x", 2*maxExplainer), "a", "b"}
	if got := fitLines(slices.Clone(lines), 10_000); len(got) != 3 || len([]rune(got[0])) > maxExplainer {
		t.Errorf("%d lines, %d characters", len(got), len([]rune(got[0])))
	}
	got := fitLines(slices.Clone(lines), maxExplainer+5)
	if len(got) != 3 || got[2] != "… and 1 more lines: name a path" {
		t.Errorf("%q", got)
	}
}

// A comment does not show a value that an imported object takes from elsewhere, such as a Secret.
func TestExplanationWithoutValuesFromElsewhere(t *testing.T) {
	t.Parallel()
	chains := []fleet.Chain{{Path: "license", Origins: []fleet.Origin{
		{Layer: "defaults", File: "values.yaml", Line: 1, Set: "none"},
		{Layer: "HelmRelease", File: "web.yaml", Line: 2, Set: "hunter2", Elsewhere: true, Winner: true},
	}}}
	got := strings.Join(explanation(chains, diff.NewMasker([]byte("k"))), "\n")
	if strings.Contains(got, "hunter2") || !strings.Contains(got, "none") || !strings.Contains(got, "web.yaml:2") {
		t.Error(got)
	}
}
