package worker

import (
	"bytes"
	"testing"
)

// FuzzFrames reads what a child could write: no input may panic, and no frame is larger than its bound.
func FuzzFrames(f *testing.F) {
	var good bytes.Buffer
	w := &frameWriter{w: &good}
	head, err := named("question")
	if err != nil {
		f.Fatal(err)
	}
	for _, k := range []kind{kindResult, kindAsk, kindFailure} {
		if err := w.send(k, 7, head, []byte("payload")); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(good.Bytes())
	f.Add([]byte{byte(kindResult), 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		const bound = 1 << 10
		r := newFrameReader(bytes.NewReader(data))
		for {
			got, err := r.next(func(kind) int { return bound })
			if err != nil {
				return
			}
			if len(got.payload) > bound {
				t.Fatalf("%d bytes", len(got.payload))
			}
			if got.kind == kindAsk {
				name, input, err := splitNamed(got.payload)
				if err == nil && len(name)+len(input) > len(got.payload) {
					t.Fatalf("%q and %d bytes from %d", name, len(input), len(got.payload))
				}
			}
		}
	})
}
