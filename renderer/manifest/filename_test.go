package manifest

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

func TestFileNames(t *testing.T) {
	ids := []Identity{
		{Kind: "ConfigMap", Namespace: "app", Name: "web"},
		{Kind: "ConfigMap", Namespace: "other", Name: "web"},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "system:Web"},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "system_web"},
		{Group: "networking.k8s.io", Kind: "Ingress", Namespace: "app", Name: "web"},
		{Group: "extensions", Kind: "Ingress", Namespace: "app", Name: "web"},
		{Group: "serving.knative.dev", Kind: "Service", Namespace: "app", Name: "a.b"},
		{Kind: "Con", Name: "x"},
	}
	got := FileNames(ids, "app")
	want := []string{
		"configmap-web.yaml", "other-configmap-web.yaml", "", "",
		"ingress.networking.k8s.io-web.yaml", "ingress.extensions-web.yaml", "service-a.b.yaml", "con-x.yaml",
	}
	for i := range want {
		if want[i] != "" && got[i] != want[i] {
			t.Errorf("%v: the result of FileNames is %s, want %s", ids[i], got[i], want[i])
		}
	}
	if !strings.HasPrefix(got[2], "clusterrole-system_web-") || got[2] == got[3] {
		t.Errorf("names that differ in odd bytes alone: %v", got[2:4])
	}
}

func FuzzFileNames(f *testing.F) {
	f.Add("Service", "web", "ns", "apps", uint64(1))
	f.Add("ClusterRole", "a:b/../C", "", "rbac.authorization.k8s.io", uint64(2))
	f.Add("con", "aux.", ".", "", uint64(3))
	f.Add("K", strings.Repeat("ü", 300), "n", "g", uint64(4))
	allowed := regexp.MustCompile(`^[a-z0-9_-][a-z0-9._-]{0,250}\.yaml$`)
	f.Fuzz(func(t *testing.T, kind, name, namespace, group string, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		pick := func(s string) string {
			return []string{
				s, strings.ToUpper(s), strings.ToLower(s), s + "-" + name, strings.ReplaceAll(s, "-", ":"),
				"",
			}[r.IntN(6)]
		}
		set := map[Identity]bool{}
		for range 12 {
			set[Identity{Group: pick(group), Kind: pick(kind), Namespace: pick(namespace), Name: pick(name)}] = true
		}
		ids := make([]Identity, 0, len(set))
		for id := range set {
			ids = append(ids, id)
		}
		names := FileNames(ids, namespace)
		owner := map[string]Identity{}
		for i, n := range names {
			if !allowed.MatchString(n) || len(n) > 255 {
				t.Fatalf("%q is no safe file name", n)
			}
			if other, ok := owner[n]; ok {
				t.Fatalf("%v and %v share %q", other, ids[i], n)
			}
			owner[n] = ids[i]
			if !slices.Contains(PossibleFileNames(ids[i]), n) {
				t.Fatalf("the possible names of %v do not have %q", ids[i], n)
			}
		}
		slices.Reverse(ids)
		for i, n := range FileNames(ids, namespace) {
			if owner[n] != ids[i] {
				t.Fatalf("in another order %v is called %q", ids[i], n)
			}
		}
	})
}

func TestScopesAgreeWithTheAPIDescription(t *testing.T) {
	checked := 0
	for _, k := range []struct{ version, kind string }{
		{"v1", "Pod"},
		{"v1", "Namespace"},
		{"v1", "Node"},
		{"v1", "PersistentVolume"},
		{"v1", "PersistentVolumeClaim"},
		{"v1", "Secret"},
		{"v1", "ServiceAccount"},
		{"v1", "Endpoints"},
		{"v1", "LimitRange"},
		{"v1", "ResourceQuota"},
		{"v1", "PodTemplate"},
		{"v1", "Event"},
		{"v1", "ReplicationController"},
		{"v1", "Service"},
		{"v1", "ConfigMap"},
		{"apps/v1", "Deployment"},
		{"apps/v1", "DaemonSet"},
		{"apps/v1", "StatefulSet"},
		{"apps/v1", "ReplicaSet"},
		{"apps/v1", "ControllerRevision"},
		{"batch/v1", "Job"},
		{"batch/v1", "CronJob"},
		{"autoscaling/v1", "HorizontalPodAutoscaler"},
		{"policy/v1", "PodDisruptionBudget"},
		{"networking.k8s.io/v1", "Ingress"},
		{"networking.k8s.io/v1", "IngressClass"},
		{"networking.k8s.io/v1", "NetworkPolicy"},
		{"rbac.authorization.k8s.io/v1", "Role"},
		{"rbac.authorization.k8s.io/v1", "ClusterRole"},
		{"rbac.authorization.k8s.io/v1", "RoleBinding"},
		{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition"},
		{"apiregistration.k8s.io/v1", "APIService"},
		{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"},
		{"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"},
		{"storage.k8s.io/v1", "StorageClass"},
		{"storage.k8s.io/v1", "CSIDriver"},
		{"storage.k8s.io/v1", "CSINode"},
		{"storage.k8s.io/v1", "VolumeAttachment"},
		{"scheduling.k8s.io/v1", "PriorityClass"},
		{"node.k8s.io/v1", "RuntimeClass"},
		{"coordination.k8s.io/v1", "Lease"},
		{"discovery.k8s.io/v1", "EndpointSlice"},
		{"certificates.k8s.io/v1", "CertificateSigningRequest"},
		{"events.k8s.io/v1", "Event"},
	} {
		got := BuiltinScope(GroupKind{GroupOf(k.version), k.kind})
		want, known := openapi.IsNamespaceScoped(yaml.TypeMeta{APIVersion: k.version, Kind: k.kind})
		if !known {
			t.Errorf("%s %s is not in the description", k.version, k.kind)
			continue
		}
		if got == ScopeUnknown || (got == ScopeNamespaced) != want {
			t.Errorf("%s %s: %s, namespaced in the description: %v", k.version, k.kind, got, want)
		}
		checked++
	}
	if checked == 0 {
		t.Fatal("nothing was compared")
	}
	if BuiltinScope(GroupKind{"example.com", "Pod"}) != ScopeUnknown {
		t.Error("a foreign group has no built-in kinds")
	}
}

func TestCRDScope(t *testing.T) {
	objects, err := Decode([]byte(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: foos.example.com},
spec: {group: example.com, scope: Cluster, names: {kind: Foo}}}`), DefaultBudget())
	if err != nil {
		t.Fatal(err)
	}
	kind, scope, ok := CRDScope(objects[0])
	if !ok || scope != ScopeCluster || kind.String() != "Foo.example.com" {
		t.Errorf("the kind is %v, the scope is %v, ok is %v", kind, scope, ok)
	}
}
