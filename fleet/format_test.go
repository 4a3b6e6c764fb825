package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func everydayTarget(tb testing.TB, f *Fleet, cluster, app string) Target {
	tb.Helper()
	a, ok := f.App(app)
	c, ok2 := f.Cluster(cluster)
	if !ok || !ok2 {
		tb.Fatalf("no %s on %s", app, cluster)
	}
	return Target{a, c}
}

func TestEverydayFormat(t *testing.T) {
	f := load(t, fleettest.Everyday())
	var targets []string
	for _, target := range f.Targets() {
		targets = append(targets, target.String())
	}
	if want := []string{"a/web", "b/plain", "b/web"}; !slices.Equal(targets, want) {
		t.Errorf("targets are %v, not %v", targets, want)
	}
	for _, c := range []struct{ cluster, app, version, values string }{
		{"a", "web", "1.10", `{"global":{"all":true},"image":{"tag":"1.10"},"team":"core"}`},
		{"b", "web", "2.0.0", `{"chartVersion":"2.0.0","global":{"all":true},"image":{"tag":"1.9"},"resources":{"limits":{"cpu":1}},"team":"core"}`},
		{"b", "plain", "1.0.0", `{"region":"us"}`},
	} {
		s, err := f.Select(everydayTarget(t, f, c.cluster, c.app))
		if err != nil {
			t.Errorf("the cluster is %s/the app is %s: the error is %v", c.cluster, c.app, err)
			continue
		}
		values, err := s.MergedValues(s.Sources[0].Name)
		text, _ := json.Marshal(values)
		if err != nil || s.Sources[0].Helm.Version != c.version || s.Sources[0].Helm.VersionFrom != nil ||
			string(text) != c.values {
			t.Errorf("%s/%s: version %s, values %s, %v", c.cluster, c.app, s.Sources[0].Helm.Version, text, err)
		}
	}
}

func TestEverydayFormatIsChecked(t *testing.T) {
	for name, c := range map[string]struct{ file, from, to, want string }{
		"unknown environment": {
			"apps/web/app.yaml", "prod:", "prd:",
			"apps/web/app.yaml:11:7: error: app web: the environment \"prd\" does not exist, did you mean prod?",
		},
		"unknown layer": {
			"apps/plain/app.yaml", "[environment, global]", "[environments]",
			`app plain: the layer "environments" does not exist, did you mean environment?`,
		},
		"file and value": {
			"apps/web/app.yaml", "{value: chartVersion}", "{value: v, file: x}",
			"exactly one of file and value",
		},
		"key without file": {
			"apps/web/app.yaml", "{value: chartVersion}", "{value: v, key: x}",
			"versionFrom.key belongs to versionFrom.file",
		},
		"version twice": {
			"apps/web/app.yaml", "{value: chartVersion}", "{value: v}, version: 1.0.0",
			"both version and versionFrom",
		},
		"bad selector": {
			"apps/web/app.yaml", "{region: us}", "{region: '../'}",
			"cannot be the value of a label",
		},
		"bad source": {
			"apps/web/app.yaml", "manifests: {path: extra}", "manifests: {path: ../extra}",
			"apps/web/app.yaml:14:11: error: the path \"../extra\" leaves the repository",
		},
		"path leaves": {"apps/web/app.yaml", "versions/${environment}.yaml", "../x", "leaves the repository"},
		"bad key":     {"sluice.yaml", "at: image.tag", "at: image..tag", `"image..tag" is not a key`},
		"unset variable": {
			"sluice.yaml", "${app.vars.team:=none}", "${app.vars.team}",
			"layer environment: ${app.vars.team} is not set for app plain",
		},
		"no path": {
			"sluice.yaml", `path: "image-tags/${environment}/${app}", `, "",
			"spec.layers[1].values[1].path is missing",
		},
		"variable of a layer":  {"apps/web/app.yaml", "team: core", "team: ../../x", "leaves the repository"},
		"placement is missing": {"apps/web/app.yaml", "  placement: {}\n", "", "spec.placement is missing"},
	} {
		files := fleettest.Everyday()
		before := files[c.file]
		if files[c.file] = strings.Replace(before, c.from, c.to, 1); files[c.file] == before {
			t.Fatalf("%s: nothing to replace", name)
		}
		_, problems := Load(t.Context(), mapFS(files), NewCache())
		if !strings.Contains(problems.Error(), c.want) {
			t.Errorf("%s: want %q, got\nthe error is\n%s", name, c.want, problems.Error())
		}
	}
}

