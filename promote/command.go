package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// commands turns the commands of people into events of a record. It refuses commands without effect, and commands that
// name something that does not exist.
type commands struct {
	*snapshot
	evidence  *evidence
	proposals *proposals
	authors   *authors

	workspaces map[workspaceKey]workspaceAt
}

// applyTo applies the commands of an environment to the record of its situation, and reports whether they changed its
// record.
func (l *commands) applyTo(ctx context.Context, e fleet.Environment, s *rollout.Situation, out *Status) (bool, error) {
	changed := false
	for _, c := range l.request.Commands {
		if c.Environment != e.Name {
			continue
		}
		refuse := func(why string) {
			out.Refused = append(out.Refused, why)
			out.stays = out.stays || c.Kind == rollout.EventFreeze || c.Kind == rollout.EventHalt ||
				c.Kind == rollout.EventRollback
		}
		if !c.CLI {
			why, err := l.refusal(ctx, e, &c, s)
			if err != nil {
				return false, err
			}
			if why != "" {
				refuse(why)
				continue
			}
			if c.Now {
				if ok, why := rollout.Allowed(e, "now", c.Person); !ok {
					refuse(why)
					continue
				}
			}
		}
		next, err := l.commanded(ctx, e, c, s)
		if err == nil {
			if !l.request.DryRun {
				out.Done = append(out.Done, rollout.Ended(s.Record, next, l.request.Now)...)
			}
			s.Record, changed = next, true
			continue
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		refuse(err.Error())
	}
	return changed, nil
}

// refusal returns the reason why a person may not give a command; "" if they may. An approver of a workspace may
// approve the requested promotion if it brings only apps of that workspace. refusal then adds the workspace, and the
// person's teams among its approvers, to the command.
func (l *commands) refusal(ctx context.Context, e fleet.Environment, c *Command, s *rollout.Situation) (string, error) {
	ok, why := rollout.Allowed(e, c.Verb, c.Person)
	if ok || c.Kind != rollout.EventApprove {
		return why, nil
	}
	workspace, err := rollout.RequestedWorkspace(*s)
	if err != nil || workspace == "" {
		return why, err
	}
	for _, team := range s.Workspaces[workspace].Teams {
		if c.InTeam == nil || slices.Contains(c.Person.Teams, team) {
			continue
		}
		in, err := c.InTeam(ctx, team)
		if err != nil {
			return "", fmt.Errorf("whether %s is in %s: %w", c.Person.User, team, err)
		}
		if in {
			c.Person.Teams = append(slices.Clone(c.Person.Teams), team)
		}
	}
	if rollout.ApprovesWorkspace(*s, workspace, c.Person) {
		c.Workspaces = []string{workspace}
		return "", nil
	}
	return fmt.Sprintf("%s; %s is not among the approvers of workspace %s either", why, c.Person.User, workspace), nil
}

// commanded returns the record after a command. A command takes effect once: applying it again changes nothing, also
// after later commands.
func (l *commands) commanded(ctx context.Context, e fleet.Environment, c Command, s *rollout.Situation) (rollout.Record,
	error,
) {
	if c.ID != "" && slices.Contains(s.Record.Handled, c.ID) {
		return s.Record, nil
	}
	event, err := l.event(ctx, e, c, s)
	if err != nil {
		return s.Record, err
	}
	return rollout.Apply(s.Record, event)
}

// event completes a command: it binds it to commits, trees and clusters.
func (l *commands) event(ctx context.Context, e fleet.Environment, c Command, s *rollout.Situation) (rollout.Event,
	error,
) {
	event := c.Event
	event.By = cmp.Or(event.By, c.Person.User)
	event.Teams = c.Person.Teams
	if event.At.IsZero() {
		event.At = l.request.Now
	}
	event.Said = c.Said
	if c.Wave != "" {
		members, err := waveMembers(e, c.Wave, s)
		if err != nil {
			return event, err
		}
		c.Clusters = append(slices.Clone(c.Clusters), members...)
		event.Clusters = c.Clusters
	}
	if err := l.checkClusters(e, c); err != nil {
		return event, err
	}
	var err error
	switch event.Kind {
	case rollout.EventPromote:
		if event.Source, err = l.source(c, s); err != nil {
			return event, err
		}
		if c.Apps, err = l.promotedApps(ctx, e, c, s, event.Source); err != nil {
			return event, err
		}
		event.Apps = c.Apps
		if len(c.Apps)+len(c.Workspaces) == 0 && event.Source.Equal(s.Running.Source) && rollout.RenderedUpstream(*s) {
			if err := checkRendered(event, s); err != nil {
				return event, err
			}
			if c.Now {
				return event, fmt.Errorf("%s rendered %s again, and what it rendered waits for its bake: promote it without --now", s.Before[0].Name, event.Source)
			}
			event.Kind, event.Reason = rollout.EventRender, cmp.Or(c.Reason, event.Again, "rendered again by "+s.Before[0].Name)
			event.Source, event.Tip, err = l.running(e, s)
			return event, err
		}
		if err := checkPromotion(c, event.Source, s); err != nil {
			return event, err
		}
		return event, l.checkReturns(ctx, e, event, s)
	case rollout.EventRender:
		event.Source, event.Tip, err = l.running(e, s)
		return event, err
	case rollout.EventApprove:
		return l.approval(ctx, e, c, s, event)
	case rollout.EventResume:
		event.Members = clusterNames(s)
		if event.Apps, err = l.resumedApps(ctx, e, c, s); err != nil {
			return event, err
		}
		return event, overtaken(c, event, s.Record, l.request.Now)
	case rollout.EventFreeze, rollout.EventUnfreeze:
		return event, overtaken(c, event, s.Record, l.request.Now)
	case rollout.EventRollback:
		return l.rollback(ctx, e, c, s, event)
	}
	return event, nil
}

// running returns what an environment runs, with the commit of its branch. Where that is foreign, the record tells: whoever
// made the commit may have changed the source that the branch names.
func (l *commands) running(e fleet.Environment, s *rollout.Situation) (rollout.Source, string, error) {
	switch ran := s.Record.Ran; {
	case s.Running.Commit == "" && s.Running.Foreign == "":
		return rollout.Source{}, "", fmt.Errorf("%s runs nothing yet, so there is nothing to render again: `%s promote %[1]s` fills it",
			e.Name, cmp.Or(s.CommandPrefix, "/sluice"))
	case s.Running.Foreign != "":
		return rollout.Source{}, "", errors.New(s.Running.Foreign)
	case !s.Running.Overwrites:
		if err := s.Running.Source.Validate(); err != nil {
			return rollout.Source{}, "", fmt.Errorf("the record of what %s runs is damaged, so it cannot be rendered again: %w; promote a commit instead", e.Name, err)
		}
		return s.Running.Source, s.Running.Commit, nil
	case len(ran) == 0:
		return rollout.Source{}, "", fmt.Errorf("no record tells what %s ran before the commit of somebody else: promote a commit with --overwrite-foreign", e.Name)
	default:
		return ran[len(ran)-1].Source, s.Running.Commit, nil
	}
}

// rollback binds a rollback to the state that it restores and to the apps of its scope.
func (l *commands) rollback(ctx context.Context, e fleet.Environment, c Command, s *rollout.Situation,
	event rollout.Event,
) (rollout.Event, error) {
	to, err := l.target(ctx, c, s)
	if err != nil {
		return event, l.orUnknown(ctx, e, c, s, err)
	}
	if c.Apps, err = l.restoredApps(ctx, e, c, s, to.Tree); err != nil {
		return event, err
	}
	event.Apps, event.To, event.Source, event.Tree = c.Apps, *to, s.Running.Source, s.Running.Tree
	if len(c.Clusters)+len(c.Apps) > 0 {
		if event.Stopped, err = rollout.Unreached(*s, c.Clusters, c.Apps); err != nil {
			return event, err
		}
	}
	if err := l.checkStopped(ctx, e.Name, event.Stopped, s); err != nil {
		return event, err
	}
	if err := l.checkRollback(ctx, e, c, s, to.Tree); err != nil {
		return event, err
	}
	return event, l.checkSides(ctx, e, c, s, to.Tree)
}

// approval binds an approval to the tree that waits for it: that of the current rollout if somebody asks to expedite
// it, otherwise that of the proposal. It refuses an approval that would not count, or that was written before its tree
// was offered.
func (l *commands) approval(ctx context.Context, e fleet.Environment, c Command, s *rollout.Situation,
	event rollout.Event,
) (rollout.Event, error) {
	x, err := l.authors.expedition(ctx, e, s)
	if err != nil {
		return event, err
	}
	if x != nil {
		if !c.Said.IsZero() && c.Said.Before(x.At) {
			return event, fmt.Errorf("%s asked to expedite the rollout of %s after this was said: look at it, and approve again", x.By, s.Running.Source)
		}
		event.Tree = x.Tree
		return event, counts(*s, event, s.Running.Authors)
	}
	if err := l.evidence.collect(ctx, e, s); err != nil { // without it, another commit may seem to be next
		return event, err
	}
	next, err := l.proposals.next(ctx, e, s)
	if err != nil {
		return event, err
	}
	if next == nil {
		return event, fmt.Errorf("nothing in %s waits for an approval: it runs %s", e.Name, s.Running.Source)
	}
	one, err := l.proposals.rendering(ctx, e.Name, next.Source, next.Renders, false)
	if err != nil {
		return event, err
	}
	candidate, err := l.proposals.candidate(ctx, e.Name, next, s.Record.Request, one)
	if err != nil {
		return event, err
	}
	if !c.Said.IsZero() && !rollout.WasSeen(s.Record, candidate.Tree, c.Said) {
		return event, fmt.Errorf("%s would now get %s, which came after this was said: look at it, and approve again",
			e.Name, next.Source)
	}
	if len(event.Workspaces) > 0 && candidate.OthersUnknown != "" {
		return event, fmt.Errorf("the approval of %s does not count: %s; an approver of %s must approve", event.By,
			candidate.OthersUnknown, e.Name)
	}
	event.Tree = candidate.Tree
	offered := *s
	offered.Candidate = candidate
	return event, counts(offered, event, candidate.Authors)
}

// counts returns an error if an approval would not count.
func counts(s rollout.Situation, event rollout.Event, authors []string) error {
	why, err := rollout.CountsNot(s, event.By, event.Teams, authors)
	if err == nil && why != "" {
		err = fmt.Errorf("the approval of %s does not count: %s", event.By, why)
	}
	return err
}

// source finds the source that a promotion brings.
func (l *commands) source(c Command, s *rollout.Situation) (rollout.Source, error) {
	switch {
	case c.Revision != "":
		if err := checkID(c.Revision); err != nil {
			return rollout.Source{}, err
		}
		var found []string // somebody can make a commit whose id begins as another one's
		for _, commit := range slices.Backward(s.Trunk) {
			if strings.HasPrefix(commit, c.Revision) {
				found = append(found, commit)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return rollout.Source{Commit: found[0]}, nil
		default:
			return rollout.Source{}, fmt.Errorf("%s names %d commits of the trunk: %s: give more digits", c.Revision,
				len(found), rollout.Few(found))
		}
		return rollout.Source{},
			fmt.Errorf("%s is not on the trunk, or older than all that environments run: push a newer commit to the trunk first; `%s rollback %s --to %s` goes back to an older one",
				c.Revision, cmp.Or(s.CommandPrefix, "/sluice"), c.Environment, c.Revision)
	case c.From != "":
		for _, b := range s.Before {
			if b.Name == c.From {
				if b.Source.Empty() && b.Site != nil {
					return b.Source, fmt.Errorf("what %s runs is unknown: %s", b.Name, cmp.Or(b.Site.Gate(s.Now).Reason, "its site runs nothing"))
				}
				return b.Source, nil
			}
		}
		return rollout.Source{}, fmt.Errorf("%s does not come before %s%s", c.From, c.Environment,
			instead(c.From, "its `after`", s.Environment.After))
	}
	for _, b := range s.Before {
		if b.Foreign != "" {
			return rollout.Source{}, fmt.Errorf("what %s runs is unknown: %s", b.Name, b.Foreign)
		}
	}
	for _, b := range s.Before {
		if b.Source.Empty() && b.Site != nil && b.Site.Gate(s.Now).State != rollout.Green {
			return rollout.Source{}, fmt.Errorf("what %s runs is unknown: %s", b.Name, b.Site.Gate(s.Now).Reason)
		}
		if b.Source.Empty() {
			return rollout.Source{}, fmt.Errorf("%s runs nothing yet, and %s gets what it runs", b.Name, c.Environment)
		}
	}
	latest := rollout.Latest(s.Trunk, s.Before)
	if latest.Empty() {
		return latest, errors.New("the environments before it run no common commit of the trunk")
	}
	return latest, nil
}

// target finds the state that a rollback restores: the one that --to names, or the previous one.
func (l *commands) target(ctx context.Context, c Command, s *rollout.Situation) (*rollout.PastState, error) {
	past, revision := l.past[c.Environment], c.Revision
	entries, err := past.history(ctx)
	if err != nil {
		return nil, err
	}
	valid := make([]HistoryEntry, 0, len(entries)) // what a damaged record names cannot be restored truthfully
	for i, e := range entries {
		if i == 0 || e.Source.Validate() == nil {
			valid = append(valid, e)
		}
	}
	if revision == "" {
		history := make([]rollout.PastState, 0, len(valid))
		for _, e := range valid {
			history = append(history, e.state())
		}
		to, err := rollout.RollbackTarget(*s, history, c.Clusters, nil, scopeOfCommand(c).Limit(past.read(ctx)))
		return &to, err
	}
	return named(valid, s, c, past.read(ctx))
}

// state converts an entry to the type of package promote.
func (e HistoryEntry) state() rollout.PastState {
	return rollout.PastState{Source: e.Source, Tree: e.Tree.String(), At: e.At}
}
