// Package queue stores hints ("this merge request may have changed") on disk until a worker has handled them, and
// allows one worker at a time per merge request and one for everything else of a repository. It runs on NATS JetStream:
// inside this process with a directory, or on a cluster by URL, with the same code.
//
// The queue has no state of the fleet: Git is the only source of truth. Its leases only save work; the
// compare-and-swap of Git is the fence. If all its data is deleted, a sweep finds everything again.
//
// # What is stored
//
// With the prefix `sluice`, ten streams:
//
//	stream            subjects                                            holds
//	sluice-hints      sluice.hint.<partition>.<kind>.<number>[.force]          one message per key, the newest
//	                  sluice.hint.<partition>.comment.<number>.<command>       one message per command
//	sluice-leases     sluice.lease.<partition>                                 worker of a partition; expires after Config.Lease
//	                  sluice.lease.<partition>-<number>                        the same for reviews, of a merge request
//	sluice-attempts   sluice.attempt.<key>                                starts and failures of a hint that is not done
//	sluice-parked     sluice.parked.<key>                                 hints that failed too often
//	sluice-seen       sluice.seen.<hash>                                  delivery ids and body hashes; expire after Config.SeenTTL
//	sluice-verdicts   sluice.verdict.<place>-<number>                     verdict of a merge request alone, see Verdicts
//	sluice-outcomes   sluice.outcome.<place>-<number>-<comment>           what the commands of a comment did, see Outcomes
//	sluice-events     sluice.event.<place>                                what receivers of events were told, see Episodes
//	sluice-reports    sluice.report.<name>[.<piece>]                      pages of reviewed heads, see Reports
//	sluice-lists      sluice.list.<name>                                  lists of these heads
//
// A partition (see hint.Hint.Partition), a place, a key, a command and a hash are hexadecimal digests. Every stream has
// one message per subject, so that it is a bucket: a key has a value and a revision (the stream's sequence), and
// changes by compare-and-swap. All reads go to the stream's leader.
//
// # How a hint is worked on
//
// Each replica follows the stream of hints and keeps an index of it in memory. A worker takes the lease of a
// partition, or for a review that of the merge request, reads the newest message of a key, does the work, and
// deletes exactly the sequence that it read: a hint that arrived meanwhile has another sequence and stays.
// After a crash at any moment, the hint is still in the stream and is worked on again.
//
// The package is not API: it can change in every release.
package queue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/internal/retry"
)

// Errors, and causes of a cancelled work context.
var (
	// ErrSuperseded is the cause if a newer hint of the same merge request arrives. The newer one is worked
	// on next.
	ErrSuperseded = errors.New("a newer hint of this merge request arrived")
	// ErrInterrupted is the cause if a command does not wait for the work. The work is done after the command.
	ErrInterrupted = errors.New("a command goes before this task")
	// ErrLeaseLost is the cause if another replica may be working in this partition.
	ErrLeaseLost = fmt.Errorf("the lease of this repository is lost: %w", retry.ErrTaken)
	// ErrDraining is the cause if the process stops and the grace period is over.
	ErrDraining = errors.New("the process stops and the grace period is over")
	// ErrFull reports that the queue has reached its size limit.
	ErrFull = errors.New("the queue is full (raise its size limit, or see in the metrics what is parked or stuck)")
	// ErrInvalid reports a hint or a setting that cannot be used.
	ErrInvalid = hint.ErrInvalid
	// ErrNotParked reports that no such hint is parked.
	ErrNotParked = errors.New("no such hint is parked")
)

// Config of a queue. Zero values get defaults, except Clock, which is required, and Dir, required without URL.
type Config struct {
	URL         string      // of NATS servers, comma separated; "" runs a server inside this process
	Dir         string      // of the files of the server inside this process
	Replicas    int         // copies of each message on a cluster: 1 to 5; default 1, with URL 3
	Credentials string      // file with NATS credentials (JWT and seed)
	TLS         *tls.Config // for the connection to URL
	Name        string      // this replica, in leases and logs; default "sluice"
	Prefix      string      // of streams and subjects; default "sluice"
	Clock       func() time.Time
	Log         *slog.Logger // default: none

	Retries    int           // failures after which a hint is parked; default 8
	Crashes    int           // vanished workers of a hint after which it is parked; default 10
	Backoff    time.Duration // wait after the first failure, doubled each time; default 2 s
	BackoffMax time.Duration // default 5 min
	Lease      time.Duration // how long a worker that does not answer keeps its partition; default 15 s
	Reviews    int           // in one partition that this replica works on at once; default 2
	Grace      time.Duration // how long running work may continue after the end of Run's context; default 25 s
	SeenTTL    time.Duration // default 72 h
	MaxBytes   int64         // of all streams together; default 1 GiB, at least 16 MiB

	OnPark func(Hint, error) // called when a hint is parked, possibly twice for the same
}

