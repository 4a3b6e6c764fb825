package plainhttp_test

import (
	"net/url"
	"testing"

	"github.com/sluice-gitops/sluice/internal/plainhttp"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	allowed := []string{"git.internal", "*.svc", "["}
	for address, want := range map[string]bool{
		"https://git.example.com/a":         true,
		"ssh://git.example.com/a":           true,
		"http://git.example.com/a":          false,
		"HTTP://git.example.com:3000/a":     false,
		"http://localhost:3000/a":           true,
		"http://LOCALHOST./a":               true,
		"http://127.0.0.1/a":                true,
		"http://127.8.8.8:1/a":              true,
		"http://[::1]:8080/a":               true,
		"http://[::ffff:127.0.0.1]/a":       true,
		"http://127.0.0.1.example.com/a":    false,
		"http://localhost.example.com/a":    false,
		"http://10.0.0.1/a":                 false,
		"http://git.internal:3000/a":        true,
		"http://GIT.internal/a":             true,
		"http://git.internal.example.com/a": false,
		"http://argocd.svc/a":               true,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := plainhttp.Check(u, allowed) == nil; got != want {
			t.Errorf("%s: the result is %v", address, got)
		}
	}
}
