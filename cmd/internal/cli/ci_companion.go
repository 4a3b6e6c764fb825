package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/bot/ci"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/review"
)

// companion is a merge request of a repository that fleets take content from. The review shows what it does to the
// trunk of a fleet.
type companion struct {
	fleet string // URL
	name  string // of the repository in the fleet
}

func (c companion) check() error {
	if (c.fleet == "") != (c.name == "") {
		return usagef("--fleet and --as belong together: the fleet's URL, and the name that the fleet gives to this repository")
	}
	return nil
}

// open opens the fleet. The job's credential is for the job's forge; a fleet on another host needs its own
// credential.
func (c companion) open(ctx context.Context, own, job app.Environment, o app.Options, s *app.Session) (*app.Session,
	error,
) {
	env := own
	if app.SameHost(c.fleet, s.Store.RemoteURL()) {
		env = job
	}
	env.Untrusted = job.Untrusted
	o.Repo = c.fleet
	return app.Open(ctx, env.ForHost(c.fleet), o, nil)
}

// sides returns the trunk of the fleet with the base and with the head of the merge request, and the trunk itself,
// whose policy applies. The name of that trunk is the branch of this repository that the fleet takes content from,
// because only merge requests into it have the plain status. If the fleet takes tags, the name is empty.
func (c companion) sides(ctx context.Context, platform, s *app.Session, own compare.Request) (compare.Request, ciTrunk,
	error,
) {
	out := compare.Request{Environments: own.Environments, Key: platform.FingerprintKey()}
	var trunk ciTrunk
	tip, err := trunkOf(ctx, platform, true)
	if err != nil {
		return out, trunk, err
	}
	v, err := platform.Open(ctx, tip.Tree)
	if err != nil {
		return out, trunk, err
	}
	var names []string
	for _, r := range v.Fleet.Repositories {
		names = append(names, r.Name)
	}
	if err := mustKnow("repository", c.name, names); err != nil {
		return out, trunk, fmt.Errorf("fleet %s: %w", c.fleet, err)
	}
	repository, _ := v.Fleet.Repository(c.name) // it exists: mustKnow found it
	trunk.commit = tip
	if branch, ok := strings.CutPrefix(repository.Wanted, "refs/heads/"); ok {
		trunk.name = branch
	}
	platform.Store.Borrow(s.Store)
	for _, side := range []struct {
		from *gitstore.Commit
		to   *gitstore.Commit
	}{{&own.Base, &out.Base}, {&own.Head, &out.Head}} {
		if *side.to, err = review.WithPin(ctx, platform.Store, v, tip, repository, side.from.Hash); err != nil {
			return out, trunk, err
		}
	}
	return out, trunk, nil
}

// reviewSides returns the two sides of the comparison, the session, and the trunk. own is the environment without the
// job's credential.
func (c *ciOptions) reviewSides(ctx context.Context, o IO, own app.Environment, s *app.Session,
	at *ci.Context,
) (*app.Session, compare.Request, ciTrunk, error) {
	request, target, err := c.sides(ctx, s, at)
	if err != nil {
		return s, request, ciTrunk{}, err
	}
	if c.companion.fleet == "" {
		trunk, err := c.trunkFor(ctx, o, s, at, target)
		return s, request, trunk, err
	}
	platform, err := c.companion.open(ctx, own, o.Env, c.Options, s)
	if err != nil {
		return s, request, ciTrunk{}, fmt.Errorf("fleet %s: %w", c.companion.fleet, err)
	}
	request, trunk, err := c.companion.sides(ctx, platform, s, request)
	if err != nil {
		platform.Close()
	}
	return platform, request, trunk, err
}
