// Package fakegitlab is a GitLab in memory, over HTTP: the part of the REST API v4 that Sluice uses, with its
// types, statuses, pages, permissions, messages and quota, and its webhooks. Tests compare each request and
// answer with the documentation. A project can be connected to a bare Git repository on disk, whose branches
// it then reads. The package must not be part of a released binary, and must not be more lenient than GitLab.
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
)

// Options are all optional.
type Options struct {
	Clock   func() time.Time                   // nil is a clock that moves a second whenever something happens
	URL     string                             // address of the pages, for links. Default: https://gitlab.test
	OnEvent func(event string, payload []byte) // receives each webhook: the value of X-Gitlab-Event and the payload
}

// Server is the fake. All methods are safe for concurrent use.
type Server struct {
	o Options

	mu       sync.Mutex
	ticks    int64
	ids      int
	users    map[string]*user // by lower-case name
	projects []*project
	groups   map[string]*group
	tokens   map[string]*user
	jobs     map[string]*project // job tokens
	faults   []*Fault
	events   []event
	requests int
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
	return &Server{o: o, ids: 100, users: map[string]*user{}, groups: map[string]*group{}, tokens: map[string]*user{}, jobs: map[string]*project{}}
}

// FaultKind is a kind of fault.
type FaultKind int

// The kinds of faults.
const (
	TooMany      FaultKind = iota // 429 with Retry-After
	BadGateway                    // 502
	Lost                          // the request has its effect, and the connection closes without an answer
	TooLong                       // 400: the text is too long
	Denied                        // 403
	Unauthorized                  // 401
)

// Fault is a fault of the next requests that match it.
type Fault struct {
	Kind       FaultKind
	Method     string // "" is any; "!GET" is any but GET
	Path       string // what the path must contain
	Times      int    // 0 is one
	RetryAfter time.Duration
}

// Fail adds a fault.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = max(f.Times, 1)
	s.faults = append(s.faults, &f)
}

func (s *Server) fault(r *http.Request) *Fault {
	for i, f := range s.faults {
		other, not := strings.CutPrefix(f.Method, "!")
		if f.Method != "" && (r.Method == other) == not || !strings.Contains(r.URL.Path, f.Path) {
			continue
		}
		if f.Times--; f.Times == 0 {
			s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
		}
		return f
	}
	return nil
}

func (f *Fault) answer() answer {
	switch f.Kind {
	case TooMany:
		a := answer{code: http.StatusTooManyRequests, value: fields{"message": "Retry later"}, header: map[string]string{}}
		if f.RetryAfter > 0 {
			a.header["Retry-After"] = strconv.Itoa(int(f.RetryAfter / time.Second))
		}
		return a
	case BadGateway:
		return problem(http.StatusBadGateway, "GitLab is not responding")
	case TooLong:
		return problem(http.StatusBadRequest, `{"note"=>["is too long (1100000 B). The maximum size is 1 MB."]}`)
	case Denied:
		return problem(http.StatusForbidden, "403 Forbidden")
	case Unauthorized:
		return problem(http.StatusUnauthorized, "401 Unauthorized")
	case Lost:
	}
	return answer{}
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
	fault := s.fault(c.r)
	switch {
	case fault != nil && fault.Kind != Lost:
		a = fault.answer()
	case !c.identify():
		a = problem(http.StatusUnauthorized, "401 Unauthorized")
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
		"X-Page": strconv.Itoa(page), "X-Per-Page": strconv.Itoa(per), "X-Next-Page": next, "X-Total": strconv.Itoa(len(list)),
	}}
}

// now returns the time. Without a clock in the options, each call moves it by a second.
func (s *Server) now() time.Time {
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

func (s *Server) id() int {
	s.ids++
	return s.ids
}

// quotaLimit is the number of requests that GitLab allows in a minute.
const quotaLimit = 2000

// count tells what is left of the quota. GitLab counts every request.
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
