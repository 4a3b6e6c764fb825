package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

const workspaceYAML = base + `kind: Workspace
metadata: {name: team-a}
spec:
  clusters: {matchLabels: {class: edge}}
  namespaces: [team-a-*]
`

func workspaceApp(name, spec string) string {
	return base + "kind: App\nmetadata: {name: " + name + "}\nspec: {namespace: team-a-" + name + ", placement: {}, " +
		spec + "}\n"
}

// tenants has a workspace with one app, whose name is that of an app of the fleet.
func tenants(more map[string]string) map[string]string {
	files := small()
	maps.Copy(files, map[string]string{
		"workspaces/team-a.yaml": workspaceYAML,
		"workspaces/team-a/apps/web/app.yaml": workspaceApp("web",
			"source: {helm: {path: charts/web}}"),
		"workspaces/team-a/apps/web/layers/global/values.yaml":     "own: ${app}\n",
		"workspaces/team-a/layers/environment/dev/values.yaml":     "team: a\n",
		"workspaces/team-a/charts/web/Chart.yaml":                  "name: web\n",
		"workspaces/team-a/charts/web/templates/configmap.yaml":    "kind: ConfigMap\n",
		"workspaces/team-a/apps/web/layers/cluster/a/values.yaml":  "on: a\n",
		"workspaces/team-a/apps/web/layers/region/us/values.yaml":  "on: us\n",
		"workspaces/team-a/apps/web/layers/region/eu/ignored.yaml": "",
	})
	maps.Copy(files, more)
	for name, text := range files {
		if text == "" {
			delete(files, name)
		}
	}
	return files
}

func names(targets []Target) []string {
	var out []string
	for _, t := range targets {
		out = append(out, t.String())
	}
	return out
}

func TestTheFolderOfAnOwnPolicy(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "  policy: {path: rules/}\n": "workspaces/team-a/rules",
		"  policy:\n    path: rules/deep\n": "workspaces/team-a/rules/deep",
	} {
		f := load(t, tenants(map[string]string{"workspaces/team-a.yaml": workspaceYAML + text}))
		if w, ok := f.Workspace("team-a"); !ok || w.PolicyDir() != want {
			t.Errorf("%q: the result of Workspace is %+v", text, w)
		}
	}
}

func TestAWorkspaceHoldsAppsOfItsOwn(t *testing.T) {
	f := load(t, tenants(nil))
	if got := strings.Join(names(f.Targets()), " "); got != "a/team-a/web a/web b/web" {
		t.Fatalf("the targets are %s", got)
	}
	app, _ := f.App("team-a/web")
	c, _ := f.Cluster("a")
	s, err := f.Select(Target{App: app, Cluster: c})
	if err != nil {
		t.Fatal(err)
	}
	if s.Sources[0].Helm.Path != "workspaces/team-a/charts/web" || s.Sources[0].Helm.ReleaseName != "web" {
		t.Errorf("the source is %+v", s.Sources[0].Helm)
	}
	var files []string
	for _, v := range s.Values {
		files = append(files, v.Path)
	}
	want := []string{
		"layers/global/values.yaml", "workspaces/team-a/apps/web/layers/global/values.yaml",
		"layers/class/edge/values.yaml",
		"workspaces/team-a/layers/environment/dev/values.yaml",
		"workspaces/team-a/apps/web/layers/cluster/a/values.yaml",
	}
	if !slices.Equal(files, want) {
		t.Errorf("the values are\n%s\nwant\n%s", strings.Join(files, "\n"), strings.Join(want, "\n"))
	}
	values, err := f.Values(Target{App: app, Cluster: c}, "")
	if err != nil || values["own"] != "web" {
		t.Errorf("${app} is %v (%v)", values["own"], err)
	}
	if app.localName() != "web" || WorkspaceOf(app.Name) != "team-a" || WorkspaceOf("web") != "" {
		t.Error("the parts of the name are wrong")
	}
}

