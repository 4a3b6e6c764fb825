// Package webhook receives the webhooks of GitHub, GitLab, Gitea and Forgejo. It limits, verifies and decodes them, and writes hints
// to a Sink. A hint names what may have changed; the worker reads the current state from the forge. The package
// answers 2xx only after the hint is on disk.
//
// A verified event is never refused for its payload: if the payload does not have the documented shape, the hint is a
// sweep of the repository.
//
// The package holds no credential that can write to a forge or to Git, does not act on a payload, and logs only ids,
// kinds and sizes.
//
// The package is not API: it can change in every release.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// Events returns the names of the events that Sluice uses, as in X-GitHub-Event, X-Gitlab-Event and X-Gitea-Event.
// GitHub sends the events of installations to every App, subscribed or not.
func Events(kind string) []string {
	return map[string][]string{
		"github": {
			"push", "pull_request", "issue_comment", "check_run", "check_suite", "merge_group", "member",
			"membership", "organization", "team", "installation", "installation_repositories",
		},
		"gitlab": {
			"Push Hook", "Tag Push Hook", "Merge Request Hook", "Note Hook", "Pipeline Hook", "Member Hook",
			"System Hook",
		},
		"gitea": {"push", "pull_request", "issue_comment"},
	}[kind]
}

// Sink stores hints. Implementations are safe for concurrent use.
type Sink interface {
	// Put returns when the hint is on disk.
	Put(ctx context.Context, h hint.Hint) error
	// Known reports whether Note recorded a delivery.
	Known(ctx context.Context, id string) (bool, error)
	// Note records a delivery.
	Note(ctx context.Context, id string) error
}

// Endpoint is the address that one forge sends its webhooks to.
type Endpoint struct {
	Forge string // name of the forge in the configuration
	Kind  string // github, gitlab or gitea
	Path  string // /hooks/<name>
	// for X-Hub-Signature-256, X-Gitlab-Token or X-Gitea-Signature; several during a rotation
	Secrets []string
	Signing []string // GitLab's signing secrets: whsec_…
}

// Config configures the handler of New.
type Config struct {
	Endpoints []Endpoint
	Sink      Sink
	Clock     func() time.Time
	Log       *slog.Logger
	MaxBody   int64 // greatest size of a body, in bytes. Default: 25 MiB, GitHub's limit
	// memory for all bodies that are being read, in bytes. Default: 64 MiB, half of it for bodies above 1 MiB
	Reading   int64
	Tolerance time.Duration // greatest age of a signature's timestamp. Default: 5m
	// time in which the sink must store the hints of a webhook. Default: 900ms, because forges give up after some
	// seconds
	Within time.Duration
	// Observe counts a webhook. The event is one of Events, "other", or "unverified"; the event name of an unverified
	// request is not used.
	Observe func(forge, event, result string, took time.Duration)
}

const minSecret = 16 // bytes

// New returns the handler of all endpoints. It refuses an endpoint without a secret, because anybody could
// send its events.
func New(c Config) (http.Handler, error) {
	if c.Sink == nil || c.Clock == nil || c.Log == nil {
		return nil, errors.New("webhook: Sink, Clock or Log is not set")
	}
	c.setDefaults()
	r, err := newRouter()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	bodies := newBodies(c.Reading)
	var problems []error
	for _, e := range c.Endpoints {
		protocol, err := e.check()
		if err == nil && seen[e.Path] {
			err = fmt.Errorf("webhook: two forges have the path %s (give each its own name)", e.Path)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		seen[e.Path] = true
		h := &endpoint{Config: c, Endpoint: e, protocol: protocol, bodies: bodies}
		r.POST(e.Path, h.receive)
	}
	return r, errors.Join(problems...)
}

// setDefaults sets the fields that have a default and are not set.
func (c *Config) setDefaults() {
	c.MaxBody = cmp.Or(c.MaxBody, 25<<20)
	c.Reading = cmp.Or(c.Reading, 64<<20)
	c.Tolerance = cmp.Or(c.Tolerance, 5*time.Minute)
	c.Within = cmp.Or(c.Within, 900*time.Millisecond)
	if c.Observe == nil {
		c.Observe = func(string, string, string, time.Duration) {}
	}
}

// newRouter returns a router without endpoints. It answers only their exact paths, and logs nothing: Gin's own logs
// have the query string of a request, and after a panic its headers.
func newRouter() (*gin.Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.RedirectTrailingSlash, r.RedirectFixedPath = false, false
	if err := r.SetTrustedProxies(nil); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	r.Use(gin.CustomRecoveryWithWriter(io.Discard, func(g *gin.Context, _ any) {
		g.AbortWithStatus(http.StatusInternalServerError)
	}))
	return r, nil
}

// check validates an endpoint and returns the protocol of its kind of forge.
func (e *Endpoint) check() (protocol, error) {
	if !strings.HasPrefix(e.Path, "/") || strings.ContainsAny(e.Path, ":*") {
		return nil, fmt.Errorf("webhook: the path %q of the forge %s does not begin with / or contains : or *", e.Path,
			e.Forge)
	}
	all := append(append([]string{}, e.Secrets...), e.Signing...)
	if len(all) == 0 {
		return nil, fmt.Errorf("webhook: the forge %s has no secret (create one with openssl rand -hex 32 and set it here and on the forge)", e.Forge)
	}
	for _, s := range all {
		if len(s) < minSecret {
			return nil, fmt.Errorf("webhook: a secret of the forge %s has fewer than %d characters (create one with openssl rand -hex 32)", e.Forge, minSecret)
		}
	}
	if e.Kind != "gitlab" && len(e.Signing) > 0 {
		return nil, fmt.Errorf("webhook: the forge %s has signing secrets, which only GitLab supports (use secrets)", e.Forge)
	}
	switch e.Kind {
	case "github":
		return github{}, nil
	case "gitea":
		return gitea{}, nil
	case "gitlab":
		for _, s := range e.Signing {
			if _, err := signingKey(s); err != nil {
				return nil, fmt.Errorf("webhook: the forge %s: %w", e.Forge, err)
			}
		}
		return gitlab{}, nil
	}
	return nil, fmt.Errorf("webhook: the forge %s has the kind %q (github, gitlab or gitea)", e.Forge, e.Kind)
}

// protocol is what differs between the forges in a webhook.
type protocol interface {
	// identify returns the delivery's id and the event's name, as the headers have them.
	identify(h http.Header) (id, event string)
	// verify returns an error unless the sender knows a secret of the endpoint.
	verify(e *Endpoint, h http.Header, body []byte, now time.Time, tolerance time.Duration) error
	// decode returns the hints of a verified event: none if Sluice does not use the event, and a *payloadError if the
	// payload does not have the documented shape. The hints do not have the forge's name, which a protocol does not
	// know.
	decode(event string, body []byte) ([]hint.Hint, error)
}
