package index

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

func refresh(t *testing.T, r *hydratetest.Repo, x *Index) (*Index, Stats) {
	t.Helper()
	h := r.Hydrator(1)
	out, stats, err := Fleet(t.Context(), x, h, r.Resolve("HEAD").Tree, true)
	if err != nil {
		t.Fatal(err)
	}
	return out, stats
}

func found(x *Index, q Query) string {
	hits, total := x.Search(q, 0)
	var out []string
	for _, h := range hits {
		out = append(out, h.Cluster+"/"+h.App)
	}
	if len(out) != total {
		return "the total is wrong"
	}
	return strings.Join(out, " ")
}

func TestSearch(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	x, stats := refresh(t, r, nil)
	if x.Targets() != 25 || stats.Clusters != 7 || stats.Trees == 0 || stats.Objects < stats.Trees {
		t.Errorf("%d targets, %+v", x.Targets(), stats)
	}
	for want, q := range map[string]Query{
		"dev-1/shop prod-eu-1/shop prod-us-1/shop staging-1/shop": {Object: "deployment shop/shop"},
		"dev-1/monitor dev-edge-1/monitor":                        {Image: "COLLECTOR 2.0-rc1"},
		"prod-edge-1/gateway prod-eu-1/gateway prod-us-1/gateway": {Type: "policy/v1 PodDisruptionBudget"},
		"prod-eu-1/shop": {Chart: "web 1.4.0", Value: "replicas", Object: "Deployment shop/shop", Any: "x"},
		"":               {Image: "log4j 2.14"},
		"dev-1/shop prod-eu-1/shop prod-us-1/shop staging-1/shop ":                          {Namespace: "shop"},
		"dev-1/shop prod-eu-1/shop prod-us-1/shop staging-1/shop  ":                         {Value: "config.currency"},
		"dev-1/gateway dev-1/shop dev-edge-1/gateway prod-edge-1/gateway prod-eu-1/gateway": {Chart: "web 1.4.0"},
	} {
		if q.Any != "" {
			q.Any = "nothing of this name"
			want = ""
		}
		got := found(x, q)
		if want = strings.TrimSpace(want); got != want && (q.Chart == "" || !strings.HasPrefix(got, want)) {
			t.Errorf("%+v finds %q, want %q", q, got, want)
		}
	}
	checkLists(t, x)
}

// checkLists checks what an index lists besides the results of a search.
func checkLists(t *testing.T, x *Index) {
	t.Helper()
	if got := found(x, Query{Any: "kustomize/monitor/overlays/prod"}); got != "prod-edge-1/monitor prod-eu-1/monitor prod-us-1/monitor" {
		t.Errorf("any: %q", got)
	}
	hits, total := x.Search(Query{Type: "Deployment"}, 2)
	if len(hits) != 2 || total < 4 || len(hits[0].Matches) == 0 {
		t.Errorf("%v of %d", hits, total)
	}
	inventory, more := x.Inventory(2, Image, Chart)
	if len(inventory) != 4 || more == 0 || inventory[0].Kind != Image || inventory[2].Kind != Chart ||
		inventory[2].Text != "web 1.4.0" || inventory[2].Targets != 11 ||
		!slices.Equal(inventory[2].Apps, []AppCount{{"gateway", 7}, {"shop", 4}}) {
		t.Errorf("inventory %v and %d more", inventory, more)
	}
}

