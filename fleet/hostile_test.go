package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
)

func problemsOf(t *testing.T, files map[string]string) Problems {
	t.Helper()
	_, p := Load(t.Context(), fleettest.NewTree(files), NewCache())
	return p
}

func tinyTarget(t *testing.T, f *Fleet, cluster string) Target {
	t.Helper()
	return Target{App: f.apps["web"], Cluster: f.clusters[cluster]}
}

func TestEmptyPlacementIsNotEverywhere(t *testing.T) {
	p := problemsOf(t, tiny(map[string]string{"apps/web/app.yaml": base +
		"kind: App\nmetadata: {name: web}\nspec:\n  namespace: web\n  placement:\n  source: {helm: {path: charts/web}}\n"}))
	if p.Err() == nil {
		t.Error("`placement:` without a value must not mean every cluster")
	}
}

func TestDiamondsOfEnvironmentsAreCheap(t *testing.T) {
	var b strings.Builder
	b.WriteString(base + "kind: Fleet\nmetadata: {name: tiny}\nspec:\n  environments:\n  - {name: dev}\n  - {name: a0}\n  - {name: b0}\n")
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&b, "  - {name: a%d, after: [a%d, b%d]}\n  - {name: b%d, after: [a%d, b%d]}\n", i, i-1, i-1, i, i-1,
			i-1)
	}
	done := make(chan Problems, 1)
	go func() { done <- problemsOf(t, tiny(map[string]string{"sluice.yaml": b.String()})) }()
	select {
	case p := <-done:
		if p.Err() != nil {
			t.Error(p)
		}
	case <-time.After(2 * time.Minute): // 2^40 paths would take days
		t.Fatal("not done after two minutes")
	}
}

func TestCommentOnlyFleetWideValues(t *testing.T) {
	f := mustLoad(t, tiny(map[string]string{"layers/global/values.yaml": "# nothing yet\n"}), NewCache())
	values, err := f.Values(tinyTarget(t, f, "b"), "")
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(values); strings.Contains(string(text), "null") {
		t.Errorf("a file without values must delete nothing: %s", text)
	}
}

func TestOnlyEmptyValues(t *testing.T) {
	f := mustLoad(t, tiny(map[string]string{"apps/web/layers/global/values.yaml": "# nothing yet\n"}), NewCache())
	values, err := f.Values(tinyTarget(t, f, "b"), "")
	if err != nil || values == nil {
		t.Errorf("values: %v, %v", values, err)
	}
}

func TestIntegersInComponents(t *testing.T) {
	f := mustLoad(t, tiny(nil), NewCache())
	out, err := tinyTarget(t, f, "a").ComponentFile("x/patch.yaml",
		[]byte("spec: {runAsUser: !typed \"${cluster.vars.uid}\"}\n---\nspec:\n  runAsUser: ${cluster.vars.uid}\n  text: \"${cluster.vars.uid}\"\n"))
	if err != nil || strings.Count(string(out), "runAsUser: 1000680000") != 2 ||
		!strings.Contains(string(out), `text: "1000680000"`) {
		t.Errorf("the output is %s, the error is %v", out, err)
	}
}

func TestSingleLineInlinePatchKeepsTypes(t *testing.T) {
	f := mustLoad(t, tiny(nil), NewCache())
	in := "kind: Component\npatches:\n- target: {kind: Deployment}\n  patch: '[{\"op\": \"add\", \"path\": \"/spec/replicas\", \"value\": \"${cluster.vars.uid}\"}]'\n"
	out, err := tinyTarget(t, f, "a").ComponentFile("x/kustomization.yaml", []byte(in))
	if err != nil || strings.Contains(string(out), `"1000680000"`) {
		t.Errorf("the output is %s, the error is %v", out, err)
	}
}

func TestJSONPatchFile(t *testing.T) {
	f := mustLoad(t, tiny(nil), NewCache())
	out, err := tinyTarget(t, f, "a").ComponentFile("x/patch.json",
		[]byte(`[{"op":"add","path":"/a","value":"${cluster.vars.s}"}]`))
	if err != nil || strings.Contains(string(out), "${") {
		t.Errorf("the output is %s, the error is %v", out, err)
	}
}

