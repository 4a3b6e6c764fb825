package webhook

import (
	"container/list"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/internal/lru"
)

const (
	firstBytes = 1 << 10         // bytes that a sender must deliver within bodyWait
	laterBytes = 64 << 10        // bytes that it must deliver in each further bodyWait
	bodyWait   = 5 * time.Second // forges send a payload at once
	// bodies above this size share one half of the memory, so that a few of them do not block others
	largeBody     = 1 << 20
	maxPerSender  = 128  // bodies from one address at once
	maxUnverified = 1024 // bodies at once from all addresses without a verified webhook
	maxSenders    = 4096 // cached addresses with a verified webhook
	verifiedFor   = 24 * time.Hour
)

var (
	errBusy = errors.New("other bodies take all the memory")
	errSlow = errors.New("the body arrives too slowly")
)

// bodies limits the bodies that are being read. Their senders are unknown until the signature is verified, so it
// limits the memory, the number and the time of bodies. If there are too many, it aborts the oldest one: a forge
// delivers a body within milliseconds, so the oldest one has stalled. Addresses that sent a verified webhook during
// the last day have a quarter of the memory for themselves and do not count as unverified. It is safe for concurrent
// use.
type bodies struct {
	memory int64 // bytes

	mu         sync.Mutex
	used       int64
	bySender   map[string]*list.List // of *body, the oldest first
	unverified *list.List            // of *body, the oldest first
	verified   *lru.Cache[time.Time]
}

func newBodies(memory int64) *bodies {
	return &bodies{
		memory: memory, bySender: map[string]*list.List{}, unverified: list.New(),
		verified: lru.New[time.Time](maxSenders),
	}
}

// body is a body that is being read. It holds memory until free.
type body struct {
	all    *bodies
	sender string
	known  bool // the sender sent a verified webhook before
	data   []byte

	places   [2]*list.Element // in bySender and unverified
	timer    *time.Timer
	deadline func(time.Time) error // of the connection

	mu   sync.Mutex
	cut  bool
	done bool
}

// begin registers a body. deadline sets the read deadline of its connection.
func (b *bodies) begin(sender string, now time.Time, deadline func(time.Time) error) *body {
	x := &body{all: b, sender: sender, deadline: deadline}
	b.mu.Lock()
	at, ok := b.verified.Get(sender)
	x.known = ok && now.Sub(at) < verifiedFor
	same := b.bySender[sender]
	if same == nil {
		same = list.New()
		b.bySender[sender] = same
	}
	var oldest []*body
	x.places[0] = same.PushBack(x)
	if same.Len() > maxPerSender {
		oldest = append(oldest, same.Front().Value.(*body))
	}
	if !x.known {
		x.places[1] = b.unverified.PushBack(x)
		if b.unverified.Len() > maxUnverified {
			oldest = append(oldest, b.unverified.Front().Value.(*body))
		}
	}
	b.mu.Unlock()
	for _, o := range oldest {
		o.stop()
	}
	x.timer = time.AfterFunc(bodyWait, x.stop)
	return x
}

// noteVerified records that a sender sent a verified webhook.
func (b *bodies) noteVerified(sender string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.verified.Add(sender, now)
}

// take reserves n more bytes for a body that already holds some.
func (b *bodies) take(x *body, held, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	memory := b.memory
	if !x.known {
		memory -= memory / 4
	}
	if held+n > largeBody || held+n > b.memory/4 {
		memory = min(memory, b.memory/2)
	}
	if b.used+n > memory {
		return false
	}
	b.used += n
	return true
}

// stop aborts the body: its current or next read returns an error.
func (x *body) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cut || x.done {
		return
	}
	x.cut = true
	x.leave()
	// If the connection does not support deadlines, the reader sees the mark when it gets more bytes.
	_ = x.deadline(time.Unix(1, 0))
}

// leave removes the body from the lists. It is called once.
func (x *body) leave() {
	b := x.all
	b.mu.Lock()
	defer b.mu.Unlock()
	same := b.bySender[x.sender]
	same.Remove(x.places[0])
	if same.Len() == 0 {
		delete(b.bySender, x.sender)
	}
	if x.places[1] != nil {
		b.unverified.Remove(x.places[1])
	}
}

// end marks the body as complete. It returns false if stop aborted it before.
func (x *body) end() bool {
	x.timer.Stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.cut && !x.done {
		x.done = true
		x.leave()
	}
	return !x.cut
}

func (x *body) isCut() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cut
}

// read reads the whole body. The errors are errBusy, errSlow and those of from.
func (x *body) read(from io.Reader) error {
	defer x.end()
	next := firstBytes
	for {
		if len(x.data) == cap(x.data) {
			if err := x.grow(); err != nil {
				return err
			}
		}
		n, err := from.Read(x.data[len(x.data):cap(x.data)])
		x.data = x.data[:len(x.data)+n]
		switch {
		case x.isCut():
			return errSlow
		case errors.Is(err, io.EOF):
			if !x.end() {
				return errSlow
			}
			return nil
		case err != nil:
			return err
		}
		if len(x.data) >= next {
			next = len(x.data) + laterBytes
			x.timer.Reset(bodyWait)
		}
	}
}

// grow doubles the buffer, from 1 KiB.
func (x *body) grow() error {
	held := int64(cap(x.data))
	more := max(held, firstBytes)
	if !x.all.take(x, held, more) {
		return errBusy
	}
	data := make([]byte, len(x.data), held+more)
	copy(data, x.data)
	x.data = data
	return nil
}

// free returns the memory back.
func (x *body) free() {
	x.end()
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	x.all.used -= int64(cap(x.data))
	x.data = nil
}

// senderOf returns the sender of a request: its address, and for IPv6 the /64 network, because one host may use every
// address of it.
func senderOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
