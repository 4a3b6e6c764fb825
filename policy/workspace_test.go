package policy_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/policy/confine"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// A finding of a workspace rule never counts as an existing one: its path stays the same when the value at the path
// gets worse.
func TestBreachesOfWorkspacesAreAlwaysIntroduced(t *testing.T) {
	finding := func(rule, message string) policy.Finding {
		return policy.Finding{
			Rule: rule, Severity: policy.SeverityError, Message: message,
			Path: "spec.volumes[0].hostPath", App: "team-a/shop", Cluster: "prod-1",
		}
	}
	before := []policy.Finding{finding(confine.RuleHost, "/var/log/a"), finding("image-tag", "a")}
	after := []policy.Finding{finding(confine.RuleHost, "/etc"), finding("image-tag", "b")}
	got := policy.Compare(before, after)
	if len(got.Introduced) != 1 || got.Introduced[0].Message != "/etc" || len(got.Existing) != 1 ||
		got.Existing[0].Rule != "image-tag" || len(got.Resolved) != 0 {
		t.Errorf("the result of Compare is %+v", got)
	}
	if got = policy.Compare(before, nil); len(got.Resolved) != 2 {
		t.Errorf("the result of Compare is %+v", got)
	}
}

// A rule that cannot be evaluated says nothing about an object that changed, whatever it said about the object before.
func TestRulesThatFailOnChangedObjectsAreIntroduced(t *testing.T) {
	e := load(t, map[string]string{"policy/own.rego": "package main\ndeny contains msg if { msg := sprintf(\"%d\", [to_number(input.kind)]) }\n"})
	was := subject(t, "prod", deployment)
	for name, c := range map[string]struct {
		old  string
		want int
	}{"changed": {"another key", 1}, "unchanged": {was.Objects[0].Key, 0}} {
		after := subject(t, "prod", deployment)
		after.Objects[0].OldKey, after.Objects[0].Old = c.old, was.Objects[0].Object
		before, found := check(t, e, was), check(t, e, after)
		if len(before.Findings) != 1 || before.Findings[0].Rule != policy.RulePolicyError {
			t.Fatalf("the before is %+v", before)
		}
		if got := policy.Compare(before.Findings, found.Findings); len(got.Introduced) != c.want ||
			len(got.Introduced)+len(got.Existing) != 1 || len(got.Resolved) != 0 {
			t.Errorf("%s: the result of Compare is %+v", name, got)
		}
	}
}

