package policy_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/sluice-gitops/sluice/policy"
)

// A check forgets a batch before it asks for the next one: the memory that it needs is that of one batch, not of two.
func TestBatchesAreForgotten(t *testing.T) {
	e := load(t, nil)
	var objects []weak.Pointer[policy.Object]
	forgotten := func(when string) {
		for range 3 {
			runtime.GC()
		}
		for i, o := range objects {
			if o.Value() != nil {
				t.Errorf("%s, object %d is still in memory", when, i)
			}
		}
	}
	batch := func(cluster string) []policy.Subject {
		s := subject(t, "prod", deployment, definition,
			"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: shop}\nspec: {size: big}\n")
		s.Cluster.Name = cluster
		for i := range s.Objects {
			s.Objects[i].Key += cluster
		}
		objects = append(objects, weak.Make(&s.Objects[0]))
		return []policy.Subject{s}
	}
	if _, err := e.Check(t.Context(), policy.Input{Subjects: func(yield func([]policy.Subject, error) bool) {
		for _, cluster := range []string{"a", "b", "c"} {
			if !yield(batch(cluster), nil) {
				return
			}
			forgotten("after " + cluster)
		}
	}}); err != nil {
		t.Fatal(err)
	}
}
