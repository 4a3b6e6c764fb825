package webhook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"mime"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"
	"github.com/sluice-gitops/sluice/bot/hint"
)

// endpoint handles the webhooks of one forge.
type endpoint struct {
	Config
	Endpoint
	decoder decoder
	bodies  *bodies // shared by all endpoints
}

// Errors of verification. The answer to the sender does not distinguish them.
var (
	errUnsigned = errors.New("no signature matches")
	errOld      = errors.New("the timestamp is too far from the current time")
)

// Names under which Observe counts requests that are not verified, and events that Sluice does not use.
const (
	eventUnverified = "unverified"
	eventOther      = "other"
)

// reply is the answer to a webhook.
type reply struct {
	code   int
	result string
	size   int
	event  string // for Observe
}

// receive answers one webhook.
func (e *endpoint) receive(g *gin.Context) {
	began := e.Clock()
	id, event := e.decoder.identify(g.Request.Header)
	id, event = cleanHeader(id), cleanHeader(event)
	a := e.answer(g, id, event)
	if a.code == http.StatusServiceUnavailable {
		g.Header("Retry-After", "10")
	}
	g.JSON(a.code, gin.H{"result": a.result})
	took := e.Clock().Sub(began)
	e.Observe(e.Forge, a.event, a.result, took)
	e.Log.Info("webhook", "forge", e.Forge, "delivery", id, "event", event, "bytes", a.size, "result", a.result,
		"status", a.code)
}

// answer reads, verifies and stores a webhook.
func (e *endpoint) answer(g *gin.Context, id, event string) reply {
	sender := senderOf(g.Request)
	body := e.bodies.begin(sender, e.Clock(), http.NewResponseController(g.Writer).SetReadDeadline)
	defer body.free()
	if code, result, size := e.read(g, body, event); code != 0 {
		return reply{code, result, size, eventUnverified}
	}
	e.bodies.verify(sender, e.Clock())
	out := reply{event: eventOther}
	if slices.Contains(Events(e.Kind), event) {
		out.event = event
	}
	out.code, out.result, out.size = e.take(g.Request.Context(), id, event, body.data)
	return out
}

// read reads and verifies the body. The code is 0 if the request is good, and the HTTP status of the answer
// otherwise.
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
		g.Header("Connection", "close")
		switch {
		case errors.Is(err, errBusy):
			return http.StatusServiceUnavailable, "busy", len(body.data)
		case errors.Is(err, errSlow):
			return http.StatusRequestTimeout, "too slow", len(body.data)
		}
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return http.StatusRequestEntityTooLarge, "too large", len(body.data)
		}
		return http.StatusBadRequest, "cut off", len(body.data)
	}
	if err := e.decoder.verify(&e.Endpoint, g.Request.Header, body.data, e.Clock(), e.Tolerance); err != nil {
		return http.StatusUnauthorized, "not verified", len(body.data)
	}
	return 0, "", len(body.data)
}

// take decodes a verified webhook and stores its hints. A payload that cannot be decoded becomes a sweep: the
// forge would not send the event again in another shape.
func (e *endpoint) take(ctx context.Context, id, event string, body []byte) (code int, result string, size int) {
	hints, err := e.decoder.decode(event, body)
	accepted := "accepted"
	if wrong, ok := errors.AsType[*payloadError](err); ok {
		e.Log.Warn("cannot decode the payload of a verified webhook, so the repository is swept",
			"forge", e.Forge, "delivery", id, "repository", wrong.repository, "error", err)
		hints, accepted = []hint.Hint{{Kind: hint.Sweep, Place: hint.NewPlace("", wrong.repository)}}, "swept"
	}
	if len(hints) == 0 {
		return http.StatusOK, "ignored", len(body)
	}
	ctx, cancel := context.WithTimeout(ctx, e.Within)
	defer cancel()
	code, result = e.put(ctx, id, body, hints)
	return code, cmp.Or(result, accepted), len(body)
}

// put stores the hints of a delivery, unless the delivery is known. The result is "" if it stored them. It
// records the delivery after the hints: a crash in between duplicates a hint and never loses one. It records
// the id and the digest of the body, so that a replay under another id is known too.
func (e *endpoint) put(ctx context.Context, id string, body []byte, hints []hint.Hint) (code int, result string) {
	sum := sha256.Sum256(append([]byte(e.Forge+"\x00"), body...))
	names := []string{e.Forge + " body " + hex.EncodeToString(sum[:])}
	if id != "" {
		names = append(names, e.Forge+" id "+id)
	}
	for _, name := range names {
		known, err := e.Sink.Known(ctx, name)
		if err != nil {
			return e.unavailable(err)
		}
		if known {
			return http.StatusOK, "known"
		}
	}
	for _, h := range hints {
		h.Place, h.ID, h.At = hint.NewPlace(e.Forge, h.Place.Repo().Path), id, e.Clock()
		if err := e.Sink.Put(ctx, h); err != nil {
			return e.unavailable(err)
		}
	}
	for _, name := range names {
		if err := e.Sink.Note(ctx, name); err != nil {
			e.Log.Warn("cannot record the delivery; a replay of it would be accepted again", "forge", e.Forge,
				"delivery", id, "error", err)
		}
	}
	return http.StatusAccepted, ""
}

func (e *endpoint) unavailable(err error) (int, string) {
	e.Log.Error("the queue does not store hints", "forge", e.Forge, "error", err)
	return http.StatusServiceUnavailable, "try again"
}
