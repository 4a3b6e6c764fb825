// Package webhook receives the webhooks of GitHub and GitLab: it limits, verifies and decodes them, and hands hints over. A hint
// says where to look; nothing of a payload is believed beyond that. A webhook is answered with 2xx only when its hint is on disk.
//
// It must never hold a credential that can write to a forge or to Git, never act on a payload, and never log or answer anything of a
// request but ids, kinds and sizes.
package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Kind says what a hint asks to look at.
type Kind string

// The kinds.
const (
	Review  Kind = "review"  // a merge request
	Trunk   Kind = "trunk"   // a branch
	Comment Kind = "comment" // a new comment on a merge request
	Sweep   Kind = "sweep"   // everything of a repository
	Group   Kind = "group"   // a group of a merge queue
)

// Events are the names of a kind of forge's events that are heard, as X-GitHub-Event and X-Gitlab-Event have them. GitHub sends the
// installation's to every App, subscribed or not.
func Events(kind string) []string {
	return map[string][]string{
		"github": {"push", "pull_request", "issue_comment", "check_run", "check_suite", "merge_group", "installation", "installation_repositories"},
		"gitlab": {"Push Hook", "Merge Request Hook", "Note Hook", "Pipeline Hook", "System Hook"},
	}[kind]
}

// Hint says where to look.
type Hint struct {
	Forge      string // name of the endpoint's forge
	Repository string // full path; "" for a Sweep of all of the forge's
	Kind       Kind
	Number     int    // merge request
	Comment    int64  // of Comment
	Text       string // of Comment: digest of its text when it was created; "" if the payload tells of an edited one
	Urgent     bool   // of Comment: it may have a command that should wait for no review
	Ref        string // branch that was pushed, or the group's
	Force      bool   // although nothing moved: somebody asked
	ID         string // of the delivery
	At         time.Time
}

// Sink keeps hints. Safe for concurrent use.
type Sink interface {
	// Put returns when the hint is on disk.
	Put(ctx context.Context, h Hint) error
	// Known says whether a delivery was noted before; Note notes it.
	Known(ctx context.Context, id string) (bool, error)
	Note(ctx context.Context, id string) error
}

// Endpoint is one forge's address.
type Endpoint struct {
	Forge   string   // the name that the configuration gives it
	Kind    string   // github or gitlab
	Path    string   // /hooks/<name>
	Secrets []string // of X-Hub-Signature-256, or of X-Gitlab-Token; several while they are rotated
	Signing []string // GitLab's signing secrets: whsec_…
}

// Config of a Handler.
type Config struct {
	Endpoints []Endpoint
	Sink      Sink
	Clock     func() time.Time
	Log       *slog.Logger
	MaxBody   int64         // bytes. Default: 25 MiB, GitHub's limit
	Reading   int64         // bytes of bodies held at once, before anybody knows who sent them. Default: 64 MiB; half of it for large ones
	Tolerance time.Duration // of timestamps. Default: 5m
	Within    time.Duration // most time for the sink. Default: 900ms: forges give up after some seconds
	// Observe counts. The event is one of a fixed few: what an unverified request says of itself is not passed on.
	Observe func(forge, event, result string, took time.Duration)
}

const (
	maxBody   = 25 << 20
	reading   = 64 << 20
	tolerance = 5 * time.Minute
	within    = 900 * time.Millisecond
	shortest  = 16 // bytes of a secret
)

// New makes the handler of all endpoints. An endpoint without a secret is refused: anybody could speak for the forge.
func New(c Config) (http.Handler, error) {
	if c.Sink == nil || c.Clock == nil || c.Log == nil {
		return nil, errors.New("webhook: a sink, a clock and a log are needed")
	}
	if c.MaxBody == 0 {
		c.MaxBody = maxBody
	}
	if c.Reading == 0 {
		c.Reading = reading
	}
	if c.Tolerance == 0 {
		c.Tolerance = tolerance
	}
	if c.Within == 0 {
		c.Within = within
	}
	if c.Observe == nil {
		c.Observe = func(string, string, string, time.Duration) {}
	}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash, r.RedirectFixedPath = false, false
	if err := r.SetTrustedProxies(nil); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	r.Use(gin.CustomRecoveryWithWriter(io.Discard, func(g *gin.Context, _ any) { g.AbortWithStatus(http.StatusInternalServerError) }))
	seen, held := map[string]bool{}, &budget{most: c.Reading}
	for _, e := range c.Endpoints {
		decode, err := e.check()
		if err != nil {
			return nil, err
		}
		if seen[e.Path] {
			return nil, fmt.Errorf("webhook: two forges have the path %s", e.Path)
		}
		seen[e.Path] = true
		h := &endpoint{Config: c, Endpoint: e, decode: decode, held: held}
		r.POST(e.Path, h.receive)
	}
	return r, nil
}

