package bootstrap

import (
	"strings"
	"testing"
)

// With OCI, the objects sync the artifact of the cluster: nothing else changes.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	const address = "https://github.com/acme/fleet"
	f := testFleet(t, func(files map[string]string) {
		files["sluice.yaml"] = strings.Replace(files["sluice.yaml"], "output: {",
			"output: {oci: {repository: \"oci://registry.example.com:5000/gitops\", tag: stable}, ", 1)
	})
	c, _ := f.Cluster("eu-1")
	repository := "oci://registry.example.com:5000/gitops/" + f.Name + "/eu-1"
	text := func(list []Object, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		data, err := YAML(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	flux := fluxOptions(t, address)
	flux.ReceiverSecret = "hook"
	branch := text(Flux(f, c, flux))
	flux.OCI, flux.Insecure, flux.VerifySecret = true, true, "keys"
	artifact := text(Flux(f, c, flux))
	want := strings.ReplaceAll(branch, "kind: GitRepository", "kind: OCIRepository")
	want = strings.Replace(want, "  ref:\n    branch: rendered/prod/eu-1\n", "  ref:\n    tag: stable\n", 1)
	want = strings.Replace(want, "  timeout: 1m0s\n  url: "+address+"\n", "  timeout: 1m0s\n  url: "+repository+"\n", 1)
	want = strings.Replace(want, "  interval: 1m0s\n", "  insecure: true\n  interval: 1m0s\n", 1)
	if artifact != want {
		t.Errorf("Flux gets\n%s\nwant\n%s", artifact, want)
	}
	signed := testFleet(t, func(files map[string]string) {
		files["sluice.yaml"] = strings.Replace(files["sluice.yaml"], "output: {",
			"output: {oci: {repository: \"oci://registry.example.com:5000/gitops\", tag: stable, key: keys/cosign.pub}, ", 1)
	})
	one, _ := signed.Cluster("eu-1")
	want = strings.Replace(want, "  url: "+repository+"\n", "  url: "+repository+"\n  verify:\n    provider: cosign\n    secretRef:\n      name: keys\n", 1)
	if got := text(Flux(signed, one, flux)); got != want {
		t.Errorf("with a key Flux gets\n%s\nwant\n%s", got, want)
	}
	byIdentity := testFleet(t, func(files map[string]string) {
		files["keys/trusted_root.json"] = "{}"
		files["sluice.yaml"] = strings.Replace(files["sluice.yaml"], "output: {",
			"output: {oci: {repository: \"oci://registry.example.com:5000/gitops\", tag: stable, identity: {issuer: \"https://token.example.com\", subject: \"https://git.example.com/acme/ci@main\", trustedRoot: keys/trusted_root.json}}, ", 1)
	})
	one, _ = byIdentity.Cluster("eu-1")
	verifies := "    matchOIDCIdentity:\n    - issuer: ^https://token\\.example\\.com$\n      subject: ^https://git\\.example\\.com/acme/ci@main$\n    provider: cosign\n"
	want = strings.Replace(want, "    provider: cosign\n    secretRef:\n      name: keys\n", verifies, 1)
	if got := text(Flux(byIdentity, one, flux)); got != want {
		t.Errorf("with an identity Flux gets\n%s\nwant\n%s", got, want)
	}
	flux.TrustedRootSecret = "root"
	want = strings.Replace(want, verifies, verifies+"    trustedRootSecretRef:\n      name: root\n", 1)
	if got := text(Flux(byIdentity, one, flux)); got != want {
		t.Errorf("with an own Sigstore Flux gets\n%s\nwant\n%s", got, want)
	}
	argo := ArgoOptions{Options: common(t, address, "argocd")}
	argo.Forge = None
	branch = text(ArgoCD(f, c, argo))
	argo.OCI, argo.Forge = true, GitHub
	artifact = text(ArgoCD(f, c, argo))
	want = strings.ReplaceAll(strings.ReplaceAll(branch, "repoURL: "+address, "repoURL: "+repository),
		"targetRevision: rendered/prod/eu-1", "targetRevision: stable")
	if artifact != want {
		t.Errorf("Argo CD gets\n%s\nwant\n%s", artifact, want)
	}
	argo.ApplicationSet = true
	if _, err := ArgoCD(f, c, argo); err == nil || !strings.Contains(err.Error(), "leave out --applicationset") {
		t.Errorf("an ApplicationSet: %v", err)
	}
	plain := testFleet(t, nil)
	c, _ = plain.Cluster("eu-1")
	if _, err := Flux(plain, c, flux); err == nil || !strings.Contains(err.Error(), "no spec.output.oci") {
		t.Errorf("without artifacts: %v", err)
	}
	argo.ApplicationSet = false
	if _, err := ArgoCD(plain, c, argo); err == nil || !strings.Contains(err.Error(), "no spec.output.oci") {
		t.Errorf("without artifacts: %v", err)
	}
}
