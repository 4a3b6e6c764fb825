package webhook

import (
	"errors"
	"io"
	"sync"
)

// budget bounds what is held of bodies at once. Whoever sends them is not known yet: anybody may.
type budget struct {
	most int64
	mu   sync.Mutex
	used int64
}

const (
	step  = 64 << 10 // bytes that are asked for at once: every request holds as many
	small = 1 << 20  // bodies beyond this share one half of the budget, so that a few that stall keep no others out
)

// errBusy says that other bodies take all the room.
var errBusy = errors.New("too much is being read")

func (b *budget) take(held int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.most
	if held >= small || held >= b.most/4 {
		most /= 2
	}
	if b.used+step > most {
		return false
	}
	b.used += step
	return true
}

// body is what was read of a request, and what that takes of the budget until free.
type body struct {
	budget *budget
	held   int64
	data   []byte
}

func (b *body) read(from io.Reader) error {
	for {
		if int64(len(b.data)) >= b.held {
			if !b.budget.take(b.held) {
				return errBusy
			}
			b.held += step
		}
		if len(b.data) == cap(b.data) {
			b.data = append(b.data, 0)[:len(b.data)]
		}
		n, err := from.Read(b.data[len(b.data):min(int64(cap(b.data)), b.held)])
		b.data = b.data[:len(b.data)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (b *body) free() {
	b.budget.mu.Lock()
	defer b.budget.mu.Unlock()
	b.budget.used -= b.held
	b.held = 0
}
