package app_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/service"
)

// asApp makes the story's service a GitHub App.
func (s *story) asApp() {
	s.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		s.t.Fatal(err)
	}
	s.hub.AddApp(fakegithub.App{ID: 77, Slug: "sluice-app", Key: &key.PublicKey})
	s.hub.Install(77, "acme")
	file := filepath.Join(s.dir, "app.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{
		Type:  "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(key),
	}), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.reload("token: {env: TOKEN}", fmt.Sprintf("app: {id: 77, key: {file: %q}}", file))
	s.self = "sluice-app[bot]"
}

// The service works with only the installation's tokens: it reviews with a check run, and hydrates after the merge,
// although a webhook was lost and sent again.
func TestGitHubApp(t *testing.T) {
	s := newStory(t, "github")
	g := s.limitGit(func(password, path string, _ bool) bool { return s.hub.Reaches(password, path) })
	s.asApp()
	s.hub.SetRedeliver(func(d fakegithub.Delivery) int {
		code, err := s.post(s.hooks.URL, d.GUID, d.Event, fmt.Appendf(nil,
			`{"action":"opened","repository":{"full_name":%q},"pull_request":{"number":1}}`, repo))
		if err != nil {
			return http.StatusBadGateway
		}
		return code
	})
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.drop = func(event string) bool { return event == "pull_request" }
	s.branch("cad", "CAD")
	n := s.open("cad", "ada")
	s.hub.AddDelivery(fakegithub.Delivery{
		GUID: "lost-1", Event: "pull_request", Action: "opened",
		Status: http.StatusBadGateway, At: time.Now(),
	})
	s.until("the delivery arrives", func() bool {
		all := s.hub.Deliveries()
		return len(all) == 2 && all[1].GUID == "lost-1" && all[1].Status == http.StatusAccepted
	})
	s.drop = func(string) bool { return false }
	s.says(n, "+  currency: CAD")
	s.until("there is a check run", func() bool {
		list := s.hub.Checks(repo, s.head(n))
		return len(list) == 1 && list[0].Name == "sluice" && list[0].Conclusion == "success"
	})
	if got := s.status(s.head(n), "sluice"); got != "" {
		t.Errorf("a status %s beside the check run", got)
	}
	s.hub.Withdraw() // revokes the current tokens; the App gets new ones
	s.say(n, "mia", "/sluice status")
	s.until("it is answered", func() bool { return len(s.comments(n)) == 2 })
	before := s.ref("env/dev")
	s.merge(n)
	s.until("the merge is hydrated", func() bool { return s.ref("env/dev") != before })
	s.until("the commit has a status", func() bool { return s.status(s.ref("main"), "sluice/dev") == "success" })
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.sent) == 0 || len(g.pulls) == 0 {
		t.Errorf("the test is void: %v %v", g.pulls, g.sent)
	}
}

// An App's token is for one repository. Branches in another repository need a token for that one.
func TestOutputOfAnApp(t *testing.T) {
	s := newStory(t, "github")
	s.limitGit(func(password, path string, _ bool) bool { return s.hub.Reaches(password, path) })
	s.asApp()
	rendered := s.other("acme/rendered")
	s.reload("repositories: ["+repo+"]", "repositories: ["+repo+"], outputs: [acme/rendered]")
	s.setFleet("main", s.to("acme/rendered"))
	s.start()
	s.until("dev is there", func() bool { return strings.Contains(s.heads(rendered), "env/dev") })
}

// An OTLP receiver gets a span for each task, with the repository's name and none of its content.
func TestTraces(t *testing.T) {
	var mu sync.Mutex
	var got []byte
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, body...)
	}))
	defer receiver.Close()
	s := newStory(t, "gitlab")
	s.reload("sweep: 5s", "sweep: 1h") // otherwise a hint of the sweep would replace the webhook's
	var flush func(context.Context) error
	s.prepare = func(service *service.Service) {
		var err error
		if flush, err = service.Trace(t.Context(), receiver.URL+"/v1/traces", nil); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.tasks("trunk", 1)
	s.branch("cad", "CAD")
	n := s.open("cad", "ada")
	s.says(n, "CAD")
	s.until("the task ended", func() bool { return s.metric("sluice_task_seconds_count", `kind="review"`) > 0 })
	if err := flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, part := range []string{
		"task trunk", "task review", "f:" + repo, "sluice.delivery", "delivery-",
		"service.name",
	} {
		if !bytes.Contains(got, []byte(part)) {
			t.Errorf("the spans have no %q", part)
		}
	}
	for _, secret := range []string{s.options.Env.Getenv("TOKEN"), secret, "CAD"} {
		if bytes.Contains(got, []byte(secret)) {
			t.Errorf("the spans have %q", secret)
		}
	}
}
