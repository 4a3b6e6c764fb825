package bedtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	startTime = 2 * time.Minute // of a loaded machine
	stopTime  = 10 * time.Second
)

// process is a running server.
type process struct {
	name string
	log  string // its file
	cmd  *exec.Cmd
	done chan struct{} // closed at its end
	err  error         // after done
}

// start starts a server that writes to name.log in a folder. It ends with the test that started it.
func start(name, dir string, cmd *exec.Cmd) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), cmd: cmd, done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has it
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, attributes()
	started := make(chan error, 1)
	go func() {
		// The server ends with the thread that started it. The test may end threads, as workers do.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		if started <- err; err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// ready waits until a question to the server has an answer.
func (p *process) ready(ctx context.Context, ask func() error) error {
	deadline := time.NewTimer(startTime)
	defer deadline.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return fmt.Errorf("%s ended: %w\n%s", p.name, p.err, p.end())
		case <-deadline.C:
			return fmt.Errorf("%s does not answer within %s: %w\n%s", p.name, startTime, err, p.end())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// end returns the end of the log, because a test removes the file.
func (p *process) end() []byte {
	const most = 3000
	data, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return data[max(0, len(data)-most):]
}

// Close stops the server and keeps its folder.
func (p *process) Close() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(stopTime):
		_ = p.cmd.Process.Kill() // it may have ended in between
		<-p.done
	}
}
