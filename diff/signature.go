package diff

import (
	"crypto/sha256"
	"fmt"
	"io"
)

// sharedKey identifies the objects of a target by its lists, which most targets with equal objects share.
type sharedKey struct {
	before, after   *Object // the first one
	befores, afters int
	sync            Sync
	keeps           string
	force           bool
	baseUnknown     bool
}

func firstOf(list []Object) *Object {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// signature identifies the objects of a target, and how they are applied. It keeps the signatures of shared lists.
func signature(t *Target, signatures map[sharedKey]string) string {
	shared := sharedKey{
		firstOf(t.Before), firstOf(t.After), len(t.Before), len(t.After), t.Sync, t.Keeps, t.Force,
		t.BaseUnknown,
	}
	if known, ok := signatures[shared]; ok {
		return known
	}
	h := sha256.New()
	write := func(s string) { _, _ = io.WriteString(h, s) } // a hash accepts every write
	write(fmt.Sprintf("%s\x00%s\x00%t\x00%t\x00", t.Sync, t.Keeps, t.Force, t.BaseUnknown))
	for _, o := range t.Before {
		write(o.Key + "\x00")
	}
	write("\x01")
	for _, o := range t.After {
		write(o.Key + "\x00")
	}
	out := string(h.Sum(nil))
	signatures[shared] = out
	return out
}
