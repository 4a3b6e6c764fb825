package promote

import (
	"context"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// composition is a rendered tree, with the writer that has its new objects.
type composition struct {
	tree    gitstore.Hash
	failure string                   // why targets cannot be rendered; then there is no tree
	parts   map[string]*branch.State // what was rendered, by source commit
	w       *gitstore.Writer
}

// part returns what was rendered of a source commit; nil if nothing was, also for a nil composition.
func (c *composition) part(commit string) *branch.State {
	if c == nil {
		return nil
	}
	return c.parts[commit]
}

// reason is the failure of a composition; "" for a nil one.
func (c *composition) reason() string {
	if c == nil {
		return ""
	}
	return c.failure
}

// compositions renders each source for each environment once in a pass.
type compositions struct {
	h    *hydrate.Hydrator
	done map[compositionKey]*composition
}

// known returns a composition of this pass; nil if there is none.
func (c *compositions) known(environment string, source rollout.Source, all bool) *composition {
	return c.done[compositionKey{environment, source.Key(), all}]
}

// compositionKey identifies a composition in a pass. all means that nothing of it is from the branch.
type compositionKey struct {
	environment, source string
	all                 bool
}

func (c *compositions) compose(ctx context.Context, r hydrate.Composition, source rollout.Source) (*composition,
	error,
) {
	key := compositionKey{r.Environment, source.Key(), r.All}
	if one := c.done[key]; one != nil {
		return one, nil
	}
	w, err := c.h.Store.NewWriter()
	if err != nil {
		return nil, err
	}
	r.Source = source
	done, err := c.h.Compose(ctx, r, w)
	if err != nil {
		_ = w.Close() // the error above matters
		return nil, err
	}
	one := &composition{done.Tree, done.Failure, done.Parts, w}
	c.done[key] = one
	return one, nil
}

// close drops the objects that were not pushed.
func (c *compositions) close() {
	for _, one := range c.done {
		_ = one.w.Close() // nothing of it is kept
	}
}
