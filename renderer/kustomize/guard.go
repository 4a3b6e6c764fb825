package kustomize

import (
	"sync"

	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// library guards global variables of the library, so there is one guard per process.
var library guard //nolint:gochecknoglobals // guards variables of another package

// guard permits parallel builds when they are safe.
//
// The library reads the maps of its API description without a lock and fills them on first use, so that builds may run
// in parallel only afterwards. A build that runs alone does not fill them, because most builds do not need them.
type guard struct {
	mu     sync.RWMutex
	parsed bool
}

// enter waits until a build may run and returns the function to call after it. A build with an API description of its
// own runs alone, and its description is removed afterwards.
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
