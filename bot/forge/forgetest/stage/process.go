package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Serving says how a service runs.
type Serving struct {
	Binary  string
	Name    string    // of its configuration and data folders; "" is "data"
	Listen  string    // host:port; "" is one that is free
	API     string    // the forge's address; "" is the stage's
	Sweep   string    // time between looks at everything; "" is 5s
	Metrics string    // host:port of its metrics; "" serves none
	Extra   string    // more lines of the configuration, complete ones
	With    []*Stage  // more stages that it serves
	Log     io.Writer // its log; nil: nobody reads it
}

// Process is a `sluice serve` that runs.
type Process struct {
	Address string // http://host:port
	Data    string
	cmd     *exec.Cmd
	done    chan struct{}
	err     error
}

// The ports that services get: below those that systems hand out by themselves, and none twice in one
// process, so that no other process takes one between two services.
const (
	firstPort = 20_000
	ports     = 12_000
)

var nextPort atomic.Uint32

// FreeAddress returns an address on this machine that nobody listens on. It stays free for a service that is
// started again and again.
func FreeAddress(ctx context.Context) (string, error) {
	nextPort.CompareAndSwap(0, rand.Uint32N(ports)+1) //nolint:gosec // another process begins elsewhere
	for range ports {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+nextPort.Add(1)%ports)
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err == nil {
			return address, l.Close()
		}
	}
	return "", errors.New("no port is free")
}

// Config returns the configuration of a service for this stage.
func (s *Stage) Config(v Serving) string {
	return fmt.Sprintf(`listen: %s
metrics: %q
data: %s
sweep: %s
promote: 5s
drain: 5s
fingerprint: {env: STAGE_FINGERPRINT}
%sforges:
%s`, v.Listen, v.Metrics, s.data(v), cmp.Or(v.Sweep, "5s"), v.Extra, s.forges(v))
}

// forges returns the entries of the stage and of those that the service serves with it.
func (s *Stage) forges(v Serving) string {
	var out strings.Builder
	for i, one := range append([]*Stage{s}, v.With...) {
		api := one.forge.URL
		if i == 0 {
			api = cmp.Or(v.API, api)
		}
		fmt.Fprintf(&out, "  - {name: %s, kind: %s, api: %s, git: %s, token: {env: %s}, secrets: [{env: STAGE_SECRET}], repositories: [%s]}\n",
			one.o.Name, one.o.Kind, api, one.git.URL, tokenVariable(i), Repository)
	}
	return out.String()
}

func tokenVariable(i int) string { return fmt.Sprint("STAGE_TOKEN_", i) }

func (s *Stage) data(v Serving) string {
	return filepath.Join(s.o.Dir, cmp.Or(v.Name, "data"))
}

// Serve starts a service. It may not be ready yet.
func (s *Stage) Serve(ctx context.Context, v Serving) (*Process, error) {
	if v.Listen == "" {
		var err error
		if v.Listen, err = FreeAddress(ctx); err != nil {
			return nil, err
		}
	}
	file := s.data(v) + ".yaml"
	if err := os.WriteFile(file, []byte(s.Config(v)), 0o600); err != nil {
		return nil, err
	}
	p := &Process{Address: "http://" + v.Listen, Data: s.data(v), done: make(chan struct{})}
	//nolint:gosec // of the stage's own making
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), v.Binary, "serve", "--config", file)
	p.cmd.Env = append(os.Environ(), "HOME="+s.o.Dir, "SLUICE_OFFLINE=1", "SLUICE_CACHE_DIR="+
		filepath.Join(s.o.Dir, "cache"),
		"STAGE_FINGERPRINT="+Fingerprint, "STAGE_SECRET="+Secret)
	for i, one := range append([]*Stage{s}, v.With...) {
		p.cmd.Env = append(p.cmd.Env, tokenVariable(i)+"="+one.token)
	}
	p.cmd.Stderr, p.cmd.Stdout = v.Log, v.Log
	p.cmd.WaitDelay = time.Second // a render process may hold the log a moment longer
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// Ready waits until the service takes webhooks.
func (p *Process) Ready(ctx context.Context, bound time.Duration) error {
	err := WaitFor(ctx, bound, "the service is ready", func() bool { return p.Ended() || p.Answers(ctx, "/readyz") })
	if err == nil && p.Ended() {
		return fmt.Errorf("the service ended: %w", errors.Join(p.err, errors.New("its log says why")))
	}
	return err
}

// Answers reports whether an address of the service answers 200.
func (p *Process) Answers(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Address+path, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // the answer has no body to lose
	return resp.StatusCode == http.StatusOK
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Err returns how the process ended; nil while it runs, and after an end with status 0.
func (p *Process) Err() error {
	if !p.Ended() {
		return nil
	}
	return p.err
}

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends it with SIGKILL, and waits until it has ended. Its render processes end by themselves: nobody
// writes to them any more.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// Stop has it drain and end, with its error; a process that does not end is killed.
func (p *Process) Stop(bound time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !p.Ended() {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(bound):
		p.Kill()
		return fmt.Errorf("the service did not end within %s of SIGTERM", bound)
	}
}
