package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// differing divides the paths in which two sets of files differ, as a caller of Moved does. It returns false if a link
// differs, or if a path is a file of one set and a folder of the other.
func differing(before, after map[string]string) (edited, others []string, ok bool) {
	isLink := func(text string) bool { return strings.HasPrefix(text, linkTo) }
	for _, name := range slices.Compact(slices.Sorted(maps.Keys(union(before, after)))) {
		x, inBefore := before[name]
		y, inAfter := after[name]
		switch {
		case inBefore && inAfter && x == y:
		case isLink(x) || isLink(y):
			return nil, nil, false
		case inBefore && inAfter:
			edited = append(edited, name)
		default:
			others = append(others, name)
		}
	}
	return edited, others, true
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// described returns what a fleet says about itself and its targets, with what the rendering of each target reads.
func described(t *testing.T, f *Fleet, problems Problems, files map[string]string) []string {
	t.Helper()
	spec := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	out := []string{f.Name, spec(f.Spec), problems.Error()}
	for _, p := range problems {
		out = append(out, p.String())
	}
	for _, c := range f.Clusters {
		out = append(out, fmt.Sprintln(c.Name, c.Environment, c.Class, c.Labels, c.Vars, c.KubeVersion, c.APIVersions,
			c.State, c.File))
	}
	for _, w := range f.Workspaces {
		out = append(out, fmt.Sprintf("%s %s %s:%d %s %v", w.Name, spec(w.Spec), w.File, w.Line, w.Root, w.Err))
	}
	for _, a := range f.Apps {
		out = append(out, fmt.Sprintln(a.Name, a.File, a.Dir, a.localName(), spec(a.Spec)))
	}
	for _, target := range f.Targets() {
		out = append(out, fmt.Sprint(target, f.ValuesFiles(target), f.Components(target)))
	}
	// values and digests fail where references are not set, for both in the same way
	for _, target := range f.Targets() {
		values, err := f.Values(target, "")
		key, keyErr := f.AppendKey(nil, target)
		out = append(out, fmt.Sprintf("%v %v %q %v", values, err, key, keyErr))
	}
	seen := fingerprints(t, f, files, ownPath)
	for _, name := range sortedKeys(seen) {
		out = append(out, name+"="+seen[name])
	}
	return out
}

// linkedTenants is a fleet with workspaces in its own folders, with links.
func linkedTenants() map[string]string {
	own, _ := neighbours()
	delete(own, "repositories/lib.yaml")
	delete(own, "workspaces/team-d.yaml")
	for name, text := range own {
		own[name] = strings.Replace(text, "  sources: {repositories: [lib]}\n", "", 1)
	}
	delete(own, "workspaces/team-b/apps/lib/app.yaml")
	own["clusters/c.yaml"] = linkTo + "../shared/c.yaml"
	own["shared/c.yaml"] = cluster("c", "prod", "base", "us", "size: 7")
	return own
}

// A fleet that is taken from another tree equals the one that Load reads, with all warnings.
func TestMovedFleetsEqualLoaded(t *testing.T) {
	t.Parallel()
	fleets := []func() map[string]string{small, fleettest.Foreign, linkedTenants}
	moved, again := make([]int, len(fleets)), 0
	texts := []string{"a: 1\n", "replicas: 3\n# edited\n", "x: ${cluster.name}\n", base +
		"kind: App\nmetadata: {name: more}\nspec: {namespace: more, placement: {}, source: {manifests: {path: m}}}\n"}
	places := []string{
		"apps/web/layers/region/eu/values.yaml", "apps/web/layers/region/nowhere/values.yaml",
		"apps/web/layers/cluster/a/kustomization.yaml", "layers/region/eu/values.yaml",
		"layers/typo/eu/values.yaml", "apps/more/app.yaml", "clusters/more.yaml",
		"workspaces/team-a/apps/more/app.yaml", "workspaces/team-a/apps/web/layers/global/values.yaml",
		"workspaces/more.yaml", "repositories/more.yaml", "charts/web/Chart.yaml", "README.md", "fleet/more.yaml",
		"infra/deep/er/more.yaml", "env/c3.yaml", "workspaces/team-a/m/y.yaml",
	}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 21))
		which := int(seed) % len(fleets)
		before := fleets[which]()
		f, problems := Load(t.Context(), fleettest.NewTree(before), NewCache())
		if f == nil {
			t.Fatal(problems)
		}
		for range 3 { // from one fleet to the next
			after := maps.Clone(before)
			names := sortedKeys(before)
			for range 1 + r.IntN(2) {
				name := names[r.IntN(len(names))]
				switch r.IntN(4) {
				case 0:
					delete(after, name)
				case 1:
					name = places[r.IntN(len(places))]
					after[name] = texts[r.IntN(len(texts))]
				default:
					if !strings.HasPrefix(after[name], linkTo) {
						after[name] = strings.NewReplacer("environment: dev", "environment: prod", ": 1",
							": 2").Replace(after[name]) + "# edited\n"
					}
				}
			}
			edited, others, ok := differing(before, after)
			if !ok {
				break
			}
			tree := fleettest.NewTree(after)
			got, gotProblems := Moved(f, tree, NewCache(), edited, others)
			want, wantProblems := Load(t.Context(), fleettest.NewTree(after), NewCache())
			if got == nil {
				if again++; want == nil {
					break
				}
				f, before = want, after
				continue
			}
			if want == nil {
				t.Fatalf("seed %d: %v, %v: the fleet does not load: %v", seed, edited, others, wantProblems)
			}
			x, y := described(t, got, gotProblems, after), described(t, want, wantProblems, after)
			for i := range min(len(x), len(y)) {
				if x[i] != y[i] {
					t.Fatalf("seed %d: %v, %v:\n%s\nloaded:\n%s", seed, edited, others, x[i], y[i])
				}
			}
			if len(x) != len(y) {
				t.Fatalf("seed %d: %v, %v: %d facts, %d loaded", seed, edited, others, len(x), len(y))
			}
			moved[which]++
			f, before = got, after
		}
	}
	if slices.Min(moved) < 30 || again < 50 {
		t.Errorf("moved %v, read again %d: the edits test too little", moved, again)
	}
}