// Queue is a connection to the streams, and with an empty URL their server. Its methods are safe for
// concurrent use.
type Queue struct {
	cfg      Config
	log      *slog.Logger
	srv      *server.Server // nil with a URL
	unlock   func()         // of the directory
	nc       *nats.Conn
	js       jetstream.JetStream
	hints    *bucket
	leases   *bucket
	attempts *bucket
	parked   *bucket
	seen     *bucket
	verdicts *bucket
	outcomes *bucket
	episodes *bucket
	reports  *bucket
	lists    *bucket

	mu     sync.Mutex
	index  *index // of the running Run, or nil
	closed bool
}

// Open starts or connects to the server and creates the streams. It waits for a cluster until ctx ends, at
// most one minute.
func Open(ctx context.Context, cfg Config) (*Queue, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	q := &Queue{cfg: cfg, log: cfg.Log}
	if cfg.URL == "" {
		if err := q.startServer(ctx); err != nil {
			return nil, errors.Join(err, q.Close())
		}
	}
	if err := q.connect(ctx); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	if err := q.makeStreams(ctx); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// Close closes the connection and stops the server inside this process. End Run first. Hints that are not done
// stay on disk.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	if q.nc != nil {
		q.nc.Close()
	}
	if q.srv != nil {
		q.srv.Shutdown()
		q.srv.WaitForShutdown()
	}
	if q.unlock != nil {
		q.unlock()
	}
	return nil
}

// Ready returns an error if no hint can be put now: it writes and reads back a message.
func (q *Queue) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := q.Stuck(); err != nil {
		return err
	}
	key := "ready-" + digest(q.cfg.Name)
	if _, err := q.seen.set(ctx, key, []byte(q.cfg.Name)); err != nil {
		return fmt.Errorf("the queue cannot write: %w", err)
	}
	if _, _, ok, err := q.seen.get(ctx, key); err != nil || !ok {
		return fmt.Errorf("the queue cannot read back what it wrote (found: %t): %w", ok, errors.Join(err))
	}
	return nil
}

// withDefaults replaces zero values by defaults. Its error joins everything that is wrong.
func (c Config) withDefaults() (Config, error) {
	missing := c.checkPlace()
	replicas := 1
	if c.URL != "" {
		replicas = 3
	}
	c.Replicas = or(c.Replicas, replicas)
	c.Name, c.Prefix = or(c.Name, "sluice"), or(c.Prefix, "sluice")
	c.Retries, c.Crashes = or(c.Retries, 8), or(c.Crashes, 10)
	c.Backoff, c.BackoffMax = or(c.Backoff, 2*time.Second), or(c.BackoffMax, 5*time.Minute)
	c.Lease, c.Grace = or(c.Lease, 15*time.Second), or(c.Grace, 25*time.Second)
	c.Reviews = or(c.Reviews, 2)
	c.SeenTTL = or(c.SeenTTL, 72*time.Hour)
	c.MaxBytes = or(c.MaxBytes, 1<<30)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(missing, c.checkLimits())
}

// invalid collects errors that wrap ErrInvalid.
type invalid struct{ errs []error }

func (i *invalid) add(format string, args ...any) {
	i.errs = append(i.errs, fmt.Errorf("queue: "+format+": %w", append(args, ErrInvalid)...))
}

// checkPlace checks what has no default.
func (c Config) checkPlace() error {
	var out invalid
	bad := out.add
	if c.Clock == nil {
		bad("Clock is missing")
	}
	if c.URL == "" && c.Dir == "" {
		bad("neither URL nor Dir is set; name a directory for the queue's files or the URL of a NATS cluster")
	}
	if c.URL == "" && c.Replicas > 1 {
		bad("Replicas is %d without URL; one machine keeps one copy", c.Replicas)
	}
	if c.Credentials != "" {
		if _, err := os.Stat(c.Credentials); err != nil {
			out.errs = append(out.errs, fmt.Errorf("queue: the credentials file cannot be read: %w", err))
		}
	}
	return errors.Join(out.errs...)
}

// checkLimits checks numbers, durations and the prefix.
func (c Config) checkLimits() error {
	var out invalid
	bad := out.add
	if c.Replicas < 1 || c.Replicas > 5 {
		bad("Replicas is %d, not 1 to 5", c.Replicas)
	}
	if !prefixPattern.MatchString(c.Prefix) {
		bad("Prefix %q has other characters than a-z, 0-9 and -, or more than 32", c.Prefix)
	}
	if c.MaxBytes < 16<<20 {
		bad("MaxBytes is %d, less than 16 MiB", c.MaxBytes)
	}
	if c.Lease < 500*time.Millisecond || c.SeenTTL < c.Lease {
		bad("Lease is %s, SeenTTL %s; a lease is at least 500 ms and shorter than SeenTTL", c.Lease, c.SeenTTL)
	}
	if c.Reviews < 1 {
		bad("Reviews is %d, less than 1", c.Reviews)
	}
	if c.Retries < 1 || c.Crashes < 1 || c.Backoff < 0 || c.BackoffMax < c.Backoff || c.Grace < 0 {
		bad("Retries %d, Crashes %d, Backoff %s, BackoffMax %s, Grace %s: none may be negative, and the backoff's limit not below its start",
			c.Retries, c.Crashes, c.Backoff, c.BackoffMax, c.Grace)
	}
	return errors.Join(out.errs...)
}

var prefixPattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// or returns the value, or the default for a zero value.
func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
