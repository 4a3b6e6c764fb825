package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// process is one child. One goroutine at a time uses it, but kill, which any may call.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	in     *frameReader
	out    *frameWriter
	stderr *tail
	apart  []string
	once   sync.Once

	limits Limits
	report Report
	calls  int
}

// startProcess starts a child. It must run on the host's own thread: the kernel kills a child when the thread that
// started it ends.
func startProcess(command []string, s separation) (*process, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // our own binary; it outlives the first caller
	cmd.Env = []string{}                            // no credential of ours reaches a child
	cmd.Dir = string(os.PathSeparator)
	cmd.SysProcAttr = s.attributes()
	cmd.WaitDelay = time.Second // for standard error, should something else hold it
	stderr := &tail{}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a worker process: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a worker process: %w", err)
	}
	if err := s.start(cmd); err != nil {
		return nil, fmt.Errorf("start a worker process: %w", err)
	}
	return &process{
		cmd: cmd, stdin: stdin, in: newFrameReader(stdout), out: &frameWriter{w: stdin}, stderr: stderr,
		apart: s.names,
	}, nil
}

// configure has the child apply its restrictions and keeps its report.
func (p *process) configure(ctx context.Context, cfg config) error {
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	cfg.Apart, cfg.Parent, cfg.Hidden = p.apart, os.Getpid(), isHidden()
	p.limits = cfg.Limits
	text, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	if err := p.out.send(kindConfigure, 0, text); err != nil {
		return p.died(ctx, err, nil)
	}
	f, err := p.in.next(func(kind) int { return maxConfig })
	if err != nil {
		return p.died(ctx, err, nil)
	}
	if f.kind != kindReady {
		return fmt.Errorf("%w: message %d instead of its report", ErrProtocol, f.kind)
	}
	if err := json.Unmarshal(f.payload, &p.report); err != nil {
		return fmt.Errorf("%w: its report: %w", ErrProtocol, err)
	}
	if p.report.Problem != "" {
		return fmt.Errorf("confine a worker process: %s", safetext.Line(p.report.Problem))
	}
	if cfg.Mode == Required && !p.report.Complete() {
		return &ConfinementError{p.report}
	}
	return nil
}

// call runs one call. The process can take another one only if alive is true.
func (p *process) call(ctx context.Context, c *Call) (answer []byte, alive bool, err error) {
	p.calls++
	limited, cancel := context.WithTimeoutCause(ctx, c.Timeout, ErrTimeout)
	defer cancel()
	limited, spend := context.WithCancelCause(limited)
	defer spend(nil)
	stop := context.AfterFunc(limited, p.kill)
	defer stop()
	defer p.watchCPU(limited, c.CPU, spend)()
	began, known := cpuTime(p.cmd.Process.Pid)
	q := newQuestions(limited, p, c)
	answer, alive, err = p.converse(limited, c, q)
	if !alive {
		spend(err) // ends what answers questions
		p.kill()
	}
	if c.Spent != nil && known {
		*c.Spent = p.used(alive) - began
	}
	q.all.Wait() // a later call must not share the pipe with an answer to this one
	return answer, alive && stop(), err
}

// converse sends the call and handles what the child sends until it is done.
func (p *process) converse(ctx context.Context, c *Call, q *questions) (answer []byte, alive bool, err error) {
	head, err := named(c.Job)
	if err != nil {
		return nil, true, err
	}
	if len(c.Input) > maxInput {
		return nil, true, fmt.Errorf("%w: %d bytes of input", errTooLarge, len(c.Input))
	}
	if err := p.out.send(kindCall, uint32(c.MaxOutput), head, c.Input); err != nil { //nolint:gosec // bounded by Call
		return nil, false, p.died(ctx, err, c)
	}
	for {
		f, err := p.in.next(c.bound)
		if errors.Is(err, errTooLarge) {
			return nil, false, fmt.Errorf("%w: %w", ErrOutput, err)
		}
		if err != nil {
			return nil, false, p.died(ctx, err, c)
		}
		switch f.kind {
		case kindResult, kindFailure:
			if q.open() > 0 {
				return nil, false, fmt.Errorf("%w: it answers before its questions are answered", ErrProtocol)
			}
			if f.kind == kindResult {
				return f.payload, true, nil
			}
			return nil, true, failure(f.payload, c)
		case kindAsk:
			if err := q.take(f); err != nil {
				return nil, false, err
			}
		default:
			return nil, false, fmt.Errorf("%w: message %d", ErrProtocol, f.kind)
		}
	}
}

// bound is the largest payload of each message that a child may send during a call.
func (c *Call) bound(k kind) int {
	switch k {
	case kindResult:
		return c.MaxOutput
	case kindFailure:
		return maxFailure + 1
	case kindAsk:
		return maxQuestion
	default:
		return 0
	}
}

func failure(payload []byte, c *Call) error {
	if len(payload) == 0 {
		return fmt.Errorf("%w: an empty failure", ErrProtocol)
	}
	switch payload[0] {
	case failOutput:
		return fmt.Errorf("%w (more than %d MiB)", ErrOutput, c.MaxOutput>>20)
	case failName:
		return fmt.Errorf("%w: %q", ErrUnknownJob, c.Job)
	default:
		return newJobError(payload[1:])
	}
}

