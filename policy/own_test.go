package policy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/policy/confine"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// answers is a policy.Own that answers for each workspace, and notes what it was asked about.
type answers struct {
	results map[string]*policy.OwnResult
	err     error
	asked   map[string][]string
}

func (a *answers) Judge(_ context.Context, workspace string, subjects []policy.Subject,
	_ *policy.OwnUse,
) (*policy.OwnResult, error) {
	for _, s := range subjects {
		a.asked[workspace] = append(a.asked[workspace], s.App.Name)
	}
	return a.results[workspace], a.err
}

func ownInput(apps ...string) []policy.Subject {
	var list []policy.Subject
	for _, app := range apps {
		list = append(list, policy.Subject{
			Cluster: &policy.Cluster{Name: "eu-1", Environment: "prod"}, App: &policy.App{Name: app, Namespace: "x"},
			Objects: []policy.Object{{Key: app, Object: manifest.Object{
				"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": "c", "namespace": "x"},
			}}},
		})
	}
	return list
}

// checkedOwn returns the findings of the own policies.
func checkedOwn(t *testing.T, own *answers, exemptions string) []policy.Finding {
	t.Helper()
	own.asked = map[string][]string{}
	bounds := map[string]*confine.Bounds{}
	for _, name := range []string{"team-a", "team-b", "workspace-c"} {
		bounds[name] = &confine.Bounds{
			Name: name, Namespaces: []string{"x"},
			Reaches: func(string, map[string]string) bool { return true },
		}
	}
	e, err := policy.Load(t.Context(), fstest.MapFS{"policy/e.yaml": {Data: []byte(exemptions)}},
		policy.Options{Now: time.Unix(1_800_000_000, 0), Workspaces: bounds, Own: own})
	if err != nil {
		t.Fatal(err)
	}
	result, err := e.Check(t.Context(), policy.Input{Subjects: policy.Listed(ownInput("web", "team-a/web", "team-b/web",
		"workspace-c/web", "unknown/web")...)})
	if err != nil {
		t.Fatal(err)
	}
	var out []policy.Finding
	for _, f := range result.Findings {
		if strings.Contains(f.Rule, "/") {
			out = append(out, f)
		}
	}
	return out
}

// Nobody trusts the answer of a workspace's policy: a finding about the objects of others, or of a severity that does
// not exist, makes it a policy that could not be evaluated.
func TestOwnPolicyCannotAccuseOthers(t *testing.T) {
	t.Parallel()
	mine := policy.Finding{
		Rule: "main.deny", Severity: policy.SeverityError, Message: "no\x1b[31m", App: "team-a/web", Cluster: "eu-1",
		Environment: "forged", Object: ownInput("x")[0].Objects[0].Object.Identity(),
	}
	with := func(change func(*policy.Finding)) *policy.OwnResult {
		f := mine
		change(&f)
		return &policy.OwnResult{Findings: []policy.Finding{mine, f}}
	}
	long := mine
	long.Message = strings.Repeat("x", 1000)
	for name, result := range map[string]*policy.OwnResult{
		"an app of another workspace": with(func(f *policy.Finding) { f.App = "team-b/web" }),
		"an app of the fleet":         with(func(f *policy.Finding) { f.App = "web" }),
		"another cluster":             with(func(f *policy.Finding) { f.Cluster = "eu-2" }),
		"another object":              with(func(f *policy.Finding) { f.Object.Name = "d" }),
		"no severity":                 with(func(f *policy.Finding) { f.Severity = "" }),
		"severity off":                with(func(f *policy.Finding) { f.Severity = policy.SeverityOff }),
		"too many findings":           {Findings: make([]policy.Finding, 10_001)},
		"too much text":               {Findings: slices.Repeat([]policy.Finding{long}, 9_000)},
		"a failure":                   {Findings: []policy.Finding{mine}, Failed: "it takes too long"},
	} {
		got := checkedOwn(t, &answers{results: map[string]*policy.OwnResult{"team-a": result}}, "")
		if len(got) != 1 || got[0].Rule != "team-a/policy-error" || got[0].App != "team-a/web" ||
			got[0].Severity != policy.SeverityError || got[0].Environment != "prod" {
			t.Errorf("%s: the result of checkedOwn is %+v", name, got)
		}
	}
	own := &answers{results: map[string]*policy.OwnResult{"team-a": {Findings: []policy.Finding{mine}}}}
	got := checkedOwn(t, own, "")
	if len(got) != 1 || got[0].Rule != "team-a/main.deny" || got[0].Environment != "prod" || !got[0].Own ||
		strings.Contains(got[0].Message, "\x1b") {
		t.Errorf("the result of checkedOwn is %+v", got)
	}
	for workspace, apps := range own.asked {
		if len(apps) != 1 || apps[0] != workspace+"/web" || workspace == "unknown" {
			t.Errorf("%s was asked about %q", workspace, apps)
		}
	}
}