func TestAnchoredReferenceInComponent(t *testing.T) {
	f := mustLoad(t, tiny(nil), NewCache())
	tg := tinyTarget(t, f, "a")
	out, err := tg.ComponentFile("x/patch.yaml", []byte("a: &x ${cluster.vars.s}\nb: *x\n"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err = tg.ComponentFile("x/patch.yaml", append(out, []byte("c: ${app}\n")...)); err != nil {
		t.Errorf("what came out is no YAML: %s %v", out, err)
	}
}

func TestMapInsideText(t *testing.T) {
	f := mustLoad(t, tiny(map[string]string{"apps/web/layers/global/values.yaml": "a: x-${cluster.vars.m}\n"}),
		NewCache())
	if v, err := f.Values(tinyTarget(t, f, "a"), ""); err == nil {
		t.Errorf("a mapping in the middle of a text must be refused, got %v", v)
	}
}

func TestUnreadableLayerFile(t *testing.T) {
	files := tiny(map[string]string{"apps/web/layers/global/values.yaml": "a: 1\n"})
	tree := fleettest.NewTree(files)
	tree.Fail["apps/web/layers/global/values.yaml"] = errors.New("object is missing")
	f, p := Load(t.Context(), tree, NewCache())
	if f == nil {
		return
	}
	if _, err := f.Values(tinyTarget(t, f, "a"), ""); err == nil {
		t.Errorf("an unreadable values file was taken for a missing one: %v", p)
	}
	if _, err := f.AppendKey(nil, tinyTarget(t, f, "a")); err == nil {
		t.Errorf("an unreadable values file was taken for a missing one in the key: %v", p)
	}
}

func TestBranchesCollide(t *testing.T) {
	for name, output := range map[string]string{
		"environment branch is the trunk": `{environmentBranch: "${environment}"}` + "\n  trunk: dev",
		"cluster below environment":       `{environmentBranch: "x/${environment}", clusterBranch: "x/${cluster.name}/y"}`,
		"same branch":                     `{environmentBranch: "x/${environment}", clusterBranch: "x/d${cluster.name}"}`,
	} {
		files := tiny(map[string]string{
			"sluice.yaml": base +
				"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  environments: [{name: dev}]\n  output: " + output + "\n",
			"clusters/c.yaml": base + "kind: Cluster\nmetadata: {name: ev}\nspec: {environment: dev}\n",
			"clusters/d.yaml": base + "kind: Cluster\nmetadata: {name: dev}\nspec: {environment: dev}\n",
		})
		if p := problemsOf(t, files); p.Err() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestCancelledLoad(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f, p := Load(ctx, fleettest.NewTree(tiny(nil)), NewCache()); f != nil || p.Err() == nil {
		t.Error("a cancelled Load must not give a fleet")
	}
}

func TestRefusedFleets(t *testing.T) {
	fleet := func(spec string) map[string]string {
		return tiny(map[string]string{"sluice.yaml": base + "kind: Fleet\nmetadata: {name: tiny}\nspec:\n" + spec})
	}
	promotion := func(p string) map[string]string {
		return fleet("  environments:\n  - {name: dev}\n  - name: prod\n    after: [dev]\n    promotion: " + p + "\n")
	}
	for name, files := range map[string]map[string]string{
		"no such date":       promotion("{windows: [{dates: [2026-13-01], from: '09:00', to: '10:00'}]}"),
		"empty pattern":      promotion("{health: {commitStatuses: ['']}}"),
		"bad reference":      promotion("{health: {commitStatuses: ['kustomization/${apps}/*']}}"),
		"bad label key":      promotion("{avoidTogether: ['a b']}"),
		"two kinds of check": promotion("{checks: [{name: a, http: {url: 'https://x'}, prometheus: {url: 'https://x', query: up}}]}"),
		"no kind of check":   promotion("{checks: [{name: a}]}"),
		"check from a file":  promotion("{checks: [{name: a, http: {url: 'file:///etc/passwd'}}]}"),
		"check with secret":  promotion("{checks: [{name: a, http: {url: 'https://me:x@y'}}]}"),
		"check of no status": promotion("{checks: [{name: a, http: {url: 'https://y', status: 700}}]}"),
		"two checks":         promotion("{checks: [{name: a, http: {url: 'https://x'}}, {name: a, http: {url: 'https://x'}}]}"),
		"right of nobody":    promotion("{rights: [{verbs: [promote]}]}"),
		"right for nothing":  promotion("{rights: [{verbs: [destroy], users: [x]}]}"),
		"no such role":       promotion("{rights: [{roles: [owner]}]}"),
		"no such failure":    promotion("{onFailure: ignore}"),
		"alone, ignored":     promotion("{onWorkspaceFailure: ignore, health: {commitStatuses: ['a/${app}']}}"),
		"alone, no status":   promotion("{onWorkspaceFailure: rollback, health: {commitStatuses: ['a/*']}}"),
		"alone, approvals":   promotion("{onWorkspaceFailure: rollback, health: {commitStatuses: ['a/${app}']}, approvers: {count: 1}}"),
		"alone, approvers":   promotion("{onWorkspaceFailure: rollback, health: {commitStatuses: ['a/${app}']}, approvers: {teams: [sre]}}"),
		"alone, 2nd person":  promotion("{onWorkspaceFailure: rollback, health: {commitStatuses: ['a/${app}']}, rights: [{users: [x], secondPerson: true}]}"),
		"alone, request":     promotion("{onWorkspaceFailure: rollback, health: {commitStatuses: ['a/${app}']}, mode: request}"),
		"alone, restart":     promotion("{onWorkspaceFailure: rollback, health: {commitStatuses: ['a/${app}']}, restartBake: true}"),
		"percent above 100":  promotion("{waves: [{name: w, percent: 150}]}"),
		"negative count":     promotion("{waves: [{name: w, count: -1}]}"),
		"percent and count":  promotion("{waves: [{name: w, percent: 10, count: 1}]}"),
		"two waves one name": promotion("{waves: [{name: w, percent: 10}, {name: w}]}"),
		"no such day":        promotion("{windows: [{days: [Monday], from: '09:00', to: '10:00'}]}"),
		"freeze":             promotion("{freezes: [{from: '2026-12-20T00:00:00Z', to: '2025-12-20T00:00:00Z'}]}"),
		"no such time":       promotion("{windows: [{days: [Mon], from: '9 o clock', to: '10:00'}]}"),
		"health":             promotion("{health: {healthy: much}}"),
		"status of trust":    fleet("  environments: [{name: dev}, {name: trust}]\n"),
		"status of commits":  fleet("  environments: [{name: dev}, {name: hydrate}]\n"),
		"status of fleets":   fleet("  environments: [{name: dev}, {name: fleets}]\n"),
		"no environments":    fleet("  environments: []\n"),
		"unset in a path":    fleet("  layers: [{name: region, values: ['v/${cluster.labels.zone}/${app}.yaml']}]\n  environments: [{name: dev}]\n"),
		"quoted bool": tiny(map[string]string{"apps/web/app.yaml": base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {helm: {path: c, includeCRDs: yes}}}\n"}),
		"placement label": tiny(map[string]string{"apps/web/app.yaml": base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {matchLabels: {'a b': c}}, source: {helm: {path: c}}}\n"}),
		"long release name": tiny(map[string]string{"apps/web/app.yaml": base + "kind: App\nmetadata: {name: " +
			strings.Repeat("w", 60) + "}\nspec: {namespace: web, placement: {}, source: {helm: {path: c}}}\n"}),
		"namespace": tiny(map[string]string{"apps/web/app.yaml": base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: 'a/b', placement: {}, source: {helm: {path: c}}}\n"}),
		"credentials": tiny(map[string]string{"apps/web/app.yaml": base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {helm: {chart: web, version: 1.0.0, repo: 'https://u:p@example.com'}}}\n"}),
		"empty file": tiny(map[string]string{"clusters/e.yaml": "# nothing\n"}),
		"merge key in vars": tiny(map[string]string{"clusters/e.yaml": base +
			"kind: Cluster\nmetadata: {name: e}\nspec: {environment: dev, vars: {<<: {a: 1}}}\n"}),
	} {
		if p := problemsOf(t, files); p.Err() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAnchorsInVars(t *testing.T) {
	files := tiny(map[string]string{"clusters/e.yaml": base +
		"kind: Cluster\nmetadata: {name: e}\nspec:\n  environment: dev\n  vars:\n    a: &a {x: 1}\n    b: *a\n"})
	if p := problemsOf(t, files); p.Err() != nil {
		t.Error(p)
	}
}

func TestSlashInLayerLabel(t *testing.T) {
	files := tiny(map[string]string{
		"sluice.yaml": base +
			"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  layers: [example.com/zone]\n  environments: [{name: dev}]\n",
		"clusters/b.yaml": base +
			"kind: Cluster\nmetadata: {name: b, labels: {example.com/zone: z1}}\nspec: {environment: dev}\n",
		"apps/web/layers/example.com/zone/z1/values.yaml": "a: 1\n",
	})
	before := mustLoad(t, files, NewCache())
	if n := len(before.ValuesFiles(tinyTarget(t, before, "b"))); n != 1 {
		t.Fatal(n, "layers")
	}
	files["apps/web/layers/example.com/zone/z1/values.yaml"] = "a: 2\n"
	head := mustLoad(t, files, NewCache())
	got := Affected(before, head, []string{"apps/web/layers/example.com/zone/z1/values.yaml"},
		func(*Fleet, Source) []string { return nil })
	if len(got) != 1 {
		t.Errorf("affected: %v", got)
	}
}

func TestValuesBomb(t *testing.T) {
	bomb := fleettest.Bomb()
	f := mustLoad(t, tiny(map[string]string{"apps/web/layers/global/values.yaml": bomb}), NewCache())
	if _, err := f.Values(tinyTarget(t, f, "a"), ""); err == nil {
		t.Error("values take it")
	}
}

func TestRootApp(t *testing.T) {
	files := tiny(map[string]string{
		"sluice.yaml": base +
			"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  files: {apps: [app.yaml]}\n  layers: [region]\n  environments: [{name: dev}]\n",
		"app.yaml": base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {helm: {path: charts/web}}}\n",
		"apps/web/app.yaml": "",
	})
	f := mustLoad(t, files, NewCache())
	if n := len(f.ValuesFiles(tinyTarget(t, f, "a"))); n != 1 {
		t.Errorf("%d fleet-wide files", n)
	}
}

func TestComponentsThatReachBeyondThemselves(t *testing.T) {
	files := tiny(map[string]string{
		"apps/web/layers/region/r1/kustomization.yaml": "kind: Component\nresources: [../../../../../shared]\n",
		"shared/kustomization.yaml":                    "resources: [x.yaml]\n",
		"shared/x.yaml":                                "kind: ConfigMap\n",
	})
	before := mustLoad(t, files, NewCache())
	files["shared/x.yaml"] = "kind: Secret\n"
	after := mustLoad(t, files, NewCache())
	got := Affected(before, after, []string{"shared/x.yaml"}, func(_ *Fleet, s Source) []string {
		if s.Kustomize != nil && s.Kustomize.Path == "apps/web/layers/region/r1" {
			return []string{s.Kustomize.Path, "shared"}
		}
		return nil
	})
	if len(got) != 1 || got[0] != (AffectedTarget{"a", "web", EffectChanged}) {
		t.Errorf("the result of Affected is %v", got)
	}
}

func TestValuesWithEscapedReferencesAreInTheKey(t *testing.T) {
	files := tiny(map[string]string{
		"apps/web/layers/global/values.yaml": "a: \"\\x24{cluster.vars.s}\"\nb: ${cluster.name}\nc: \"${cluster.vars.none:=x\n  y}\"\n",
	})
	f := mustLoad(t, files, NewCache())
	refs, err := f.references("test", "apps/web/layers/global/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range refs {
		names = append(names, r.name)
	}
	slices.Sort(names)
	if want := []string{"cluster.name", "cluster.vars.none", "cluster.vars.s"}; !slices.Equal(names, want) {
		t.Errorf("the names are %v, want %v", names, want)
	}
}

func TestFallbackInsideText(t *testing.T) {
	f := mustLoad(t, tiny(nil), NewCache())
	tg := tinyTarget(t, f, "b")
	for in, want := range map[string]any{
		"p-${cluster.vars.p:=0080}": "p-0080",
		"${cluster.vars.p:=[a, 1]}": []any{"a", int64(1)},
		"${cluster.vars.p:=a: b}":   "a: b",
		"${cluster.vars.p:=*x}":     "*x",
	} {
		if got, err := tg.replace(in); err != nil || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Errorf("%s: the result of replace is %#v, the error is %v", in, got, err)
		}
	}
}

// A file beyond the limit is refused by name, wherever it is.
func TestLargeFiles(t *testing.T) {
	large := "# " + strings.Repeat("x", yamlnode.MaxFile) + "\n"
	for _, name := range []string{"sluice.yaml", "clusters/a.yaml", "apps/web/app.yaml"} {
		p := problemsOf(t, tiny(map[string]string{name: large}))
		if p.Err() == nil || !strings.Contains(p.Error(), name) || !strings.Contains(p.Error(), "limit") {
			t.Errorf("%s: the result of problemsOf is %v", name, p)
		}
	}
	f := mustLoad(t, tiny(map[string]string{"apps/web/layers/global/values.yaml": large}), NewCache())
	if _, err := f.Values(tinyTarget(t, f, "a"), ""); err == nil ||
		!strings.Contains(err.Error(), "apps/web/layers/global/values.yaml") {
		t.Error(err)
	}
}

// The cost of parsing is proportional to the length of a text.
func TestUnfinishedReferencesAreCheap(t *testing.T) {
	for _, part := range []string{"${app:=", "${cluster.vars.x:=${HOME", "${environment:={"} {
		text := strings.Repeat(part, 300_000)
		done := make(chan error, 1)
		go func() {
			references("a: '" + text + "'\n")
			_, err := parseReferences(text)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%s: accepted", part)
			}
		case <-time.After(4 * time.Minute):
			// on an idle machine, a quadratic cost would take longer, a linear one less than a second
			t.Fatalf("%s: takes too long", part)
		}
	}
}
