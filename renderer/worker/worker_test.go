package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain lets the test binary be the child of its own hosts, and the parent that another test kills.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "worker-child":
			if err := Serve(context.Background(), os.Stdin, os.Stdout, testJobs()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "worker-parent":
			parentToBeKilled()
		case "worker-hidden":
			hiddenParent()
		}
	}
	os.Exit(m.Run())
}

func testJobs() Jobs {
	return Jobs{
		"echo": func(_ context.Context, in []byte, _ Ask) ([]byte, error) { return in, nil },
		"fail": func(_ context.Context, in []byte, _ Ask) ([]byte, error) { return nil, errors.New(string(in)) },
		"size": func(_ context.Context, in []byte, _ Ask) ([]byte, error) {
			n, err := strconv.Atoi(string(in))
			return make([]byte, n), err
		},
		"spin":   func(context.Context, []byte, Ask) ([]byte, error) { return spin() },
		"sleep":  func(context.Context, []byte, Ask) ([]byte, error) { select {} },
		"memory": func(context.Context, []byte, Ask) ([]byte, error) { return eat(), nil },
		"stack":  func(context.Context, []byte, Ask) ([]byte, error) { return recurse(nil), nil },
		"panic":  func(context.Context, []byte, Ask) ([]byte, error) { panic("\x1b[31m::add-mask::x") },
		"state": func(_ context.Context, in []byte, _ Ask) ([]byte, error) {
			before := remembered.Load()
			remembered.Store(string(in))
			s, _ := before.(string)
			return []byte(s), nil
		},
		"pid":  func(context.Context, []byte, Ask) ([]byte, error) { return []byte(strconv.Itoa(os.Getpid())), nil },
		"env":  func(context.Context, []byte, Ask) ([]byte, error) { return json.Marshal(os.Environ()) },
		"read": func(_ context.Context, in []byte, _ Ask) ([]byte, error) { return os.ReadFile(string(in)) },
		"exec": func(ctx context.Context, _ []byte, _ Ask) ([]byte, error) {
			return exec.CommandContext(ctx, "/bin/true").CombinedOutput()
		},
		"ask": func(ctx context.Context, in []byte, ask Ask) ([]byte, error) {
			var all sync.WaitGroup
			out := make([][]byte, 100)
			errs := make([]error, len(out))
			for i := range out {
				all.Go(func() { out[i], errs[i] = ask(ctx, "double", fmt.Appendf(nil, "%s%d", in, i)) })
			}
			all.Wait()
			return bytes.Join(out, []byte(",")), errors.Join(errs...)
		},
		"threads": func(ctx context.Context, _ []byte, _ Ask) ([]byte, error) {
			for range 100_000 {
				go func() {
					runtime.LockOSThread()
					<-ctx.Done()
				}()
			}
			return spin()
		},
		"files": func(_ context.Context, in []byte, _ Ask) ([]byte, error) {
			var open []*os.File
			for range 100_000 {
				f, err := os.Open(string(in))
				if err != nil {
					return nil, fmt.Errorf("%d files: %w", len(open), err)
				}
				open = append(open, f)
			}
			return nil, nil
		},
		"question": func(ctx context.Context, in []byte, ask Ask) ([]byte, error) {
			n, err := strconv.Atoi(string(in))
			if err != nil {
				return nil, err
			}
			return ask(ctx, "large", make([]byte, n))
		},
		// a compromised child ignores its own bound
		"questions": func(ctx context.Context, _ []byte, ask Ask) ([]byte, error) {
			w := &frameWriter{w: os.Stdout}
			for i := range uint32(10 * maxAsks) {
				head, err := named("slow")
				if err != nil {
					return nil, err
				}
				if err := w.send(kindAsk, i, head, nil); err != nil {
					return nil, err
				}
			}
			return spin()
		},
		"garbage": func(context.Context, []byte, Ask) ([]byte, error) {
			_, err := os.Stdout.WriteString("no frame at all, but long enough for a header\n")
			return nil, errors.Join(err, errors.New("unreachable"))
		},
		"large": func(context.Context, []byte, Ask) ([]byte, error) { // a compromised child ignores its own bound
			header := []byte{byte(kindResult), 0, 0, 0, 0, 0x40, 0, 0, 0}
			_, err := os.Stdout.Write(append(header, make([]byte, 1<<20)...))
			return nil, err
		},
		"early": func(ctx context.Context, _ []byte, ask Ask) ([]byte, error) {
			for range 5 {
				go ask(ctx, "slow", nil) //nolint:errcheck // the call ends first
			}
			time.Sleep(100 * time.Millisecond)
			return []byte("early"), nil
		},
		"zone": func(context.Context, []byte, Ask) ([]byte, error) {
			return []byte(time.Unix(0, 0).Format(time.RFC3339)), nil
		},
	}
}

