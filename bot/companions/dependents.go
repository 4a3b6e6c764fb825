package companions

import (
	"sync"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// maxDependents limits the merge requests that others depend on.
const maxDependents = 10_000

// Dependents remember which merge requests depend on others, so that a change of one starts the reviews that show it.
// After a restart and in other replicas, the sweep finds such changes. Dependents is safe for concurrent use.
type Dependents struct {
	mu sync.Mutex
	of map[string]map[string]hint.Hint // merge request → reviews that show it
}

// NewDependents returns an empty set.
func NewDependents() *Dependents { return &Dependents{of: map[string]map[string]hint.Hint{}} }

// Add records that a review shows a merge request. At the limit, it forgets all: the sweep finds what it forgot.
func (d *Dependents) Add(shown Reference, review hint.Hint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.of) >= maxDependents {
		clear(d.of)
	}
	if d.of[shown.Key()] == nil {
		d.of[shown.Key()] = map[string]hint.Hint{}
	}
	d.of[shown.Key()][review.Key()] = review
}

// Take returns the reviews that show a merge request and forgets them. The reviews record themselves again.
func (d *Dependents) Take(shown Reference) []hint.Hint {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []hint.Hint
	for _, one := range d.of[shown.Key()] {
		out = append(out, one)
	}
	delete(d.of, shown.Key())
	return out
}
