package app

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// TestDamaged: files that end too early are a mirror's; a connection that does is the server's, and costs no clone.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("target branch main: %w", fmt.Errorf("fetch 9ae00cccc2: %w", io.EOF)), true},
		{errors.New("http://git.example.com/acme/fleet.git: fetch 9ae00cccc2: EOF"), true},
		{fmt.Errorf("fetch: %w", &url.Error{Op: "Post", URL: "http://git.example.com", Err: io.EOF}), false},
		{fmt.Errorf("object 15a648e25e: %w", io.ErrUnexpectedEOF), true},
		{fmt.Errorf("branch: %w", gitstore.ErrNoRef), false},
		{fmt.Errorf("object: %w", gitstore.ErrNotFound), true},
		{errors.New("the server refuses: protected branch"), false},
	} {
		if got := damaged(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}