// questions answers what a child asks during one call. A child that does not read its answers cannot make the parent
// hold more than a bounded number of them.
type questions struct {
	process *process
	call    *Call
	ctx     context.Context //nolint:containedctx // that of the call
	places  chan struct{}   // of questions, until their answers are sent
	large   chan struct{}   // of those with large answers
	all     sync.WaitGroup
	mu      sync.Mutex
	running int
}

const (
	maxUnsent = 2 * maxAsks // questions without an answer, and answers that the child does not read
	maxLarge  = 4           // of those, questions with large answers
)

func newQuestions(ctx context.Context, p *process, c *Call) *questions {
	return &questions{
		process: p, call: c, ctx: ctx, places: make(chan struct{}, maxUnsent),
		large: make(chan struct{}, maxLarge),
	}
}

// enter waits for a place.
func (q *questions) enter(places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-q.ctx.Done():
		return context.Cause(q.ctx)
	}
}

func (q *questions) open() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running
}

func (q *questions) take(f frame) error {
	name, input, err := splitNamed(f.payload)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	q.mu.Lock()
	q.running++
	n := q.running
	q.mu.Unlock()
	if n > maxAsks {
		return fmt.Errorf("%w: more than %d questions at once", ErrProtocol, maxAsks)
	}
	if err := q.enter(q.places); err != nil {
		return q.process.died(q.ctx, err, q.call)
	}
	q.all.Go(func() {
		defer func() { <-q.places }()
		k := kindAnswer
		answer, leave, err := q.answer(name, input)
		defer leave()
		if err != nil {
			k, answer = kindRefusal, []byte(err.Error())
		}
		q.mu.Lock()
		q.running-- // before the answer: the child may finish as soon as it has it
		q.mu.Unlock()
		if err := q.process.out.send(k, f.id, answer); err != nil {
			return // the child is gone, and the reader says why
		}
	})
	return nil
}

// answer answers a question. leave must be called when the answer is sent.
func (q *questions) answer(name string, input []byte) (answer []byte, leave func(), err error) {
	leave = func() {}
	if q.call.Answer == nil {
		return nil, leave, fmt.Errorf("unexpected question %q: this call takes no questions", safetext.Line(name))
	}
	if q.call.Large != nil && q.call.Large(name) {
		if err := q.enter(q.large); err != nil {
			return nil, leave, err
		}
		leave = func() { <-q.large }
	}
	answer, err = q.call.Answer(q.ctx, name, input)
	return answer, leave, err
}

const cpuEvery = 50 * time.Millisecond

// watchCPU cancels a call that uses more CPU time than it may, where the system tells how much that is.
func (p *process) watchCPU(ctx context.Context, budget time.Duration, cancel context.CancelCauseFunc) (stop func()) {
	start, known := cpuTime(p.cmd.Process.Pid)
	if budget <= 0 || !known {
		return func() {}
	}
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(cpuEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
				if now, ok := cpuTime(p.cmd.Process.Pid); ok && now-start > budget {
					cancel(ErrCPU)
					return
				}
			}
		}
	}()
	return func() {
		close(done)
		<-finished // the process id may belong to another process soon
	}
}

// used returns the CPU time that the child used in its life.
func (p *process) used(alive bool) time.Duration {
	if alive {
		now, _ := cpuTime(p.cmd.Process.Pid) // known before, and the child is not reaped
		return now
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// kill ends the child and waits until it is gone.
func (p *process) kill() {
	p.once.Do(func() {
		_ = p.stdin.Close()  // it may be closed already; the child ends either way
		_ = killGroup(p.cmd) // a failure shows in Wait, which reaps the child in any case
		_ = p.cmd.Wait()     // its error is the exit status, which died reads
	})
}

// died says why a child ended, from its context, its exit status and its last words.
func (p *process) died(ctx context.Context, err error, c *Call) error {
	p.kill()
	words := p.stderr.String()
	status := p.cmd.ProcessState.ExitCode()
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrTimeout) && c != nil:
		return fmt.Errorf("%w (more than %s)", ErrTimeout, c.Timeout)
	case errors.Is(cause, ErrCPU) && c != nil:
		return fmt.Errorf("%w (more than %s)", ErrCPU, c.CPU)
	case ctx.Err() != nil:
		return ctx.Err()
	case p.limits.CPU > 0 && p.cmd.ProcessState.UserTime()+p.cmd.ProcessState.SystemTime() >= p.limits.CPU:
		// the kernel kills it
		return fmt.Errorf("%w in its lifetime", ErrCPU)
	case status == exitMemory, strings.Contains(words, "out of memory"),
		strings.Contains(words, "cannot allocate memory"):
		return ErrMemory
	case strings.Contains(words, "failed to create new OS thread"), strings.Contains(words, "pthread_create failed"):
		return fmt.Errorf("%w: it started too many threads", ErrCrashed)
	case strings.Contains(words, "stack exceeds"), strings.Contains(words, "stack overflow"):
		return fmt.Errorf("%w: a function or template calls itself without end", ErrCrashed)
	default:
		first, _, _ := strings.Cut(words, "\n")
		const longest = 300 // characters of what the child wrote last
		return fmt.Errorf("%w (%s): %s: %w", ErrCrashed, p.cmd.ProcessState, safetext.Brief(first, longest), err)
	}
}

// tail keeps the first bytes that a child writes to standard error: Go's reason for a crash stands there.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer. It never fails.
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
