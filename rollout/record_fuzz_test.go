package rollout_test

import (
	"bytes"
	"testing"

	"github.com/sluice-gitops/sluice/rollout"
)

// FuzzDecodeRecord reads records that somebody may have pushed by hand. What it accepts is written in a form that reads
// the same.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("apiVersion: sluice.dev/v1alpha1\nkind: PromotionRecord\nenvironment: prod\nfreezes: [{by: mia, reason: r, at: 2026-01-02T03:04:05Z}]\n"))
	f.Add([]byte("apiVersion: sluice.dev/v1alpha1\nkind: PromotionRecord\nenvironment: prod\nhalt: {by: mia, reason: Q&A *, at: 2026-01-02T03:04:05Z}\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := rollout.DecodeRecord("prod", data)
		if err != nil {
			return
		}
		if r.Environment != "prod" {
			t.Fatalf("the record of %q", r.Environment)
		}
		written, err := r.Encode()
		if err != nil {
			return // a record beyond the limits of a file is not written
		}
		again, err := rollout.DecodeRecord("prod", written)
		if err != nil {
			t.Fatalf("the error is %v\nthe written is\n%s", err, written)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(written, twice) {
			t.Errorf("%v\n%s\nand\n%s", err, written, twice)
		}
	})
}
