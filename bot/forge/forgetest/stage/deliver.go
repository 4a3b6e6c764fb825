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
	"time"
)

// Delivery is a webhook to deliver.
type Delivery struct {
	ID, Event string
	Body      []byte
}

const answerTime = 10 * time.Second // as GitHub

// Webhooks sets the address of the service that receives webhooks; "" drops them.
func (s *Stage) Webhooks(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = address
}

// Plan returns the delays of each webhook's deliveries: none means that it is lost, two that it is sent
// twice. Without a plan each is sent once, immediately. A refused delivery is not repeated.
func (s *Stage) Plan(plan func(d Delivery) []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = plan
}

// event sends a webhook in the background, as a forge does.
func (s *Stage) event(event string, body []byte) {
	s.mu.Lock()
	s.count++
	d := Delivery{ID: fmt.Sprint("delivery-", s.count), Event: event, Body: body}
	plan := s.plan
	s.mu.Unlock()
	for _, after := range plan(d) {
		s.out.Go(func() {
			wait := time.NewTimer(after)
			defer wait.Stop()
			select {
			case <-s.life.Done():
			case <-wait.C:
				status := s.Deliver(d)
				if s.o.Sent != nil {
					s.o.Sent(d, status)
				}
			}
		})
	}
}

// Deliver sends a webhook once and gives the answer's status; 0 is no answer.
func (s *Stage) Deliver(d Delivery) int {
	s.mu.Lock()
	address := s.hooks
	s.mu.Unlock()
	if address == "" {
		return 0
	}
	ctx, cancel := context.WithTimeout(s.life, answerTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/hooks/"+s.o.Name, bytes.NewReader(d.Body))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	if s.hub != nil {
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
