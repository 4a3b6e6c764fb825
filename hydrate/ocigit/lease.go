package ocigit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// The annotations of a lease.
const (
	annotationID       = "sluice.dev/lease"
	annotationOwner    = "sluice.dev/owner"
	annotationUntil    = "sluice.dev/until"
	annotationSequence = "sluice.dev/sequence"
)

// lease is what LeaseTag leads to. One without an ID is free.
type lease struct {
	ID, Owner string
	Until     time.Time
	Sequence  int // of the newest version that its writer knew
	digest    string
}

// readLease returns the lease of the registry. What is no lease is an error, because another tool may use the tag.
func (r *Repository) readLease(ctx context.Context) (lease, error) {
	desc, data, err := r.Registry.Manifest(ctx, LeaseTag)
	if errors.Is(err, fetch.ErrNotFound) {
		return lease{}, nil
	}
	if err != nil {
		return lease{}, err
	}
	var m ocispec.Manifest
	if json.Unmarshal(data, &m) != nil || m.Config.MediaType != leaseType {
		return lease{}, fmt.Errorf("the tag %s: %w", LeaseTag, errForeign)
	}
	note := m.Annotations
	out := lease{ID: note[annotationID], Owner: note[annotationOwner], digest: desc.Digest.String()}
	out.Sequence, _ = strconv.Atoi(note[annotationSequence])           // 0 claims nothing
	out.Until, _ = time.Parse(time.RFC3339Nano, note[annotationUntil]) // the zero time is over
	return out, nil
}

// writeLease writes a lease, and returns it with its digest.
func (r *Repository) writeLease(ctx context.Context, l lease) (lease, error) {
	empty := newBlob(leaseType, []byte("{}"))
	m, err := newManifest(empty.Descriptor, map[string]string{
		annotationID: l.ID, annotationOwner: l.Owner, annotationUntil: l.Until.UTC().Format(time.RFC3339Nano),
		annotationSequence: strconv.Itoa(l.Sequence),
	}, empty.Descriptor)
	if err != nil {
		return l, err
	}
	l.digest = m.Digest.String()
	return l, r.Registry.Tag(ctx, m.Descriptor, m.data, LeaseTag)
}

const attempts = 5 // to get a lease that others take first, or that the registry takes too long to write

// acquire takes the lease. It waits for another owner, and returns a gitstore.ErrConflict if that takes too long.
func (r *Repository) acquire(ctx context.Context) (lease, error) {
	empty := newBlob(leaseType, []byte("{}"))
	if err := r.Registry.Upload(ctx, empty.Descriptor, empty.data); err != nil {
		return lease{}, err
	}
	var first lease // seen, and when
	var since time.Time
	var slow error
	patience := now().Add(2 * r.Timing.Lease)
	for tries := 0; tries < attempts; {
		began := now()
		has, err := r.readLease(ctx)
		if err != nil {
			return lease{}, err
		}
		if first.digest != has.digest || since.IsZero() {
			first, since = has, began
		}
		if !has.free(r, since) {
			if began.After(patience) {
				return lease{}, fmt.Errorf("%w: %s writes to %s (run again)", gitstore.ErrConflict, has.heldBy(), r.Name)
			}
			if err := sleep(ctx, r.Timing.Settle/3); err != nil {
				return lease{}, err
			}
			continue
		}
		tries++
		writing, stop := context.WithDeadline(ctx, began.Add(r.Timing.Settle))
		mine, err := r.writeLease(writing, lease{
			ID: r.id, Owner: r.Owner, Until: began.Add(r.Timing.Lease), Sequence: has.Sequence,
		})
		late := writing.Err() != nil
		stop()
		switch {
		case ctx.Err() != nil:
			return lease{}, ctx.Err()
		case late:
			slow = err
			continue
		case err != nil:
			return lease{}, err
		}
		if err := sleep(ctx, r.Timing.Settle); err != nil {
			r.held, r.newest = mine, has.Sequence
			r.release() //nolint:contextcheck // it must happen although the context has ended
			return mine, err
		}
		if has, err = r.readLease(ctx); err != nil || has.digest == mine.digest {
			return mine, err
		}
	}
	if slow != nil {
		return lease{}, fmt.Errorf("%w: it takes longer than %s to write a tag", fetch.ErrUnavailable, r.Timing.Settle)
	}
	return lease{}, fmt.Errorf("%w: other runs write to %s (run again)", gitstore.ErrConflict, r.Name)
}

// free reports whether nobody has the lease that the registry has had since a time.
func (l lease) free(r *Repository, since time.Time) bool {
	return l.ID == "" || l.ID == r.id || now().After(l.Until.Add(r.Timing.Skew)) || now().Sub(since) > r.Timing.Lease
}

// take returns the lease of this process, or acquires one. The caller holds pushing.
func (r *Repository) take(ctx context.Context) (lease, error) {
	if r.idle != nil {
		r.idle.Stop()
	}
	left := time.Until(r.held.Until)
	switch {
	case r.held.ID != "" && left > r.Timing.Lease/2:
		return r.held, nil
	case r.held.ID != "" && left > 2*r.Timing.Settle:
		if err := r.renew(ctx); err == nil {
			return r.held, nil
		}
	}
	r.held = lease{}
	held, err := r.acquire(ctx)
	if err == nil {
		r.held, r.newest = held, held.Sequence
	}
	return held, err
}

// renew extends the lease. Nobody else takes it before it ends, so that there is nothing to wait for.
func (r *Repository) renew(ctx context.Context) error {
	began := now()
	writing, stop := context.WithDeadline(ctx, began.Add(r.Timing.Settle))
	defer stop()
	has, err := r.readLease(writing)
	if err != nil {
		return err
	}
	if has.digest != r.held.digest {
		return gitstore.ErrConflict
	}
	mine, err := r.writeLease(writing, lease{ID: r.id, Owner: r.Owner, Until: began.Add(r.Timing.Lease), Sequence: r.newest})
	if err == nil {
		r.held = mine
	}
	return err
}

// release gives the lease back, with the sequence of the newest version, unless it has ended: then it can be somebody
// else's. It drops errors: the lease ends by itself. The caller holds pushing.
func (r *Repository) release() {
	if r.held.ID == "" || now().After(r.held.Until.Add(-r.Timing.Settle)) {
		r.held = lease{}
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), r.Timing.Settle)
	defer stop()
	_, _ = r.writeLease(ctx, lease{Owner: r.Owner, Sequence: r.newest})
	r.held = lease{}
}

// now is the time of the machine: leases are about real time.
func now() time.Time { return time.Now() } //nolint:forbidigo // see above

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// heldBy describes the lease for messages.
func (l lease) heldBy() string { return cmp.Or(safetext.Brief(l.Owner, 100), "another run") }
