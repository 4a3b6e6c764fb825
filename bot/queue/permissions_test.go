package queue

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) has(word string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(strings.ToLower(j.text.String()), word)
}

// restricted runs a server whose only user may use these subjects.
func restricted(t *testing.T, subjects []string) string {
	t.Helper()
	may := &server.SubjectPermission{Allow: subjects}
	srv, err := server.NewServer(&server.Options{
		ServerName: "alone", Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: t.TempDir(),
		Users: []*server.User{{
			Username: "sluice", Password: "secret",
			Permissions: &server.Permissions{Publish: may, Subscribe: may},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(patience) {
		t.Fatal("the server did not start")
	}
	return strings.Replace(srv.ClientURL(), "nats://", "nats://sluice:secret@", 1)
}

// A NATS user needs exactly the subjects that docs/deploying.md lists.
func TestPermissions(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	page, err := os.ReadFile("../../docs/deploying.md")
	if err != nil {
		t.Fatal(err)
	}
	sentence := regexp.MustCompile(`(?s)publish and subscribe to (.*?)\.\n`).FindSubmatch(page)
	if sentence == nil {
		t.Fatal("docs/deploying.md names no subjects")
	}
	var subjects []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllSubmatch(sentence[1], -1) {
		subjects = append(subjects, string(m[1]))
	}
	work := func(t *testing.T, subjects []string, most time.Duration) (denied bool) {
		t.Helper()
		log := &journal{}
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		q, err := Open(ctx, testConfig(func(c *Config) {
			c.URL, c.Replicas, c.Log = restricted(t, subjects), 1, slog.New(slog.NewTextHandler(log, nil))
		}))
		if err != nil {
			return true
		}
		defer closeQueue(t, q)
		done := make(chan Hint, 1)
		go func() {
			_ = q.Run(ctx, 1, func(_ context.Context, h Hint) error { done <- h; return nil })
		}()
		if q.Ready(ctx) != nil || q.Put(ctx, review("o/r", 1, "x")) != nil {
			return true
		}
		select {
		case <-done:
		case <-ctx.Done():
			return true
		}
		return log.has("permissions violation")
	}
	if work(t, subjects, patience) {
		t.Errorf("%v do not suffice", subjects)
	}
	for i := range subjects {
		t.Run("without "+subjects[i], func(t *testing.T) {
			t.Parallel()
			rest := append(append([]string{}, subjects[:i]...), subjects[i+1:]...)
			if !work(t, rest, 4*time.Second) {
				t.Errorf("%s is not needed", subjects[i])
			}
		})
	}
}
