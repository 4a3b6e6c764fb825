package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Job does one task in a child. It must not keep data that later calls of the same owner must not see. It need not
// watch ctx, because the parent ends the process. The parent escapes the text of the job's error and shows it to users.
type Job func(ctx context.Context, input []byte, ask Ask) ([]byte, error)

// Ask sends a question to the parent and waits for the answer. It is safe for concurrent use.
type Ask func(ctx context.Context, name string, input []byte) ([]byte, error)

// Jobs are what a child can do, by name.
type Jobs map[string]Job

// Exit statuses of a child that stops by itself.
const (
	exitMemory = 77
	exitParent = 79 // the parent is gone
)

const (
	gcPercent  = 400                   // a child holds little between calls, and memory is bounded below
	maxStack   = 64 << 20              // a template that calls itself for ever ends here, not at Go's gigabyte
	watchEvery = 20 * time.Millisecond // while a call runs
	watchIdle  = time.Second           // between calls, so that a warm pool costs next to nothing
	maxAsks    = 32                    // questions of one call that wait for an answer at once
)

// config is what the parent tells a child before anything else.
type config struct {
	Mode   Mode     `json:"mode"`
	Limits Limits   `json:"limits"`
	Paths  []string `json:"paths"`  // that the child may read
	Parent int      `json:"parent"` // process id
	Hidden bool     `json:"hidden"` // the parent has called Hide
	Apart  []string `json:"apart"`  // namespaces that the parent gave the child
	Nice   int      `json:"nice"`   // added to the nice value
}

// Serve is the main loop of a child process: it applies the restrictions that the parent asks for, reports which are in
// force, and runs calls that come in on r until r ends. It returns nil when r ends between two calls.
//
// It belongs in a process of its own, at its very start: it limits the whole process for good, and exits when memory
// runs out or the parent goes away.
func Serve(ctx context.Context, r io.Reader, w io.Writer, jobs Jobs) error {
	c := &childLoop{
		in: newFrameReader(r), out: &frameWriter{w: w}, jobs: jobs, waiting: map[uint32]chan frame{},
		slots:   make(chan struct{}, maxAsks),
		started: make(chan struct{}, 1),
	}
	first, err := c.in.next(func(kind) int { return maxConfig })
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil || first.kind != kindConfigure {
		return fmt.Errorf("worker: no configuration: %w", err)
	}
	var cfg config
	if err := json.Unmarshal(first.payload, &cfg); err != nil {
		return fmt.Errorf("worker: configuration: %w", err)
	}
	debug.SetMaxStack(maxStack)
	debug.SetGCPercent(gcPercent)
	if cfg.Limits.Memory > 0 {
		debug.SetMemoryLimit(cfg.Limits.Memory * 3 / 4)
		go c.watchMemory(cfg.Limits.Memory)
	}
	lowerPriority(cfg.Nice)
	report := confine(cfg)
	text, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("worker: report: %w", err)
	}
	if err := c.out.send(kindReady, 0, text); err != nil {
		return fmt.Errorf("worker: report: %w", err)
	}
	return c.loop(ctx)
}

type childLoop struct {
	in   *frameReader
	out  *frameWriter
	jobs Jobs

	slots   chan struct{} // questions that wait
	started chan struct{} // a call began
	mu      sync.Mutex
	next    uint32
	waiting map[uint32]chan frame
	busy    bool
}

// loop reads until the parent closes the pipe. Calls run in a goroutine of their own, so that answers and the end of
// the parent are seen while they run.
func (c *childLoop) loop(ctx context.Context) error {
	for {
		f, err := c.in.next(func(kind) int { return 1<<31 - 1 })
		if err != nil {
			if c.isBusy() { // nobody waits for the job any more, and nothing else can stop it
				os.Exit(exitParent) //nolint:forbidigo // see above
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("worker: read a message: %w", err)
		}
		switch f.kind {
		case kindCall:
			c.mu.Lock()
			twice := c.busy
			c.busy = true
			c.mu.Unlock()
			if twice {
				return errors.New("worker: a call came while another runs")
			}
			select {
			case c.started <- struct{}{}:
			default: // it will see that a call runs
			}
			go c.run(ctx, f)
		case kindAnswer, kindRefusal:
			c.mu.Lock()
			waiter := c.waiting[f.id]
			delete(c.waiting, f.id)
			c.mu.Unlock()
			if waiter != nil {
				waiter <- f
			}
		default:
			return fmt.Errorf("worker: unexpected message %d", f.kind)
		}
	}
}

// run does one call. The id of a call is the bound of its answer.
func (c *childLoop) run(ctx context.Context, f frame) {
	name, input, err := splitNamed(f.payload)
	k, code, answer := kindFailure, []byte{failJob}, []byte(nil)
	switch job, known := c.jobs[name]; {
	case err != nil || !known:
		code, answer = []byte{failName}, []byte(name)
	default:
		answer, err = job(ctx, input, c.ask)
		switch {
		case err != nil:
			answer = []byte(err.Error())
			answer = answer[:min(len(answer), maxFailure)]
		case uint64(len(answer)) > uint64(f.id):
			code, answer = []byte{failOutput}, nil
		default:
			k, code = kindResult, nil
		}
	}
	c.mu.Lock()
	c.busy = false
	c.mu.Unlock()
	if err := c.out.send(k, 0, code, answer); err != nil {
		os.Exit(exitParent) //nolint:forbidigo // the pipe is gone, and the parent with it
	}
}

func (c *childLoop) ask(ctx context.Context, name string, input []byte) ([]byte, error) {
	head, err := named(name)
	if err != nil {
		return nil, err
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	answer := make(chan frame, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = answer
	c.mu.Unlock()
	if err := c.out.send(kindAsk, id, head, input); err != nil {
		return nil, err
	}
	select {
	case f := <-answer:
		if f.kind == kindRefusal {
			return nil, errors.New(string(f.payload))
		}
		return f.payload, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *childLoop) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy
}

// watchMemory ends the process when its memory passes the bound. Sampling leaves a gap that one huge allocation can
// jump; RLIMIT_DATA closes it where the system has one.
func (c *childLoop) watchMemory(limit int64) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	idle, timer := true, time.NewTimer(watchIdle)
	for {
		select {
		case <-c.started:
			if idle {
				idle = false
				timer.Reset(watchEvery)
			}
			continue
		case <-timer.C:
		}
		metrics.Read(sample)
		//nolint:gosec // positive
		if used := sample[0].Value.Uint64() - sample[1].Value.Uint64(); used > uint64(limit) {
			os.Exit(exitMemory) //nolint:forbidigo // the only way out of a runaway job
		}
		if idle = !c.isBusy(); idle {
			timer.Reset(watchIdle)
		} else {
			timer.Reset(watchEvery)
		}
	}
}
