package service

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
)

// Only errors of local files make the service clone again. The text of a message does not count, because a hook on
// the server can print anything.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err      error
		expected bool
	}{
		"corrupt pack": {fmt.Errorf("target branch main: %w",
			&gitstore.DamagedError{Path: "objects/pack/x.pack"}), true},
		"missing object":    {fmt.Errorf("object: %w", gitstore.ErrNotFound), true},
		"missing ref":       {fmt.Errorf("branch: %w", gitstore.ErrNoRef), false},
		"unrelated history": {gitstore.ErrUnrelated, false},
		"connection closed": {fmt.Errorf("fetch: %w", &url.Error{
			Op: "Post", URL: "http://git.example.com",
			Err: io.EOF,
		}), false},
		"hook says malformed": {&gitstore.RefusedError{
			Branch:  "env/dev",
			Message: "pre-receive hook declined: malformed commit message",
		}, false},
		"hook says no such file": {errors.New("the server refuses env/dev: hook: no such file or directory"), false},
		"hook says corrupt":      {errors.New("remote: fatal: packfile is corrupt, zlib: unexpected EOF"), false},
		"the server protects it": {errors.New("the server refuses: protected branch"), false},
	} {
		if got := damaged(c.err); got != c.expected {
			t.Errorf("%s: damaged is %t for %q", name, got, c.err)
		}
	}
}
