package repository

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/rollout"
)

const (
	maxProtections  = 2000
	protectionLife  = 5 * time.Minute
	protectionGrace = time.Hour // how long the last answer counts while the forge does not answer
	maxSampled      = 20        // branches of one kind that are queried by name
)

// Protections caches which repositories have protected branches. It is safe for concurrent use.
type Protections struct {
	cache *lru.Cache[*protectionAnswer]
}

type protectionAnswer struct {
	at     time.Time
	reason string // reason why branches count as unprotected; "" if they are protected
}

// NewProtections returns an empty cache.
func NewProtections() *Protections {
	cache := lru.New[*protectionAnswer](maxProtections)
	return &Protections{cache}
}

// requireProtection refuses a command that brings commits into an environment while anybody but Sluice can write its
// branches.
func (w *Session) requireProtection(ctx context.Context, trunk gitstore.Hash) error {
	output, err := w.outputOf(ctx, trunk)
	if err != nil {
		return err
	}
	reason, err := w.unprotected(ctx, trunk, output)
	if err == nil && reason != "" {
		err = fmt.Errorf("%w: %s", bot.ErrRefused, reason)
	}
	return err
}

// unprotected returns the reason why others than Sluice may write records and rendered branches. It returns "" if
// they may not, or if the configuration does not require protection. Signatures do not replace protection: a branch
// that somebody reset to an earlier commit is still signed.
func (w *Session) unprotected(ctx context.Context, trunk gitstore.Hash, output forge.Repository) (string, error) {
	if w.repo.Protection == nil {
		return "", nil
	}
	f, _, err := w.Fleet(ctx, trunk)
	if err != nil {
		return "", err
	}
	if _, onForge, err := w.outputPlace(ctx, trunk); err != nil || !onForge {
		return "whether the branches of the output repository are protected is unknown, because it is not on the forge: set `branchProtection: off` in the service's configuration", err
	}
	key, now := w.repo.Place.Forge()+":"+output.Path+" "+trunk.String(), w.now()
	known, ok := w.config.Protections.cache.Get(key)
	if ok && now.Sub(known.at) < protectionLife {
		return known.reason, nil
	}
	reason, err := unprotectedBranches(ctx, w.repo.Protection, output, f)
	switch {
	case err == nil:
		w.config.Protections.cache.Add(key, &protectionAnswer{now, reason})
		return reason, nil
	case errors.Is(err, forge.ErrForbidden), errors.Is(err, forge.ErrUnsupported),
		errors.Is(err, forge.ErrUnauthorized):
		reason = "whether branches are protected cannot be read: the service's credential lacks the permission; " +
			remedy
		w.config.Protections.cache.Add(key, &protectionAnswer{now, reason})
		return reason, nil
	case ok && now.Sub(known.at) < protectionGrace && ctx.Err() == nil:
		return known.reason, nil
	}
	return "", fmt.Errorf("protection of the branches of %s: %w", output.Path, err)
}

const remedy = "protect env/*, cluster/* and sluice/state on the forge (docs/service.md#permissions-on-the-forge), or set `branchProtection: off` in the service's configuration"

// unprotectedBranches returns a text about Sluice's branches that are not protected; "" if all are. Rules usually
// contain patterns. For a kind with several branches, it therefore asks the forge about an unused name first. If no
// pattern protects that name, it asks about the existing branches of the kind.
func unprotectedBranches(ctx context.Context, p forge.Protection, repo forge.Repository, f *fleet.Fleet) (string,
	error,
) {
	var environments, clusters []string
	for _, e := range f.Spec.Environments {
		environments = append(environments, f.EnvironmentBranch(e.Name))
	}
	for _, c := range f.Clusters {
		clusters = append(clusters, f.ClusterBranch(c))
	}
	const unused = "sluice-protection-check"
	anyCluster := f.ClusterBranch(&fleet.Cluster{Name: unused, Environment: unused})
	var open []string
	answered := false
	for _, kind := range []struct {
		pattern string
		names   []string
	}{
		{"", []string{rollout.StateBranch}}, {f.EnvironmentBranch(unused), environments}, {anyCluster, clusters},
	} {
		if kind.pattern != "" && len(kind.names) > 1 {
			if yes, err := p.Protected(ctx, repo, kind.pattern); err != nil && !unknownBranch(err) {
				return "", err
			} else if yes {
				answered = true
				continue
			}
		}
		if len(kind.names) > maxSampled {
			open = append(open, strings.ReplaceAll(kind.pattern, unused, "*"))
			continue
		}
		some, known, err := openBranches(ctx, p, repo, kind.names)
		if err != nil {
			return "", err
		}
		open, answered = append(open, some...), answered || known
	}
	if !answered { // the credential may not see the repository
		return "the forge returns no information about the branches of " + repo.Path + ": " + remedy, nil
	}
	if len(open) == 0 {
		return "", nil
	}
	return describeOpen(open), nil
}

// openBranches returns the branches that are not protected, and whether the forge returned any. A branch that does
// not exist and that no rule names is open, because anybody with write access can create it.
func openBranches(ctx context.Context, p forge.Protection, repo forge.Repository, names []string) (open []string,
	known bool, err error,
) {
	for _, name := range names {
		yes, err := p.Protected(ctx, repo, name)
		if err != nil && !unknownBranch(err) {
			return nil, false, err
		}
		known = known || err == nil
		if !yes {
			open = append(open, name)
		}
	}
	return open, known, nil
}

// describeOpen lists branches that are not protected.
func describeOpen(open []string) string {
	slices.Sort(open)
	const most = 3
	what := strings.Join(open[:min(most, len(open))], ", ")
	if len(open) > most {
		what += fmt.Sprintf(" and %d more", len(open)-most)
	}
	verb := "is"
	if len(open) > 1 {
		verb = "are"
	}
	return fmt.Sprintf("%s %s not protected on the forge, so anybody with write access could promote: %s", what, verb,
		remedy)
}

// unknownBranch reports whether the forge has no information about a branch because it does not exist and no rule
// names it.
func unknownBranch(err error) bool { return errors.Is(err, forge.ErrNotFound) }
