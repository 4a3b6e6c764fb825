package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// ImportFile is the name of the file beside a stored receipt that says how it was imported.
const ImportFile = "import.json"

const maxImport = 1 << 20

// Import says when and by whom a receipt was imported. Unlike the receipt, the home of the fleet wrote it.
type Import struct {
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
	// Manifest is the SHA-256 of the signed manifest, in hexadecimal digits.
	Manifest string `json:"manifest"`
	// Signers are the identities whose signatures counted.
	Signers []string `json:"signers,omitempty"`
	// Restored is why a receipt was accepted that is not newer than the one before; "" if it is newer.
	Restored string `json:"restored,omitempty"`
	// Contradicts is what the receipt says of the bundle that the site imported last and home did not export so; "" if
	// nothing does.
	Contradicts string `json:"contradicts,omitempty"`
}

// Encode returns the import as JSON.
func (i Import) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(i, "", " ")
	return append(data, '\n'), err
}

// DecodeImport reads what Encode wrote. Every error is an ErrInvalid.
func DecodeImport(data []byte) (Import, error) {
	var i Import
	dec := json.NewDecoder(io.LimitReader(bytes.NewReader(data), maxImport))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&i); err != nil {
		return i, fmt.Errorf("%w: %s: %w", ErrInvalid, ImportFile, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return i, fmt.Errorf("%w: %s: something follows it", ErrInvalid, ImportFile)
	}
	if i.At.IsZero() || !isDigest(i.Manifest) {
		return i, fmt.Errorf("%w: %s: the time or the digest of the manifest is missing", ErrInvalid, ImportFile)
	}
	return i, nil
}

// OnClock returns the receipt with times that are not later than its import, and by how much the site's clock is ahead
// at least. A receipt cannot be made after its import, so the site's clock is ahead by what its time says more, and all
// of its times are. Within the receipt nothing is later than the moment at which it was made. A clock that is behind
// cannot be told from a receipt that travelled for long; it makes the receipt look older than it is.
func (r Receipt) OnClock(imported time.Time) (Receipt, time.Duration) {
	ahead := max(r.Made.Sub(imported.UTC().Truncate(time.Second)), 0)
	made := r.Made
	at := func(t time.Time) time.Time {
		switch {
		case t.IsZero():
			return t
		case t.After(made):
			t = made
		}
		return t.Add(-ahead)
	}
	end := func(t time.Time) time.Time { // the future is allowed
		if t.IsZero() {
			return t
		}
		return t.Add(-ahead)
	}
	r.Made = at(r.Made)
	r.Branch.Since = at(r.Branch.Since)
	r.Rollout.Started, r.Rollout.Healthy, r.Rollout.Done = at(r.Rollout.Started), at(r.Rollout.Healthy), at(r.Rollout.Done)
	clusters := make([]Cluster, len(r.Clusters))
	for i, c := range r.Clusters {
		c.Branch.Since = at(c.Branch.Since)
		clusters[i] = c
	}
	r.Clusters = clusters
	if r.Halt != nil {
		h := *r.Halt
		h.At = at(h.At)
		r.Halt = &h
	}
	freezes := make([]Freeze, 0, len(r.Freezes))
	for _, f := range r.Freezes {
		f.From, f.Until = end(f.From), end(f.Until)
		freezes = append(freezes, f)
	}
	r.Freezes = freezes
	return r, ahead
}
