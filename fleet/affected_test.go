package fleet

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	helmvalues "helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/getter"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func foreignReach(_ *Fleet, s Source) []string {
	p := s.Path()
	if s.Kustomize != nil && (strings.HasPrefix(p, "overlays/") || strings.HasPrefix(p, "layers/")) {
		return []string{p, "shared"}
	}
	return []string{p}
}

// fingerprints returns everything that the rendering of each target reads. Sources and components read what reach
// returns.
func fingerprints(t *testing.T, f *Fleet, files map[string]string, reach Reach) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, target := range f.Targets() {
		key, err := f.AppendKey(nil, target)
		if err != nil {
			key = []byte(err.Error())
		}
		resolved, err := f.Resolve(target)
		if err != nil {
			key = append(key, err.Error()...)
		}
		reads := []string{}
		for _, s := range resolved.Sources {
			reads = append(reads, reach(f, s)...)
		}
		for _, c := range f.Components(target) {
			reads = append(reads, reach(f, Source{Kustomize: &PathSource{Path: c.Path}})...)
		}
		for _, r := range reads {
			for _, name := range sortedKeys(files) {
				if isBelow(name, r) {
					key = append(key, name+"\x00"+files[name]...)
				}
			}
		}
		out[target.String()] = string(key)
	}
	return out
}

func TestAffectedIsASupersetInForeignLayouts(t *testing.T) {
	checked := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 11))
		before := fleettest.Foreign()
		if seed%2 == 1 {
			maps.Copy(before, map[string]string{
				"env/c1.yaml": linkTo + "../common/one.yaml", "env/c2.yaml": linkTo + "c1.yaml",
				"env/c3.yaml":     linkTo + "../common/deep/three.yaml",
				"common/one.yaml": "a: 1\n", "common/two.yaml": "a: 7\n", "common/deep": linkTo + "../elsewhere",
				"elsewhere/three.yaml": "a: 1\n", "other/three.yaml": "a: 9\n",
				"charts/two": linkTo + "../linked/two", "linked/two/values-dev.yaml": "a: 1\n",
				"linked/two/values-dev.main.yaml": "b: 1\n",
				"overlays/dev/two":                linkTo + "../../shared",
			})
			for _, name := range []string{
				"charts/two/values-dev.yaml", "charts/two/values-dev.main.yaml",
				"charts/two/values-prod.yaml", "charts/two/values-prod.main.yaml",
				"overlays/dev/two/kustomization.yaml",
			} {
				delete(before, name)
			}
		}
		after := maps.Clone(before)
		names := sortedKeys(before)
		var changed []string
		for range 1 + r.IntN(3) {
			name := names[r.IntN(len(names))]
			switch r.IntN(4) {
			case 0:
				if name != "sluice.yaml" {
					delete(after, name)
				}
			case 1:
				name = fmt.Sprintf("env/c%d.main.yaml", r.IntN(6))
				after[name] = "n: 1\n"
			case 2:
				name = []string{
					"common/one.yaml", "elsewhere/three.yaml", "linked/two/values-dev.yaml", "common/deep",
					"env/c1.yaml", "charts/two", "overlays/dev/two",
				}[r.IntN(7)]
				if seed%2 == 1 {
					after[name] = strings.NewReplacer("one.yaml", "two.yaml", "../elsewhere", "../other", "linked/two",
						"charts/one", "../../shared", "../../k/dev", "a: 1", "a: 3").Replace(before[name])
				}
			default:
				if strings.HasPrefix(before[name], linkTo) {
					continue
				}
				after[name] = strings.NewReplacer("zone: z1", "zone: z2", "file: f", "file: g", "environment: dev",
					"environment: prod", "a: 1", "a: 2").Replace(before[name]) + "# edited\n"
			}
			changed = append(changed, name)
		}
		cache := NewCache()
		old := mustLoad(t, before, cache)
		head, _ := Load(t.Context(), fleettest.NewTree(after), cache)
		if head == nil {
			continue
		}
		named := map[string]bool{}
		for _, a := range Affected(old, head, changed, foreignReach) {
			named[a.Cluster+"/"+a.App] = true
		}
		x, y := fingerprints(t, old, before, foreignReach), fingerprints(t, head, after, foreignReach)
		all := maps.Clone(x)
		maps.Copy(all, y)
		for k := range all {
			if x[k] != y[k] {
				checked++
				if !named[k] {
					t.Errorf("seed %d: %v: %s changed and was not named", seed, changed, k)
				}
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d targets changed: the edits test too little", checked)
	}
}