// A layer with a path for each app must not give a workspace's app the files of the fleet's app with the same name.
func TestAWorkspaceDoesNotTakeFilesOfAnAppWithTheSameName(t *testing.T) {
	f := load(t, tenants(map[string]string{
		"sluice.yaml": strings.Replace(fleetYAML, "[class, environment, region, cluster]",
			"[class, {name: region, values: [\"conf/${app}.yaml\", \"conf/all.yaml\"]}]", 1),
		"conf/web.yaml":                     "secret: platform\n",
		"conf/all.yaml":                     "all: true\n",
		"workspaces/team-a/conf/web.yaml":   "mine: true\n",
		"workspaces/team-a/conf/all.yaml":   "allmine: true\n",
		"workspaces/team-a/conf/other.yaml": "",
	}))
	app, _ := f.App("team-a/web")
	c, _ := f.Cluster("a")
	values, err := f.Values(Target{App: app, Cluster: c}, "")
	if err != nil {
		t.Fatal(err)
	}
	if values["secret"] != nil || values["mine"] != true || values["all"] != true || values["allmine"] != true {
		t.Errorf("the values are %v", values)
	}
	changed := Affected(f, f, []string{"workspaces/team-a/conf/web.yaml"}, noReach)
	if len(changed) != 1 || changed[0].App != "team-a/web" {
		t.Errorf("affected: %v", changed)
	}
}

func noReach(*Fleet, Source) []string { return nil }

func TestErrorsInAWorkspaceStayThere(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"yaml": {map[string]string{"workspaces/team-a/apps/web/app.yaml": "{"}, "did not find"},
		"a cluster": {map[string]string{"workspaces/team-a/apps/web/app.yaml": cluster("c", "dev", "edge", "eu",
			"")}, "only App belongs into a workspace"},
		"a fleet": {
			map[string]string{"workspaces/team-a/apps/web/app.yaml": fleetYAML},
			"only App belongs into a workspace",
		},
		"workspaces": {map[string]string{"workspaces/team-a/apps/web/app.yaml": strings.Replace(workspaceYAML,
			"team-a", "team-b", 1)}, "only App belongs into a workspace"},
		"outside": {map[string]string{"workspaces/team-a/apps/web/app.yaml": workspaceApp("web",
			"source: {helm: {path: ../../charts/web}}")}, "charts/web\" leaves the workspace team-a"},
		"another's folder": {
			map[string]string{"workspaces/team-a/apps/web/app.yaml": workspaceApp("web",
				"source: {manifests: {path: ../team-b/m}}")},
			"\"../team-b/m\" leaves the workspace team-a (relative to the folder of the workspace",
		},
		"a version outside": {map[string]string{"workspaces/team-a/apps/web/app.yaml": workspaceApp("web",
			"source: {helm: {repo: \"https://charts.example.com\", chart: web, versionFrom: {file: ../x.yaml, key: v}}}")}, "\"../x.yaml\" leaves the workspace team-a"},
		"mounted": {map[string]string{"workspaces/team-a/apps/web/app.yaml": workspaceApp("web",
			"source: {kustomize: {path: .repositories/x}}")}, "in another repository"},
		"one app twice": {map[string]string{"workspaces/team-a/apps/shop/app.yaml": workspaceApp("web",
			"source: {manifests: {}}")}, "the app team-a/web is also in"},
		"a var of a layer": {map[string]string{
			"sluice.yaml": strings.Replace(fleetYAML, "[class, environment, region, cluster]",
				"[class, {name: region, values: [\"conf/${app.vars.tier}.yaml\"]}]", 1),
			"apps/web/app.yaml": strings.Replace(small()["apps/web/app.yaml"], "spec: {", "spec: {vars: {tier: one}, ",
				1),
		}, "app.vars.tier} is not set for app team-a/web"},
		"a var that leaves": {map[string]string{
			"sluice.yaml": strings.Replace(fleetYAML, "[class, environment, region, cluster]",
				"[class, {name: region, values: [\"conf/${app.vars.tier}.yaml\"]}]", 1),
			"apps/web/app.yaml": strings.Replace(small()["apps/web/app.yaml"], "spec: {",
				"spec: {vars: {tier: one}, ", 1),
			"workspaces/team-a/apps/web/app.yaml": workspaceApp("web",
				"vars: {tier: ../../x}, source: {helm: {path: charts/web}}"),
		}, "leaves the repository"},
		"an app of the fleet": {map[string]string{"apps/dash/app.yaml": base +
			"kind: App\nmetadata: {name: team-a.web}\nspec: {namespace: web, placement: {optional: true, matchLabels: {class: none}}, source: {helm: {path: charts/web}}}\n"}, "would have one name"},
		"a cycle": {map[string]string{
			"apps/api/app.yaml": base +
				"kind: App\nmetadata: {name: api}\nspec: {namespace: api, dependsOn: [team-a/web], placement: {optional: true, matchLabels: {class: none}}, source: {helm: {path: charts/web}}}\n",
			"workspaces/team-a/apps/web/app.yaml": workspaceApp("web",
				"dependsOn: [api], source: {helm: {path: charts/web}}"),
		}, "apps wait for each other"},
		"another app's name": {map[string]string{"workspaces/team-a/apps/web/app.yaml": workspaceApp("team-b/web",
			"source: {manifests: {}}")}, "cannot be a name"},
	} {
		t.Run(name, func(t *testing.T) {
			f, problems := Load(t.Context(), fleettest.NewTree(tenants(c.files)), nil)
			if f == nil {
				t.Fatal("the fleet is not read:", problems)
			}
			w, _ := f.Workspace("team-a")
			if w.Err == nil || !strings.Contains(problems.Error(), c.want) {
				t.Errorf("the workspace's error is %v, the problems are %v", w.Err, problems)
			}
			if Unknown(f, "team-a/web") == nil || Unknown(f, "web") != nil {
				t.Error("the apps of the workspace must be unknown, and no others")
			}
			if got := strings.Join(names(f.Targets()), " "); got != "a/web b/web" {
				t.Errorf("the targets are %s", got)
			}
		})
	}
}

