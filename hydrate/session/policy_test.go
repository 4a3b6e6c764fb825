package session

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// A policy cannot make the service request schemas from an internal server.
func TestSchemasAreGuarded(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.NotFound(w, nil)
	}))
	defer server.Close()
	files := fstest.MapFS{"policy/policy.yaml": {Data: []byte("apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: rules}\nspec:\n  schemas: {locations: [\"" + server.URL + "\"]}\n")}}
	objects, err := manifest.Decode([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n"),
		manifest.DefaultBudget())
	if err != nil {
		t.Fatal(err)
	}
	guard, err := fetch.NewGuard()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		guard *fetch.Guard
		asks  bool
	}{{nil, true}, {guard, false}} {
		asked.Store(0)
		r := Runtime{Cache: t.TempDir(), Guard: one.guard, Clock: time.Now}
		engine, err := r.loadPolicy(t.Context(), files, policy.Options{Now: r.Clock(), Environments: []string{"prod"}},
			false)
		if err != nil {
			t.Fatal(err)
		}
		result, err := engine.Check(t.Context(), policy.Input{Subjects: policy.Listed(policy.Subject{
			Cluster: &policy.Cluster{Name: "prod-1", Environment: "prod", KubeVersion: "1.33.2"},
			App:     &policy.App{Name: "web"},
			Objects: []policy.Object{{Key: "a", Object: objects[0]}},
		})})
		if err != nil || (asked.Load() > 0) != one.asks {
			t.Errorf("with a guard: %t, asked %d times: %+v %v", one.guard != nil, asked.Load(), result, err)
		}
	}
}
