package fleet

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-gitops/sluice/internal/memo"
)

// readingTree notes the files that are read and the folders that are listed.
type readingTree struct {
	*memTree
	mu    sync.Mutex
	names map[string]bool
}

func (r *readingTree) note(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[name] = true
}

func (r *readingTree) ReadFile(name string) ([]byte, error) {
	r.note(name)
	return r.memTree.ReadFile(name)
}

// keptFleet has clusters in one file, with comments, of every style, and workspaces.
func keptFleet() map[string]string {
	clusters := "# all\n"
	for i := range 20 {
		clusters += fmt.Sprintf("---\n\n# number %d\n%skind: Cluster\nmetadata: {name: c-%02d, labels: {region: r%d}}\nspec: {environment: dev, vars: {count: %d, f: 0.5, b: true, l: [1, a, {x: null}], m: {}, e: []}}\n", i, base, i, i%3, i)
	}
	files := tenants(map[string]string{
		"clusters/many.yaml":   clusters,
		"clusters/edge.yaml":   base + "kind: ClusterClass\nmetadata:\n  name: edge\nspec:\n  labels: {tier: edge}\n  apiVersions:\n    - monitoring.coreos.com/v1\n",
		"clusters/parsed.yaml": base + "kind: Cluster\nmetadata: {name: parsed}\nspec:\n  environment: &e dev\n  vars: {e: *e}\n",
	})
	for i := range 20 {
		name := fmt.Sprintf("app-%02d", i)
		files["workspaces/team-a/apps/"+name+"/app.yaml"] = workspaceApp(name, "source: {helm: {path: charts/web}}")
	}
	files["workspaces/team-a/apps/app-03/layers/regin/r1/values.yaml"] = "a: b\n"
	return files
}

// A run that takes declarations from earlier runs gets the fleet, the warnings and the errors of one that reads everything.
func TestKeptDeclarations(t *testing.T) {
	t.Parallel()
	wrong := keptFleet()
	wrong["clusters/wrong.yaml"] = base + "kind: Cluster\nmetadata: {name: c-03}\nspec: {environment: dve}\n"
	stranger := keptFleet()
	stranger["workspaces/team-a/apps/app-01/app.yaml"] = workspaceApp("app-02", "source: {helm: {path: charts/web}}")
	linked := keptFleet()
	linked["workspaces/team-a/apps/app-07/app.yaml"] = linkTo + "../../../../clusters/parsed.yaml"
	edited := keptFleet()
	edited["workspaces/team-a/apps/app-09/app.yaml"] = workspaceApp("app-09", "dependsOn: [app-03]\n  source: {helm: {path: charts/web}}")
	edited["clusters/new.yaml"] = base + "kind: Cluster\nmetadata: {name: new}\nspec: {environment: dev}\n"
	wantRead := map[string][]string{"valid": nil, "edited": {"clusters/new.yaml", "workspaces/team-a/apps/app-09/app.yaml"}} // beside what a parser reads
	for name, files := range map[string]map[string]string{"valid": keptFleet(), "all fields": fullFleet(), "an error": wrong, "an error of a workspace": stranger, "a link": linked, "edited": edited} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "kept")
			load := func(memory *memo.File, files map[string]string) (*Fleet, Problems, map[string]bool) {
				tree := &readingTree{memTree: newMemTree(files), names: map[string]bool{}}
				f, problems := Load(t.Context(), tree, NewCache().Keeping(memory))
				return f, problems, tree.names
			}
			for range 2 { // the first run in a place keeps nothing
				m := memo.Open(file, "build")
				_, _, _ = load(m, keptFleet())
				_, _, _ = load(m, fullFleet())
				if err := m.Save(); err != nil {
					t.Fatal(err)
				}
			}
			want, problems, all := load(nil, files)
			got, again, read := load(memo.Open(file, "build"), files)
			if !reflect.DeepEqual(texts(again), texts(problems)) {
				t.Errorf("the problems are\n%s\nwant\n%s", texts(again), texts(problems))
			}
			if (got == nil) != (want == nil) || want != nil && !sameFleet(t, got, want) {
				t.Error("the fleets differ")
			}
			if extra, ok := wantRead[name]; ok && !slices.Equal(slices.Sorted(maps.Keys(read)), slices.Sorted(slices.Values(append(extra, "clusters/parsed.yaml", "sluice.yaml", "workspaces/team-a.yaml")))) {
				t.Errorf("read %q", slices.Sorted(maps.Keys(read)))
			}
			if name == "valid" && len(all) < 20 {
				t.Errorf("without memory only %d files are read", len(all))
			}
		})
	}
}

func texts(problems Problems) []string {
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%s:%d:%d %s %s", p.File, p.Line, p.Column, p.Message, p.Hint))
	}
	return out
}

func sameFleet(t *testing.T, a, b *Fleet) bool {
	t.Helper()
	same := len(a.Clusters) == len(b.Clusters) && len(a.Apps) == len(b.Apps) && len(a.Workspaces) == len(b.Workspaces)
	for i := range a.Clusters {
		x, y := *a.Clusters[i], *b.Clusters[i]
		same = same && x.doc.line == y.doc.line && x.doc.node().Line == y.doc.node().Line
		x.doc, y.doc = document{}, document{}
		same = same && reflect.DeepEqual(x, y)
	}
	for i := range a.Apps {
		x, y := a.Apps[i], b.Apps[i]
		same = same && x.Name == y.Name && x.File == y.File && x.Dir == y.Dir && x.doc.line == y.doc.line && reflect.DeepEqual(x.Spec, y.Spec)
	}
	for i := range a.Workspaces {
		x, y := a.Workspaces[i], b.Workspaces[i]
		same = same && x.Name == y.Name && x.Line == y.Line && reflect.DeepEqual(x.Spec, y.Spec) && fmt.Sprint(x.Err) == fmt.Sprint(y.Err)
	}
	return same
}

// Whatever a file has, reading it ends.
func FuzzKept(f *testing.F) {
	for name, text := range keptFleet() {
		if data, ok := encodeKept(decodeFile(name, []byte(text))); ok {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := decodeKept("file", data)
		if err != nil {
			return
		}
		if _, ok := encodeKept(out); len(out.documents) > 0 && !ok {
			t.Error("what was read cannot be kept again")
		}
	})
}

// Every field of a kind that is kept can be kept.
func TestKeptKinds(t *testing.T) {
	t.Parallel()
	var check func(at string, typ reflect.Type)
	check = func(at string, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			check(at, typ.Elem())
		case reflect.Map:
			if typ.Key() != reflect.TypeFor[string]() {
				t.Errorf("%s has keys of type %s", at, typ.Key())
			}
			check(at, typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				if f.IsExported() {
					check(at+"."+f.Name, f.Type)
				} else {
					t.Errorf("%s.%s is not exported, and cannot be set", at, f.Name)
				}
			}
		case reflect.String, reflect.Bool, reflect.Int, reflect.Uint8:
		case reflect.Interface:
			if typ.NumMethod() > 0 {
				t.Errorf("%s has methods", at)
			}
		default:
			t.Errorf("%s is a %s", at, typ.Kind())
		}
	}
	for _, kind := range []string{"ClusterClass", "Cluster", "App", "Workspace"} {
		value := newFile(kind)
		if kindOf(value) != kind {
			t.Errorf("%s is called %q", kind, kindOf(value))
		}
		check(kind, reflect.TypeOf(value).Elem())
	}
}