// TestUpdateFollowsTheChange: an index that was updated equals one that is built anew, and reads only what changed.
func TestUpdateFollowsTheChange(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	x, _ := refresh(t, r, nil)
	if again, stats := refresh(t, r, x); again != x || stats != (Stats{}) {
		t.Errorf("an update without a change did something: %+v", stats)
	}
	for i := range 8 {
		r.Write("apps/shop/layers/cluster/prod-eu-1/values.yaml",
			fmt.Sprintf("replicas: 6\nimage: {tag: \"9.%d\"}\n", i))
		r.Commit("change")
		r.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"prod"} })
		next, stats := refresh(t, r, x)
		if stats.Clusters != 1 || stats.Trees != 1 {
			t.Errorf("one app of one cluster changed: %+v", stats)
		}
		if old := found(x, Query{Image: fmt.Sprintf(":9.%d", i)}); old != "" {
			t.Errorf("the earlier index changed: %q", old)
		}
		fresh, _ := refresh(t, r, nil)
		for _, q := range []Query{
			{Image: fmt.Sprintf(":9.%d", i)},
			{Image: fmt.Sprintf(":9.%d", i-1)},
			{Any: "shop"},
			{Value: "image.tag"},
			{Chart: "web"},
		} {
			if a, b := found(next, q), found(fresh, q); a != b {
				t.Errorf("%+v: %q after an update, %q anew", q, a, b)
			}
		}
		x = next
	}
	if len(x.trees) > 3*len(fleetTrees(x)) {
		t.Errorf("%d trees are kept for %d", len(x.trees), len(fleetTrees(x)))
	}
}

func fleetTrees(x *Index) map[uint32]bool {
	out := map[uint32]bool{}
	for _, c := range x.clusters {
		for _, t := range c.targets {
			out[t.tree] = true
		}
	}
	return out
}

func TestFile(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	x, _ := refresh(t, r, nil)
	file := filepath.Join(t.TempDir(), "a", "fleet.index")
	if _, err := Load(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := x.Save(file); err != nil {
		t.Fatal(err)
	}
	got, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	x.dead = got.dead
	if !reflect.DeepEqual(found(got, Query{Any: "e"}), found(x, Query{Any: "e"})) || len(got.trees) != len(x.trees) ||
		len(got.facts) != len(x.facts) {
		t.Error("the index that was loaded is another one")
	}
	if _, stats := refresh(t, r, got); stats != (Stats{}) {
		t.Errorf("the loaded index is not current: %+v", stats)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 0x41
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(file); !errors.Is(err, ErrUnusable) {
			t.Fatalf("byte %d is damaged: %v", i, err)
		}
		if i > 300 {
			break
		}
	}
	if x, err := Open(file); err != nil || x.Targets() != 0 {
		t.Errorf("a damaged index is not an empty one: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	seed, err := cbor.Marshal((&Index{
		facts: []fact{{1, "a"}}, trees: []tree{{facts: []uint32{0}}},
		clusters: []cluster{{name: "b", targets: []target{{app: "c"}}}},
	}).stored())
	if err != nil {
		f.Fatal(err)
	}
	if _, err := decode(seed); err != nil {
		f.Fatalf("decode what was encoded: %v", err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := decode(data)
		if err != nil {
			return
		}
		x.Search(Query{Any: "a"}, 1)
		for _, c := range x.clusters {
			for _, one := range c.targets {
				if int(one.tree) >= len(x.trees) {
					t.Fatal("a target names a tree that is not there")
				}
			}
		}
	})
}

// TestScanEqualsDecoding compares the scanner with a full decoder over every object of the demo fleet.
func TestScanEqualsDecoding(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	h := r.Hydrator(1)
	n := 0
	for name := range strings.FieldsSeq(r.Git("ls-tree", "-r", "--name-only", "env/prod")) {
		if strings.HasPrefix(name, ".sluice") {
			continue
		}
		hash, err := gitstore.ParseHash(r.Git("rev-parse", "env/prod:"+name))
		if err != nil {
			t.Fatal(err)
		}
		data, err := h.Store.Blob(context.Background(), hash)
		if err != nil {
			t.Fatal(err)
		}
		compareScan(t, name, data)
		n++
	}
	if n < 20 {
		t.Errorf("only %d objects", n)
	}
}

