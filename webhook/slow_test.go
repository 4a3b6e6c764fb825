package webhook_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-gitops/sluice/webhook"
)

// pipes is a listener of connections in memory, with addresses that their clients choose. It works with a fake clock.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

type pipeConn struct {
	net.Conn
	from net.Addr
}

func (c pipeConn) RemoteAddr() net.Addr { return c.from }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.done); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(address string) net.Conn {
	client, server := net.Pipe()
	p.conns <- pipeConn{server, &net.TCPAddr{IP: net.ParseIP(address), Port: 4711}}
	return client
}

// deliver sends a request whose body is complete, and returns the status.
func (p *pipes) deliver(t *testing.T, address string, r *http.Request) int {
	t.Helper()
	conn := p.dial(address)
	defer func() { _ = conn.Close() }()
	var group sync.WaitGroup
	group.Go(func() { _ = r.Write(conn) }) // the server may answer and close before it read everything
	resp, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		t.Errorf("no answer: %v", err)
		return 0
	}
	_ = resp.Body.Close()
	_ = conn.Close()
	group.Wait()
	return resp.StatusCode
}

// stall sends the beginning of a body and nothing more, and returns the status of the answer.
func (p *pipes) stall(address string, begin int) int {
	conn := p.dial(address)
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = fmt.Fprintf(conn,
			"POST /hooks/hub HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\nContent-Length: 9000000\r\n\r\n%s", strings.Repeat("x", begin))
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// 1,200 bodies that stall do not block signed webhooks, whatever address they come from. They are aborted.
func TestSlowBodies(t *testing.T) {
	const forge = "192.0.2.1"
	for name, c := range map[string]struct {
		slow  func(i int) string // address of a stalled body
		begin int                // bytes that it sends
		known bool               // the forge sent a verified webhook before
	}{
		"one address":         {func(int) string { return "203.0.113.7" }, 10, false},
		"the forge's address": {func(int) string { return forge }, 10, false},
		"many addresses": {
			func(i int) string { return fmt.Sprintf("10.0.%d.%d", i/250, i%250) }, 10,
			false,
		},
		"many networks of IPv6": {
			func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i) }, 1000,
			false,
		},
		"one network of IPv6": {func(i int) string { return fmt.Sprintf("2001:db8::%x", i) }, 1000, false},
		"more than a kilobyte each": {
			func(i int) string { return fmt.Sprintf("10.0.%d.%d", i/250, i%250) }, 2000,
			false,
		},
		"all the memory of unknown ones": {
			func(i int) string { return fmt.Sprintf("10.0.%d.%d", i/250, i%250) },
			60 << 10, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sink{}
				h, err := webhook.New(webhook.Config{
					Endpoints: []webhook.Endpoint{{
						Forge: "hub", Kind: "github", Path: "/hooks/hub",
						Secrets: []string{secret},
					}},
					Sink: s, Clock: time.Now, Log: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Fatal(err)
				}
				listener := &pipes{make(chan net.Conn), make(chan struct{})}
				server := &http.Server{
					Handler: h, ReadHeaderTimeout: 10 * time.Second,
					ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
				}
				var group sync.WaitGroup
				group.Go(func() { _ = server.Serve(listener) })
				delivery := 0
				signed := func() int { // each delivery has its own id and body
					delivery++
					r := hub("push", fmt.Appendf(nil,
						`{"ref":"refs/heads/main","after":"%d","repository":{"full_name":"a/b"},"pad":%q}`, delivery,
						strings.Repeat("x", 5000)))
					r.Header.Set("X-GitHub-Delivery", fmt.Sprint(delivery))
					return listener.deliver(t, forge, r)
				}
				if c.known {
					if code := signed(); code != http.StatusAccepted {
						t.Fatalf("the first webhook: %d", code)
					}
				}
				began := time.Now()
				var mu sync.Mutex
				codes := map[int]int{}
				for i := range 1200 {
					group.Go(func() {
						code := listener.stall(c.slow(i), c.begin)
						mu.Lock()
						defer mu.Unlock()
						codes[code]++
					})
				}
				synctest.Wait() // all of them stall
				for range 20 {
					if code := signed(); code != http.StatusAccepted {
						t.Errorf("a signed webhook beside 1,200 stalled bodies: %d", code)
					}
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("the signed webhooks took %v", took)
				}
				time.Sleep(11 * time.Second)
				mu.Lock()
				if n := codes[http.StatusRequestTimeout] + codes[http.StatusServiceUnavailable]; n != 1200 ||
					codes[http.StatusRequestTimeout] < 128 {
					t.Errorf("answers to stalled bodies after 11 s: %v", codes)
				}
				mu.Unlock()
				if code := signed(); code != http.StatusAccepted {
					t.Errorf("a signed webhook after them: %d", code)
				}
				_ = server.Close()
				group.Wait()
			})
		})
	}
}

// A slow body that makes progress arrives.
func TestSteadyBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		h, err := webhook.New(webhook.Config{
			Endpoints: []webhook.Endpoint{{
				Forge: "hub", Kind: "github", Path: "/hooks/hub",
				Secrets: []string{secret},
			}},
			Sink: s, Clock: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		listener := &pipes{make(chan net.Conn), make(chan struct{})}
		server := &http.Server{Handler: h}
		var group sync.WaitGroup
		group.Go(func() { _ = server.Serve(listener) })
		body := fmt.Appendf(nil, `{"ref":"refs/heads/main","after":"1","repository":{"full_name":"a/b"},"pad":%q}`,
			strings.Repeat("x", 900<<10))
		r := hub("push", body)
		from, to := io.Pipe()
		group.Go(func() {
			for len(body) > 0 { // 20 KiB a second
				n := min(20<<10, len(body))
				_, _ = to.Write(body[:n])
				body = body[n:]
				time.Sleep(time.Second)
			}
			_ = to.Close()
		})
		r.Body = from
		if code := listener.deliver(t, "192.0.2.1", r); code != http.StatusAccepted || len(s.got()) != 1 {
			t.Errorf("%d, hints %v", code, s.got())
		}
		_ = server.Close()
		group.Wait()
	})
}
