package events_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/emersion/go-smtp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/conditions"
	"github.com/sluice-gitops/sluice/service/events"
	"github.com/sluice-gitops/sluice/service/notify"
)

var errChanged = errors.New("changed")

// store is a Store in memory.
type store struct {
	mu        sync.Mutex
	records   map[string][]byte
	revisions map[string]uint64
	last      uint64
}

func newStore() *store { return &store{records: map[string][]byte{}, revisions: map[string]uint64{}} }

func (*store) Key(place string) string { return place }

func (s *store) Keys(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.records)), nil
}

func (s *store) Load(_ context.Context, key string) ([]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records[key]), s.revisions[key], nil
}

func (s *store) Swap(_ context.Context, key string, record []byte, revision uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revisions[key] != revision {
		return errChanged
	}
	s.last++
	s.records[key], s.revisions[key] = record, s.last
	return nil
}

func (s *store) Drop(_ context.Context, revision uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, have := range s.revisions {
		if have == revision {
			delete(s.records, key)
			delete(s.revisions, key)
		}
	}
	return nil
}

const secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"

// place is the repository of the tests.
func place() string { return "github/acme/fleet" }

// told is a request that a receiver got.
type told struct {
	header http.Header
	body   []byte
}

// listener is a receiver of requests.
type listener struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []told
}

func listen(t *testing.T) *listener {
	t.Helper()
	l := &listener{status: http.StatusNoContent}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got = append(l.got, told{r.Header, body})
		if l.status == http.StatusFound {
			w.Header().Set("Location", l.URL+"/elsewhere")
		}
		w.WriteHeader(l.status)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *listener) answer(status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = status
}

// take returns the requests since the last call.
func (l *listener) take() []told {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.got
	l.got = nil
	return out
}

// bench has a ledger with a clock and a log of its own.
type bench struct {
	t     *testing.T
	store *store
	now   time.Time
	log   bytes.Buffer
	to    []events.Receiver
	late  time.Duration
}

func newBench(t *testing.T, to ...events.Receiver) *bench {
	t.Helper()
	return &bench{t: t, store: newStore(), now: time.Now().UTC(), to: to, late: time.Hour}
}

// ledger returns a new ledger on the store, as after a restart.
func (b *bench) ledger() *events.Ledger {
	return events.New(events.Config{
		Store: b.store, Changed: errChanged, Receivers: b.to, Late: b.late, Client: notify.NewClient(),
		UserAgent: "sluice/test",
		Clock:     func() time.Time { return b.now }, Log: slog.New(slog.NewTextHandler(&b.log, nil)),
		Observe: func(string, string) {},
	})
}

// observe records what a task of the trunk found, and delivers.
func (b *bench) observe(f conditions.Found) {
	b.t.Helper()
	f.Repository, f.URL = "acme/fleet", "https://github.com/acme/fleet"
	if f.Result == nil && f.Refused == "" {
		f.Result = &hydrate.Result{}
	}
	l := b.ledger()
	holds, covers := f.Conditions()
	if err := l.Observe(b.t.Context(), place(), holds, covers); err != nil {
		b.t.Fatalf("observe: %v", err)
	}
	b.deliver()
}

func (b *bench) deliver() {
	b.t.Helper()
	if err := b.ledger().Deliver(b.t.Context()); err != nil {
		b.t.Fatalf("deliver: %v", err)
	}
}

// waiting is an environment that waits for an approval.
func waiting(name, reason string) promote.Status {
	return promote.Status{Environment: name, Decision: rollout.Decision{
		Proposal: &rollout.Proposal{Promoted: rollout.Source{Commit: "abc"}}, WaitsFor: "waits for an approval",
		Gates: []rollout.Gate{{Name: rollout.GateApprovals, State: rollout.Waiting, Reason: reason}},
	}}
}