// A rule of a workspace is none of the fleet, whatever both are called: only an exemption of the fleet that names it
// covers it.
func TestNamesOfOwnRules(t *testing.T) {
	t.Parallel()
	id := ownInput("x")[0].Objects[0].Object.Identity()
	f := policy.Finding{
		Rule: "../workspace-kind", Severity: policy.SeverityWarning, Message: "no",
		App: "workspace-c/web", Cluster: "eu-1", Object: id,
	}
	own := &answers{results: map[string]*policy.OwnResult{"workspace-c": {Findings: []policy.Finding{f}}}}
	const exemption = "apiVersion: sluice.dev/v1alpha1\nkind: Exemption\nmetadata: {name: e}\nspec: {rule: \"%\", object: \"*\", reason: x}\n"
	for rule, exempt := range map[string]bool{"workspace-kind": false, "workspace-c/*": true, "main.deny": false} {
		got := checkedOwn(t, own, strings.Replace(exemption, "%", rule, 1))
		if len(got) != 1 || got[0].Rule != "workspace-c/.._workspace-kind" || policy.OfWorkspace(got[0].Rule) ||
			got[0].Severity != policy.SeverityWarning || (got[0].Exemption != nil) != exempt {
			t.Errorf("exemption from %s: %+v", rule, got)
		}
	}
	broken := errors.New("no worker process")
	e, err := policy.Load(t.Context(), fstest.MapFS{},
		policy.Options{
			Workspaces: map[string]*confine.Bounds{"team-a": {
				Name:    "team-a",
				Reaches: func(string, map[string]string) bool { return true },
			}},
			Own: &answers{err: broken, asked: map[string][]string{}},
		})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Check(t.Context(), policy.Input{Subjects: policy.Listed(ownInput("team-a/web")...)}); !errors.Is(err,
		broken) {
		t.Errorf("an outage passes for a judgement: %v", err)
	}
}

// remarks is an own policy with notes that no call repeats, and one that all repeat.
type remarks struct{ calls int }

func (r *remarks) Judge(context.Context, string, []policy.Subject, *policy.OwnUse) (*policy.OwnResult, error) {
	r.calls++
	out := &policy.OwnResult{Notes: []string{"again"}}
	for i := range 5 {
		out.Notes = append(out.Notes, fmt.Sprintf("call %d, note %d", r.calls, i))
	}
	return out, nil
}

// A workspace has no more notes because its targets are judged in several batches.
func TestOwnNotesOfBatches(t *testing.T) {
	t.Parallel()
	bounds := map[string]*confine.Bounds{"team-a": {
		Name: "team-a", Namespaces: []string{"x"},
		Reaches: func(string, map[string]string) bool { return true },
	}}
	e, err := policy.Load(t.Context(), fstest.MapFS{}, policy.Options{Now: day(), Workspaces: bounds, Own: &remarks{}})
	if err != nil {
		t.Fatal(err)
	}
	var subjects []policy.Subject
	for n := range 30 {
		s := ownInput("team-a/web")[0]
		s.Cluster = &policy.Cluster{Name: fmt.Sprintf("eu-%d", n), Environment: "prod"}
		subjects = append(subjects, s)
	}
	r, err := e.Check(t.Context(), policy.Input{Subjects: clusterByCluster(subjects)})
	if err != nil {
		t.Fatal(err)
	}
	own := slices.DeleteFunc(r.Notes, func(note string) bool {
		return !strings.HasPrefix(note,
			"policy of workspace team-a: ")
	})
	if len(own) != 20 || own[0] != "policy of workspace team-a: again" {
		t.Errorf("%d notes: %q", len(own), own)
	}
}
