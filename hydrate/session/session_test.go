package session

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
)

// The guess whether a worker is needed reads no link: it could lead to what never ends.
func TestGuessFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir, linked := t.TempDir(), t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, fleet.File), []byte("spec: {import: []}\n"), 0o600),
		os.Symlink(filepath.Join(dir, fleet.File), filepath.Join(linked, fleet.File))); err != nil {
		t.Fatal(err)
	}
	if !mayImport(dir, false) || mayImport(linked, true) || mayImport(t.TempDir(), false) ||
		!mayImport(t.TempDir(), true) {
		t.Error("wrong guess")
	}
}

func TestCredentialsOfOtherRepositories(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://git.example.com/acme/components":       "https://git.example.com/acme",
		"https://git.example.com/ACME/group/components": "https://git.example.com/acme",
		"https://git.example.com:8443/acme/components":  "https://git.example.com:8443/acme",
		"https://git.example.com/other/components":      "https://git.example.com/other",
		"https://git.example.com/components":            "", // no owner
		"https://git.example.com//acme/x":               "",
		"https://git.example.com/../acme/x":             "",
		"https://git.example.com/acme/components.git/":  "https://git.example.com/acme",
		// A server that resolves these paths reads the repository of another owner.
		"https://git.example.com/acme/../other/x":         "",
		"https://git.example.com/acme/./../other/x":       "",
		"https://git.example.com/acme/..":                 "",
		"https://git.example.com/acme/%2e%2e/other/x":     "",
		"https://git.example.com/acme%2f..%2fother/x":     "",
		"https://git.example.com/acme/%252e%252e/other":   "",
		"https://git.example.com/acme/..%5cother/x":       "",
		"https://git.example.com/acme//other/x":           "",
		"git@git.example.com:acme/components":             "",
		"https://git.example.com.evil.example.org/acme/x": "https://git.example.com.evil.example.org/acme",
	} {
		if got := ownerOf(address); got != want {
			t.Errorf("%s: the result of ownerOf is %q", address, got)
		}
	}
}

// Other repositories of the fleet are read with the source's credential, even while rendered branches are pushed with
// another one.
func TestPushingKeepsTheCredentialForReading(t *testing.T) {
	t.Parallel()
	r := Runtime{Cache: t.TempDir(), Version: "test", Clock: time.Now, Git: gitstore.Auth{Token: "read"}}
	s, err := Open(t.Context(), r, Options{
		Repo: "https://git.example.com/acme/fleet", Jobs: 1,
		Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	pushing := s.WithGit(gitstore.Auth{Token: "push"})
	for _, one := range []*Session{s, pushing} {
		if got := one.credentialsFor(r)("https://git.example.com/acme/components").Token; got != "read" {
			t.Errorf("token %q", got)
		}
		if got := one.credentialsFor(r)("https://git.example.com/other/components").Token; got != "" {
			t.Errorf("token %q for another owner", got)
		}
	}
}
