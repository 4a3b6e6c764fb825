package renderer

import (
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Load is a list of bundles in the form in which they travel to another machine: each content once. The zero Load has no bundles.
type Load struct {
	Contents []Content
	Bundles  []Bundle // without contents

	size int
	have map[string]bool // contents by digest
}

// Add adds a bundle.
func (l *Load) Add(b *Bundle) {
	if l.have == nil {
		l.have = map[string]bool{}
	}
	l.Bundles = append(l.Bundles, b.stripped())
	l.size += b.inputSize()
	b.contents(func(c *Content) {
		if !l.have[c.Digest] {
			l.have[c.Digest] = true
			l.size += c.size()
			l.Contents = append(l.Contents, *c)
		}
	})
}

// Size returns about how many bytes the bundles and their contents have.
func (l *Load) Size() int { return l.size }

// Unpack returns the bundles with their contents.
func (l *Load) Unpack() ([]Bundle, error) {
	have := make(map[string]Content, len(l.Contents))
	for _, c := range l.Contents {
		have[c.Digest] = c
	}
	for i := range l.Bundles {
		var missing string
		l.Bundles[i].contents(func(c *Content) {
			found, ok := have[c.Digest]
			if !ok {
				missing = c.Digest
			}
			c.Files, c.Archive = found.Files, found.Archive
		})
		if missing != "" {
			return nil, fmt.Errorf("it lacks the content %s", missing)
		}
	}
	return l.Bundles, nil
}

// ErrNoWorkers means that a renderer has no worker processes for Caller.
var ErrNoWorkers = errors.New("the renderer has no worker processes")

// Answer is what another machine answers for a bundle: exactly one field is set.
type Answer struct {
	Rendering *Rendering
	Error     *InputError
	Heavy     bool // ErrHeavy
}

// ErrAgain means that the bundle has to be rendered again: the machine may have caused the error (time, memory, a crash, a process that does
// not start), not the bundle.
var ErrAgain = errors.New("the bundle has to be rendered again")

// AnswerOf returns the answer for a bundle that has no rendering. It returns false for ErrAgain.
func AnswerOf(err error) (Answer, bool) {
	if errors.Is(err, ErrHeavy) {
		return Answer{Heavy: true}, true
	}
	invalid, ok := errors.AsType[*InputError](err)
	return Answer{Error: invalid}, ok && !worker.IsLimit(err) // only an InputError is certainly caused by the bundle
}

// Result returns the rendering of a bundle or its error, safe to show. An answer that no engine gives to the bundle is ErrAgain.
func (a *Answer) Result(b *Bundle) (*Rendering, error) {
	one := answer(*a)
	if one.check(b) != nil {
		return nil, ErrAgain
	}
	return one.result()
}
