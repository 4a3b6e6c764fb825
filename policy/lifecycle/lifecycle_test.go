package lifecycle_test

import (
	"bufio"
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"

	"github.com/sluice-gitops/sluice/policy/lifecycle"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// differs are the facts of pluto's table that differ from Kubernetes' own types, with the reason.
func differs() map[string]string {
	const promoted = "the API's markers give it more releases than the table"
	const gone26 = "the API's markers and the deprecation guide say 1.26"
	return map[string]string{
		"flowcontrol.apiserver.k8s.io/v1beta1 FlowSchema":                        gone26,
		"flowcontrol.apiserver.k8s.io/v1beta1 PriorityLevelConfiguration":        gone26,
		"flowcontrol.apiserver.k8s.io/v1beta1 FlowControl":                       "no such kind: the kinds are FlowSchema and PriorityLevelConfiguration",
		"admissionregistration.k8s.io/v1alpha1 ValidatingAdmissionPolicy":        "the API's markers say 1.32",
		"admissionregistration.k8s.io/v1alpha1 ValidatingAdmissionPolicyBinding": "the API's markers say 1.32",
		"resource.k8s.io/v1beta1 DeviceClass":                                    promoted,
		"resource.k8s.io/v1beta1 ResourceClaim":                                  promoted,
		"resource.k8s.io/v1beta1 ResourceClaimTemplate":                          promoted,
		"resource.k8s.io/v1beta1 ResourceSlice":                                  promoted,
		"storage.k8s.io/v1beta1 VolumeAttributesClass":                           "the table does not say when it goes",
	}
}

func TestAgreesWithPluto(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/pluto.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	rows, unused := 0, differs()
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		row := strings.Split(s.Text(), "\t")
		if len(row) != 5 {
			t.Fatalf("%q has not 5 fields", s.Text())
		}
		rows++
		name := row[0] + " " + row[1]
		got, ok := lifecycle.Of(row[0], row[1])
		removed, _ := lifecycle.ParseMinor(row[3])
		equal := ok && got.Removed == removed && !got.Deprecated.IsZero()
		if _, known := unused[name]; known {
			if equal {
				t.Errorf("%s no longer differs: remove the exception", name)
			}
			delete(unused, name)
			continue
		}
		if !equal {
			t.Errorf("%s: got %v (%v), want removed in %s, deprecated in %s", name, got, ok, row[3], row[2])
		}
		if row[4] != "-" && got.Replacement == "" {
			t.Errorf("%s: no replacement, want %s", name, row[4])
		}
	}
	if rows < 80 {
		t.Errorf("only %d facts were compared", rows)
	}
	for name := range unused {
		t.Errorf("the table has no %s any more: remove the exception", name)
	}
}

