package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWellKnownScopesOfKinds(t *testing.T) {
	for kind, want := range map[GroupKind]Scope{
		{"external-secrets.io", "ClusterExternalSecret"}:   ScopeCluster,
		{"external-secrets.io", "ExternalSecret"}:          ScopeNamespaced,
		{"constraints.gatekeeper.sh", "K8sRequiredLabels"}: ScopeCluster,
		{"karpenter.sh", "NodePool"}:                       ScopeCluster,
		{"example.com", "Foo"}:                             ScopeUnknown,
		{"cert-manager.io", "Foo"}:                         ScopeUnknown,
		{"", "Foo"}:                                        ScopeUnknown,
	} {
		if got := WellKnownScope(kind); got != want {
			t.Errorf("%s: the result of WellKnownScope is %s, want %s", kind, got, want)
		}
	}
	fleet := Kinds{Cluster: []string{"Foo.example.com"}, Namespaced: []string{"Bar.example.com"}}
	for kind, want := range map[string]Scope{"Foo": ScopeCluster, "Bar": ScopeNamespaced, "Baz": ScopeUnknown} {
		if got := fleet.Scope(GroupKind{"example.com", kind}); got != want {
			t.Errorf("%s: the result of Scope is %s, want %s", kind, got, want)
		}
	}
}

// TestWellKnownScopes holds the table against the definitions of real charts and repositories.
func TestWellKnownScopes(t *testing.T) {
	const list = "testdata/definitions.txt"
	data, err := os.ReadFile(filepath.FromSlash(list))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(line, "#") {
			continue
		}
		kind := GroupKind{Group: fields[1], Kind: fields[2]}
		if got := WellKnownScope(kind); got.String() != fields[0] {
			t.Errorf("%s: the result of WellKnownScope is %s, want %s", kind, got, fields[0])
		}
		checked++
	}
	if checked < 50 {
		t.Errorf("only %d definitions checked", checked)
	}
}
