package server

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/internal/design"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/site"
)

// Source reads the fleets that are served.
type Source interface {
	// Repositories lists the repositories by name, such as acme/fleet. An error means that there may be others.
	Repositories(ctx context.Context) ([]string, error)
	// Tips returns a text that is another one whenever a branch of the repository has moved.
	Tips(ctx context.Context, repository string) (string, error)
	// Read reads a fleet. earlier is the last one that was read, or nil.
	Read(ctx context.Context, repository string, earlier *site.Fleet) (*site.Fleet, error)
	Reports
	// Changes makes the report of a change of an environment.
	Changes(ctx context.Context, repository string, c site.Change) (*report.Review, error)
}

// Reports are those of reviewed merge requests.
type Reports interface {
	// Reviews returns a text that is another one whenever the list of reviewed merge requests has changed, and reads
	// that list.
	Reviews(repository string) (version string, list func() []site.MergeRequest)
	// Report returns the report of a head of a merge request. The error is ErrNoReport if there is none.
	Report(ctx context.Context, h Head) (*Report, error)
}

// Access names the person of a request.
type Access interface {
	// Person returns the name of the person, and false for a stranger. It must not trust what a client can set.
	Person(r *http.Request) (name string, known bool)
	// Handle answers the requests below /-/ that belong to signing in and out. It reports whether the request is one of
	// them.
	Handle(w http.ResponseWriter, r *http.Request) bool
	// SignIn sends a stranger to where people sign in, or refuses them.
	SignIn(w http.ResponseWriter, r *http.Request)
}

// Rights say what a person may read. An error means that it is unknown, and nothing is shown. A
// promotion.UnavailableError means that it is unknown for other repositories too.
type Rights func(ctx context.Context, person, repository string) (bool, error)

// Config is what a Server works with.
type Config struct {
	Source Source
	Access Access // nil: everybody, from loopback addresses only
	Rights Rights // nil: a person who is known may read every repository
	Clock  func() time.Time
	Log    *slog.Logger
	Poll   time.Duration // between looks at the branches of a repository that somebody looks at; 0 is one second
}

const maxStreams = 1000 // open event streams

// Server serves pages. Its methods are safe for concurrent use.
type Server struct {
	config  Config
	rights  *rightsCache
	fleets  *fleets
	changes *changes
	end     chan struct{}
}

// New makes a server. Close ends its event streams.
func New(c Config) *Server {
	if c.Poll == 0 {
		c.Poll = time.Second
	}
	s := &Server{config: c, end: make(chan struct{}), rights: newRightsCache(c.Rights, c.Clock)}
	s.fleets, s.changes = newFleets(c), newChanges(c.Source)
	return s
}

// Close ends the event streams, so that the HTTP server can shut down.
func (s *Server) Close() { close(s.end) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", site.Policy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "private, no-cache")
	if s.config.Access == nil && !loopbackHost(r.Host) {
		message(w, r, http.StatusForbidden, "this address serves pages to the same machine only: configure pages.auth")
		return
	}
	if s.config.Access != nil && strings.HasPrefix(r.URL.Path, "/-/") && s.config.Access.Handle(w, r) {
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		message(w, r, http.StatusMethodNotAllowed, "pages can only be read")
		return
	}
	if r.URL.Path == "/-/style.css" { // of the list of repositories
		s.asset(w, r, "style.css")
		return
	}
	person := ""
	if s.config.Access != nil {
		var known bool
		if person, known = s.config.Access.Person(r); !known {
			s.config.Access.SignIn(w, r)
			return
		}
	}
	s.page(w, r, person)
}

// loopbackHost reports whether a request was sent to an address of this machine by that name. A name of another kind
// could be that of a page elsewhere whose address changed to ours.
func loopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if name == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && a.IsLoopback()
}

func (s *Server) page(w http.ResponseWriter, r *http.Request, person string) {
	if r.URL.Path == "/" {
		s.home(w, r, person)
		return
	}
	repository, file, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/-/")
	if !ok {
		message(w, r, http.StatusNotFound, noPage)
		return
	}
	if !s.readable(w, r, person, repository) {
		return // who may not read a repository does not learn that it exists
	}
	if s.asset(w, r, file) {
		return
	}
	if file == "events" {
		s.events(w, r, person, repository)
		return
	}
	if head, ok := reportOf(repository, file); ok {
		s.reportPage(w, r, person, head)
		return
	}
	s.fleetPage(w, r, repository, file)
}

func (s *Server) rightUnknown(w http.ResponseWriter, r *http.Request, person, repository string, err error) {
	s.config.Log.Warn("the right to see a page is unknown", "repository", repository, "person", person, "error", err)
	message(w, r, http.StatusServiceUnavailable, "the forge does not answer whether you may read this repository: try again")
}