var remembered atomic.Value

func spin() ([]byte, error) {
	for i := uint64(1); i > 0; i++ {
		if i%(1<<62) == 0 {
			return nil, nil
		}
	}
	return nil, nil
}

func eat() []byte {
	var all [][]byte
	for {
		b := make([]byte, 16<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
		if len(all) > 1<<20 {
			return all[0]
		}
	}
}

func recurse(b []byte) []byte {
	var a [1024]byte
	if len(b) > len(a) {
		return b
	}
	return append(recurse(a[:]), b...)
}

func self(tb testing.TB) []string {
	tb.Helper()
	path, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return []string{path, "worker-child"}
}

func host(tb testing.TB, change func(*Options)) *Host {
	tb.Helper()
	o := Options{Command: self(tb), Limits: Limits{Memory: 256 << 20}}
	if change != nil {
		change(&o)
	}
	h := NewHost(o)
	tb.Cleanup(h.Close)
	return h
}

func call(t *testing.T, w *Workers, job, input string) (string, error) {
	t.Helper()
	out, err := w.Call(t.Context(), Call{Job: job, Input: []byte(input)})
	return string(out), err
}

func TestCalls(t *testing.T) {
	w := host(t, nil).For(Owner{Repository: "r"})
	for range 3 {
		if got, err := call(t, w, "echo", "hello"); err != nil || got != "hello" {
			t.Fatalf("the result of call is %q, the error is %v", got, err)
		}
	}
	big := strings.Repeat("x", 9<<20)
	if got, err := call(t, w, "echo", big); err != nil || got != big {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	_, err := call(t, w, "fail", "no\x1b[31m\n::add-mask::x")
	if job, ok := errors.AsType[*JobError](err); !ok || strings.ContainsAny(job.Error(), "\x1b") ||
		strings.Contains(job.Error(), "\n::") {
		t.Errorf("the error is %#v", err)
	}
	if _, err := call(t, w, "nothing", ""); !errors.Is(err, ErrUnknownJob) {
		t.Error(err)
	}
	if got, err := call(t, w, "env", ""); err != nil || got != "[]" {
		t.Errorf("environment %s, %v", got, err)
	}
	if got, err := call(t, w, "zone", ""); err != nil || got != "1970-01-01T00:00:00Z" {
		t.Errorf("local time %s, %v", got, err)
	}
}

func TestLimitsEndTheCallAndNotTheHost(t *testing.T) {
	w := host(t, func(o *Options) { o.Timeout = 2 * time.Minute }).For(Owner{})
	for name, c := range map[string]struct {
		call Call
		want error
	}{
		"time":         {Call{Job: "sleep", Timeout: 100 * time.Millisecond}, ErrTimeout},
		"CPU":          {Call{Job: "spin", CPU: 100 * time.Millisecond}, ErrCPU},
		"memory":       {Call{Job: "memory"}, ErrMemory},
		"stack":        {Call{Job: "stack"}, nil}, // at the bound of the stack or of memory, whichever comes first
		"panic":        {Call{Job: "panic"}, ErrCrashed},
		"output":       {Call{Job: "size", Input: []byte("2000000"), MaxOutput: 1 << 20}, ErrOutput},
		"large output": {Call{Job: "large", MaxOutput: 1 << 20}, ErrOutput},
		"question":     {Call{Job: "question", Input: []byte(strconv.Itoa(maxQuestion + 1))}, ErrOutput},
		"garbage":      {Call{Job: "garbage"}, ErrOutput}, // an unknown kind may have no payload
	} {
		if name == "CPU" && runtime.GOOS != "linux" {
			continue
		}
		_, err := w.Call(t.Context(), c.call)
		if c.want != nil && !errors.Is(err, c.want) || !IsLimit(err) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x1b") {
			t.Errorf("%s: %q is not escaped", name, err)
		}
		if got, err := call(t, w, "echo", "on"); err != nil || got != "on" {
			t.Errorf("after %s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := w.Call(ctx, Call{Job: "spin"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A call tells the CPU time that it took, also if that was too much.
func TestCallsTellTheirCPUTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells the CPU time of another process")
	}
	w := host(t, func(o *Options) { o.Timeout = 2 * time.Minute }).For(Owner{})
	const budget = 200 * time.Millisecond
	for range 2 {
		var spun, echoed time.Duration
		if _, err := w.Call(t.Context(), Call{Job: "spin", CPU: budget, Spent: &spun}); !errors.Is(err, ErrCPU) ||
			spun < budget {
			t.Errorf("%v of %v: %v", spun, budget, err)
		}
		if _, err := w.Call(t.Context(), Call{Job: "echo", Spent: &echoed}); err != nil || echoed <= 0 ||
			echoed >= spun {
			t.Errorf("an echo took %v, %v", echoed, err)
		}
	}
}

func TestAnswersAreCountedBeforeTheyAreDecoded(t *testing.T) {
	const most = 8
	for text, want := range map[string]error{
		`{"a":[1,2,{}],"b":"x"}`:                        nil,
		`{"a":"[[[[{{{{,,,,\\\"[[[[,,,,{{{{","b":"\\"}`: nil,
		`[{},{},{},{},{}]`:                              ErrOutput,
		`{"a":"\\","b":[[[[[[[[[[]]]]]]]]]]}`:           ErrOutput,
		`[` + strings.Repeat(`"a",`, most) + `"a"]`:     ErrOutput,
		`{"a":`: ErrProtocol,
		`{"a":"` + strings.Repeat(`\\",[[[[[[[[[`, most) + `"}`: ErrOutput,
	} {
		var v any
		if err := Decode([]byte(text), most, &v); !errors.Is(err, want) {
			t.Errorf("%s: the error is %v, want %v", text, err, want)
		}
	}
}

// The limits of a process hold although nobody in the parent watches it: those of the kernel.
func TestLimitsOfTheKernel(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("these limits need Linux")
	}
	w := host(t, func(o *Options) {
		o.Timeout, o.Limits.CPU = 5*time.Minute,
			time.Second
	}).For(Owner{Repository: "CPU"})
	if _, err := call(t, w, "spin", ""); !errors.Is(err, ErrCPU) || !strings.Contains(err.Error(), "in its lifetime") {
		t.Errorf("CPU time: %v", err)
	}
	dir := t.TempDir()
	w = host(t, func(o *Options) { o.Timeout, o.Limits.Files = 5*time.Minute, 64 }).For(Owner{Repository: "files"}, dir)
	if _, err := call(t, w, "files", dir); err == nil || !strings.Contains(err.Error(), "too many open files") {
		t.Errorf("files: %v", err)
	}
	h := host(t, func(o *Options) { o.Timeout, o.Limits.Processes = 5*time.Minute, 50 })
	r, err := h.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	limits := slices.IndexFunc(r.Restrictions, func(w Restriction) bool { return w.Name == "limits" })
	if !strings.Contains(r.Restrictions[limits].Detail, "processes") {
		t.Skip("the kernel grants no user namespace, and without one the limit counts other processes")
	}
	if os.Geteuid() == 0 {
		t.Skip("the kernel does not hold root to a number of processes")
	}
	if _, err := call(t, h.For(Owner{Repository: "threads"}), "threads", ""); !errors.Is(err, ErrCrashed) ||
		!strings.Contains(err.Error(), "too many threads") {
		t.Errorf("threads: %v", err)
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	w := host(t, func(o *Options) { o.Timeout = 5 * time.Minute }).For(Owner{})
	_, err := w.Call(t.Context(), Call{Job: "questions", Answer: func(ctx context.Context, _ string, _ []byte) ([]byte,
		error,
	) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "more than 32 questions") {
		t.Error(err)
	}
}

func TestQuestions(t *testing.T) {
	w := host(t, nil).For(Owner{})
	var at, most atomic.Int64
	got, err := w.Call(t.Context(), Call{
		Job: "ask", Input: []byte("n"),
		Answer: func(_ context.Context, name string, in []byte) ([]byte, error) {
			n := at.Add(1)
			defer at.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if name != "double" {
				return nil, errors.New("unknown question")
			}
			return append(in, in...), nil
		},
	})
	answers := strings.Split(string(got), ",")
	if err != nil || len(answers) != 100 || answers[42] != "n42n42" {
		t.Errorf("the result of Call is %s, the error is %v", got, err)
	}
	if most.Load() > maxAsks {
		t.Errorf("%d questions at once", most.Load())
	}
	if _, err := w.Call(t.Context(), Call{Job: "ask"}); err == nil ||
		!strings.Contains(err.Error(), "this call takes no questions") {
		t.Error(err)
	}
	_, err = w.Call(t.Context(), Call{Job: "early", Answer: func(ctx context.Context, _ string, _ []byte) ([]byte,
		error,
	) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
	if got, err := call(t, w, "echo", "on"); err != nil || got != "on" {
		t.Error(err)
	}
}

func TestProcessesBelongToOneOwner(t *testing.T) {
	h := host(t, func(o *Options) { o.Size, o.Warm = 2, 1 })
	owners := []Owner{{"a", Trusted}, {"a", Untrusted}, {"b", Untrusted}}
	for round := range 3 {
		for _, owner := range owners {
			got, err := call(t, h.For(owner), "state", owner.Repository+string(owner.Trust))
			if err != nil {
				t.Fatal(err)
			}
			want := owner.Repository + string(owner.Trust)
			if round == 0 {
				want = ""
			}
			if got != want {
				t.Errorf("round %d: %v finds %q, which somebody else left", round, owner, got)
			}
		}
	}
	h.For(owners[0]).Release()
	if got, err := call(t, h.For(owners[0]), "state", ""); err != nil || got != "" {
		t.Errorf("after Release: %q, %v", got, err)
	}
}

// A process that Prepare started takes the next call, and no other one is started for it.
func TestPrepare(t *testing.T) {
	h := host(t, func(o *Options) { o.Size = 2 })
	h.Prepare()
	count := func() (idle, live int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.idle), len(h.live)
	}
	for idle := 0; idle == 0; idle, _ = count() {
		if t.Context().Err() != nil {
			t.Fatal("no process was started")
		}
		runtime.Gosched()
	}
	if got, err := call(t, h.For(Owner{"a", Trusted}), "echo", "on"); err != nil || got != "on" {
		t.Error(got, err)
	}
	if idle, live := count(); idle != 1 || live != 1 {
		t.Errorf("%d idle processes of %d", idle, live)
	}
}

func TestSlotsAreSharedFairly(t *testing.T) {
	h := host(t, func(o *Options) { o.Size, o.Reserved = 2, 1 })
	greedy, other, trusted := h.For(Owner{"greedy", Untrusted}), h.For(Owner{"other", Untrusted}),
		h.For(Owner{"greedy", Trusted})
	ctx, cancel := context.WithCancel(t.Context())
	var hung sync.WaitGroup
	for range 5 {
		hung.Go(func() {
			if _, err := greedy.Call(ctx, Call{Job: "sleep", Timeout: time.Hour}); err == nil {
				t.Error("a call that never ends did")
			}
		})
	}
	for waiting := 0; waiting < 4; runtime.Gosched() {
		h.mu.Lock()
		waiting = len(h.queues[greedy.owner])
		h.mu.Unlock()
	}
	if _, err := call(t, trusted, "echo", "x"); err != nil { // while all untrusted slots hang
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := other.Call(t.Context(), Call{Job: "echo"})
		done <- err
	}()
	for waiting := 0; waiting < 1; runtime.Gosched() {
		h.mu.Lock()
		waiting = len(h.queues[other.owner])
		h.mu.Unlock()
	}
	h.mu.Lock()
	turns := slices.Clone(h.turns)
	h.mu.Unlock()
	cancel()
	hung.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(turns) != 2 {
		t.Errorf("turns %v", turns)
	}
}

// TestOneOwnerCannotTakeAllSlots: calls of an untrusted owner that hang leave a slot for another untrusted owner.
func TestOneOwnerCannotTakeAllSlots(t *testing.T) {
	h := host(t, func(o *Options) { o.Size, o.Reserved, o.PerOwner = 3, 1, 1 })
	greedy, other := h.For(Owner{"greedy", Untrusted}), h.For(Owner{"other", Untrusted})
	ctx, cancel := context.WithCancel(t.Context())
	var hung sync.WaitGroup
	for range 5 {
		hung.Go(func() {
			if _, err := greedy.Call(ctx, Call{Job: "sleep", Timeout: time.Hour}); err == nil {
				t.Error("a call that never ends did")
			}
		})
	}
	for waiting := 0; waiting < 4; runtime.Gosched() {
		h.mu.Lock()
		waiting = len(h.queues[greedy.owner])
		h.mu.Unlock()
	}
	if _, err := call(t, other, "echo", "x"); err != nil { // does not return while the other owner has all slots
		t.Error(err)
	}
	cancel()
	hung.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.owners) != 0 || h.running != 0 {
		t.Errorf("%d calls run, of %v", h.running, h.owners)
	}
}

func TestCloseEndsWaitingAndRunningCalls(t *testing.T) {
	h := host(t, nil)
	w := h.For(Owner{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := w.Call(t.Context(), Call{Job: "sleep", Timeout: time.Hour}); err == nil {
				t.Error("no error")
			}
		})
	}
	for waiting := 0; waiting < 2; runtime.Gosched() {
		h.mu.Lock()
		waiting = len(h.queues[w.owner])
		h.mu.Unlock()
	}
	h.Close()
	all.Wait()
	if _, err := w.Call(t.Context(), Call{Job: "echo"}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
