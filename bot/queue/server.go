package queue

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-gitops/sluice/internal/retry"
)

const (
	maxPayload    = 1 << 20  // bytes of a message
	serverMemory  = 64 << 20 // for consumers that live in memory
	serverStartup = 30 * time.Second
)

// startServer starts a server in this process, without a port.
func (q *Queue) startServer(ctx context.Context) error {
	if err := os.MkdirAll(q.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make the queue's directory: %w", err)
	}
	// A process that was killed may have children left for a moment, with a copy of its descriptor.
	policy := retry.Policy{Tries: 8, First: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	unlock, err := retry.Do(ctx, policy, func(context.Context) (func(), error) {
		unlock, err := lockFile(filepath.Join(q.cfg.Dir, "lock"))
		return unlock, retry.Again(err)
	})
	if err != nil {
		return fmt.Errorf("another process uses the queue's directory %s (give each its own, or use a NATS cluster by URL): %w", q.cfg.Dir, err)
	}
	q.unlock = unlock
	srv, err := server.NewServer(&server.Options{
		ServerName:             q.cfg.Name,
		DontListen:             true,
		NoSigs:                 true,
		JetStream:              true,
		StoreDir:               q.cfg.Dir,
		SyncAlways:             true,
		JetStreamMaxMemory:     serverMemory,
		JetStreamMaxStore:      q.cfg.MaxBytes,
		DisableJetStreamBanner: true,
		MaxPayload:             maxPayload,
	})
	if err != nil {
		return fmt.Errorf("configure the queue's server: %w", err)
	}
	srv.SetLoggerV2(serverLog{q.log}, false, false, false)
	q.srv = srv
	srv.Start()
	if !srv.ReadyForConnections(serverStartup) {
		return fmt.Errorf("the queue's server in %s did not start within %s (see the log)", q.cfg.Dir, serverStartup)
	}
	if !srv.JetStreamEnabled() {
		return fmt.Errorf("the queue's server cannot use the directory %s (see the log)", q.cfg.Dir)
	}
	return nil
}

// connect connects to the server. The connection is restored whenever it breaks; meanwhile writes fail at once.
func (q *Queue) connect(ctx context.Context) error {
	opts := []nats.Option{
		nats.Name(q.cfg.Name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.ReconnectBufSize(-1),
		nats.Timeout(5 * time.Second),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			q.log.Warn("queue: connection", "err", err)
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				q.log.Warn("queue: connection lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { q.log.Info("queue: connected again") }),
	}
	if q.srv != nil {
		opts = append(opts, nats.InProcessServer(q.srv))
	}
	if q.cfg.Credentials != "" {
		opts = append(opts, nats.UserCredentials(q.cfg.Credentials))
	}
	if q.cfg.TLS != nil {
		opts = append(opts, nats.Secure(q.cfg.TLS))
	}
	var err error
	q.nc, err = retry.Do(ctx, retry.Policy{Tries: retry.Forever, First: 250 * time.Millisecond},
		func(context.Context) (*nats.Conn, error) {
			nc, err := nats.Connect(q.cfg.URL, opts...)
			return nc, transient(err)
		})
	if err != nil {
		return fmt.Errorf("connect to NATS at %s: %w", redact(q.cfg.URL), err)
	}
	js, err := jetstream.New(q.nc)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	q.js = js
	return nil
}

// redact removes everything but scheme and host from URLs.
func redact(urls string) string {
	var out []string
	for u := range strings.SplitSeq(urls, ",") {
		parsed, err := url.Parse(strings.TrimSpace(u))
		if err != nil || parsed.Host == "" {
			out = append(out, "(unreadable URL)")
			continue
		}
		out = append(out, parsed.Scheme+"://"+parsed.Host)
	}
	return strings.Join(out, ",")
}

// serverLog passes the server's messages to slog.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Noticef(format string, v ...any) {
	l.log.Debug("nats: " + fmt.Sprintf(format, v...))
}

func (l serverLog) Debugf(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }

func (l serverLog) Tracef(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }

func (l serverLog) Warnf(format string, v ...any) { l.log.Warn("nats: " + fmt.Sprintf(format, v...)) }

func (l serverLog) Errorf(format string, v ...any) { l.log.Error("nats: " + fmt.Sprintf(format, v...)) }

func (l serverLog) Fatalf(format string, v ...any) { l.log.Error("nats: " + fmt.Sprintf(format, v...)) }
