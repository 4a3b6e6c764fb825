package fleet

import (
	"maps"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// neighbours is a fleet of four workspaces: b may take files from the repository lib, and d is in it.
func neighbours() (own, lib map[string]string) {
	own, lib = small(), map[string]string{}
	own["repositories/lib.yaml"] = base +
		"kind: Repository\nmetadata: {name: lib}\nspec: {url: \"https://x.org/lib\", branch: main}\n"
	own["layers/environment/dev/values.yaml"] = "fleet: 1\n"
	for _, name := range []string{"a", "b", "c", "d"} {
		root, files, more := "workspaces/team-"+name+"/", own, ""
		switch name {
		case "b":
			more = "  sources: {repositories: [lib]}\n"
		case "d":
			root, files, more = "d/", lib, "  repository: lib\n  path: d\n"
		}
		own["workspaces/team-"+name+".yaml"] = base + "kind: Workspace\nmetadata: {name: team-" + name +
			"}\nspec:\n  clusters: {}\n  namespaces: [n-" + name + "-*]\n" + more
		app := func(app, spec string) {
			files[root+"apps/"+app+"/app.yaml"] = base + "kind: App\nmetadata: {name: " + app +
				"}\nspec: {namespace: n-" + name + "-x, placement: {}, " + spec + "}\n"
		}
		app("web", "source: {manifests: {path: m}}")
		app("shop", "source: {helm: {path: chart}}")
		if name == "b" {
			app("lib", "source: {kustomize: {repository: lib, path: d/m}}")
		}
		maps.Copy(files, map[string]string{
			root + "m/x.yaml": "x: 1\n", root + "chart/Chart.yaml": "name: c\n", root + "chart/values.yaml": "a: 1\n",
			root + "shared/one.yaml": "s: 1\n", root + "apps/shop/layers/environment/dev/values.yaml": "v: 1\n",
			root + "layers/environment/prod/values.yaml":         linkTo + "../../../shared/one.yaml",
			root + "apps/shop/layers/environment/prod/more.yaml": "v: 1\n",
			root + "apps/shop/layers/global":                     linkTo + "../../../shared",
			root + "shared/values.yaml":                          "g: 1\n",
		})
	}
	return own, lib
}

// What a change of a workspace's files touches is found although the apps of other workspaces are not looked at.
func TestAffectedIsASupersetAmongWorkspaces(t *testing.T) {
	t.Parallel()
	checked, calm := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 12))
		own, lib := neighbours()
		cache := NewCache()
		read := func() (*Fleet, map[string]string) {
			f, problems := Loader{Cache: cache, Mounts: memMounts{
				own,
				map[string]map[string]string{"lib": lib},
			}}.Load(t.Context(), fleettest.NewTree(own))
			if f == nil {
				t.Fatal(problems)
			}
			all := maps.Clone(own)
			for name, text := range lib {
				all[MountDir+"/lib/"+name] = text
			}
			return f, all
		}
		old, before := read()
		names := sortedKeys(before)
		var changed []string
		for range 1 + r.IntN(2) {
			name := names[r.IntN(len(names))]
			if name == "sluice.yaml" || strings.HasPrefix(name, "clusters/") ||
				strings.HasPrefix(name, "repositories/") {
				continue
			}
			files, local := own, name
			if rest, ok := strings.CutPrefix(name, MountDir+"/lib/"); ok {
				files, local = lib, rest
			}
			switch text := files[local]; {
			case strings.HasPrefix(text, linkTo), r.IntN(5) == 0:
				delete(files, local)
			default:
				files[local] = strings.Replace(text, ": 1", ": 2", 1) + "# edited\n"
			}
			changed = append(changed, name)
		}
		head, after := read()
		named := map[string]bool{}
		for _, a := range Affected(old, head, changed, ownPath) {
			named[a.Cluster+"/"+a.App] = true
		}
		x, y := fingerprints(t, old, before, ownPath), fingerprints(t, head, after, ownPath)
		for k := range maps.Collect(maps.All(x)) {
			switch {
			case x[k] == y[k] && !named[k]:
				calm++
			case x[k] != y[k]:
				checked++
				if !named[k] {
					t.Errorf("seed %d: %v: %s changed and was not named", seed, changed, k)
				}
			}
		}
	}
	if checked < 200 || calm < 2*checked {
		t.Errorf("%d targets changed and %d were left alone: the edits test too little", checked, calm)
	}
}

func ownPath(_ *Fleet, s Source) []string { return []string{path.Clean(s.Path())} }