func webhookTo(t *testing.T, l *listener) events.Receiver {
	t.Helper()
	key, err := events.SigningKey(secretText)
	if err != nil {
		t.Fatal(err)
	}
	return events.Receiver{Name: "hook", Kind: events.Webhook, URL: l.URL + "/secret-path", Secret: key}
}

// parsed is a webhook, verified with the reference implementation of Standard Webhooks and read by the SDK of
// CloudEvents.
type parsed struct {
	id, kind, subject   string
	State, Title, Text  string
	Episode, Repository string
	Command             string
}

func parse(t *testing.T, w told) parsed {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secretText)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.VerifyIgnoringTimestamp(w.body, w.header); err != nil { // tests move the clock
		t.Fatalf("the signature of %s: %v", w.body, err)
	}
	if err := verifier.VerifyIgnoringTimestamp(append(slices.Clone(w.body), ' '), w.header); err == nil {
		t.Error("the signature does not cover the body")
	}
	e := cloudevents.New()
	if err := json.Unmarshal(w.body, &e); err != nil {
		t.Fatalf("%s is no CloudEvent: %v", w.body, err)
	}
	if err := e.Validate(); err != nil {
		t.Errorf("%s is no valid CloudEvent: %v", w.body, err)
	}
	if got := w.header.Get("Content-Type"); got != "application/cloudevents+json" {
		t.Errorf("the content type is %q", got)
	}
	if w.header.Get("webhook-id") != e.ID() {
		t.Errorf("webhook-id is %q, the id of the event %q", w.header.Get("webhook-id"), e.ID())
	}
	out := parsed{id: e.ID(), kind: e.Type(), subject: e.Subject()}
	if err := json.Unmarshal(e.Data(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// An episode is told once, then its changes, then its end, and a restart repeats nothing.
func TestEpisode(t *testing.T) {
	t.Parallel()
	l := listen(t)
	b := newBench(t, webhookTo(t, l))
	b.observe(conditions.Found{Promotions: []promote.Status{waiting("prod", "1 of 2 approvals")}})
	got := l.take()
	if len(got) != 1 {
		t.Fatalf("the beginning was told %d times", len(got))
	}
	first := parse(t, got[0])
	verifier, err := standardwebhooks.NewWebhook(secretText)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(got[0].body, got[0].header); err != nil {
		t.Errorf("the signature with its time: %v", err)
	}
	if first.kind != "dev.sluice.approval" || first.subject != "prod" || first.State != "opened" ||
		first.Text != "1 of 2 approvals" || first.Command != "sluice approve prod" || first.Repository != "acme/fleet" {
		t.Errorf("the beginning is %+v", first)
	}
	b.observe(conditions.Found{Promotions: []promote.Status{waiting("prod", "1 of 2 approvals")}})
	if got := l.take(); len(got) != 0 {
		t.Errorf("the same condition was told again: %s", got[0].body)
	}
	b.observe(conditions.Found{Promotions: []promote.Status{waiting("prod", "0 of 2 approvals")}})
	if got := l.take(); len(got) != 1 {
		t.Errorf("the change was told %d times", len(got))
	} else if next := parse(t, got[0]); next.State != "updated" || next.Episode != first.Episode || next.id == first.id {
		t.Errorf("the change was told as %+v", next)
	}
	// What was not read ends nothing.
	b.observe(conditions.Found{Partial: true})
	b.observe(conditions.Found{Refused: "clusters/a.yaml:1:1: broken"})
	for _, w := range l.take() {
		if one := parse(t, w); one.kind != "dev.sluice.refused" {
			t.Errorf("without promotions, the receiver is told %+v", one)
		}
	}
	b.observe(conditions.Found{})
	ended := map[string]string{}
	for _, w := range l.take() {
		one := parse(t, w)
		ended[one.kind] = one.State
	}
	if want := map[string]string{"dev.sluice.approval": "ended", "dev.sluice.refused": "ended"}; !maps.Equal(ended, want) {
		t.Errorf("the ends are %v, want %v", ended, want)
	}
	if len(b.store.records) != 0 {
		t.Errorf("the store keeps %s", b.store.records[place()])
	}
}

// A receiver that fails is told later, with the same id, also after a restart, and the log has neither its address nor
// its secret.
func TestRetries(t *testing.T) {
	t.Parallel()
	l := listen(t)
	b := newBench(t, webhookTo(t, l))
	for _, status := range []int{http.StatusInternalServerError, http.StatusFound, http.StatusNotFound} {
		l.answer(status)
		b.observe(conditions.Found{Promotions: []promote.Status{waiting("prod", "nobody approved")}})
		b.now = b.now.Add(2 * time.Minute)
	}
	failed := l.take()
	if len(failed) != 3 {
		t.Fatalf("the receiver got %d attempts, want 3", len(failed))
	}
	l.answer(http.StatusOK)
	b.deliver()
	got := l.take()
	if len(got) != 1 || got[0].header.Get("webhook-id") != failed[0].header.Get("webhook-id") ||
		!bytes.Equal(got[0].body, failed[0].body) {
		t.Fatalf("after the failures, the receiver got %v, want the same message as before", got)
	}
	b.now = b.now.Add(time.Hour)
	b.deliver()
	if got := l.take(); len(got) != 0 {
		t.Errorf("an acknowledged message was sent again: %s", got[0].body)
	}
	text := b.log.String()
	if !strings.Contains(text, "answers 404") || strings.Contains(text, "secret-path") ||
		strings.Contains(text, strings.TrimPrefix(secretText, "whsec_")) {
		t.Errorf("the log is\n%s", text)
	}
	// A message that ends before it was ever received is not sent.
	l.answer(http.StatusInternalServerError)
	b.observe(conditions.Found{Promotions: []promote.Status{waiting("staging", "x")}})
	l.answer(http.StatusOK)
	b.now = b.now.Add(time.Hour)
	l.take()
	b.observe(conditions.Found{})
	for _, w := range l.take() {
		if one := parse(t, w); one.subject == "staging" {
			t.Errorf("the receiver is told of the end of what it did not know: %+v", one)
		}
	}
}

// Two processes with one store tell a receiver once.
func TestReplicas(t *testing.T) {
	t.Parallel()
	l := listen(t)
	b := newBench(t, webhookTo(t, l))
	holds, covers := (&conditions.Found{
		Repository: "acme/fleet", URL: "https://github.com/acme/fleet", Result: &hydrate.Result{},
		Promotions: []promote.Status{waiting("prod", "x")},
	}).Conditions()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			one := b.ledger()
			if err := errors.Join(one.Observe(t.Context(), place(), holds, covers), one.Deliver(t.Context())); err != nil {
				t.Errorf("a replica: %v", err)
			}
		})
	}
	group.Wait()
	if got := l.take(); len(got) != 1 {
		t.Errorf("the receiver was told %d times", len(got))
	}
}

