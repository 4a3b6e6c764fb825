package session

import (
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
)

// A credential goes only to its configured host.
func TestOutputCredential(t *testing.T) {
	auth := func(output string, env map[string]string) (string, error) {
		r := Runtime{
			Git: gitstore.Auth{Token: env["SLUICE_GIT_TOKEN"]},
			Output: OutputCredential{
				Auth: gitstore.Auth{Token: env["SLUICE_OUTPUT_GIT_TOKEN"]},
				Host: env["SLUICE_OUTPUT_GIT_HOST"], Prefix: "SLUICE_OUTPUT_GIT_",
			},
		}
		a, err := r.outputAuth(output, "https://git.example.com/acme/fleet.git")
		return a.Token, err
	}
	own := map[string]string{
		"SLUICE_GIT_TOKEN": "source", "SLUICE_OUTPUT_GIT_TOKEN": "output",
		"SLUICE_OUTPUT_GIT_HOST": "out.example.com",
	}
	for output, want := range map[string]string{
		"https://out.example.com/x.git":      "output",
		"https://OUT.example.com/x.git":      "output",
		"http://out.example.com/x.git":       "",
		"https://out.example.com:8443/x.git": "",
		"https://evil.example.com/x.git":     "",
		"https://git.example.com/x.git":      "source",
		"http://git.example.com/x.git":       "",
		"/var/lib/x.git":                     "",
	} {
		if got, err := auth(output, own); got != want || err != nil {
			t.Errorf("%s gets %q, %v, not %q", output, got, err, want)
		}
	}
	delete(own, "SLUICE_OUTPUT_GIT_HOST")
	if got, err := auth("https://out.example.com/x.git", own); err == nil {
		t.Errorf("without a host it gets %q", got)
	}
	own["SLUICE_OUTPUT_GIT_HOST"] = "http://127.0.0.1:8080"
	if got, err := auth("http://127.0.0.1:8080/x.git", own); got != "output" || err != nil {
		t.Errorf("over HTTP, as it was said: %q, %v", got, err)
	}
}
