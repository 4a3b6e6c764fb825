package review

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/session"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// explainInProcess runs the job of a worker in this process, with answers of a parent.
func explainInProcess(t *testing.T, s *session.Session, r ExplainRequest) *Explanation {
	t.Helper()
	host, err := newParent(t.Context(), s, Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.close()
	input, err := json.Marshal(explainTask{taskOf(s), r})
	if err != nil {
		t.Fatal(err)
	}
	data, err := explainJob(t.Context(), input, host.answer)
	if err != nil {
		t.Fatal(err)
	}
	var out Explanation
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestExplainJob(t *testing.T) {
	t.Parallel()
	s, _, head := demo(t)
	out := explainInProcess(t, s, ExplainRequest{Tree: head.Tree, App: "shop", Cluster: "prod-eu-1", Key: []byte("k")})
	if out.Refused != "" || !strings.Contains(strings.Join(out.Lines, "\n"), "apps/shop/layers/global/values.yaml") {
		t.Errorf("the output is %+v", out)
	}
	for name, task := range map[string]ExplainRequest{
		"no such app":     {Tree: head.Tree, App: "none", Cluster: "prod-eu-1"},
		"no such cluster": {Tree: head.Tree, App: "shop", Cluster: "none"},
	} {
		if out := explainInProcess(t, s, task); out.Refused == "" || len(out.Lines) > 0 {
			t.Errorf("%s: the output is %+v", name, out)
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
	out, err := Explain(t.Context(), s, workers, "hub:acme/fleet",
		ExplainRequest{Tree: head.Tree, App: "shop", Cluster: "prod-eu-1"})
	if err == nil {
		t.Errorf("an answer without a worker: %+v", out)
	}
}

// A comment does not show a value that an imported object takes from elsewhere, such as a Secret.
func TestExplanationWithoutValuesFromElsewhere(t *testing.T) {
	t.Parallel()
	chains := []explain.Chain{{Path: "license", Origins: []explain.Origin{
		{Layer: "defaults", File: "values.yaml", Line: 1, Set: "none"},
		{Layer: "HelmRelease", File: "web.yaml", Line: 2, Set: "hunter2", Elsewhere: true, Winner: true},
	}}, {Path: "auth.adminPassword", Origins: []explain.Origin{{Layer: "cluster", Set: "hunter2"}}}}
	got := strings.Join(explanation(chains, diff.NewMasker([]byte("k"))), "\n")
	if strings.Contains(got, "hunter2") || !strings.Contains(got, "none") || !strings.Contains(got, "web.yaml:2") {
		t.Error(got)
	}
}
