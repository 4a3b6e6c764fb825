package renderer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// What can end a child before it answers. Rendering the same bundle again would end the same way.
var (
	ErrTimeout = errors.New("the rendering took too long")
	ErrMemory  = errors.New("the rendering used too much memory")
	ErrCrashed = errors.New("the rendering ended its process")
)

// PoolOptions says how children are started and what they may use.
type PoolOptions struct {
	Command     []string      // the program that calls ServeChild
	Size        int           // children at once, at least 1
	Timeout     time.Duration // for one bundle; 0 means one minute
	MemoryLimit int64         // bytes that a child may use, for messages; the child enforces it
}

// Pool renders in child processes, which have no environment, no working directory of the user's and no open files
// but two pipes. A child that dies takes only its bundle with it. Close ends all children.
type Pool struct {
	opts  PoolOptions
	slots chan *child // a nil slot is a child not started yet
}

// NewPool makes a pool; children start when they are first needed.
func NewPool(opts PoolOptions) *Pool {
	opts.Size = max(opts.Size, 1)
	if opts.Timeout == 0 {
		opts.Timeout = time.Minute
	}
	p := &Pool{opts: opts, slots: make(chan *child, opts.Size)}
	for range opts.Size {
		p.slots <- nil
	}
	return p
}

// Render sends the bundle to a free child and waits for its answer.
func (p *Pool) Render(ctx context.Context, b *Bundle) (*Rendering, error) {
	var c *child
	select {
	case c = <-p.slots:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { p.slots <- c }()
	if c == nil {
		started, err := startChild(p.opts.Command)
		if err != nil {
			return nil, err
		}
		c = started
	}
	limited, cancel := context.WithTimeoutCause(ctx, p.opts.Timeout, ErrTimeout)
	defer cancel()
	rendering, err, alive := c.render(limited, b)
	if !alive {
		c.kill()
		err = c.cause(limited, err, p.opts)
		c = nil
	}
	return rendering, err
}

// Close ends the children. No Render may be running or follow.
func (p *Pool) Close() {
	for range p.opts.Size {
		if c := <-p.slots; c != nil {
			_ = c.stdin.Close()
			c.kill()
		}
	}
}

type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	wire   *wire
	stderr *tail
	once   sync.Once
}

func startChild(command []string) (*child, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // our own binary; it outlives the first caller
	cmd.Env = []string{}                            // no credential of ours reaches a template
	cmd.Dir = "/"
	stderr := &tail{}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a render process: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a render process: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a render process: %w", err)
	}
	return &child{cmd: cmd, stdin: stdin, wire: newWire(stdout, stdin), stderr: stderr}, nil
}

// render reports besides the outcome whether the child can be used again.
func (c *child) render(ctx context.Context, b *Bundle) (*Rendering, error, bool) {
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	if err := c.wire.enc.Encode(request{Bundle: b.stripped()}); err != nil {
		return nil, err, false
	}
	for {
		var got reply
		if err := c.wire.dec.Decode(&got); err != nil {
			return nil, err, false
		}
		switch {
		case len(got.Need) > 0:
			if err := c.wire.enc.Encode(b.supply(got.Need)); err != nil {
				return nil, err, false
			}
		case got.Err != "":
			return nil, errors.New(got.Err), true
		case got.Rendering != nil:
			return got.Rendering, nil, true
		default: // gob leaves out an empty struct's fields, never the struct: this is no answer of ours
			return nil, errors.New("the render process gave no answer"), false
		}
	}
}

func (b *Bundle) supply(need []string) supply {
	wanted := make(map[string]bool, len(need))
	for _, digest := range need {
		wanted[digest] = true
	}
	var out supply
	b.contents(func(c *Content) {
		if wanted[c.Digest] {
			out.Contents = append(out.Contents, *c)
			delete(wanted, c.Digest)
		}
	})
	return out
}

func (c *child) kill() {
	c.once.Do(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
}

// cause says why a child died, from its context, exit status and last words.
func (c *child) cause(ctx context.Context, err error, opts PoolOptions) error {
	words := c.stderr.String()
	switch {
	case errors.Is(context.Cause(ctx), ErrTimeout):
		return fmt.Errorf("%w (more than %s): simplify the templates or raise --render-timeout", ErrTimeout, opts.Timeout)
	case ctx.Err() != nil:
		return ctx.Err()
	case c.cmd.ProcessState.ExitCode() == exitMemory, strings.Contains(words, "out of memory"), strings.Contains(words, "cannot allocate memory"):
		return fmt.Errorf("%w (more than %d MiB): look for a template that repeats without end, or raise --render-memory", ErrMemory, opts.MemoryLimit>>20)
	case strings.Contains(words, "stack exceeds"), strings.Contains(words, "stack overflow"):
		return fmt.Errorf("%w: a template calls itself without end", ErrCrashed)
	default:
		first, _, _ := strings.Cut(words, "\n")
		return fmt.Errorf("%w (%s): %s: %w", ErrCrashed, c.cmd.ProcessState, first, err)
	}
}

// tail keeps the first bytes that a child writes to standard error: Go's reason for a crash stands there.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := most - t.buf.Len(); room > 0 {
		t.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
