package source

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
)

type silentHost struct{ asked int }

func (s *silentHost) FetchCommit(ctx context.Context, _ fleet.GitCommit) error {
	s.asked++
	<-ctx.Done()
	return &AgainError{ctx.Err()}
}

// TestSilentHost: a host that never answers ends with the deadline, is not asked again at once, and the caller's own end
// is not remembered.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	host, slow := &silentHost{}, &slowCommits{}
	at := fleet.GitCommit{URL: "https://git.example.com/x", Commit: strings.Repeat("a", 40)}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := slow.fetch(ended, ended, host, at); err == nil || len(slow.failed) > 0 {
		t.Errorf("a cancelled read: %v, remembered %v", err, slow.failed)
	}
	limited, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer end()
	err := slow.fetch(t.Context(), limited, host, at)
	if _, again := errors.AsType[*AgainError](err); !again || !strings.Contains(err.Error(), "did not arrive") {
		t.Errorf("a silent host: %v", err)
	}
	if again := slow.fetch(t.Context(), t.Context(), host, at); again == nil || host.asked != 2 {
		t.Errorf("it was asked %d times, the error is %v, want that of the second time", host.asked, again)
	}
}
