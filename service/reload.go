package service

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/service/config"
	"github.com/sluice-gitops/sluice/webhook"
)

// reloadable is the part of a service that a reload replaces.
type reloadable struct {
	config *config.Config
	forges map[string]*connected
	hooks  http.Handler
	signer gitstore.Signer // of rendered commits; nil leaves them unsigned
}

func (s *Service) state() *reloadable { return s.current.Load() }

// Check reads the configuration and connects the forges as New does, but opens no queue and sends no request. The error
// lists every mistake.
func Check(o Options) (*config.Config, error) {
	c, err := o.Load()
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, initial: c, log: o.Log, clock: o.Runtime.Clock}
	s.metrics = newMetrics(s)
	return c, s.apply(c)
}

// apply connects the forges of a configuration and replaces the webhook handler.
func (s *Service) apply(c *config.Config) error {
	next := &reloadable{config: c, forges: map[string]*connected{}}
	var endpoints []webhook.Endpoint
	var problems []error
	for _, f := range c.Forges {
		endpoints = append(endpoints, endpoint(&f))
		one, err := s.connect(f)
		if err != nil {
			problems = append(problems, fmt.Errorf("forge %s: %w", f.Name, err))
			continue
		}
		next.forges[f.Name] = one
	}
	if c.SignKey != "" {
		signer, err := s.o.Signer(c.SignKey)
		if err != nil {
			problems = append(problems, fmt.Errorf("signKey: %w", err))
		}
		next.signer = &serialSigner{signer: signer}
	}
	hooks, err := webhook.New(webhook.Config{
		Endpoints: endpoints, Sink: sink{s}, Clock: s.clock, Log: s.log,
		Observe: s.metrics.webhook,
	})
	if err = errors.Join(append(problems, err)...); err != nil {
		return err
	}
	next.hooks = hooks
	s.current.Store(next)
	return nil
}

func endpoint(f *config.Forge) webhook.Endpoint {
	e := webhook.Endpoint{Forge: f.Name, Kind: f.Kind, Path: "/hooks/" + f.Name}
	for _, secret := range f.Secrets {
		e.Secrets = append(e.Secrets, string(secret.Bytes()))
	}
	for _, secret := range f.Signing {
		e.Signing = append(e.Signing, string(secret.Bytes()))
	}
	return e
}

// serialSigner serializes the signatures of several repositories.
type serialSigner struct {
	mu     sync.Mutex
	signer gitstore.Signer
}

// Sign implements gitstore.Signer.
func (o *serialSigner) Sign(commit []byte) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.signer.Sign(commit)
}

// Verify implements gitstore.Signer.
func (o *serialSigner) Verify(commit []byte, signature string) error {
	return o.signer.Verify(commit, signature)
}

// Reload reads the configuration again: forges, secrets, repositories and settings. After an error the service keeps
// its current configuration.
func (s *Service) Reload() error {
	c, err := s.o.Load()
	if err != nil {
		return err
	}
	if err := s.apply(c); err != nil {
		return err
	}
	if later := config.Restart(s.initial, c); len(later) > 0 {
		s.log.Warn("some settings change only when the service restarts", "settings", strings.Join(later, ", "))
	}
	return nil
}
