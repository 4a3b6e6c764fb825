package bootstrap

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bed/bedtest"
)

// Applied as the pages say, the printed objects take nothing away that a user has applied to the same objects before.
func TestAPIServerKeepsWhatUsersApplied(t *testing.T) {
	for _, part := range []string{"kubernetes", "flux", "argocd"} {
		bedtest.Need(t, part)
	}
	k, err := bedtest.StartKubernetes(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	kubectl := func(input string, args ...string) string {
		t.Helper()
		out, err := k.Kubectl(t.Context(), input, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	// with the schemas of Argo CD and Flux, which know no other fields
	if err := errors.Join(k.AddArgoCDKinds(t.Context()), k.AddFluxKinds(t.Context())); err != nil {
		t.Fatal(err)
	}
	// what a user has, and that kubectl has noted as applied
	const theirs = "apiVersion: v1\nkind: Namespace\nmetadata: {name: argocd, labels: {team: platform}}\n---\n" +
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: s-prod, labels: {pod-security.kubernetes.io/enforce: baseline}}\n---\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-notifications-cm, namespace: argocd, labels: {mine: x}}\n" +
		"data: {service.slack: \"token: $slack\", trigger.mine: \"- when: true\"}\n"
	kubectl(theirs, "apply", "-f", "-")

	f := testFleet(t, nil)
	c, _ := f.Cluster("eu-1")
	// apply does what docs/flux.md and docs/argocd.md say with the parts that `sluice bootstrap --part` prints.
	apply := func(address string, set bool) {
		t.Helper()
		argo := ArgoOptions{Options: common(t, address, "argocd"), ApplicationSet: set}
		list, err := ArgoCD(f, c, argo)
		if err != nil {
			t.Fatal(err)
		}
		receiver := fluxOptions(t, address)
		receiver.ReceiverSecret = "hook"
		more, err := Flux(f, c, receiver)
		if err != nil {
			t.Fatal(err)
		}
		var namespaces, own []Object
		for _, o := range append(list, more...) {
			switch o["kind"] {
			case "Namespace":
				namespaces = append(namespaces, o)
			case "ConfigMap":
				patch, err := json.Marshal(map[string]any{"data": o["data"]})
				if err != nil {
					t.Fatal(err)
				}
				kubectl(string(patch), "-n", "argocd", "patch", "configmap", "argocd-notifications-cm", "--type", "merge", "--patch-file", "/dev/stdin")
			default:
				own = append(own, o)
			}
		}
		text, err := YAML(namespaces)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Kubectl(t.Context(), string(text), "create", "-f", "-"); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
			t.Fatal(err)
		}
		if text, err = YAML(own); err != nil {
			t.Fatal(err)
		}
		kubectl(string(text), "apply", "--server-side", "--field-manager", "sluice", "-f", "-")
	}
	get := func(args ...string) (out struct {
		Metadata struct{ Labels map[string]string }
		Data     map[string]string
	},
	) {
		t.Helper()
		if err := json.Unmarshal([]byte(kubectl("", append([]string{"get", "-o", "json"}, args...)...)), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	check := func(when, base string) {
		t.Helper()
		cm := get("configmap", "argocd-notifications-cm", "-n", "argocd")
		for _, key := range []string{"service.slack", "trigger.mine"} {
			if cm.Data[key] == "" {
				t.Errorf("%s: the user's key %s is gone: %v", when, key, cm.Data)
			}
		}
		if !strings.Contains(cm.Data["service.webhook."+argoService], base) || cm.Metadata.Labels["mine"] != "x" {
			t.Errorf("%s: got %v and the labels %v, want a service at %s", when, cm.Data, cm.Metadata.Labels, base)
		}
		if ns := get("namespace", "s-prod"); ns.Metadata.Labels["pod-security.kubernetes.io/enforce"] != "baseline" {
			t.Errorf("%s: the user's label of the namespace is gone: %v", when, ns.Metadata.Labels)
		}
	}
	const github, gitlab = "https://github.com/acme/fleet.git", "https://gitlab.example.com/acme/fleet.git"
	apply(github, false)
	check("applied", "https://api.github.com")
	apply(gitlab, true)
	check("applied again, changed", "https://gitlab.example.com/api/v4")
	kubectl(theirs, "apply", "-f", "-") // as a user goes on
	check("after the user", "https://gitlab.example.com/api/v4")

	// Why the shared objects are not applied: kubectl takes what a user applied for what is applied now, and deletes what
	// it lacks, with --server-side too.
	shared := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-notifications-cm, namespace: argocd}\ndata: {a: b}\n"
	kubectl(shared, "apply", "--server-side", "--field-manager", "sluice", "-f", "-")
	if cm := get("configmap", "argocd-notifications-cm", "-n", "argocd"); cm.Data["service.slack"] != "" {
		t.Errorf("kubectl apply --server-side keeps what a user applied: got %v, so bootstrap needs no patch", cm.Data)
	}
}
