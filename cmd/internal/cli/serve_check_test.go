package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// serve --check finds what would make the service refuse to start: all mistakes at once, also those in secrets.
func TestServeCheckReadsSecrets(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := file("webhook", strings.Repeat("s", 32))
	config := func(key, secret string) string {
		return file("config.yaml", "data: "+filepath.Join(dir, "data")+
			"\nforges:\n  - kind: github\n    app: {id: 1, key: {file: "+key+"}}\n    secrets: [{file: "+secret+
			"}]\n    repositories: [acme/fleet]\n"+
			"  - kind: gitlab\n    token: {file: "+secret+"}\n    secrets: [{file: "+secret+
			"}]\n    repositories: [acme/fleet]\n")
	}
	check := func(path string) (int, string) {
		var out bytes.Buffer
		o := System()
		o.Out, o.Err, o.Terminal = &out, &out, false
		return Main(t.Context(), []string{"serve", "--check", "--config", path}, o), out.String()
	}
	status, out := check(config(file("key", "no key"), file("short", "short")))
	for _, want := range []string{"private key", "fewer than 16 characters"} {
		if status == ExitOK || !strings.Contains(out, want) {
			t.Errorf("status %d, without %q: %s", status, want, out)
		}
	}
	good := "forges:\n  - kind: gitlab\n    token: {file: " + secret + "}\n    secrets: [{file: " + secret +
		"}]\n    repositories: [acme/fleet]\n"
	if status, out := check(file("good.yaml", good)); status != ExitOK ||
		!strings.Contains(out, "good.yaml: 1 forge, no errors") {
		t.Errorf("status %d: %s", status, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("the check made the data folder")
	}
}