func (s *Server) fleetPage(w http.ResponseWriter, r *http.Request, repository, file string) {
	if file == "" {
		//nolint:gosec // a repository that the service knows, with each of its parts escaped
		http.Redirect(w, r, "/"+Escape(repository)+"/-/index.html", http.StatusFound)
		return
	}
	pages, err := s.fleets.pages(r.Context(), repository)
	if err != nil {
		if r.Context().Err() == nil {
			s.config.Log.Warn("the fleet cannot be shown", "repository", repository, "error", err)
		}
		message(w, r, http.StatusBadGateway, "the fleet cannot be read: the log of the service says why")
		return
	}
	if one, ok := pages.Change(file); ok {
		s.changePage(w, r, repository, one)
		return
	}
	if file == "changes.html" {
		s.chooseChange(w, r, repository, pages)
		return
	}
	var data []byte
	ok := true
	if q := r.URL.Query().Get("q"); file == "search.html" && q != "" {
		const most = 200 // bytes of a search
		data, err = pages.Search(safetext.Shorten(q, most))
	} else {
		data, ok, err = pages.Render(file)
	}
	switch {
	case err != nil:
		s.config.Log.Error("a page cannot be made", "repository", repository, "page", file, "error", err)
		message(w, r, http.StatusInternalServerError, "the page cannot be made: the log of the service says why")
	case !ok:
		message(w, r, http.StatusNotFound, noPage)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		s.compressed(w, r, data)
	}
}

// compressed sends a page, with gzip if the client accepts it. The compressed size reveals no secret: pages contain
// none, and a search query is the only text of a request in them.
func (s *Server) compressed(w http.ResponseWriter, r *http.Request, page []byte) {
	w.Header().Add("Vary", "Accept-Encoding")
	if !acceptsGzip(r) {
		write(w, page)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, err := z.Write(page)
	if err = errors.Join(err, z.Close()); err != nil && r.Context().Err() == nil {
		s.config.Log.Debug("a page was not sent", "page", r.URL.Path, "error", err)
	}
}

//nolint:gosec // html/template has escaped the page; an error means that the client is gone
func write(w http.ResponseWriter, data []byte) { _, _ = w.Write(data) }

// Escape escapes each part of a repository's name for an address.
func Escape(repository string) string {
	parts := strings.Split(repository, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

//nolint:gochecknoglobals // parsed once
var homeTemplate = template.Must(template.New("home").Funcs(template.FuncMap{
	"show": safetext.Line, "mark": design.Mark, "path": Escape,
}).Parse(
	`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><title>Sluice</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/-/style.css"></head>
<body><header class="top"><p class="brand">{{mark}}<b>Sluice</b></p></header><main class="page"><section class="panel"><h1>Repositories</h1>{{if .Names}}<ul class="plain">{{range .Names}}<li><a href="/{{path .}}/-/index.html">{{show .}}</a></li>{{end}}</ul>{{else if not .Unknown}}<p class="empty">There is no repository that you may read.</p>{{end}}{{with .Unknown}}<p class="empty">{{.}}: try again.</p>{{end}}{{if .Person}}<form method="post" action="/-/signout"><p>Signed in as {{show .Person}}. <button>Sign out</button></p></form>{{end}}</section></main></body></html>
`))

// home lists the repositories that a person may read.
func (s *Server) home(w http.ResponseWriter, r *http.Request, person string) {
	all, err := s.config.Source.Repositories(r.Context())
	unknown := ""
	if err != nil {
		unknown = "The list of repositories is not complete"
	}
	names, err := s.readables(r.Context(), person, all)
	if err != nil {
		s.config.Log.Warn("the right to see pages is unknown", "person", person, "error", err)
		unknown = "The forge did not confirm your access to all repositories"
	}
	if len(names) == 1 && person == "" && unknown == "" {
		//nolint:gosec // a repository that the service knows, with each of its parts escaped
		http.Redirect(w, r, "/"+Escape(names[0])+"/-/index.html", http.StatusFound)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if unknown != "" && len(names) == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if err := homeTemplate.Execute(w, map[string]any{
		"Names": names, "Person": person,
		"Unknown": unknown,
	}); err != nil {
		s.config.Log.Debug("the list of repositories was not sent", "error", err)
	}
}

// errStreams means that too many people look at pages at the same time.
var errStreams = errors.New("too many open event streams")

// events tells a page when its fleet changes. The stream ends when the person may no longer read the repository.
func (s *Server) events(w http.ResponseWriter, r *http.Request, person, repository string) {
	//nolint:contextcheck // all who watch a repository share one poll, which outlives the first of them
	changes, leave, err := s.fleets.watch(repository)
	if err != nil {
		message(w, r, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer leave()
	out := http.NewResponseController(w)
	if err := out.SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.config.Log.Debug("an event stream ends with the write timeout", "error", err)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	const heartbeat = 15 * time.Second
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	send := func(text string) bool {
		if _, err := fmt.Fprint(w, text); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	if !send(": connected\n\n") {
		return
	}
	for {
		text := ": still here\n\n"
		select {
		case <-r.Context().Done():
			return
		case <-s.end:
			return
		case <-changes:
			text = "event: changed\ndata: branches\n\n"
		case <-tick.C:
		}
		if may, err := s.still(r, person, repository); err != nil || !may {
			return
		}
		if !send(text) {
			return
		}
	}
}

// still reports whether the person of an open stream is still known and may still read the repository.
func (s *Server) still(r *http.Request, person, repository string) (bool, error) {
	if s.config.Access != nil {
		if name, known := s.config.Access.Person(r); !known || name != person {
			return false, nil
		}
	}
	return s.rights.may(r.Context(), person, repository)
}