// An app of the fleet can depend on an app of a workspace. The team may remove its app without making the fleet
// invalid.
func TestADependencyOnAnAppThatAWorkspaceLacks(t *testing.T) {
	for name, text := range map[string]string{"removed": "", "unreadable": "{"} {
		t.Run(name, func(t *testing.T) {
			f, problems := Load(t.Context(), fleettest.NewTree(tenants(map[string]string{
				"apps/web/app.yaml": strings.Replace(small()["apps/web/app.yaml"], "spec: {",
					"spec: {dependsOn: [team-a/web], ", 1),
				"workspaces/team-a/apps/web/app.yaml": text,
			})), nil)
			if f == nil {
				t.Fatal(problems)
			}
			warned := slices.ContainsFunc(problems, func(p Problem) bool {
				return p.Severity == SeverityWarning && p.File == "apps/web/app.yaml" &&
					strings.Contains(p.Message, "app web depends on team-a/web")
			})
			if !warned {
				t.Errorf("the problems are %v", problems.Warnings())
			}
			if got := strings.Join(names(f.Targets()), " "); got != "a/web b/web" {
				t.Errorf("the targets are %s", got)
			}
		})
	}
	f, problems := Load(t.Context(), fleettest.NewTree(tenants(map[string]string{
		"apps/web/app.yaml": strings.Replace(small()["apps/web/app.yaml"], "spec: {",
			"spec: {dependsOn: [team-b/web], ", 1),
	})), nil)
	if f != nil || !strings.Contains(problems.Error(), "does not exist") {
		t.Errorf("a workspace that is not declared: %v", problems)
	}
}

