package stage

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Delivery is a webhook to deliver.
type Delivery struct {
	ID, Event string
	Body      []byte
}

// Webhooks delivers the webhooks of a stage's forge.
type Webhooks struct {
	forge  string // its name in the service's configuration
	github bool
	sent   func(d Delivery, status int) // nil: nobody is told
	life   context.Context              //nolint:containedctx // of deliveries, which outlive the calls that cause them
	out    sync.WaitGroup

	mu      sync.Mutex
	address string
	count   int
	delays  func(d Delivery) []time.Duration
}

const answerTime = 10 * time.Second // as GitHub

// SendTo sets the address of the service that receives webhooks; "" drops them.
func (w *Webhooks) SendTo(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.address = address
}

// Delay sets the function that returns the delays of each webhook's deliveries: none means that it is lost, two
// that it is sent twice. Without it each is sent once, immediately. A refused delivery is not repeated.
func (w *Webhooks) Delay(delays func(d Delivery) []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delays = delays
}

// event sends a webhook in the background, as a forge does.
func (w *Webhooks) event(event string, body []byte) {
	w.mu.Lock()
	w.count++
	d := Delivery{ID: fmt.Sprint("delivery-", w.count), Event: event, Body: body}
	delays := w.delays
	w.mu.Unlock()
	for _, after := range delays(d) {
		w.out.Go(func() {
			wait := time.NewTimer(after)
			defer wait.Stop()
			select {
			case <-w.life.Done():
			case <-wait.C:
				status := w.Deliver(d)
				if w.sent != nil {
					w.sent(d, status)
				}
			}
		})
	}
}

// Deliver sends a webhook once and gives the answer's status; 0 is no answer.
func (w *Webhooks) Deliver(d Delivery) int {
	w.mu.Lock()
	address := w.address
	w.mu.Unlock()
	if address == "" {
		return 0
	}
	ctx, cancel := context.WithTimeout(w.life, answerTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/hooks/"+w.forge, bytes.NewReader(d.Body))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	if w.github {
		r.Header.Set("X-GitHub-Event", d.Event)
		r.Header.Set("X-GitHub-Delivery", d.ID)
		r.Header.Set("X-Hub-Signature-256", Signature(d.Body))
	} else {
		r.Header.Set("X-Gitlab-Event", d.Event)
		r.Header.Set("X-Gitlab-Token", Secret)
		r.Header.Set("Idempotency-Key", d.ID)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()               //nolint:errcheck // it was read
	_, _ = io.Copy(io.Discard, resp.Body) // only the status counts
	return resp.StatusCode
}

// Signature returns the value of X-Hub-Signature-256 of a body.
func Signature(body []byte) string {
	mac := hmac.New(sha256.New, []byte(Secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
