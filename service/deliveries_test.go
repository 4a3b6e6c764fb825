package service

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/github"
)

// hubApp is a GitHub App on a fake.
func hubApp(t *testing.T, clock func() time.Time) (*fakegithub.Server, *github.Forge) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	hub := fakegithub.New(fakegithub.Options{Clock: clock})
	hub.AddApp(fakegithub.App{ID: 77, Slug: "sluice-app", Key: &key.PublicKey})
	hub.Install(77, "acme")
	server := httptest.NewServer(hub)
	t.Cleanup(server.Close)
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	f, err := github.New(github.Config{
		URL: server.URL, App: &github.App{ID: 77, PrivateKey: private},
		Transport: http.DefaultTransport, Clock: clock, UserAgent: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return hub, f
}

// A delivery that keeps failing is sent again three times, with growing delays, and no more.
func TestRedeliveries(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	now := began
	clock := func() time.Time { return now }
	hub, f := hubApp(t, clock)
	sent := map[string][]time.Duration{}
	hub.SetRedeliver(func(d fakegithub.Delivery) int {
		sent[d.GUID] = append(sent[d.GUID], now.Sub(began))
		if d.GUID == "bad" {
			return http.StatusUnauthorized
		}
		return http.StatusAccepted
	})
	for guid, status := range map[string]int{"bad": 401, "good": 502, "fine": 202} {
		hub.AddDelivery(fakegithub.Delivery{
			GUID: guid, Event: "push", Status: status,
			At: began.Add(-10 * time.Minute),
		})
	}
	r := newRedeliveries(slog.New(slog.DiscardHandler), clock)
	for ; now.Before(began.Add(6 * time.Hour)); now = now.Add(2 * time.Minute) {
		r.redeliver(t.Context(), "hub", f)
	}
	if want := []time.Duration{0, 6 * time.Minute, 26 * time.Minute}; !slices.Equal(sent["bad"], want) {
		t.Errorf("the failing delivery was sent again after %v, not %v", sent["bad"], want)
	}
	if want := []time.Duration{0}; !slices.Equal(sent["good"], want) || len(sent["fine"]) > 0 {
		t.Errorf("sent again: %v", sent)
	}
	if age := now.Sub(r.since["hub"]); age > 10*time.Minute {
		t.Errorf("an abandoned delivery is still listed: since %v ago", age)
	}
	if len(r.tries["hub"]) > 0 {
		t.Errorf("the abandoned delivery is still recorded: %v", r.tries)
	}
}

// troubled is a forge whose requests fail for a while.
type troubled struct {
	forge.Deliveries
	down bool
}

func (f *troubled) Redeliver(ctx context.Context, id int64) error {
	if f.down {
		return errors.New("down")
	}
	return f.Deliveries.Redeliver(ctx, id)
}

// A delivery that could not be requested again is not skipped, and forges do not share their state.
func TestRedeliveriesAreNotLost(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	now := began
	clock := func() time.Time { return now }
	hub, f := hubApp(t, clock)
	other, g := hubApp(t, clock)
	r := newRedeliveries(slog.New(slog.DiscardHandler), clock)
	down := &troubled{f, true}
	hub.AddDelivery(fakegithub.Delivery{GUID: "a", Event: "push", Status: 502, At: began.Add(-30 * time.Minute)})
	other.AddDelivery(fakegithub.Delivery{GUID: "b", Event: "push", Status: 502, At: began.Add(-30 * time.Minute)})
	for range 3 {
		r.redeliver(t.Context(), "hub", down)
		now = now.Add(10 * time.Minute)
	}
	r.redeliver(t.Context(), "other", g)
	down.down = false
	r.redeliver(t.Context(), "hub", down)
	for name, s := range map[string]*fakegithub.Server{"hub": hub, "other": other} {
		if list := s.Deliveries(); len(list) != 2 || list[1].Status != http.StatusOK {
			t.Errorf("%s: the list is %+v", name, list)
		}
	}
}