func TestWorkspacesAreConfined(t *testing.T) {
	bounds := func(change func(*confine.Bounds)) map[string]*confine.Bounds {
		b := &confine.Bounds{
			Name: "team-a", File: "workspaces/team-a.yaml", Namespaces: []string{"team-a"},
			Reaches: func(cluster string, _ map[string]string) bool { return cluster == "prod-1" },
		}
		if change != nil {
			change(b)
		}
		return map[string]*confine.Bounds{"team-a": b}
	}
	object := func(kind, namespace string) manifest.Object {
		return manifest.Object{
			"apiVersion": "v1", "kind": kind,
			"metadata": map[string]any{"name": "x", "namespace": namespace},
		}
	}
	subject := func(app, cluster string, objects ...manifest.Object) policy.Subject {
		s := policy.Subject{
			Cluster: &policy.Cluster{Name: cluster, Environment: "prod"},
			App:     &policy.App{Name: app, Namespace: "team-a"},
		}
		for _, o := range objects {
			s.Objects = append(s.Objects, policy.Object{Key: o.Kind() + o.Namespace() + o.Name(), Object: o})
		}
		return s
	}
	in := func(namespace string, s policy.Subject) policy.Subject {
		s.App.Namespace = namespace
		return s
	}
	account := func(namespace string) manifest.Object { return object("ServiceAccount", namespace) }
	for name, c := range map[string]struct {
		bounds   map[string]*confine.Bounds
		subjects []policy.Subject
		around   policy.Surroundings
		want     string
	}{
		"inside": {bounds(nil), []policy.Subject{subject("team-a/shop", "prod-1",
			account("team-a"))}, nil, ""},
		"an app of the fleet": {bounds(nil), []policy.Subject{subject("shop", "prod-1",
			account("kube-system"))}, nil, ""},
		"another namespace": {bounds(nil), []policy.Subject{subject("team-a/shop", "prod-1",
			account("team-b"))}, nil, "workspace-namespace team-a/shop"},
		"an app in another namespace": {bounds(nil), []policy.Subject{in("kube-system",
			subject("team-a/shop", "prod-1", account("team-a")))}, nil, "workspace-namespace team-a/shop"},
		"objects without a namespace": {
			bounds(func(b *confine.Bounds) { b.AsRendered = true }),
			[]policy.Subject{subject("team-a/shop", "prod-1", account(""))},
			nil, "workspace-namespace team-a/shop",
		},
		"another cluster": {bounds(nil), []policy.Subject{subject("team-a/shop", "prod-2",
			account("team-a"))}, nil, "workspace-cluster team-a/shop"},
		"not on the trunk": {nil, []policy.Subject{subject("team-b/shop", "prod-1",
			account("team-a"))}, nil, "workspace-cluster team-b/shop"},
		"two workspaces": {bounds(nil), []policy.Subject{subject("team-a/shop", "prod-1",
			account("team-a")), subject("web", "prod-1", account("team-a"))}, nil, "workspace-owner team-a/shop"},
		"two workspaces, turned": {
			bounds(nil),
			[]policy.Subject{subject("web", "prod-1",
				account("team-a")), subject("team-a/shop", "prod-1", account("team-a"))},
			nil,
			"workspace-owner team-a/shop",
		},
		"one workspace": {bounds(nil), []policy.Subject{subject("team-a/shop", "prod-1",
			account("team-a")), subject("team-a/web", "prod-1", account("team-a"))}, nil, ""},
		"an app that is not part of the change": {bounds(nil), []policy.Subject{subject("team-a/shop", "prod-1",
			object("ConfigMap", "team-a"))}, around{owner: "web"}, "workspace-owner team-a/shop"},
		"an app of the fleet that had it": {bounds(nil), []policy.Subject{subject("team-a/shop", "prod-1",
			object("ConfigMap", "team-a"))}, around{owner: "web", had: []string{"web"}}, "workspace-owner team-a/shop"},
		"the workspace had it": {bounds(nil), []policy.Subject{subject("team-a/shop", "prod-1",
			object("ConfigMap", "team-a"))}, around{owner: "team-b/web", had: []string{"team-a/shop"}}, ""},
		"another workspace had it": {
			bounds(nil),
			[]policy.Subject{subject("team-a/shop", "prod-1",
				object("ConfigMap", "team-a"))},
			around{owner: "team-b/web", had: []string{"team-b/web"}},
			"workspace-owner team-a/shop",
		},
		"both workspaces had it": {
			bounds(nil),
			[]policy.Subject{subject("team-a/shop", "prod-1",
				object("ConfigMap", "team-a"))},
			around{owner: "team-b/web", had: []string{"team-b/web", "team-a/shop"}},
			"workspace-owner team-a/shop",
		},
		"the fleet takes what a workspace has": {
			bounds(nil),
			[]policy.Subject{subject("web", "prod-1",
				object("ConfigMap", "team-a"))},
			around{owner: "team-a/shop", had: []string{"team-a/shop"}},
			"workspace-owner web",
		},
		"the fleet is first": {bounds(nil), []policy.Subject{subject("web", "prod-1",
			object("ConfigMap", "team-a"))}, around{owner: "team-a/shop"}, ""},
		"a workspace's second app hides none": {
			bounds(nil),
			[]policy.Subject{subject("team-a/shop", "prod-1",
				object("ConfigMap", "team-a"))},
			around{owner: "team-a/app web", had: []string{"web"}},
			"workspace-owner team-a/shop",
		},
		"two of the change hide none": {
			bounds(nil),
			[]policy.Subject{
				subject("web", "prod-1",
					account("team-a")), subject("team-a/app", "prod-1", account("team-a")),
				subject("team-a/shop", "prod-1", account("team-a")),
			},
			nil,
			"workspace-owner team-a/app, workspace-owner team-a/shop",
		},
		"the first of several others": {
			bounds(nil),
			[]policy.Subject{subject("web", "prod-1",
				object("ConfigMap", "team-a"))},
			around{owner: "team-a/shop team-b/shop", had: []string{"team-b/shop"}},
			"workspace-owner web",
		},
		"the quota of objects": {
			bounds(func(b *confine.Bounds) { b.Objects = 11 }),
			[]policy.Subject{
				subject("team-a/shop", "prod-1", account("team-a")),
				subject("team-a/web", "prod-1", object("Service", "team-a")),
			},
			around{},
			"workspace-quota team-a/shop",
		},
		"the quota of apps": {
			bounds(func(b *confine.Bounds) { b.Targets = 2 }),
			[]policy.Subject{subject("team-a/shop", "prod-1", account("team-a"))},
			around{},
			"workspace-quota team-a/shop",
		},
		"within quotas": {
			bounds(func(b *confine.Bounds) { b.Objects, b.Targets = 12, 3 }),
			[]policy.Subject{subject("team-a/shop", "prod-1", account("team-a"))},
			around{},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			// A policy cannot make the rules weaker, and the rules of the fleet do not come from the subjects.
			files := fstest.MapFS{"policy/p.yaml": {Data: []byte("apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {rules: {workspace-namespace: {severity: \"off\"}, workspace-cluster: {environments: {prod: info}}}}\n")}}
			engine, err := policy.Load(t.Context(), files, policy.Options{Workspaces: c.bounds})
			if err != nil {
				t.Fatal(err)
			}
			check, err := engine.Check(t.Context(), policy.Input{
				Subjects:     policy.Listed(c.subjects...),
				Surroundings: c.around,
			})
			if err != nil {
				t.Fatal(err)
			}
			alone, err := engine.Confine(t.Context(), policy.Input{
				Subjects:     policy.Listed(c.subjects...),
				Surroundings: c.around,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*policy.Result{check, alone} {
				var got []string
				for _, f := range r.Findings {
					if policy.OfWorkspace(f.Rule) {
						got = append(got, f.Rule+" "+f.App)
						if f.Severity != policy.SeverityError || f.Message == "" || f.Hint == "" {
							t.Errorf("the fleet is %+v", f)
						}
					}
				}
				if strings.Join(got, ", ") != c.want {
					t.Errorf("the result is %v, want %s", got, c.want)
				}
			}
		})
	}
}
