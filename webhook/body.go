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
	maxPerSender  = 128            // bodies from one address at once
	maxUnverified = 1024           // bodies at once from all addresses without a verified webhook
	maxSenders    = 4096           // cached addresses with a verified webhook
	verifiedFor   = 24 * time.Hour // that an address stays verified
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
	bySender   map[string]*list.List // of *body that are being read, the oldest first
	unverified *list.List            // those of senders without a verified webhook
	verified   *lru.Cache[time.Time] // the last verified webhook of a sender
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

	places   [2]*list.Element      // in the lists of bySender and in unverified; nil if it is not there
	timer    *time.Timer           // aborts the body
	deadline func(time.Time) error // sets the read deadline of the connection

	mu      sync.Mutex
	aborted bool
	ended   bool // it was read, or reading it failed
}

// begin registers a body. deadline sets the read deadline of its connection. If the sender, or all unverified senders,
// now have too many bodies, begin aborts the oldest of them.
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
		o.abort()
	}
	x.timer = time.AfterFunc(bodyWait, x.abort)
	return x
}

// noteVerified records that a sender sent a verified webhook.
func (b *bodies) noteVerified(sender string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.verified.Add(sender, now)
}

// take reserves n more bytes for a body that already holds some. It returns false if that exceeds the memory that the
// body may share: three quarters of it if the sender is unverified, half of it for a large body. If the memory is
// small, bodies above a quarter of it are large.
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

// abort makes the current or next read of the body return an error, unless reading has ended.
func (x *body) abort() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.aborted || x.ended {
		return
	}
	x.aborted = true
	x.unlist()
	// A deadline in the past ends the current read. If the connection does not support deadlines, read sees the mark
	// when more bytes arrive.
	_ = x.deadline(time.Unix(1, 0))
}

// unlist removes the body from the lists. It is called once.
func (x *body) unlist() {
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

// end ends the reading of the body, which then cannot be aborted. It returns false if the body was aborted before.
// Further calls do nothing.
func (x *body) end() bool {
	x.timer.Stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.aborted && !x.ended {
		x.ended = true
		x.unlist()
	}
	return !x.aborted
}

func (x *body) isAborted() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.aborted
}

// read reads the whole body. Its errors are errBusy, errSlow and those of from. Whenever enough bytes have arrived, the
// sender gets another bodyWait.
func (x *body) read(from io.Reader) error {
	defer x.end()
	next := firstBytes // size of data at which the timer starts again
	for {
		if len(x.data) == cap(x.data) {
			if err := x.grow(); err != nil {
				return err
			}
		}
		n, err := from.Read(x.data[len(x.data):cap(x.data)])
		x.data = x.data[:len(x.data)+n]
		switch {
		case x.isAborted():
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

// free gives the memory back. The body must not be used afterwards.
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
