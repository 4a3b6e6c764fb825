// Package fakegithub is a GitHub in memory, over HTTP: the part of the REST API that Sluice uses, with its
// types, statuses, pages, permissions, messages and quota, and its webhooks. Tests compare each request and
// answer with GitHub's published description. A repository can be connected to a bare Git repository on disk,
// whose branches it then reads. The package must not be part of a released binary, and must not be more
// lenient than GitHub.
//
// The package is not API: it can change in every release.
package fakegithub

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/faults"
)

// Options are all optional.
type Options struct {
	// Clock returns the time; nil is a clock that starts in 2026 and advances by a second with every change.
	Clock func() time.Time
	// URL is the address of the pages and APIURL that of the API, for links. The defaults are
	// https://github.test and https://api.github.test.
	URL, APIURL string
	// OnEvent receives each webhook: the name of the event and the payload. It may call the server.
	OnEvent func(event string, payload []byte)
	// Quota is the number of requests that an hour allows; 0 is GitHub's 5,000.
	Quota int
}

// Server is the fake. All methods are safe for concurrent use.
type Server struct {
	*World
	*PullRequests
	*outbox
	mux *http.ServeMux

	redeliver func(Delivery) int // the status of another attempt; nil is 200
	faults    faults.List[FaultKind]
	requests  int
	counted   int

	graphPoints int // of the quota of GraphQL
}

// World sets up who and what is on the forge: accounts, repositories with their rules, Apps, deliveries of webhooks.
type World struct{ *outbox }

// PullRequests acts as people do on pull requests, commits and comments, and reads their state.
type PullRequests struct{ *outbox }

// outbox makes the webhooks of what happens.
type outbox struct {
	shapes
	events []event
}

// shapes are the forms in which GitHub shows the state.
type shapes struct{ *state }

// state has the repositories, accounts and changes of the forge.
type state struct {
	o Options

	mu         sync.Mutex // of the whole fake
	ticks      int64
	ids        int64
	accounts   map[string]*account // by login in lower case
	repos      map[string]*repository
	tokens     map[string]identity
	apps       []*app
	teams      map[string]map[string]string // org/slug -> login -> state, all in lower case
	deliveries []*delivery                  // oldest first
}

type event struct {
	name    string
	payload []byte
}

// New creates a GitHub without users, repositories and Apps.
func New(o Options) *Server {
	if o.URL == "" {
		o.URL = "https://github.test"
	}
	if o.APIURL == "" {
		o.APIURL = "https://api.github.test"
	}
	box := &outbox{shapes: shapes{&state{
		o: o, ids: 1000, accounts: map[string]*account{}, repos: map[string]*repository{},
		tokens: map[string]identity{}, teams: map[string]map[string]string{},
	}}}
	s := &Server{World: &World{box}, PullRequests: &PullRequests{box}, outbox: box, mux: http.NewServeMux()}
	s.routes()
	return s
}

// SetOnEvent replaces the receiver of webhooks.
func (s *Server) SetOnEvent(take func(event string, payload []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.OnEvent = take
}

// SetRedeliver sets what attempts a redelivery and returns its HTTP status. It must not call the server.
func (s *Server) SetRedeliver(send func(Delivery) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redeliver = send
}

const maxBody = 8 << 20

// call is a request in progress; the server is locked while it is answered.
type call struct {
	s    *Server
	r    *http.Request
	who  identity
	body []byte
	repo *repository
}

// answer is what a handler gives.
type answer struct {
	code  int
	value any
	link  string
}

type fields = map[string]any

type handler func(c *call) answer

// need is the permission that an address requires.
type need int

const (
	anybody need = iota
	signedIn
	asApp
	reader
	writer
)

func (s *Server) handle(pattern string, n need, h handler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if err != nil || len(body) > maxBody {
			s.write(w, r, problem(http.StatusRequestEntityTooLarge, "The request is too large."))
			return
		}
		a, lost, events := s.answer(&call{s: s, r: r, body: body}, n, h)
		if lost {
			// The documented way to cut a connection: the server of net/http catches it.
			panic(http.ErrAbortHandler)
		}
		s.write(w, r, a)
		for _, e := range events {
			s.o.OnEvent(e.name, e.payload)
		}
	})
}

func (s *Server) answer(c *call, n need, h handler) (a answer, lost bool, events []event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	who, ok := s.identify(c.r.Header.Get("Authorization"))
	c.who = who
	fault := s.faults.Take(c.r.Method, c.r.URL.Path)
	switch {
	case fault != nil && fault.Kind != Lost:
		a = faultAnswer(fault, s.now())
	case !ok:
		a = problem(http.StatusUnauthorized, "Bad credentials")
	default:
		if a, ok = c.admit(n); ok {
			a = h(c)
		}
	}
	events, s.events = s.events, nil
	return a, fault != nil && fault.Kind == Lost, events
}

