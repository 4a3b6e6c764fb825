package promote

import (
	"context"

	"github.com/sluice-gitops/sluice/hydrate"
)

// LookLate is a pass over one environment that reads everything, and acts only after somebody else did something.
func LookLate(ctx context.Context, h *hydrate.Hydrator, r Request, environment string, meanwhile func() error) (*Status,
	error,
) {
	p, err := newPass(ctx, h, r)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if err := meanwhile(); err != nil {
		return nil, err
	}
	e, _ := p.fleet.Environment(environment)
	return p.environment(ctx, *e)
}
