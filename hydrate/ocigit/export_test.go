package ocigit

import "time"

// LimitPushes sets the bytes that a push may have.
func (r *Repository) LimitPushes(most int) { r.maxPack = most }

// EndLease makes the lease of the process, which has pushed, end now without giving it back.
func (r *Repository) EndLease() {
	r.pushing.Lock()
	defer r.pushing.Unlock()
	r.idle.Stop()
	r.held.Until = time.Now()
}