func TestDeclarationsOfWorkspaces(t *testing.T) {
	change := func(old, replacement string) string { return strings.Replace(workspaceYAML, old, replacement, 1) }
	second := strings.NewReplacer("name: team-a", "name: team-b", "class: edge", "environment: dev")
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no namespaces": {
			map[string]string{"workspaces/team-a.yaml": change("  namespaces: [team-a-*]\n", "")},
			"namespaces is missing",
		},
		"no clusters": {map[string]string{"workspaces/team-a.yaml": change("  clusters: {matchLabels: {class: edge}}\n", "")}, "clusters is missing"},
		"environment": {
			map[string]string{"workspaces/team-a.yaml": workspaceYAML + "  environments: [test]\n"},
			`the environment "test" does not exist`,
		},
		"namespace": {
			map[string]string{"workspaces/team-a.yaml": change("team-a-*", "Team")},
			"not a pattern of namespaces",
		},
		"kinds": {map[string]string{"workspaces/team-a.yaml": workspaceYAML +
			"  kinds: {allow: [apps/Deployment]}\n"}, "not a pattern of kinds"},
		"group": {map[string]string{"workspaces/team-a.yaml": workspaceYAML +
			"  kinds: {allow: [ConfigMap, Ingress], deny: [Job]}\n"}, "write Ingress.networking.k8s.io"},
		"cluster group": {map[string]string{"workspaces/team-a.yaml": workspaceYAML +
			"  kinds: {clusterScoped: [Namespace, ClusterRole]}\n"}, "write ClusterRole.rbac.authorization.k8s.io"},
		"images": {map[string]string{"workspaces/team-a.yaml": workspaceYAML +
			"  sources: {images: [\"a/**/b/**\"]}\n"}, "is not a pattern"},
		"repository": {
			map[string]string{"workspaces/team-a.yaml": workspaceYAML + "  repository: team-a\n"},
			`the repository "team-a" does not exist`,
		},
		"fleet's folder": {
			map[string]string{"workspaces/team-a.yaml": workspaceYAML + "  path: apps\n"},
			"belongs to the fleet itself",
		},
		"root": {
			map[string]string{"workspaces/team-a.yaml": workspaceYAML + "  path: .\n"},
			"belongs to the fleet itself",
		},
		"leaving": {
			map[string]string{"workspaces/team-a.yaml": workspaceYAML + "  path: ../x\n"},
			"leaves the repository",
		},
		"twice": {map[string]string{"workspaces/b.yaml": workspaceYAML}, "the workspace team-a is also in"},
		"one in another": {map[string]string{"workspaces/b.yaml": second.Replace(strings.Replace(workspaceYAML,
			"team-a-*", "x", 1)) + "  path: workspaces/team-a/apps\n"}, "common files"},
		"one namespace": {map[string]string{"workspaces/b.yaml": second.Replace(strings.Replace(workspaceYAML,
			"team-a-*", "\"*-web\"", 1))}, "overlap on cluster a"},
		"reserved name": {map[string]string{"apps/web/app.yaml": strings.Replace(small()["apps/web/app.yaml"],
			"name: web", "name: workspaces", 1)}, "no app can have that name"},
		"unknown key": {
			map[string]string{"workspaces/team-a.yaml": workspaceYAML + "  cluster: {}\n"},
			"did you mean clusters?",
		},
		"dot": {
			map[string]string{"workspaces/team-a.yaml": change("name: team-a", "name: team-a.x")},
			"cannot have a dot",
		},
		"approvals": {
			map[string]string{"workspaces/team-a.yaml": workspaceYAML +
				"  approvers: {users: [mia], count: -1}\n"},
			"workspaces/team-a.yaml:7:36: error: -1 approvals cannot be asked for",
		},
		"no approver": {map[string]string{"workspaces/team-a.yaml": workspaceYAML +
			"  approvers: {teams: [\"\"]}\n"}, "the name of an approver is empty"},
		"approver": {
			map[string]string{"workspaces/team-a.yaml": workspaceYAML + "  approvers: {user: [mia]}\n"},
			"did you mean users?",
		},
		"policy outside": {map[string]string{"workspaces/team-a.yaml": workspaceYAML +
			"  policy: {path: ../team-b/policy}\n"}, "\"../team-b/policy\" leaves the workspace team-a"},
		"policy of apps": {map[string]string{"workspaces/team-a.yaml": workspaceYAML +
			"  policy: {path: ./apps/web}\n"}, "needs a folder of its own"},
		"no policy": {
			map[string]string{"workspaces/team-a.yaml": workspaceYAML + "  policy: {path: \"\"}\n"},
			"spec.policy.path is empty",
		},
		"policy is all": {
			map[string]string{"workspaces/team-a.yaml": workspaceYAML + "  policy: {path: ./}\n"},
			"needs a folder of its own",
		},
		"quota": {
			map[string]string{"workspaces/team-a.yaml": workspaceYAML + "  quotas: {objects: -1}\n"},
			"cannot be negative",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, problems := Load(t.Context(), fleettest.NewTree(tenants(c.files)), nil)
			if f != nil || !strings.Contains(problems.Error(), c.want) {
				t.Errorf("problems: %v", problems)
			}
		})
	}
}