// Every field of a fleet is either shared or named here.
func TestMovedFleetsHaveAllFields(t *testing.T) {
	t.Parallel()
	f := mustLoad(t, linkedTenants(), NewCache())
	got, _ := Moved(f, f.tree.Tree, f.cache, []string{"layers/environment/dev/values.yaml"}, nil)
	if got == nil {
		t.Fatal("not moved")
	}
	own := []string{"tree", "exists", "ids", "perApp"}
	x, y := reflect.ValueOf(f).Elem(), reflect.ValueOf(got).Elem()
	for i := range x.NumField() {
		if name := x.Type().Field(i).Name; !slices.Contains(own, name) &&
			fmt.Sprintf("%v", x.Field(i)) != fmt.Sprintf("%v", y.Field(i)) {
			t.Errorf("the field %s differs", name)
		}
	}
}

// What a fleet was read from besides its tree is not known, so such a fleet is read again.
func TestFleetsThatAreNotMoved(t *testing.T) {
	t.Parallel()
	own, lib := neighbours()
	f, problems := Loader{Mounts: memMounts{own, map[string]map[string]string{"lib": lib}}}.Load(t.Context(),
		fleettest.NewTree(own))
	if f == nil {
		t.Fatal(problems)
	}
	broken := linkedTenants()
	broken["workspaces/team-a/apps/web/app.yaml"] = "kind: Nothing\n"
	for name, f := range map[string]*Fleet{
		"with another repository":      f,
		"with an error in a workspace": mustLoad(t, broken, NewCache()),
	} {
		if got, _ := Moved(f, f.tree.Tree, f.cache, []string{"README.md"}, nil); got != nil {
			t.Errorf("a fleet %s was moved", name)
		}
	}
	f = mustLoad(t, linkedTenants(), NewCache())
	for _, decisive := range []string{
		"sluice.yaml", "clusters/a.yaml", "shared/c.yaml", "workspaces/team-a.yaml",
		"workspaces/team-a/apps/web/app.yaml",
	} {
		if got, _ := Moved(f, f.tree.Tree, f.cache, []string{decisive}, nil); got != nil {
			t.Errorf("the fleet was moved although %s differs", decisive)
		}
	}
	for _, declared := range []string{
		"clusters/x.yaml", "apps/x/app.yaml", "workspaces/x.yaml",
		"workspaces/team-b/apps/x/app.yaml", "repositories/x.yaml",
	} {
		if got, _ := Moved(f, f.tree.Tree, f.cache, nil, []string{declared}); got != nil {
			t.Errorf("the fleet was moved although %s is new", declared)
		}
	}
}
