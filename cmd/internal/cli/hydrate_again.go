package cli

import (
	"context"
	"strings"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// checkAgain refuses flags that choose what --again does not leave to choose: the commit, the targets and the gates.
func (h *hydrateOptions) checkAgain() error {
	switch r := h.request; {
	case len(r.Environments) == 0:
		return usagef("--again needs --env: the environments to render again")
	case strings.TrimSpace(r.Reason) == "" && !h.dryRun:
		return usagef("--again needs --reason: it becomes part of the record")
	case h.commit != "":
		return usagef("--again renders the commit that an environment runs: without --commit (`sluice promote ENV --commit REV` brings another one, `sluice rollback ENV --to REV` an older one)")
	case !h.selection.empty() || len(r.AllowUnmerged)+len(r.AllowPolicy) > 0 || r.Prune || r.NoCache:
		return usagef("--again renders every target of the environments, and the gates apply: without --app, --cluster, --allow-unmerged, --allow-policy, --prune and --no-cache")
	case h.push && h.local:
		return usagef("--push is for the branches of the remote, --local for those of this clone")
	}
	return nil
}

// renderAgain asks to render what environments run, and carries out what their gates allow.
func (h *hydrateOptions) renderAgain(ctx context.Context, o IO) error {
	p := promotionFlags{
		environmentFlags: environmentFlags{common: h.common, remote: h.remote, local: h.local}, signing: h.signing,
		by: h.by, listen: h.listen, perPush: h.request.PerPush, recreate: h.request.Recreate,
		foreign: h.request.Overwrite, deletes: h.request.MaxDeletions, only: h.request.Environments,
	}
	s, trunk, err := p.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	reason := h.request.Reason
	if h.dryRun && reason == "" {
		reason = "a dry run"
	}
	var commands []promote.Command
	for _, name := range h.request.Environments {
		if err := known(ctx, s, trunk, name, true); err != nil {
			return err
		}
		c := promote.Command{Environment: name, Verb: "promote"}
		c.Kind, c.Reason = rollout.EventRender, reason
		commands = append(commands, c)
	}
	list, err := p.look(ctx, o, s, trunk, h.dryRun, commands...)
	shown := p.showAll(o, list, "", err)
	if shown == nil && !h.dryRun && state(list, "") == blocked {
		return errBlocked()
	}
	return shown
}