func (e *Endpoint) check() (decoder, error) {
	if !strings.HasPrefix(e.Path, "/") || strings.ContainsAny(e.Path, ":*") {
		return nil, fmt.Errorf("webhook: %q is no path", e.Path)
	}
	all := append(append([]string{}, e.Secrets...), e.Signing...)
	if len(all) == 0 {
		return nil, fmt.Errorf("webhook: the forge %s has no secret: make one (openssl rand -hex 32) and set it on both sides", e.Forge)
	}
	for _, s := range all {
		if len(s) < shortest {
			return nil, fmt.Errorf("webhook: a secret of the forge %s has fewer than %d characters: make one with openssl rand -hex 32", e.Forge, shortest)
		}
	}
	switch e.Kind {
	case "github":
		if len(e.Signing) > 0 {
			return nil, fmt.Errorf("webhook: the forge %s is GitHub, which has no signing secrets: use secrets", e.Forge)
		}
		return github{}, nil
	case "gitlab":
		for _, s := range e.Signing {
			if _, err := signingKey(s); err != nil {
				return nil, fmt.Errorf("webhook: the forge %s: %w", e.Forge, err)
			}
		}
		return gitlab{}, nil
	}
	return nil, fmt.Errorf("webhook: the forge %s is of kind %q: github or gitlab", e.Forge, e.Kind)
}

// decoder is what is different between the forges.
type decoder interface {
	// events are those that are known: the others are of no interest.
	// identify gives the delivery's id and the event's kind.
	identify(h http.Header) (id, event string)
	// verify says whether the body comes from who knows the secret.
	verify(e *Endpoint, h http.Header, body []byte, now time.Time, tolerance time.Duration) error
	// decode gives the hints of an event; none if it is of no interest.
	decode(event string, body []byte) ([]Hint, error)
}

type endpoint struct {
	Config
	Endpoint
	decode decoder
	held   *budget // of all endpoints
}

// Errors of verification; the answer does not tell them apart.
var (
	errUnsigned = errors.New("no signature that fits")
	errOld      = errors.New("the timestamp is too far from now")
)

// What the event of a request is called that was not verified, or that is of no interest.
const (
	eventUnverified = "unverified"
	eventOther      = "other"
)

// reply is the answer to a webhook.
type reply struct {
	code   int
	result string
	size   int
	event  string // as it is counted
}

// receive answers one webhook.
func (e *endpoint) receive(g *gin.Context) {
	began := e.Clock()
	id, event := e.decode.identify(g.Request.Header)
	id, event = plain(id), plain(event)
	a := e.answer(g, id, event)
	if a.code == http.StatusServiceUnavailable {
		g.Header("Retry-After", "10")
	}
	g.JSON(a.code, gin.H{"result": a.result})
	took := e.Clock().Sub(began)
	e.Observe(e.Forge, a.event, a.result, took)
	e.Log.Info("webhook", "forge", e.Forge, "delivery", id, "event", event, "bytes", a.size, "result", a.result, "status", a.code)
}

// answer reads, verifies and takes a webhook.
func (e *endpoint) answer(g *gin.Context, id, event string) reply {
	body := &body{budget: e.held}
	defer body.free()
	if code, result, size := e.read(g, body, event); code != 0 {
		return reply{code, result, size, eventUnverified}
	}
	out := reply{event: eventOther}
	if slices.Contains(Events(e.Kind), event) {
		out.event = event
	}
	out.code, out.result, out.size = e.take(g.Request.Context(), id, event, body.data)
	return out
}

