package diff_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bed/bedtest"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// startKinds starts an API server that has the objects of testdata/apiserver/kinds.yaml, and returns them.
func startKinds(t *testing.T) (*bedtest.Kubernetes, []kept) {
	t.Helper()
	bedtest.Need(t, "kubernetes")
	k, err := bedtest.StartKubernetes(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	text, err := os.ReadFile("testdata/apiserver/kinds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	list, err := manifest.Decode(text, manifest.DefaultBudget())
	if err != nil {
		t.Fatal(err)
	}
	var out []kept
	for _, o := range list {
		path, err := k.Path(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var stored []byte
		for range 50 { // kinds and address ranges of the objects before need a moment
			if stored, err = k.Apply(t.Context(), path, o, false); err == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err != nil {
			t.Errorf("%s %s: %v", o.Kind(), o.Name(), err)
			continue
		}
		if o.Kind() == "PersistentVolumeClaim" { // only a bound claim can grow
			var bound map[string]any
			if err := json.Unmarshal(stored, &bound); err != nil {
				t.Fatal(err)
			}
			bound["status"] = map[string]any{"phase": "Bound", "capacity": map[string]any{"storage": "1Gi"}}
			if _, err := k.Do(t.Context(), http.MethodPut, path+"/status", bound); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, kept{o, path, stored})
	}
	return k, out
}

// kept is an object on the API server.
type kept struct {
	manifest.Object
	path   string
	stored []byte // JSON
}

// refuses matches what the API server says about a change of a field that cannot change.
var refuses = regexp.MustCompile(`(?i)immutable|may not (be )?change|updates to|may not be updated|cannot be changed|can not be changed|` +
	`not allowed to be updated|may not change|cannot change|must not be changed|may not be set once`)

// refused reports whether the API server refuses a change because a field cannot change. sure is false if it refuses the
// new value itself.
func refused(ctx context.Context, k *bedtest.Kubernetes, path string, o manifest.Object) (is, sure bool, err error) {
	_, err = k.Apply(ctx, path, o, true)
	status, ok := errors.AsType[*bedtest.StatusError](err)
	switch {
	case err == nil:
		return false, true, nil
	case !ok:
		return false, false, err
	}
	return refuses.MatchString(status.Message), refuses.MatchString(status.Message), err
}

// For each field of each kind, Sluice says that a change is refused if and only if the API server refuses it.
func TestAPIServerImmutableFields(t *testing.T) {
	k, list := startKinds(t)
	tried, immutable := 0, 0
	for _, o := range list {
		for _, v := range variants(map[string]any(o.Object)) {
			changed := manifest.Object(v.object)
			is, sure, err := refused(t.Context(), k, o.path, changed)
			if !sure {
				if _, ok := errors.AsType[*bedtest.StatusError](err); !ok {
					t.Fatal(err)
				}
				continue
			}
			tried++
			if is {
				immutable++
			}
			target := diff.Target{App: "a", Cluster: "c", Environment: "e", Sync: diff.SyncFlux}
			target.Before, target.After = []diff.Object{objectOf(t, o.Object)}, []diff.Object{objectOf(t, changed)}
			set := diff.Compare([]diff.Target{target}, nil, []string{"e"}, clusters(nil))
			said := slices.ContainsFunc(set.Groups, func(g diff.Group) bool {
				return slices.ContainsFunc(g.Objects[0].Effects, func(e diff.Effect) bool {
					return e.Name == diff.EffectImmutable || e.Name == diff.EffectStorageShrinks
				})
			})
			if said != is {
				t.Errorf("%s %s, %s: the API server refuses it: %t, Sluice says so: %t (%v)", o.Kind(), o.Name(), v.what, is, said, err)
			}
		}
	}
	t.Logf("%d changes of %d objects, %d of them refused", tried, len(list), immutable)
	if tried < 400 || immutable < 80 {
		t.Errorf("%d changes were tried and %d refused, want at least 400 and 80", tried, immutable)
	}
}

func objectOf(t *testing.T, o manifest.Object) diff.Object {
	t.Helper()
	text, err := manifest.Encode(o)
	if err != nil {
		t.Fatal(err)
	}
	return diff.Object{Key: string(text), Object: o}
}

// variant is an object with one change.
type variant struct {
	what   string
	object map[string]any
}

// variants returns copies of an object in which one field has another value, or is gone.
func variants(o map[string]any) []variant {
	var out []variant
	var walk func(at []any, value any)
	walk = func(at []any, value any) {
		for _, other := range others(value) {
			out = append(out, variant{fmt.Sprintf("%v becomes %v", at, other), with(o, at, other, false)})
		}
		if len(at) > 1 {
			out = append(out, variant{fmt.Sprintf("%v goes", at), with(o, at, nil, true)})
		}
		switch v := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(append(slices.Clone(at), key), v[key])
			}
		case []any:
			for i := range v {
				walk(append(slices.Clone(at), i), v[i])
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata"}, key) {
			walk([]any{key}, o[key])
		}
	}
	return out
}

// others returns other values of a scalar.
func others(value any) []any {
	switch v := value.(type) {
	case bool:
		return []any{!v}
	case int64:
		return []any{v + 1, v - 1}
	case string:
		if list := map[string][]any{
			"Delete": {"Retain"}, "Retain": {"Delete"}, "Immediate": {"WaitForFirstConsumer"}, "OrderedReady": {"Parallel"},
			"Indexed": {"NonIndexed"}, "Failed": {"TerminatingOrFailed"}, "Namespaced": {"Cluster"}, "Filesystem": {"Block"},
			"ReadWriteOnce": {"ReadWriteMany"}, "TCP": {"UDP"}, "IPv4": {"IPv6"}, "Always": {"OnFailure"},
			"Never": {"OnFailure", "PreemptLowerPriority"}, "PreemptLowerPriority": {"Never"}, "Persistent": {"Ephemeral"},
			"File": {"None"}, "Opaque": {"example.com/other"}, "ClusterIP": {"NodePort", "LoadBalancer"}, "Local": {"Cluster"},
			"LoadBalancer": {"ClusterIP"}, "ExactCount": {"All"}, "10.96.0.50": {"10.96.0.51"}, "Yg==": {"Yw=="},
			"1Gi": {"2Gi", "512Mi"}, "NotTerminating": {"Terminating"}, "RollingUpdate": {"OnDelete", "Recreate"},
			"Directory": {"File"}, "Prefix": {"Exact"}, "Forbid": {"Allow"}, "FailJob": {"Ignore"}, "Cluster": {"Local"},
			"ClientIP": {"None"}, "Limited": {"Exempt"}, "AlwaysAllow": {"IfHealthyBudget"}, "10.97.0.0/16": {"10.98.0.0/16"},
			"Europe/Berlin": {"Etc/UTC"},
		}[v]; list != nil {
			return list
		}
		return []any{v + "x"}
	}
	return nil
}

// with returns a deep copy of an object with another value at a path, or without it.
func with(o map[string]any, at []any, value any, remove bool) map[string]any {
	out, _ := copied(o).(map[string]any)
	var parent any = out
	for _, step := range at[:len(at)-1] {
		switch key := step.(type) {
		case string:
			parent = parent.(map[string]any)[key]
		case int:
			parent = parent.([]any)[key]
		}
	}
	switch key := at[len(at)-1].(type) {
	case string:
		if remove {
			delete(parent.(map[string]any), key)
		} else {
			parent.(map[string]any)[key] = value
		}
	case int:
		if remove {
			return with(o, at[:len(at)-1], slices.Delete(slices.Clone(parent.([]any)), key, key+1), false)
		}
		parent.([]any)[key] = value
	}
	return out
}

func copied(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[key] = copied(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = copied(inner)
		}
		return out
	}
	return value
}

// What the API server fills in is no change: an object in Git and the same object as the server stores it are equal.
func TestAPIServerDefaults(t *testing.T) {
	_, list := startKinds(t)
	// fields whose defaults depend on the cluster, and that a person or a controller usually sets
	left := regexp.MustCompile(`^(status|metadata|spec\.(replicas|suspend|clusterIPs?|ipFamil|nodePort|finalizers)|spec\.ports\[.*\]\.nodePort)`)
	others := map[string]*regexp.Regexp{
		"Namespace":                regexp.MustCompile(`^spec$`),                                               // its finalizer
		"Job":                      regexp.MustCompile(`^spec\.(selector|template\.metadata\.labels)`),         // made for the object
		"Pod":                      regexp.MustCompile(`^spec\.(priority|preemptionPolicy|tolerations)`),       // set by admission
		"StatefulSet":              regexp.MustCompile(`^spec\.updateStrategy\.rollingUpdate\.maxUnavailable`), // by a feature gate
		"CSIDriver":                regexp.MustCompile(`^spec\.preventPodSchedulingIfMissing`),                 // since Kubernetes 1.37
		"CustomResourceDefinition": regexp.MustCompile(`^spec\.conversion`),                                    // its types are not built in
	}
	for _, o := range list {
		var stored map[string]any
		if err := json.Unmarshal(o.stored, &stored); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(stored)
		if err != nil {
			t.Fatal(err)
		}
		after, err := manifest.Decode(text, manifest.DefaultBudget())
		if err != nil || len(after) != 1 {
			t.Fatalf("%s: %v", o.Kind(), err)
		}
		target := diff.Target{App: "a", Cluster: "c", Environment: "e"}
		target.Before, target.After = []diff.Object{objectOf(t, o.Object)}, []diff.Object{objectOf(t, after[0])}
		set := diff.Compare([]diff.Target{target}, nil, []string{"e"}, clusters(nil))
		for _, g := range set.Groups {
			for _, f := range g.Objects[0].Fields {
				if other := others[o.Kind()]; !left.MatchString(f.Path) && (other == nil || !other.MatchString(f.Path)) {
					t.Errorf("%s %s: the API server stores %s as %v, not as %v, and Sluice shows a change", o.Kind(), o.Name(),
						f.Path, strings.TrimSpace(fmt.Sprint(f.New)), f.Old)
				}
			}
		}
	}
}