// A glob of the fleet that matches files of a workspace must not make them the fleet's own.
func TestFilesOfAWorkspaceAreNotTheFleets(t *testing.T) {
	f := load(t, tenants(map[string]string{
		"sluice.yaml": fleetYAML +
			"  files: {apps: [\"**/app.yaml\"], clusters: [\"clusters/*.yaml\", \"workspaces/*/clusters/*.yaml\"]}\n",
		"workspaces/team-a/clusters/mine.yaml":         cluster("mine", "prod", "edge", "eu", ""),
		"workspaces/team-a/elsewhere/monitor/app.yaml": workspaceApp("monitor", "source: {manifests: {}}"),
	}))
	if got := strings.Join(names(f.Targets()), " "); got != "a/team-a/web a/web b/web" {
		t.Errorf("the targets are %s", got)
	}
}

func TestAWorkspacesLinksStayInside(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"values": {"workspaces/team-a/apps/web/layers/global/values.yaml": linkTo +
			"../../../../../../apps/web/layers/global/values.yaml"},
		"folder": {
			"workspaces/team-a/layers/environment/dev/values.yaml": "",
			"workspaces/team-a/layers/environment/dev":             linkTo + "../../../../layers/class/edge",
		},
		"version": {
			"workspaces/team-a/apps/web/app.yaml": workspaceApp("web",
				"source: {helm: {chart: x, repo: \"https://x.org\", versionFrom: {file: v}}}"),
			"workspaces/team-a/v": linkTo + "../../sluice.yaml",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, problems := Load(t.Context(), fleettest.NewTree(tenants(files)), nil)
			if f == nil {
				t.Fatal(problems)
			}
			app, ok := f.App("team-a/web")
			if !ok {
				t.Fatal(problems)
			}
			c, _ := f.Cluster("a")
			if _, err := f.Select(Target{App: app, Cluster: c}); err == nil ||
				!strings.Contains(err.Error(), "out of the workspace team-a") {
				t.Errorf("the error is %v", err)
			}
		})
	}
	f, problems := Load(t.Context(),
		fleettest.NewTree(tenants(map[string]string{"workspaces/team-a/apps/web/app.yaml": linkTo +
			"../../../../apps/web/app.yaml"})), nil)
	if f == nil || Unknown(f, "team-a/web") == nil {
		t.Errorf("a linked app.yaml: %v", problems)
	}
}