// read reads and verifies the body; a code says why not.
func (e *endpoint) read(g *gin.Context, body *body, event string) (code int, result string, size int) {
	media, _, err := mime.ParseMediaType(g.GetHeader("Content-Type"))
	if err != nil || media != "application/json" {
		return http.StatusUnsupportedMediaType, "only application/json", 0
	}
	if event == "" {
		return http.StatusBadRequest, "no event", 0
	}
	if g.Request.ContentLength > e.MaxBody {
		return http.StatusRequestEntityTooLarge, "too large", int(g.Request.ContentLength)
	}
	if err := body.read(http.MaxBytesReader(g.Writer, g.Request.Body, e.MaxBody)); err != nil {
		if errors.Is(err, errBusy) {
			return http.StatusServiceUnavailable, "busy", len(body.data)
		}
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return http.StatusRequestEntityTooLarge, "too large", len(body.data)
		}
		return http.StatusBadRequest, "cut off", len(body.data)
	}
	if err := e.decode.verify(&e.Endpoint, g.Request.Header, body.data, e.Clock(), e.Tolerance); err != nil {
		return http.StatusUnauthorized, "not verified", len(body.data)
	}
	return 0, "", len(body.data)
}

// take decodes what was verified, and hands its hints over.
func (e *endpoint) take(ctx context.Context, id, event string, body []byte) (code int, result string, size int) {
	hints, err := e.decode.decode(event, body)
	if err != nil {
		return http.StatusBadRequest, "not understood", len(body)
	}
	if len(hints) == 0 {
		return http.StatusOK, "ignored", len(body)
	}
	ctx, cancel := context.WithTimeout(ctx, e.Within)
	defer cancel()
	return e.put(ctx, id, body, hints, e.Clock())
}

// put hands the hints over. A delivery is noted after its hints are on disk: a crash in between costs a hint that comes twice, never one
// that is lost. Both its id and its content are noted, so that a replay under another id is known too.
func (e *endpoint) put(ctx context.Context, id string, body []byte, hints []Hint, now time.Time) (code int, result string, size int) {
	sum := sha256.Sum256(append([]byte(e.Forge+"\x00"), body...))
	names := []string{e.Forge + " body " + hex.EncodeToString(sum[:])}
	if id != "" {
		names = append(names, e.Forge+" id "+id)
	}
	for _, name := range names {
		known, err := e.Sink.Known(ctx, name)
		if err != nil {
			return e.unavailable(err, len(body))
		}
		if known {
			return http.StatusOK, "known", len(body)
		}
	}
	for _, h := range hints {
		h.Forge, h.ID, h.At = e.Forge, id, now
		if err := e.Sink.Put(ctx, h); err != nil {
			return e.unavailable(err, len(body))
		}
	}
	for _, name := range names {
		if err := e.Sink.Note(ctx, name); err != nil {
			e.Log.Warn("a delivery could not be noted: a replay would be taken for new", "error", err)
		}
	}
	return http.StatusAccepted, "accepted", len(body)
}

func (e *endpoint) unavailable(err error, size int) (int, string, int) {
	e.Log.Error("the queue does not take hints", "error", err)
	return http.StatusServiceUnavailable, "try again", size
}

// plain is a header's value as it may be logged and counted; "" if it is more than a name.
func plain(s string) string {
	if regexp.MustCompile(`^[A-Za-z0-9_. \-]{1,100}$`).MatchString(s) {
		return s
	}
	return ""
}

// repository checks a path that a payload names.
func repository(path string) bool {
	return len(path) < 500 && regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_][A-Za-z0-9_.\-]*)+$`).MatchString(path)
}

// branch takes a branch's name out of a ref; "" for tags and for what was deleted.
func branch(ref, after string) string {
	name, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok || len(name) > 500 || strings.Trim(after, "0") == "" || bytes.ContainsAny([]byte(name), "\x00\n\r") {
		return ""
	}
	return name
}

// created is the digest of a comment's text, if the payload has it as it was created: somebody else may have edited it since.
func created(text, at, updated string) string {
	if text == "" || at != updated {
		return ""
	}
	return forge.TextDigest(text)
}

// urgent says whether a comment may have a command that should wait for nothing. Whether it has one, and who may, is found out later.
func urgent(text string) bool {
	return regexp.MustCompile(`(?m)^/sluice (cancel|halt|rollback|freeze)\b`).MatchString(text)
}
