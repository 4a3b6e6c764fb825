package fleet

import (
	"strings"
	"testing"
)

const governed = base + `kind: Fleet
metadata: {name: acme}
spec:
  sync: argocd
  policy: {enforce: true}
  kinds: {cluster: [ClusterExternalSecret.external-secrets.io], namespaced: [Certificate.cert-manager.io, Widget]}
  signers:
    - "# people"
    - ana@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFCrTqWd2kgcLPDzR1F3XhzUYhAz8TqpBmqwt1qN7F1c
  environments:
    - {name: dev, sync: flux, policy: {enforce: false}}
    - {name: prod, after: [dev]}
`

func TestGovernance(t *testing.T) {
	files := small()
	files["sluice.yaml"] = governed
	f := load(t, files)
	if f.SyncOf("dev") != SyncFlux || f.SyncOf("prod") != SyncArgoCD {
		t.Errorf("sync: %q, %q", f.SyncOf("dev"), f.SyncOf("prod"))
	}
	if f.Enforces("dev", true) || !f.Enforces("prod", false) {
		t.Errorf("enforce: %t, %t", f.Enforces("dev", true), f.Enforces("prod", false))
	}
	if f.Signers().Empty() || len(f.Spec.Kinds.Cluster) != 1 || len(f.Spec.Kinds.Namespaced) != 2 {
		t.Errorf("the spec is %+v", f.Spec)
	}
	plain := load(t, small())
	if plain.SyncOf("dev") != "" || !plain.Enforces("dev", true) || plain.Enforces("dev", false) ||
		!plain.Signers().Empty() {
		t.Error("the defaults are wrong")
	}
	for replace, want := range map[[2]string]string{
		{"sync: argocd", "sync: argo"}:                           "sluice.yaml:5:9: error: spec.sync: unknown value",
		{"enforce: true", "enforce: 'yes'"}:                      "spec.policy.enforce must be true or false",
		{"Widget]", "widget]"}:                                   `sluice.yaml:7:107: error: "widget" is not a kind`,
		{"Widget]", "Widget, Certificate.cert-manager.io]"}:      "listed twice",
		{"namespaced: [", "namespaced: [Secret..io, "}:           `"Secret..io" is not a kind`,
		{"cluster: [", "cluster: [Certificate.cert-manager.io,"}: "under cluster and namespaced",
		{"ssh-ed25519 ", "cert-authority ssh-ed25519 "}:          "sluice.yaml:10:7: error: cert-authority is not supported",
	} {
		files["sluice.yaml"] = strings.Replace(governed, replace[0], replace[1], 1)
		_, problems := Load(t.Context(), mapFS(files), NewCache())
		if !strings.Contains(problems.Error(), want) {
			t.Errorf("want %s: got\nthe error is\n%s", want, problems.Error())
		}
	}
}
