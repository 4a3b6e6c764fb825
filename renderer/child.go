package renderer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Exit statuses of a child that stops by itself.
const (
	exitMemory = 77
	exitBroken = 78
)

const (
	gcPercent    = 400       // a child holds little between renderings, and memory is bounded below
	maxStack     = 64 << 20  // a template that calls itself for ever ends here, not at Go's gigabyte
	heldContents = 128 << 20 // bytes of charts and files that a child keeps between renderings
	watchEvery   = 20 * time.Millisecond
)

// ServeChild is the main loop of a child process: it renders the bundles that come in on r until r ends, and never
// uses more than memory bytes (0: no bound). It returns nil when r ended between two bundles.
//
// It belongs in a process of its own: a hostile template can exhaust stack or memory, which no recover catches.
func ServeChild(ctx context.Context, r io.Reader, w io.Writer, memory int64) error {
	debug.SetMaxStack(maxStack)
	debug.SetGCPercent(gcPercent)
	if memory > 0 {
		debug.SetMemoryLimit(memory * 3 / 4)
		limitData(memory)
		go watchMemory(memory)
	}
	c := &childServer{wire: newWire(r, w), held: newHeld(heldContents), engine: NewEngine(DefaultLimits())}
	for {
		var req request
		if err := c.wire.dec.Decode(&req); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("render child: read a bundle: %w", err)
		}
		if err := c.serve(ctx, &req.Bundle); err != nil {
			return fmt.Errorf("render child: %w", err)
		}
	}
}

type childServer struct {
	wire   *wire
	held   *held
	engine *Engine
}

func (c *childServer) serve(ctx context.Context, b *Bundle) error {
	if err := c.fill(b); err != nil {
		return err
	}
	out := reply{}
	rendering, err := c.engine.Render(ctx, b)
	if err != nil {
		out.Err = err.Error()
	} else {
		out.Rendering = rendering
	}
	return c.wire.enc.Encode(out)
}

// fill puts the bytes behind every digest of the bundle, asking the parent for those not held.
func (c *childServer) fill(b *Bundle) error {
	var need []string
	b.contents(func(content *Content) {
		if !c.held.fill(content) {
			need = append(need, content.Digest)
		}
	})
	if len(need) == 0 {
		return nil
	}
	if err := c.wire.enc.Encode(reply{Need: need}); err != nil {
		return err
	}
	var got supply
	if err := c.wire.dec.Decode(&got); err != nil {
		return fmt.Errorf("read contents: %w", err)
	}
	fresh := make(map[string]Content, len(got.Contents))
	for _, content := range got.Contents {
		fresh[content.Digest] = content
		c.held.put(content)
	}
	var missing error
	b.contents(func(content *Content) {
		if content.Files != nil || content.Archive != nil {
			return
		}
		found, ok := fresh[content.Digest]
		if !ok {
			missing = fmt.Errorf("content %s was not supplied", content.Digest)
			return
		}
		content.Files, content.Archive = found.Files, found.Archive
	})
	return missing
}

// watchMemory ends the process when its memory passes the bound. Sampling leaves a gap that one huge allocation
// can jump; limitData closes it where the system can.
func watchMemory(limit int64) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(watchEvery) {
		metrics.Read(sample)
		if used := sample[0].Value.Uint64() - sample[1].Value.Uint64(); used > uint64(limit) { //nolint:gosec // positive
			os.Exit(exitMemory) //nolint:forbidigo // the only way out of a runaway rendering
		}
	}
}