// ServeHTTP implements http.Handler. It accepts the addresses of GitHub Enterprise Server, below /api/v3, too.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r2 := r.Clone(r.Context())
	if rest, ok := strings.CutPrefix(r.URL.Path, "/api/v3/"); ok {
		r2.URL.Path, r2.URL.RawPath = "/"+rest, strings.TrimPrefix(r.URL.RawPath, "/api/v3")
	} else if r.URL.Path == "/api/graphql" {
		r2.URL.Path = "/graphql"
	}
	s.mux.ServeHTTP(w, r2)
}

// quotaLimit is the number of requests that GitHub allows in an hour.
const quotaLimit = 5000

func (s *Server) quota() int { return cmp.Or(s.o.Quota, quotaLimit) }

// unchanged reports whether the client has the answer already. GitHub's ETags depend on the credential too.
func unchanged(h http.Header, r *http.Request, a answer, data []byte) bool {
	if r.Method != http.MethodGet || a.code != http.StatusOK {
		return false
	}
	sum := sha256.Sum256([]byte(r.Header.Get("Authorization") + a.link + string(data)))
	tag := fmt.Sprintf("W/\"%x\"", sum[:16])
	h.Set("ETag", tag)
	return r.Header.Get("If-None-Match") == tag
}

// count counts a request against the quota: answers 304 do not count. GraphQL has a quota of its own.
func (s *Server) count(h http.Header, changed, graph bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if graph {
		h.Set("X-RateLimit-Limit", fmt.Sprint(graphLimit))
		h.Set("X-RateLimit-Remaining", fmt.Sprint(max(graphLimit-s.graphPoints, 0)))
		h.Set("X-RateLimit-Reset", fmt.Sprint(s.peek().Add(time.Hour).Unix()))
		h.Set("X-RateLimit-Resource", "graphql")
		return
	}
	if changed {
		s.counted++
	}
	h.Set("X-RateLimit-Limit", fmt.Sprint(s.quota()))
	if h.Get("X-RateLimit-Remaining") == "" {
		h.Set("X-RateLimit-Remaining", fmt.Sprint(max(s.quota()-s.counted, 0)))
		h.Set("X-RateLimit-Reset", fmt.Sprint(s.peek().Add(time.Hour).Unix()))
	}
	h.Set("X-RateLimit-Resource", "core")
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, a answer) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-GitHub-Api-Version-Selected", "2022-11-28")
	h.Set("X-GitHub-Request-Id", rand.Text())
	if a.link != "" {
		h.Set("Link", a.link)
	}
	if f, ok := a.value.(refusal); ok {
		for k, v := range f.header {
			h.Set(k, v)
		}
		a.value = f.value
	}
	data, err := json.Marshal(a.value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	same := unchanged(h, r, a, data)
	s.count(h, !same, strings.HasSuffix(r.URL.Path, "/graphql"))
	switch {
	case same:
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	case a.code == http.StatusNoContent:
		h.Del("Content-Type")
		w.WriteHeader(a.code)
		return
	}
	w.WriteHeader(a.code)
	_, _ = w.Write(data) // the client has gone
}

// refusal is an answer with headers.
type refusal struct {
	header map[string]string
	value  any
}

func problem(code int, message string) answer {
	return answer{code: code, value: fields{
		"message": message, "documentation_url": "https://docs.github.com/rest", "status": fmt.Sprint(code),
	}}
}

// invalid returns a 422. GitHub gives its details as objects.
func invalid(resource, field, code, message string) answer {
	detail := fields{"resource": resource, "field": field, "code": code}
	if message != "" {
		detail["message"] = message
	}
	return answer{code: http.StatusUnprocessableEntity, value: fields{
		"message": "Validation Failed", "errors": []fields{detail}, "documentation_url": "https://docs.github.com/rest",
		"status": "422",
	}}
}

func notFound() answer { return problem(http.StatusNotFound, "Not Found") }

func (c *call) read(into any) bool {
	d := json.NewDecoder(bytes.NewReader(c.body))
	return d.Decode(into) == nil
}

func unreadable() answer { return problem(http.StatusBadRequest, "Problems parsing JSON") }

// now returns the time. Without a clock in the options, each call moves it by a second.
func (s *state) now() time.Time {
	if s.o.Clock != nil {
		return s.o.Clock().UTC().Truncate(time.Second)
	}
	s.ticks++
	return s.peek()
}

// peek returns the time, and does not move it.
func (s *state) peek() time.Time {
	if s.o.Clock != nil {
		return s.o.Clock().UTC()
	}
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s.ticks) * time.Second)
}

func (s *state) id() int64 {
	s.ids++
	return s.ids
}

// Counted returns the number of requests so far that count against the quota.
func (s *Server) Counted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counted
}

// Requests returns the number of requests so far, those of Apps for tokens included.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}
