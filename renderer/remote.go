package renderer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Names of the questions of a Remote. Answers to QuestionLight are small.
const (
	QuestionContent = "render-content"
	QuestionRender  = "render-bundle"
	QuestionLight   = "render-light" // a light bundle
)

// remoteAnswer is the answer to QuestionRender and QuestionLight. Failed is the text of an error other than an
// InputError. Limit means that the bundle exceeded a limit.
type remoteAnswer struct {
	Rendering *Rendering
	Error     *InputError
	Failed    string
	Limit     bool
	Heavy     bool // ErrHeavy
}

// Remote renders by asking the parent process of a worker. A worker that processes a whole change thereby renders
// each target in another process, so that a template that exceeds its limits ends only that process. Remote sends
// each content once. It is safe for concurrent use.
type Remote struct {
	ask   worker.Ask
	codec codec
	mu    sync.Mutex
	sent  map[string]bool
}

// NewRemote returns a Remote.
func NewRemote(ask worker.Ask) (*Remote, error) {
	c, err := newCodec()
	return &Remote{ask: ask, codec: c, sent: map[string]bool{}}, err
}

// Render implements Renderer.
func (r *Remote) Render(ctx context.Context, b *Bundle) (*Rendering, error) {
	if err := r.send(ctx, b); err != nil {
		return nil, err
	}
	input, err := r.codec.enc.Marshal(b.stripped())
	if err != nil {
		return nil, fmt.Errorf("write a bundle: %w", err)
	}
	question := QuestionRender
	if b.Light {
		question = QuestionLight
	}
	data, err := r.ask(ctx, question, input)
	if err != nil {
		return nil, err
	}
	var out remoteAnswer
	if err := r.codec.dec.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("read a rendering: %w", err)
	}
	switch {
	case out.Heavy:
		return nil, ErrHeavy
	case out.Error != nil:
		return nil, out.Error
	case out.Failed != "":
		return nil, errors.New(out.Failed)
	case out.Rendering == nil:
		return nil, errors.New("the parent process sent no rendering")
	}
	return out.Rendering, nil
}

// send sends the contents that the parent does not have.
func (r *Remote) send(ctx context.Context, b *Bundle) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var failed error
	b.contents(func(c *Content) {
		if failed != nil || r.sent[c.Digest] {
			return
		}
		data, err := r.codec.enc.Marshal(c)
		if err == nil {
			_, err = r.ask(ctx, QuestionContent, data)
		}
		if failed = err; err == nil {
			r.sent[c.Digest] = true
		}
	})
	return failed
}

// RemoteServer answers the questions of one Remote in the parent process. It is safe for concurrent use.
type RemoteServer struct {
	renderer Renderer
	codec    codec
	scope    string // makes the digests of this worker unique, because it may lie about them
	limit    int    // bytes of contents

	mu   sync.Mutex
	held map[string]Content
	used int
}

// NewRemoteServer returns a server that renders with r and holds at most limit bytes of contents.
func NewRemoteServer(r Renderer, limit int) (*RemoteServer, error) {
	c, err := newCodec()
	return &RemoteServer{renderer: r, codec: c, scope: rand.Text() + " ", limit: limit, held: map[string]Content{}}, err
}

// Answer answers a question. known is false if the question is not one of a Remote.
func (s *RemoteServer) Answer(ctx context.Context, name string, input []byte) (answer []byte, known bool, err error) {
	switch name {
	case QuestionContent:
		return nil, true, s.hold(input)
	case QuestionRender, QuestionLight:
		answer, err = s.render(ctx, input, name == QuestionLight)
		return answer, true, err
	}
	return nil, false, nil
}

func (s *RemoteServer) hold(input []byte) error {
	var c Content
	if err := s.codec.dec.Unmarshal(input, &c); err != nil {
		return fmt.Errorf("read a content: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used += len(input); s.used > s.limit {
		return fmt.Errorf("the charts and files of the change have more than %d MiB", s.limit>>20)
	}
	digest := c.Digest
	c.Digest = s.scope + digest
	s.held[digest] = c
	return nil
}

func (s *RemoteServer) render(ctx context.Context, input []byte, light bool) ([]byte, error) {
	var b Bundle
	if err := s.codec.dec.Unmarshal(input, &b); err != nil {
		return nil, fmt.Errorf("read a bundle: %w", err)
	}
	b.Light = light
	var missing error
	s.mu.Lock()
	b.contents(func(c *Content) {
		found, ok := s.held[c.Digest]
		if !ok {
			missing = errors.New("a content of the bundle was not sent")
			return
		}
		name := c.Name
		*c = found
		c.Name = name
	})
	s.mu.Unlock()
	if missing != nil {
		return nil, missing
	}
	var out remoteAnswer
	rendering, err := s.renderer.Render(ctx, &b)
	invalid, isInput := errors.AsType[*InputError](err)
	switch {
	case err == nil:
		out.Rendering = rendering
	case errors.Is(err, ErrHeavy):
		out.Heavy = true
	case isInput:
		out.Error = invalid
	default:
		out.Failed, out.Limit = err.Error(), worker.IsLimit(err)
	}
	return s.codec.enc.Marshal(out)
}
