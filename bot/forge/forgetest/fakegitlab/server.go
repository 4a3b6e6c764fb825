// Package fakegitlab is a GitLab in memory, over HTTP: the part of the REST API v4 and of GraphQL that Sluice uses,
// with its types, statuses, pages, permissions, messages and quota, and its webhooks. Tests compare each request and
// answer with the documentation. A project can be connected to a bare Git repository on disk, whose branches it then
// reads. The package must not be part of a released binary, and must not be more lenient than GitLab.
//
// The package is not API: it can change in every release.
package fakegitlab

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/faults"
)

// Options are all optional.
type Options struct {
	Clock   func() time.Time                   // nil is a clock that moves a second whenever something happens
	URL     string                             // address of the pages, for links. Default: https://gitlab.test
	OnEvent func(event string, payload []byte) // receives each webhook: the value of X-Gitlab-Event and the payload
}

// Server is the fake. All methods are safe for concurrent use.
type Server struct {
	*World
	*MergeRequests
	*outbox
	faults   faults.List[FaultKind]
	requests int
}

// World sets up who and what is on the forge: users, groups, projects with their protected branches.
type World struct{ *outbox }

// MergeRequests acts as people do on merge requests, commits and notes, and reads their state.
type MergeRequests struct{ *outbox }

// outbox makes the webhooks of what happens.
type outbox struct {
	shapes
	events []event
}

// shapes are the forms in which GitLab shows the state.
type shapes struct{ *state }

// state has the projects, users and changes of the forge.
type state struct {
	o Options

	mu       sync.Mutex // of the whole fake
	ticks    int64
	ids      int
	users    map[string]*user // by lower-case name
	projects []*project
	groups   map[string]*group
	tokens   map[string]*user
	jobs     map[string]*project // job tokens

	oneReviewer bool // no license for several
}

type event struct {
	name    string
	payload []byte
}

// New creates a GitLab without users and projects.
func New(o Options) *Server {
	if o.URL == "" {
		o.URL = "https://gitlab.test"
	}
	box := &outbox{shapes: shapes{&state{
		o: o, ids: 100, users: map[string]*user{}, groups: map[string]*group{}, tokens: map[string]*user{},
		jobs: map[string]*project{},
	}}}
	return &Server{World: &World{box}, MergeRequests: &MergeRequests{box}, outbox: box}
}

type fields = map[string]any

// answer is what a handler gives.
type answer struct {
	code   int
	value  any
	header map[string]string
}

func problem(code int, message string) answer {
	return answer{code: code, value: fields{"message": message}}
}

func notFound(what string) answer { return problem(http.StatusNotFound, "404 "+what+" Not Found") }

// call is a request in progress; the server is locked while it is answered.
type call struct {
	s     *Server
	r     *http.Request
	who   *user
	job   *project // of a job's token
	path  []string // elements below /api/v4, unescaped
	query url.Values
	body  map[string]any
}

const maxBody = 8 << 20

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		write(w, problem(http.StatusRequestEntityTooLarge, "413 Request Entity Too Large"))
		return
	}
	c := &call{s: s, r: r, query: r.URL.Query(), body: map[string]any{}}
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/api/v4/")
	ok = ok || r.URL.Path == graphPath
	for part := range strings.SplitSeq(rest, "/") {
		part, err := url.PathUnescape(part)
		ok = ok && err == nil
		c.path = append(c.path, part)
	}
	if len(body) > 0 {
		ok = ok && json.Unmarshal(body, &c.body) == nil
	}
	if !ok {
		write(w, problem(http.StatusBadRequest, "400 Bad Request"))
		return
	}
	a, lost, events := s.answer(c)
	if lost {
		panic(http.ErrAbortHandler) // the documented way to cut a connection
	}
	s.count(w.Header())
	write(w, a)
	s.mu.Lock()
	take := s.o.OnEvent
	s.mu.Unlock()
	for _, e := range events {
		take(e.name, e.payload)
	}
}

func (s *Server) answer(c *call) (a answer, lost bool, events []event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	fault := s.faults.Take(c.r.Method, c.r.URL.Path)
	switch {
	case fault != nil && fault.Kind != Lost:
		a = faultAnswer(fault)
	case !c.identify():
		a = problem(http.StatusUnauthorized, "401 Unauthorized")
	case c.r.URL.Path == graphPath && c.r.Method == http.MethodPost:
		a = c.graphQL()
	default:
		a = c.route()
	}
	events, s.events = s.events, nil
	return a, fault != nil && fault.Kind == Lost, events
}

func (c *call) identify() bool {
	if token := c.r.Header.Get("PRIVATE-TOKEN"); token != "" {
		c.who = c.s.tokens[token]
		return c.who != nil
	}
	if token := c.r.Header.Get("JOB-TOKEN"); token != "" {
		c.job = c.s.jobs[token]
		return c.job != nil
	}
	return false
}

func write(w http.ResponseWriter, a answer) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	for k, v := range a.header {
		h.Set(k, v)
	}
	if a.code == http.StatusNoContent {
		h.Del("Content-Type")
		w.WriteHeader(a.code)
		return
	}
	data, err := json.Marshal(a.value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(a.code)
	_, _ = w.Write(data) // the client has gone
}

// page returns one page of a list, with GitLab's headers
// (https://docs.gitlab.com/api/rest/#offset-based-pagination).
func (c *call) page(list []fields) answer {
	number := func(name string, def, most int) int {
		n, err := strconv.Atoi(c.query.Get(name))
		if err != nil || n < 1 {
			return def
		}
		return min(n, most)
	}
	const most = 100
	page, per := number("page", 1, 1<<20), number("per_page", 20, most)
	from := min((page-1)*per, len(list))
	to := min(from+per, len(list))
	next := ""
	if to < len(list) {
		next = strconv.Itoa(page + 1)
	}
	out := list[from:to]
	if out == nil {
		out = []fields{}
	}
	return answer{code: http.StatusOK, value: out, header: map[string]string{
		"X-Page": strconv.Itoa(page), "X-Per-Page": strconv.Itoa(per), "X-Next-Page": next,
		"X-Total": strconv.Itoa(len(list)),
	}}
}

// now returns the time. Without a clock in the options, each call moves it by a second.
func (s *state) now() time.Time {
	if s.o.Clock != nil {
		return s.o.Clock().UTC().Truncate(time.Millisecond)
	}
	s.ticks++
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s.ticks) * time.Second)
}

func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func (s *state) id() int {
	s.ids++
	return s.ids
}

// quotaLimit is the number of requests that GitLab allows in a minute.
const quotaLimit = 2000

// count returns the rest of the quota. GitLab counts every request.
func (s *Server) count(h http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s.ticks) * time.Second)
	if s.o.Clock != nil {
		at = s.o.Clock()
	}
	h.Set("RateLimit-Limit", strconv.Itoa(quotaLimit))
	h.Set("RateLimit-Remaining", strconv.Itoa(max(quotaLimit-s.requests, 0)))
	h.Set("RateLimit-Reset", strconv.FormatInt(at.Add(time.Minute).Unix(), 10))
}

// Requests returns the number of requests so far; GitLab counts all of them.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func (c *call) text(name string) string {
	if v, ok := c.body[name]; ok {
		return fmt.Sprint(v)
	}
	return c.query.Get(name)
}