// Without strict duplicate keys, the last one wins.
func TestDuplicateKeysThatAreAllowed(t *testing.T) {
	files := fleettest.Everyday()
	files["apps/web/layers/region/us/values.yaml"] = "chartVersion: \"1.0.0\"\nchartVersion: \"2.0.0\"\n"
	files["sluice.yaml"] += "  strict: {duplicateKeys: false}\n"
	f := load(t, files)
	if s, err := f.Select(everydayTarget(t, f, "b", "web")); err != nil || s.Sources[0].Helm.Version != "2.0.0" {
		t.Errorf("with spec.strict.duplicateKeys: false: %v, %+v", err, s.Sources)
	}
}

// Changes each input, one at a time. Affected and the digest select exactly the targets that use it.
func TestEveryInputAffectsItsTargets(t *testing.T) {
	reach := func(_ *Fleet, s Source) []string { return []string{s.Path()} }
	for _, c := range []struct {
		file, from, to string
		want           string
	}{
		{"teams/core/values.yaml", "core", "base", "a/web b/web"},
		{"image-tags/dev/web", "1.10", "1.11", "a/web"},
		{"image-tags/prod/web", "1.9", "1.8", "b/web"},
		{"image-tags/prod/plain", "9", "10", ""},
		{"limits/prod.yaml", "1", "2", "b/web"},
		{"versions/dev.yaml", "1.10", "1.11", "a/web"},
		{"layers/global/values.yaml", "true", "false", "a/web b/web"},
		{"apps/web/layers/region/us/values.yaml", "2.0.0", "2.0.1", "b/web"},
		{"apps/plain/layers/region/us/values.yaml", "us", "eu", "b/plain"},
		{"apps/plain/layers/global/values.yaml", "true", "false", ""},
		{"apps/web/app.yaml", "team: core", "team: none", "a/web b/web"},
		{"apps/web/app.yaml", "value: chartVersion", "value: other", "b/web"},
		{"apps/web/app.yaml", "path: extra", "path: other", "b/web"},
		{"apps/web/app.yaml", "key: \"charts.${app}\"", "key: other", "a/web"},
		{"apps/web/app.yaml", "{region: us}", "{region: eu}", "b/web"},
		{"apps/plain/app.yaml", "[environment, global]", "[environment]", "b/plain"},
		{"apps/plain/app.yaml", "{region: nowhere}", "{region: eu}", "a/plain"},
		{"apps/plain/app.yaml", "spec:", "spec:\n  delivery: {project: x}", ""},
		{"sluice.yaml", "project: platform", "project: other", ""},
		{"sluice.yaml", "at: image.tag", "at: image.version", "a/web b/web"},
		{"sluice.yaml", "  delivery", "  sync: flux\n  flux: {forceHookJobs: true}\n  delivery", "a/web b/plain b/web"},
		{"sluice.yaml", "  delivery", "  sync: argocd\n  flux: {forceHookJobs: true}\n  delivery", ""},
		{"sluice.yaml", "  delivery", "  kinds: {cluster: [Thing.example.com]}\n  delivery", "a/web b/plain b/web"},
	} {
		before, after := fleettest.Everyday(), fleettest.Everyday()
		after[c.file] = strings.Replace(before[c.file], c.from, c.to, 1)
		if after[c.file] == before[c.file] {
			t.Fatalf("%s: nothing to replace", c.file)
		}
		cache := NewCache()
		old, err := Load(t.Context(), mapFS(before), cache)
		if old == nil {
			t.Fatal(err)
		}
		now, err := Load(t.Context(), mapFS(after), cache)
		if now == nil {
			t.Fatalf("%s: the error is %v", c.file, err)
		}
		named := map[string]bool{}
		for _, a := range Affected(old, now, []string{c.file}, reach) {
			named[a.Cluster+"/"+a.App] = true
		}
		differ := map[string]bool{}
		was, is := keysOf(old), keysOf(now)
		for name := range maps.Keys(was) {
			differ[name] = was[name] != is[name]
		}
		for name := range maps.Keys(is) {
			differ[name] = was[name] != is[name]
		}
		for name, changed := range differ {
			if changed && !named[name] {
				t.Errorf("%s, %s: %s renders otherwise and is not affected", c.file, c.to, name)
			}
			if changed != strings.Contains(" "+c.want+" ", " "+name+" ") {
				t.Errorf("%s, %s: %s renders otherwise: %t, want %q", c.file, c.to, name, changed, c.want)
			}
		}
	}
}

// keysOf returns the keys of all targets. If a key cannot be computed, its error takes its place.
func keysOf(f *Fleet) map[string]string {
	out := map[string]string{}
	for _, t := range f.Targets() {
		key, err := f.AppendKey(nil, t)
		if err != nil {
			key = fmt.Append(nil, err)
		}
		out[t.String()] = string(key)
	}
	return out
}