func TestParseMinor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"1.33": "1.33", "v1.33.2": "1.33", "1.33.2+k3s1": "1.33", "1.33+": "1.33"} {
		if got, ok := lifecycle.ParseMinor(text); !ok || got.String() != want {
			t.Errorf("%s: got %s, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "1", "a.b", "1.-3"} {
		if got, ok := lifecycle.ParseMinor(text); ok {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

func TestServed(t *testing.T) {
	t.Parallel()
	all := []string{"apps/v1", "apps/v1beta1", "batch/v1beta1", "batch/v1beta1/CronJob", "policy/v1beta1/PodDisruptionBudget", "v1", "example.com/v1"}
	for version, want := range map[string][]string{
		"1.15": all,
		"1.24": {"apps/v1", "batch/v1beta1", "batch/v1beta1/CronJob", "policy/v1beta1/PodDisruptionBudget", "v1", "example.com/v1"},
		"1.25": {"apps/v1", "v1", "example.com/v1"},
	} {
		at, _ := lifecycle.ParseMinor(version)
		if got := lifecycle.Served(all, at); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
	}
}

// assess returns the issues of objects at a version, one line each.
func assess(t *testing.T, table *lifecycle.Table, version, objects string) []string {
	t.Helper()
	list, err := manifest.Decode([]byte(objects), manifest.DefaultBudget())
	if err != nil {
		t.Fatal(err)
	}
	app := lifecycle.App{Name: "web"}
	for _, o := range list {
		if f := table.Read(o); f != nil {
			app.Facts = append(app.Facts, f)
		}
	}
	at, ok := lifecycle.ParseMinor(version)
	if !ok {
		t.Fatal(version)
	}
	out := []string{}
	for _, i := range table.Assess(at, []lifecycle.App{app}) {
		line := i.Rule + " " + i.Object.Kind + "/" + i.Object.Name + ": " + i.Message
		if i.Hint != "" {
			line += " → " + i.Hint
		}
		if i.Blocks {
			line = "blocks " + line
		}
		out = append(out, line)
	}
	return out
}

func TestAssess(t *testing.T) {
	t.Parallel()
	const (
		pdb = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: web}\n"
		crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget}
  versions:
  - {name: v1, served: true}
  - {name: v1beta1, served: true, deprecated: true, deprecationWarning: it goes in May}
  - {name: v1alpha1, served: false}
`
		widget  = "---\napiVersion: example.com/%s\nkind: Widget\nmetadata: {name: a}\n"
		webhook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: guard.example.com
  rules:
  - {apiGroups: [batch], apiVersions: [%s], resources: [cronjobs], operations: [CREATE]}
`
		validating = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: guard}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [policy], apiVersions: [v1beta1], resources: [poddisruptionbudgets/status]}
`
		deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %[1]s}\nspec: {template: {spec: {containers: [{name: a, image: '%[2]s'}]}}}\n"
	)
	pod := func(image string) string {
		return strings.NewReplacer("%[1]s", "web", "%[2]s", image).Replace(deployment)
	}
	with := func(text, word string) string { return strings.ReplaceAll(text, "%s", word) }
	for _, c := range []struct {
		name, version, objects string
		want                   []string
	}{
		{"before the deprecation", "1.20", pdb, nil},
		{"deprecated", "1.21", pdb, []string{"api-deprecated PodDisruptionBudget/web: policy/v1beta1 PodDisruptionBudget is deprecated since Kubernetes 1.21, and removed in 1.25 → use policy/v1 PodDisruptionBudget"}},
		{"removed", "1.25", pdb, []string{"blocks api-removed PodDisruptionBudget/web: Kubernetes no longer serves policy/v1beta1 PodDisruptionBudget since 1.25 → use policy/v1 PodDisruptionBudget"}},
		{"the kind of definitions", "1.22", "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: {group: example.com, version: v1, names: {kind: A}}\n---\napiVersion: example.com/v1\nkind: A\nmetadata: {name: a}\n", []string{"blocks api-removed CustomResourceDefinition/a: Kubernetes no longer serves apiextensions.k8s.io/v1beta1 CustomResourceDefinition since 1.22 → use apiextensions.k8s.io/v1 CustomResourceDefinition"}},
		{"a served version", "1.30", crd + with(widget, "v1"), nil},
		{"a deprecated version", "1.30", crd + with(widget, "v1beta1"), []string{"crd-version Widget/a: the CustomResourceDefinition of Widget.example.com marks v1beta1 as deprecated: it goes in May → use example.com/v1"}},
		{"a version that is not served", "1.30", crd + with(widget, "v1alpha1"), []string{"blocks crd-version Widget/a: the CustomResourceDefinition of Widget.example.com does not serve v1alpha1 → use example.com/v1"}},
		{"a version that is not there", "1.30", crd + with(widget, "v2"), []string{"blocks crd-version Widget/a: the CustomResourceDefinition of Widget.example.com does not serve v2 → use example.com/v1"}},
		{"no definition", "1.30", with(widget, "v1alpha1"), nil},
		{"a webhook before", "1.24", with(webhook, "v1beta1"), nil},
		{"a webhook", "1.25", with(webhook, "v1beta1"), []string{"blocks admission-rules ValidatingWebhookConfiguration/guard: the webhook guard.example.com no longer sees cronjobs of batch/v1beta1, which became batch/v1 → add the new API to its rules"}},
		{"a webhook with both", "1.25", with(webhook, "v1beta1, v1"), nil},
		{"a webhook with all", "1.25", with(webhook, "'*'"), nil},
		{"a policy", "1.25", validating, []string{"blocks admission-rules ValidatingAdmissionPolicy/guard: the policy no longer sees poddisruptionbudgets of policy/v1beta1, which became policy/v1 → add the new API to its rules"}},
		{"a kubelet that is too old", "1.34", pod("registry.k8s.io/kubelet:v1.30.2"), []string{"blocks version-skew Deployment/web: kubelet 1.30.2 may be at most 3 minor versions older than the cluster → use another version of the image (https://kubernetes.io/releases/version-skew-policy/)"}},
		{"a kubelet", "1.33", pod("registry.k8s.io/kubelet:v1.30.2"), nil},
		{"kube-proxy of EKS that is too new", "1.30", pod("602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/kube-proxy:v1.31.2-minimal-eksbuild.3"), []string{"blocks version-skew Deployment/web: kube-proxy 1.31.2 must not be newer than the cluster → use another version of the image (https://kubernetes.io/releases/version-skew-policy/)"}},
		{"kubectl", "1.34", pod("registry.k8s.io/kubectl:v1.32.1"), []string{"blocks version-skew Deployment/web: kubectl 1.32.1 may be at most 1 minor version older than the cluster → use another version of the image (https://kubernetes.io/releases/version-skew-policy/)"}},
		{"the autoscaler advises", "1.34", pod("registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0"), []string{"version-skew Deployment/web: cluster-autoscaler 1.33.0 must have the minor version of the cluster → use another version of the image (https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler#releases)"}},
		{"metrics-server of a mirror", "1.24", pod("mirror.example.com/k8s/metrics-server/metrics-server:v0.7.2"), []string{"blocks version-skew Deployment/web: metrics-server 0.7.2 is for Kubernetes >=1.27 → use another version of the image (https://github.com/kubernetes-sigs/metrics-server#compatibility-matrix)"}},
		{"metrics-server", "1.30", pod("registry.k8s.io/metrics-server/metrics-server:v0.7.2"), nil},
		{"a version that is not known", "1.30", pod("registry.k8s.io/metrics-server/metrics-server:latest"), []string{"version-skew Deployment/web: the version of the image registry.k8s.io/metrics-server/metrics-server:latest is not known, so nothing says whether it works with the new version"}},
		{"a cloud controller", "1.34", pod("registry.k8s.io/provider-aws/cloud-provider-aws/cloud-controller-manager:v1.32.0"), []string{"blocks version-skew Deployment/web: cloud-provider-aws 1.32.0 may be at most 1 minor version older than the cluster → use another version of the image (https://kubernetes.github.io/cloud-provider-aws/)"}},
		{"a cloud controller with versions of its own", "1.34", pod("docker.io/hetznercloud/hcloud-cloud-controller-manager:v1.20.0"), nil},
		{"a CNI that was not tested", "1.34", pod("quay.io/cilium/cilium:v1.18.2"), []string{"version-skew Deployment/web: cilium 1.18.2 is for Kubernetes >=1.30 <=1.33 → use another version of the image (https://docs.cilium.io/en/v1.18/network/kubernetes/compatibility/)"}},
		{"another image", "1.30", pod("example.com/web:v1"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := assess(t, &lifecycle.Table{Addons: lifecycle.Addons()}, c.version, c.objects)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A fleet's own entries count, and come before those of Sluice.
func TestTableOfAFleet(t *testing.T) {
	t.Parallel()
	minor := func(n int) lifecycle.Minor { return lifecycle.Minor{Major: 1, Minor: n} }
	table := &lifecycle.Table{
		APIs: map[string]lifecycle.API{
			"example.com/v1alpha1/Widget": {Deprecated: minor(30), Removed: minor(31), Replacement: "example.com/v1 Widget"},
		},
		Addons: append([]lifecycle.Addon{{
			Name: "metrics-server", Images: []string{"metrics-server"}, Kubernetes: ">=1.20",
		}}, lifecycle.Addons()...),
	}
	got := assess(t, table, "1.31", "apiVersion: example.com/v1alpha1\nkind: Widget\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: x/metrics-server/metrics-server:v0.9.0}]}\n")
	want := []string{"blocks api-removed Widget/a: Kubernetes no longer serves example.com/v1alpha1 Widget since 1.31 → use example.com/v1 Widget"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Every entry of Sluice names its source, and says something about its own versions.
func TestAddons(t *testing.T) {
	t.Parallel()
	for _, a := range lifecycle.Addons() {
		for _, text := range []string{a.Versions, a.Kubernetes} {
			if _, err := semver.NewConstraint(cmp.Or(text, "*")); err != nil {
				t.Errorf("%s: %q: %v", a.Name, text, err)
			}
		}
		if !strings.HasPrefix(a.Source, "https://") || len(a.Images) == 0 || (a.Kubernetes == "") == (a.Skew == nil) {
			t.Errorf("incomplete: %+v", a)
		}
	}
}