func TestScanOddObjects(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]map[string]any{
		"block": {
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "b"},
			"data": map[string]any{
				"x": "kind: Pod\nimage: no\n  image: no\n", "image": "no",
				"z": "metadata:\n  name: z\n",
			},
		},
		"spec": {
			"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus",
			"metadata": map[string]any{"name": "p"}, "spec": map[string]any{"image": "quay.io/prometheus:v2"},
		},
		"quoted": {
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "1", "namespace": "true"},
			"spec": map[string]any{"containers": []any{map[string]any{
				"args":  []any{"a\nimage: no\n", "image: no"},
				"image": "x: \"y\" #z", "name": "c",
			}}},
		},
		"nested": {
			"apiVersion": "v1", "kind": "List2",
			"metadata": map[string]any{
				"annotations": map[string]any{"image": "no", "name": "no"},
				"labels":      map[string]any{"name": "no"}, "name": "n",
			}, "image": map[string]any{"repository": "r"},
		},
	} {
		data, err := manifest.Append(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		compareScan(t, name+"\n"+string(data), data)
	}
}

func compareScan(t *testing.T, name string, data []byte) {
	t.Helper()
	list, err := manifest.Decode(data, manifest.DefaultBudget())
	if err != nil || len(list) != 1 {
		t.Fatalf("%s: the error is %v", name, err)
	}
	o := list[0]
	meta, _ := o["metadata"].(map[string]any)
	text := func(v any) string { s, _ := v.(string); return s }
	want := scanned{
		apiVersion: text(o["apiVersion"]), kind: text(o["kind"]), name: text(meta["name"]),
		namespace: text(meta["namespace"]),
	}
	for _, key := range []string{"metadata", "data", "stringData"} {
		delete(o, key)
	}
	want.images = imagesIn(nil, map[string]any(o))
	got := scan(data)
	slices.Sort(got.images)
	slices.Sort(want.images)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: scanned %+v, decoded %+v", name, got, want)
	}
}

func imagesIn(out []string, v any) []string {
	switch one := v.(type) {
	case map[string]any:
		for k, inner := range one {
			if s, ok := inner.(string); ok && k == "image" {
				out = append(out, s)
			} else {
				out = imagesIn(out, inner)
			}
		}
	case []any:
		for _, inner := range one {
			out = imagesIn(out, inner)
		}
	}
	return out
}

// pushed has objects of a cluster whose branch somebody pushed to.
type pushed map[gitstore.Hash]any

func (p pushed) Tree(_ context.Context, h gitstore.Hash) ([]gitstore.Entry, error) {
	if list, ok := p[h].([]gitstore.Entry); ok {
		return list, nil
	}
	return nil, gitstore.ErrNotFound
}

func (p pushed) Blob(_ context.Context, h gitstore.Hash) ([]byte, error) {
	switch v := p[h].(type) {
	case string:
		return []byte(v), nil
	case error:
		return nil, v
	}
	return nil, gitstore.ErrNotFound
}

// A file that is too large to be read, which somebody pushed to a branch, hides no other object of the fleet. Other
// errors do.
func TestFilesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	hash := func(n byte) (h gitstore.Hash) { h[0] = n; return h }
	objects := pushed{
		hash(1): []gitstore.Entry{{Name: "shop", Mode: gitstore.ModeTree, Hash: hash(2)}},
		hash(2): []gitstore.Entry{
			{Name: "a.yaml", Mode: gitstore.ModeFile, Hash: hash(3)},
			{Name: "b.yaml", Mode: gitstore.ModeFile, Hash: hash(4)},
		},
		hash(3): fmt.Errorf("blob: %w", gitstore.ErrTooLarge),
		hash(4): "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shop\n",
	}
	clusters := []Cluster{{Name: "one", State: State{Tree: hash(1)}}}
	x, _, err := new(Index).Update(t.Context(), objects, clusters, "")
	if err != nil || found(x, Query{Object: "ConfigMap"}) != "one/shop" {
		t.Errorf("the result of Update is %v, the error is %v", x, err)
	}
	delete(objects, hash(3))
	if _, _, err := new(Index).Update(t.Context(), objects, clusters, ""); !errors.Is(err, gitstore.ErrNotFound) {
		t.Errorf("a missing file: %v", err)
	}
}