// A change of one cluster's file affects only that cluster.
func TestAffectedIsNotEverything(t *testing.T) {
	files := fleettest.Big()
	cache := NewCache()
	before := mustLoad(t, files, cache)
	changed := "apps/app00/layers/cluster/c0007/values.yaml"
	files[changed] = "env: {F: other}\n"
	after := mustLoad(t, files, cache)
	got := Affected(before, after, []string{changed}, func(_ *Fleet, s Source) []string { return []string{s.Path()} })
	if want := []AffectedTarget{{"c0007", "app00", EffectChanged}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%d: the result of Affected is %v", len(got), got)
	}
}

func BenchmarkAffectedOneFile(b *testing.B) {
	files, cache := fleettest.Big(), NewCache()
	before := mustLoad(b, files, cache)
	changed := "apps/app00/layers/cluster/c0007/values.yaml"
	files[changed] = "env: {F: other}\n"
	after := mustLoad(b, files, cache)
	for b.Loop() {
		Affected(before, after, []string{changed}, func(_ *Fleet, s Source) []string { return []string{s.Path()} })
	}
}

// Merges the same files with Helm's own code for -f.
func TestValuesEqualHelms(t *testing.T) {
	texts := []string{
		"a: {b: 1, c: [1, 2], d: {e: 1.5, f: 010}}\nbig: 12345678901234567890\non: yes\nwhen: 2020-01-01\ns: '1'\n",
		"a: {c: null, d: {g: 0x1F, f: 1e3}}\nbig: null\n",
		"a: {b: {x: 1}, c: {y: 2}}\n1: number\n",
		"# nothing\n",
		"a: {b: 2, d: null}\nlist: [a: 1, b]\n",
	}
	files := tiny(map[string]string{"layers/region/r1/values.yaml": "", "sluice.yaml": base +
		"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  layers: [{name: cluster, values: [v/0.yaml, v/1.yaml, v/2.yaml, v/3.yaml, v/4.yaml]}]\n  environments: [{name: dev}]\n"})
	dir := t.TempDir()
	options := helmvalues.Options{}
	for i, text := range texts {
		name := fmt.Sprintf("v/%d.yaml", i)
		files[name] = text
		local := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(local, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		options.ValueFiles = append(options.ValueFiles, local)
	}
	want, err := options.MergeValues(getter.Providers{})
	if err != nil {
		t.Fatal(err)
	}
	f := mustLoad(t, files, NewCache())
	got, err := f.Values(tinyTarget(t, f, "a"), "")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the result of Values is %#v, the error is %v\nwant %#v", got, err, want)
	}
}

// isBelow gives the same answer as changes.touch for one path, without its index.
func isBelow(name, read string) bool { return name == read || strings.HasPrefix(name, read+"/") }

func BenchmarkAffectedManyFiles(b *testing.B) {
	files, cache := fleettest.Big(), NewCache()
	before := mustLoad(b, files, cache)
	var changed []string
	for i := range 10_000 {
		changed = append(changed, fmt.Sprintf("elsewhere/%d/file%d.yaml", i%100, i))
	}
	reads := make([]string, 1000)
	for i := range reads {
		reads[i] = fmt.Sprintf("charts/web/templates/%d.yaml", i)
	}
	for b.Loop() {
		if got := Affected(before, before, changed, func(*Fleet, Source) []string { return reads }); len(got) != 0 {
			b.Fatal(len(got))
		}
	}
}
