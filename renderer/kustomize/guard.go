package kustomize

import (
	"sync"

	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// library guards the state that the library keeps for the whole process; so the guard is one per process as well.
var library guard //nolint:gochecknoglobals // guards variables of another package

// guard lets builds run in parallel where that is safe.
//
// The library reads the maps of its API description without a lock and fills them when they are first needed: two builds
// may only meet after that. A build that is alone leaves them for later, since most builds never need them.
type guard struct {
	mu     sync.RWMutex
	parsed bool
}

// enter waits until a build may run and returns what must be called after it. A build with an API description of its own
// says so: it runs alone and leaves nothing behind.
func (g *guard) enter(ownDescription bool) (leave func()) {
	if ownDescription {
		g.mu.Lock()
		g.reset()
		return func() {
			g.reset()
			g.mu.Unlock()
		}
	}
	for {
		g.mu.RLock()
		if g.parsed {
			return g.mu.RUnlock
		}
		g.mu.RUnlock()
		if g.mu.TryLock() {
			return g.mu.Unlock
		}
		g.mu.Lock()
		if !g.parsed {
			openapi.Schema() // parses
			g.parsed = true
		}
		g.mu.Unlock()
	}
}

func (g *guard) reset() {
	openapi.ResetOpenAPI()
	g.parsed = false
}
