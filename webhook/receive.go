package webhook

import (
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
	protocol protocol
	bodies   *bodies // shared by all endpoints
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
	status int    // of HTTP
	result string // for the sender, Observe and the log
	event  string // for Observe
	size   int    // bytes of the body, for the log
}

// receive answers one webhook.
func (e *endpoint) receive(g *gin.Context) {
	began := e.Clock()
	id, event := e.protocol.identify(g.Request.Header)
	id, event = cleanHeader(id), cleanHeader(event)
	a := e.answer(g, id, event)
	if a.status == http.StatusServiceUnavailable {
		g.Header("Retry-After", "10")
	}
	g.JSON(a.status, gin.H{"result": a.result})
	took := e.Clock().Sub(began)
	e.Observe(e.Forge, a.event, a.result, took)
	e.Log.Info("webhook", "forge", e.Forge, "delivery", id, "event", event, "bytes", a.size, "result", a.result,
		"status", a.status)
}

// answer verifies a webhook, makes hints of it and stores them.
func (e *endpoint) answer(g *gin.Context, id, event string) reply {
	sender := senderOf(g.Request)
	body := e.bodies.begin(sender, e.Clock(), http.NewResponseController(g.Writer).SetReadDeadline)
	defer body.free()
	if refusal := e.verify(g, body, event); refusal != nil {
		return *refusal
	}
	e.bodies.noteVerified(sender, e.Clock())
	hints, result := e.hints(id, event, body.data)
	out := reply{http.StatusOK, result, eventOther, len(body.data)}
	if slices.Contains(Events(e.Kind), event) {
		out.event = event
	}
	if len(hints) > 0 {
		out.status, out.result = e.store(g.Request.Context(), id, body.data, hints, result)
	}
	return out
}

// verify reads the body within the limits and verifies its signature. It returns nil for a verified request, and the
// answer to any other.
func (e *endpoint) verify(g *gin.Context, body *body, event string) *reply {
	refuse := func(status int, result string, size int) *reply {
		return &reply{status, result, eventUnverified, size}
	}
	media, _, err := mime.ParseMediaType(g.GetHeader("Content-Type"))
	if err != nil || media != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "only application/json", 0)
	}
	if event == "" {
		return refuse(http.StatusBadRequest, "no event", 0)
	}
	if g.Request.ContentLength > e.MaxBody {
		return refuse(http.StatusRequestEntityTooLarge, "too large", int(g.Request.ContentLength))
	}
	if err := body.read(http.MaxBytesReader(g.Writer, g.Request.Body, e.MaxBody)); err != nil {
		g.Header("Connection", "close")
		_, large := errors.AsType[*http.MaxBytesError](err)
		switch {
		case errors.Is(err, errBusy):
			return refuse(http.StatusServiceUnavailable, "busy", len(body.data))
		case errors.Is(err, errSlow):
			return refuse(http.StatusRequestTimeout, "too slow", len(body.data))
		case large:
			return refuse(http.StatusRequestEntityTooLarge, "too large", len(body.data))
		}
		return refuse(http.StatusBadRequest, "cut off", len(body.data))
	}
	if err := e.protocol.verify(&e.Endpoint, g.Request.Header, body.data, e.Clock(), e.Tolerance); err != nil {
		return refuse(http.StatusUnauthorized, "not verified", len(body.data))
	}
	return nil
}

// hints makes hints of a verified webhook, and returns the result that the answer has unless storing them has another.
// A payload that cannot be decoded becomes a sweep: the forge would not send the event again in another shape.
func (e *endpoint) hints(id, event string, body []byte) (hints []hint.Hint, result string) {
	hints, err := e.protocol.decode(event, body)
	if err != nil {
		repository := "" // all of the forge
		if wrong, ok := errors.AsType[*payloadError](err); ok {
			repository = wrong.repository
		}
		e.Log.Warn("cannot decode the payload of a verified webhook, so the repository is swept",
			"forge", e.Forge, "delivery", id, "repository", repository, "error", err)
		return []hint.Hint{{Kind: hint.Sweep, Place: hint.NewPlace("", repository)}}, "swept"
	}
	if len(hints) == 0 {
		return nil, "ignored"
	}
	return hints, "accepted"
}

// store stores the hints of a delivery, unless the delivery is known. Its result is accepted if it stored them. It
// records the delivery after the hints: a crash in between duplicates a hint and never loses one. It records the id and
// the digest of the body, so that a replay under another id is known too.
func (e *endpoint) store(ctx context.Context, id string, body []byte, hints []hint.Hint,
	accepted string,
) (status int, result string) {
	ctx, cancel := context.WithTimeout(ctx, e.Within)
	defer cancel()
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
	return http.StatusAccepted, accepted
}

// unavailable answers a webhook whose hints are not stored: the forge delivers it again.
func (e *endpoint) unavailable(err error) (status int, result string) {
	e.Log.Error("the queue does not store hints", "forge", e.Forge, "error", err)
	return http.StatusServiceUnavailable, "try again"
}