func TestWhatAWorkspaceMayTake(t *testing.T) {
	for name, c := range map[string]struct{ bounds, source, want string }{
		"any chart": {"", "helm: {chart: web, repo: \"https://charts.org/x\", version: 1.0.0}", ""},
		"listed chart": {
			"charts: [\"https://charts.org/*/*\"]",
			"helm: {chart: web, repo: \"https://charts.org/x/\", version: 1.0.0}", "",
		},
		"other chart": {
			"charts: [\"https://charts.org/*/*\"]",
			"helm: {chart: web, repo: \"https://evil.org/x\", version: 1.0.0}",
			"may not use the chart https://evil.org/x/web",
		},
		"one folder": {
			"charts: [\"https://charts.org/*\"]",
			"helm: {chart: web, repo: \"https://charts.org/x\", version: 1.0.0}", "may not use the chart",
		},
		"dots": {
			"charts: [\"https://charts.org/acme/**\"]",
			"helm: {chart: web, repo: \"https://charts.org/acme/../evil\", version: 1.0.0}", "may not use the chart",
		},
		"escaped dots": {
			"charts: [\"https://charts.org/acme/**\"]",
			"helm: {chart: web, repo: \"https://charts.org/acme/%2E%2e/evil\", version: 1.0.0}",
			"may not use the chart",
		},
		"dots at the end": {
			"charts: [\"https://charts.org/acme/**\"]",
			"helm: {chart: \"..\", repo: \"https://charts.org/acme/x\", version: 1.0.0}", "may not use the chart",
		},
		"a query": {
			"charts: [\"https://*.org/acme/*\"]",
			"helm: {chart: web, repo: \"https://evil.com?.org/acme\", version: 1.0.0}", "may not use the chart",
		},
		"listed registry": {
			"charts: [\"oci://ghcr.io/acme/**\"]",
			"helm: {chart: \"oci://ghcr.io/acme/a/b\", version: 1.0.0}", "",
		},
		"other registry": {
			"charts: [\"oci://ghcr.io/acme/**\"]",
			"helm: {chart: \"oci://ghcr.io/acmevil/b\", version: 1.0.0}", "may not use the chart",
		},
		"a repository": {
			"", "manifests: {path: x, repository: components}",
			"may not take files from the repository components",
		},
		"fleet's charts": {"", "helm: {path: charts/web}", ""},
		"named repository": {
			"repositories: [components]", "manifests: {path: x, repository: components}",
			"no other repository can be read here",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := load(t, tenants(map[string]string{
				"repositories/components.yaml": base +
					"kind: Repository\nmetadata: {name: components}\nspec: {url: \"https://x.org/c\", branch: main}\n",
				"workspaces/team-a.yaml":              workspaceYAML + "  sources: {" + c.bounds + "}\n",
				"workspaces/team-a/apps/web/app.yaml": workspaceApp("web", "source: {"+c.source+"}"),
			}))
			app, _ := f.App("team-a/web")
			cl, _ := f.Cluster("a")
			_, err := f.Resolve(Target{App: app, Cluster: cl})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

// memMounts has the files of other repositories; those without files are missing.
type memMounts struct {
	own   map[string]string
	files map[string]map[string]string
}

func (memMounts) Exact() bool { return false }

func (m memMounts) Mount(_ context.Context, _ Tree, repositories []*Repository) (Tree, map[string]error) {
	all, missing := maps.Clone(m.own), map[string]error{}
	for _, r := range repositories {
		if m.files[r.Name] == nil {
			missing[r.Name] = errors.New("cannot be reached")
			continue
		}
		r.Commit = strings.Repeat("1", 40)
		for name, text := range m.files[r.Name] {
			all[MountDir+"/"+r.Name+"/"+name] = text
		}
	}
	return fleettest.NewTree(all), missing
}

func TestAWorkspaceInAnotherRepository(t *testing.T) {
	own := small()
	own["workspaces/team-a.yaml"] = workspaceYAML + "  repository: team-a\n"
	own["repositories/team-a.yaml"] = base +
		"kind: Repository\nmetadata: {name: team-a}\nspec: {url: \"https://x.org/a\", branch: main}\n"
	theirs := map[string]string{
		"apps/shop/app.yaml":                  workspaceApp("shop", "source: {manifests: {path: m}}"),
		"m/a.yaml":                            "kind: ConfigMap\n",
		"clusters/evil.yaml":                  cluster("evil", "prod", "edge", "eu", ""),
		"policy/p.yaml":                       "kind: Policy\n",
		"workspaces/b.yaml":                   strings.Replace(workspaceYAML, "team-a", "team-b", 1),
		"sluice.yaml":                         "kind: Fleet\n",
		"layers/environment/dev/values.yaml":  "a: 1\n",
		"layers/environment/test/values.yaml": "a: 1\n",
	}
	f, problems := Loader{Mounts: memMounts{own, map[string]map[string]string{"team-a": theirs}}}.Load(t.Context(),
		fleettest.NewTree(own))
	if f == nil {
		t.Fatal(problems)
	}
	if got := strings.Join(names(f.Targets()), " "); got != "a/team-a/shop a/web b/web" {
		t.Errorf("the targets are %s", got)
	}
	if len(f.Workspaces) != 1 || len(f.Clusters) != 2 {
		t.Error("the workspace's repository has defined a cluster or a workspace")
	}
	app, _ := f.App("team-a/shop")
	c, _ := f.Cluster("a")
	r, err := f.Resolve(Target{App: app, Cluster: c})
	if err != nil || r.Sources[0].Manifests.Path != ".repositories/team-a/m" {
		t.Errorf("the result of Resolve is %+v, the error is %v", r, err)
	}
	if target := (Target{App: app, Cluster: c}); target.MayRead("apps/web/app.yaml") ||
		target.MayRead(".repositories/team-ab/m") || !target.MayRead(".repositories/team-a/m/a.yaml") {
		t.Error("MayRead is wrong")
	}

	f, problems = Loader{Mounts: memMounts{own: own}}.Load(t.Context(), fleettest.NewTree(own))
	if f == nil || Unknown(f, "team-a/shop") == nil {
		t.Errorf("with a missing repository, the workspace's apps must be unknown: %v", problems)
	}
}

func TestAChangeOfAWorkspaceAffectsItsTargets(t *testing.T) {
	before := load(t, tenants(nil))
	for name, c := range map[string]struct {
		file, text string
		want       string
	}{
		"bounds": {
			"workspaces/team-a.yaml", strings.Replace(workspaceYAML, "team-a-*", "team-a-web", 1),
			"a/team-a/web changed",
		},
		"clusters": {"workspaces/team-a.yaml", strings.Replace(workspaceYAML, "{matchLabels: {class: edge}}",
			"{}", 1), "a/team-a/web changed b/team-a/web added"},
		"administrators": {"workspaces/team-a.yaml", workspaceYAML + "  administrators: {users: [bob]}\n", ""},
		"approvers":      {"workspaces/team-a.yaml", workspaceYAML + "  approvers: {users: [bob]}\n", ""},
		"layer":          {"workspaces/team-a/layers/environment/dev/values.yaml", "team: b\n", "a/team-a/web changed"},
		"app": {
			"workspaces/team-a/apps/web/app.yaml",
			workspaceApp("web", "source: {manifests: {path: charts/web}}"), "a/team-a/web changed",
		},
		"fleet's layer": {"layers/class/edge/values.yaml", "edge: false\n", "a/team-a/web changed a/web changed"},
	} {
		t.Run(name, func(t *testing.T) {
			after := load(t, tenants(map[string]string{c.file: c.text}))
			var got []string
			for _, a := range Affected(before, after, []string{c.file}, noReach) {
				got = append(got, a.Cluster+"/"+a.App+" "+string(a.Effect))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("affected: %v, want %s", got, c.want)
			}
			app, _ := before.App("team-a/web")
			again, _ := after.App("team-a/web")
			cl, _ := before.Cluster("a")
			x, err := before.AppendKey(nil, Target{App: app, Cluster: cl})
			if err != nil {
				t.Fatal(err)
			}
			y, err := after.AppendKey(nil, Target{App: again, Cluster: cl})
			if err != nil || (string(x) == string(y)) != (c.want == "") {
				t.Errorf("the keys are equal: %v (%v)", string(x) == string(y), err)
			}
		})
	}
}

func TestPatternsMeet(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a-*", "a-b", true},
		{"a-*", "a", false},
		{"a*", "*b", true},
		{"a*c", "ab*d", false},
		{"*", "x", true},
		{"team-a-*", "team-b-*", false},
		{"team-*", "team-b-x", true},
		{"a?c", "abc", true},
		{"a?c", "abbc", false},
		{"*x*", "axb", true},
		{"", "*", true},
	} {
		if patternsMeet(c.a, c.b) != c.want || patternsMeet(c.b, c.a) != c.want {
			t.Errorf("patternsMeet(%q, %q) is not %v", c.a, c.b, c.want)
		}
	}
}

func TestAChangeInARepositoryAffectsTheTargetsOfItsLayers(t *testing.T) {
	own := small()
	own["sluice.yaml"] = strings.Replace(fleetYAML, "[class, environment, region, cluster]",
		"[class, {name: region, repository: components, values: [\"regions/${cluster.labels.region}.yaml\"]}]", 1)
	own["repositories/components.yaml"] = base +
		"kind: Repository\nmetadata: {name: components}\nspec: {url: \"https://x.org/c\", branch: main}\n"
	f, problems := Loader{Mounts: memMounts{
		own,
		map[string]map[string]string{"components": {"regions/eu.yaml": "a: 1\n"}},
	}}.Load(t.Context(), fleettest.NewTree(own))
	if f == nil {
		t.Fatal(problems)
	}
	affected := Affected(f, f, []string{".repositories/components/regions/eu.yaml"}, noReach)
	if len(affected) != 1 || affected[0].Cluster != "a" {
		t.Errorf("affected: %v", affected)
	}
}

// Flux and Argo CD can apply all objects of an app in its namespace.
func TestTheNamespaceOfAWorkspacesApp(t *testing.T) {
	app := strings.Replace(workspaceApp("web", "source: {manifests: {}}"), "team-a-web", "kube-system", 1)
	f := load(t, tenants(map[string]string{"workspaces/team-a/apps/web/app.yaml": app}))
	a, _ := f.App("team-a/web")
	c, _ := f.Cluster("a")
	if _, err := f.Resolve(Target{App: a, Cluster: c}); err == nil ||
		!strings.Contains(err.Error(), "kube-system on cluster a is outside of workspace team-a") {
		t.Errorf("the error is %v", err)
	}
}

// A workspace chooses among the signers that the fleet demands by default, so that it cannot choose a weaker one.
func TestSignersOfAWorkspacesCharts(t *testing.T) {
	chart := func(verify string) string {
		return workspaceApp("web",
			"source: {helm: {repo: \"https://charts.org\", chart: web, version: 1.0.0, verify: ["+verify+"]}}")
	}
	signers := func(verify string) string {
		return strings.Replace(small()["sluice.yaml"], "spec:\n",
			"spec:\n  charts: {signers: [{name: strong, cosign: {key: keys/a}}, {name: weak, cosign: {key: keys/b}}], verify: ["+verify+"]}\n", 1)
	}
	for name, c := range map[string]struct {
		verify, own string
		ok          bool
	}{
		"the demanded one":    {"strong", "strong", true},
		"one of the demanded": {"strong, weak", "weak", true},
		"another one":         {"strong", "weak", false},
		"one more":            {"strong", "strong, weak", false},
		"nothing is demanded": {"", "weak", true},
		"none of its own":     {"strong", "", true},
	} {
		f := load(t, tenants(map[string]string{
			"sluice.yaml":                         signers(c.verify),
			"workspaces/team-a/apps/web/app.yaml": chart(c.own),
		}))
		w, _ := f.Workspace("team-a")
		if (w.Err == nil) != c.ok || w.Err != nil && !strings.Contains(w.Err.Error(),
			`cannot choose the signer of charts "weak"`) {
			t.Errorf("%s: the error is %v", name, w.Err)
		}
	}
}
