package enforce_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/enforce"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/policy/confine"
)

const (
	rego       = "package main\n\nimport rego.v1\n\ndeny contains msg if {\n\tinput.kind == \"ConfigMap\"\n\tinput.data.bad\n\tmsg := \"bad is not allowed\"\n}\n"
	badConfig  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {bad: \"yes\"}\n"
	secret     = "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: hunter2hunter2}\n"
	configFile = "manifests/baseline/settings.yaml"
)

// run hydrates HEAD to dev with the gate.
func run(r *hydratetest.Repo, change func(*hydrate.Request)) hydrate.EnvironmentResult {
	r.T.Helper()
	h := r.Hydrator(2)
	config := h.Config
	config.Gate = enforce.New(h.Store, []byte("key"), func(ctx context.Context, tree gitstore.Hash,
		_ bool,
	) (*policy.Engine, error) {
		return policy.Load(ctx, h.Store.Snapshot(ctx, tree), policy.Options{
			Now:        time.Now(),
			Workspaces: boundsOf(ctx, h, tree),
		})
	})
	request := hydrate.Request{Commit: r.Resolve("HEAD"), Write: true, Environments: []string{"dev"}}
	if change != nil {
		change(&request)
	}
	result, err := hydrate.New(config).Hydrate(r.T.Context(), request)
	if err != nil {
		r.T.Fatal(err)
	}
	return result.Environments[0]
}

// boundsOf returns the namespaces and kinds of the workspaces of a tree.
func boundsOf(ctx context.Context, h *hydrate.Hydrator, tree gitstore.Hash) map[string]*confine.Bounds {
	out := map[string]*confine.Bounds{}
	if f, _, err := h.Fleet(ctx, tree); err == nil {
		for _, w := range f.Workspaces {
			out[w.Name] = &confine.Bounds{
				Name: w.Name, Namespaces: w.Spec.Namespaces, ClusterScoped: w.Spec.Kinds.ClusterScoped,
				Reaches: func(string, map[string]string) bool { return true },
			}
		}
	}
	return out
}

// A plaintext Secret forbids the change whether or not the fleet has a policy. No message contains the value.
func TestPlaintextSecretsAreRefusedEverywhere(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"without a policy": false, "with a policy": true} {
		r := hydratetest.Demo(t)
		r.Write("manifests/baseline/secret.yaml", secret)
		if own {
			r.Write("policy/own.rego", rego)
		}
		r.Commit("secret")
		e := run(r, nil)
		if e.Status != hydrate.StatusRefused || len(e.Violations) != 1 ||
			e.Violations[0].Rule != policy.RulePlaintextSecret || len(e.Violations[0].Clusters) != 2 {
			t.Fatalf("%s: the reason is %s, the violations are %+v", name, e.Reason, e.Violations)
		}
		if v := e.Violations[0]; strings.Contains(v.Message+v.Hint+e.Reason, "hunter2") || v.Hint == "" {
			t.Errorf("%s: the value is %+v", name, v)
		}
		if got := r.Git("branch", "--list", "env/*"); got != "" {
			t.Errorf("%s: written: %s", name, got)
		}
	}
}

// If the fleet has a policy, its own rules forbid a change, but only for objects that differ from the branch.
func TestOwnRulesJudgeOnlyChangedObjects(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Write(configFile, badConfig)
	r.Commit("bad, and no rule yet")
	if e := run(r, nil); e.Status != hydrate.StatusUpdated {
		t.Fatalf("without a policy: %s", e.Reason)
	}
	r.Write("policy/own.rego", rego)
	r.Write("apps/shop/layers/environment/dev/values.yaml", "replicas: 7\n")
	r.Commit("a rule, and another change")
	if e := run(r, nil); e.Status != hydrate.StatusUpdated {
		t.Errorf("an object that does not change is judged: %s", e.Reason)
	}
	r.Write(configFile, strings.Replace(badConfig, "yes", "more", 1))
	r.Commit("a change of the bad object")
	e := run(r, nil)
	if e.Status != hydrate.StatusRefused || len(e.Violations) != 1 || e.Violations[0].App != "baseline" ||
		!strings.Contains(e.Violations[0].Message, "bad is not allowed") {
		t.Fatalf("the reason is %s, the violations are %+v", e.Reason, e.Violations)
	}
	rule := e.Violations[0].Rule
	e = run(r, func(q *hydrate.Request) { q.AllowPolicy, q.Reason = []string{rule}, "until Friday" })
	if e.Status != hydrate.StatusUpdated || len(e.Exceptions) != 1 {
		t.Errorf("an exception: %s %+v", e.Reason, e.Violations)
	}
	if got := r.Git("log", "-1", "--format=%(trailers:key=Sluice-Policy-Exception,valueonly)", "env/dev"); got != rule+
		": until Friday" {
		t.Errorf("the exception is recorded as %q", got)
	}
}

// If the policy cannot be loaded, the environment is refused and the reason names the file.
func TestBrokenPolicyRefuses(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Write("policy/own.rego", "package main\n\ndeny[msg] { nonsense(\n")
	r.Commit("broken")
	e := run(r, nil)
	if e.Status != hydrate.StatusRefused || !strings.Contains(e.Reason, "policy/own.rego") || len(e.Violations) != 0 {
		t.Errorf("the reason is %s, the violations are %+v", e.Reason, e.Violations)
	}
}

// If the loader fails for another reason than the policy, the run ends: the change is neither allowed nor refused.
func TestLoaderErrorsEndTheRun(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Write("policy/own.rego", rego)
	r.Commit("rule")
	h := r.Hydrator(1)
	config := h.Config
	lost := errors.New("the disk is gone")
	config.Gate = enforce.New(h.Store, nil, func(context.Context, gitstore.Hash, bool) (*policy.Engine,
		error,
	) {
		return nil, lost
	})
	_, err := hydrate.New(config).Hydrate(t.Context(), hydrate.Request{
		Commit: r.Resolve("HEAD"), Write: true,
		Environments: []string{"dev"},
	})
	if !errors.Is(err, lost) {
		t.Errorf("the error is %v", err)
	}
	if got := r.Git("branch", "--list", "env/*"); got != "" {
		t.Errorf("written: %s", got)
	}
}
