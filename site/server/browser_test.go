package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/internal/browsertest"
	"github.com/sluice-gitops/sluice/site"
	"github.com/sluice-gitops/sluice/site/server"
)

// movingSource shows its tips as the subject of the commit that an environment runs.
type movingSource struct{ source }

func (s *movingSource) Read(_ context.Context, name string, _ *site.Fleet) (*site.Fleet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := site.Commit{Hash: head, Subject: s.tips}
	return &site.Fleet{
		Name: name, Trunk: "main", Made: time.Now(), Tip: c,
		Environments: []*site.Environment{{Name: "prod", Branch: "env/prod", Tip: head, Commit: c}},
	}, nil
}

// TestLivePageInChromium: an open page shows a branch that moved within seconds, without being loaded again. What the
// reader has opened stays open.
func TestLivePageInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	from := &movingSource{source{tips: "first"}}
	s := server.New(server.Config{Source: from, Clock: time.Now, Log: quiet(), Poll: 200 * time.Millisecond})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/move" {
			from.move(r.URL.Query().Get("to"))
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { s.Close(); h.Close() })
	var got struct {
		Errors                             []string
		Took                               int
		Said                               string
		Open, Kept, CopyWorks, Sheet, Last bool
	}
	out := browsertest.Run(t, "testdata/browser/live.js", h.URL)
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(got.Errors) > 0 || got.Said != "Updated · " || !got.Open || !got.Kept || !got.CopyWorks || !got.Sheet ||
		!got.Last {
		t.Errorf("the result is %+v", got)
	}
	t.Logf("an open page shows the move after %d ms", got.Took)
}