// Each situation of a promotion is an event of its kind.
func TestConditions(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	situation := func(d rollout.Decision) promote.Status { return promote.Status{Environment: "prod", Decision: d} }
	for name, test := range map[string]struct {
		found conditions.Found
		want  []string // kind, severity, environment, workspaces
	}{
		"failed": {conditions.Found{Promotions: []promote.Status{situation(rollout.Decision{
			Record: rollout.Record{Halt: &rollout.Halt{Reason: "2 apps are red", At: at}},
		})}}, []string{"failed error prod []"}},
		"halted": {conditions.Found{Promotions: []promote.Status{situation(rollout.Decision{
			Record: rollout.Record{Halt: &rollout.Halt{By: "mia", Reason: "incident", At: at}},
		})}}, []string{"halted warning prod []"}},
		"rolled back": {conditions.Found{Promotions: []promote.Status{situation(rollout.Decision{
			Record: rollout.Record{Holds: []rollout.Hold{
				{Cause: rollout.CauseRolledBack, Source: rollout.Source{Commit: "a"}, Workspaces: []string{"web"}, Since: at},
			}},
		})}}, []string{"rolledBack warning prod [web]"}},
		"frozen": {conditions.Found{Promotions: []promote.Status{situation(rollout.Decision{
			Freezes: []rollout.Freeze{{Target: "prod-1", From: at, Reason: "sale", By: "mia"}},
		})}}, []string{"frozen info prod []"}},
		"silent": {conditions.Found{Promotions: []promote.Status{situation(rollout.Decision{
			Silent: []rollout.Silence{{Cluster: "prod-1", Status: "argocd/*", Since: at}},
		})}}, []string{"late warning prod []"}},
		"hydration": {conditions.Found{Result: &hydrate.Result{Environments: []hydrate.EnvironmentResult{
			{Name: "dev", Status: hydrate.StatusFailed, Failures: []hydrate.Failure{{App: "a", Cluster: "c", Message: "m"}}},
			{Name: "qa", Status: hydrate.StatusUpdated, Held: []hydrate.HeldWorkspace{{Workspace: "web", Reason: "r"}}},
			{Name: "up", Status: hydrate.StatusUnchanged},
		}}}, []string{"refused error dev []", "refused warning qa [web]"}},
		"fleet": {conditions.Found{Refused: "sluice.yaml:1:1: broken"}, []string{"refused error  []"}},
		"quiet": {conditions.Found{Promotions: []promote.Status{situation(rollout.Decision{})}}, nil},
	} {
		holds, _ := test.found.Conditions()
		var got []string
		for _, e := range holds.Events {
			got = append(got, string(e.Kind)+" "+string(e.Severity)+" "+e.Environment+" ["+strings.Join(e.Workspaces, " ")+"]")
			if e.Title == "" {
				t.Errorf("%s: an event has no title", name)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// A promotion that waits for a red check is late after a while, and one that waits for a person or the clock is not.
func TestLate(t *testing.T) {
	t.Parallel()
	l := listen(t)
	b := newBench(t, webhookTo(t, l))
	held := func(gates ...rollout.Gate) conditions.Found {
		return conditions.Found{Promotions: []promote.Status{{Environment: "prod", Decision: rollout.Decision{
			Proposal: &rollout.Proposal{}, Gates: gates, WaitsFor: "health",
		}}}}
	}
	health := rollout.Gate{Name: rollout.GateHealth, State: rollout.Unknown, Reason: "no status of shop"}
	b.observe(held(health))
	b.now = b.now.Add(50 * time.Minute)
	b.observe(held(health, rollout.Gate{Name: rollout.GateWindow, State: rollout.Waiting}))
	b.observe(held(health))
	b.now = b.now.Add(50 * time.Minute)
	b.observe(held(health))
	if got := l.take(); len(got) != 0 {
		t.Fatalf("it is late before an hour: %s", got[0].body)
	}
	b.now = b.now.Add(20 * time.Minute)
	b.observe(held(health))
	if got := l.take(); len(got) != 1 || parse(t, got[0]).kind != "dev.sluice.late" {
		t.Errorf("after an hour, got %v, want that it is late", got)
	}
}

// Rules select by repository, kind, environment, severity and workspace.
func TestRules(t *testing.T) {
	t.Parallel()
	failed := promote.Status{Environment: "prod", Decision: rollout.Decision{Record: rollout.Record{
		Halt: &rollout.Halt{Reason: "red", At: time.Now()},
	}}}
	mine := promote.Status{Environment: "qa", Decision: rollout.Decision{Record: rollout.Record{
		Rollback: &rollout.Rollback{Workspaces: []string{"web"}},
	}}}
	for name, test := range map[string]struct {
		rule events.Receiver
		want []string
	}{
		"all":         {events.Receiver{}, []string{"approval staging", "failed prod", "rolledBack qa"}},
		"severity":    {events.Receiver{Severity: events.Warning}, []string{"failed prod", "rolledBack qa"}},
		"errors":      {events.Receiver{Severity: events.Error}, []string{"failed prod"}},
		"environment": {events.Receiver{Environments: []string{"st*", "dev"}}, []string{"approval staging"}},
		"workspace":   {events.Receiver{Workspaces: []string{"web"}}, []string{"rolledBack qa"}},
		"kind":        {events.Receiver{Events: []events.Kind{events.Approval}}, []string{"approval staging"}},
		"repository":  {events.Receiver{Repositories: func(string) bool { return false }}, nil},
	} {
		l := listen(t)
		rule := webhookTo(t, l)
		rule.Severity, rule.Environments, rule.Workspaces = test.rule.Severity, test.rule.Environments, test.rule.Workspaces
		rule.Events, rule.Repositories = test.rule.Events, test.rule.Repositories
		newBench(t, rule).observe(conditions.Found{Promotions: []promote.Status{waiting("staging", "x"), failed, mine}})
		var got []string
		for _, w := range l.take() {
			one := parse(t, w)
			got = append(got, strings.TrimPrefix(one.kind, "dev.sluice.")+" "+one.subject)
		}
		if slices.Sort(got); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// hostile is a reason that somebody wrote to look like markup, a mention, or another line.
const hostile = "*bold* <!channel> [x](http://evil.example.com) :tada: \x1b[2J\r\nBcc: a@example.com"

// Chats get one message when an episode begins and one when it ends. Nothing in it is markup.
func TestChats(t *testing.T) {
	t.Parallel()
	for _, kind := range []events.ReceiverKind{events.Slack, events.Teams} {
		l := listen(t)
		b := newBench(t, events.Receiver{Name: "chat", Kind: kind, URL: l.URL + "/T0/secret"})
		b.observe(conditions.Found{Promotions: []promote.Status{waiting("prod", hostile)}})
		b.observe(conditions.Found{Promotions: []promote.Status{waiting("prod", "another text")}})
		b.observe(conditions.Found{})
		got := l.take()
		if len(got) != 2 {
			t.Fatalf("%s: got %d messages, want one for the beginning and one for the end", kind, len(got))
		}
		for i, w := range got {
			var message map[string]any
			if err := json.Unmarshal(w.body, &message); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			text := string(w.body)
			want := map[bool]string{true: "prod waits for an approval", false: "Over: prod waits for an approval"}[i == 0]
			if !strings.Contains(text, want) || !strings.Contains(text, "https://github.com/acme/fleet") {
				t.Errorf("%s: message %d is %s", kind, i, text)
			}
			for _, markup := range []string{`"mrkdwn"`, `"TextBlock"`, `\u001b`} {
				if strings.Contains(text, markup) {
					t.Errorf("%s: the message has %s: %s", kind, markup, text)
				}
			}
		}
	}
}

// A template of the operator replaces the text.
func TestTemplate(t *testing.T) {
	t.Parallel()
	l := listen(t)
	text, err := events.ParseTemplate("{{.Environment}} needs {{.Kind}}\n{{.Title}}")
	if err != nil {
		t.Fatal(err)
	}
	newBench(t, events.Receiver{Name: "chat", Kind: events.Slack, URL: l.URL, Template: text}).observe(conditions.Found{
		Promotions: []promote.Status{waiting("prod", "x")},
	})
	if got := l.take(); len(got) != 1 || !strings.Contains(string(got[0].body), `"prod needs approval"`) {
		t.Errorf("got %v, want the text of the template", got)
	}
	for _, wrong := range []string{"{{", "{{.Nonsense}}", "{{call .Title}}"} {
		if _, err := events.ParseTemplate(wrong); err == nil {
			t.Errorf("the template %q is accepted", wrong)
		}
	}
}

// mailbox is a server that keeps mail. It implements smtp.Backend and smtp.Session.
type mailbox struct {
	mu   sync.Mutex
	mail []string
	to   []string
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return m, nil }
func (m *mailbox) Mail(string, *smtp.MailOptions) error        { return nil }
func (m *mailbox) Reset()                                      {}
func (m *mailbox) Logout() error                               { return nil }

func (m *mailbox) Rcpt(to string, _ *smtp.RcptOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.to = append(m.to, to)
	return nil
}

func (m *mailbox) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mail = append(m.mail, string(data))
	return err
}

// The mails of an episode are one thread, and a text adds neither headers nor recipients.
func TestMail(t *testing.T) {
	t.Parallel()
	box := &mailbox{}
	server := smtp.NewServer(box)
	server.Domain = "localhost"
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, events.Receiver{Name: "mail", Kind: events.Email, Mail: events.Mail{
		Host: "127.0.0.1", Port: number, TLS: "none", From: "Sluice <sluice@example.com>", To: []string{"sre@example.com"},
	}})
	b.observe(conditions.Found{Promotions: []promote.Status{waiting("prod", hostile)}})
	b.observe(conditions.Found{})
	box.mu.Lock()
	defer box.mu.Unlock()
	if len(box.mail) != 2 || !slices.Equal(box.to, []string{"sre@example.com", "sre@example.com"}) {
		t.Fatalf("got %d mails to %q; the log is\n%s", len(box.mail), box.to, &b.log)
	}
	header := func(mail, name string) string {
		head, _, _ := strings.Cut(mail, "\r\n\r\n")
		for line := range strings.Lines(head) {
			if value, ok := strings.CutPrefix(line, name+": "); ok {
				return strings.TrimSpace(value)
			}
		}
		return ""
	}
	if id := header(box.mail[0], "Message-ID"); id == "" || header(box.mail[1], "In-Reply-To") != id {
		t.Errorf("the first mail is %q and the second replies to %q", id, header(box.mail[1], "In-Reply-To"))
	}
	if got := header(box.mail[0], "Subject"); got != "prod waits for an approval" {
		t.Errorf("the subject is %q", got)
	}
	if header(box.mail[0], "Bcc") != "" || strings.Contains(box.mail[0], "\x1b") {
		t.Errorf("the text changed the mail:\n%s", box.mail[0])
	}
}

// The receiver of docs/events.md accepts what Sluice signs, and nothing else.
func TestDocumentedReceiver(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	cmd := exec.CommandContext(t.Context(), python, "-u", "../../docs/examples/events/receiver.py", "0")
	cmd.Env = append(os.Environ(), "SECRET="+secretText)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	said := bufio.NewScanner(out)
	if !said.Scan() {
		t.Fatal("the receiver does not start")
	}
	_, address, _ := strings.Cut(said.Text(), "listening on ")
	to := webhookTo(t, &listener{Server: &httptest.Server{URL: address}})
	b := newBench(t, to)
	b.observe(conditions.Found{Promotions: []promote.Status{waiting("prod", "nobody approved")}})
	if !said.Scan() || said.Text() != "opened dev.sluice.approval: prod waits for an approval" {
		t.Fatalf("the receiver prints %q; the log is\n%s", said.Text(), &b.log)
	}
	to.Secret = bytes.Repeat([]byte("x"), 32)
	wrong := newBench(t, to)
	wrong.observe(conditions.Found{Promotions: []promote.Status{waiting("prod", "nobody approved")}})
	if !strings.Contains(wrong.log.String(), "answers 401") {
		t.Errorf("with another secret, the log is\n%s", &wrong.log)
	}
}

func TestSigningKey(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{
		"", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_not base64",
		"whsec_" + base64.StdEncoding.EncodeToString([]byte("short")),
	} {
		if _, err := events.SigningKey(wrong); err == nil {
			t.Errorf("the secret %q is accepted", wrong)
		}
	}
}
