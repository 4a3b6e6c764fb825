package promotion

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// message is a commit's message.
type message struct {
	subject, body string
	trailers      []gitstore.Trailer
}

// commit makes a commit with the time of the pass.
func (p *pass) commit(w *gitstore.Writer, tree, parent gitstore.Hash, author gitstore.Commit, m message) (gitstore.Hash, error) {
	return branch.Commit{
		Tree: tree, Parent: parent, Author: author.Author, Committer: branch.Committer(p.fleet.Spec.Output.Committer).At(p.r.Now.UTC().Truncate(time.Second)),
		Subject: m.subject, Body: m.body, Trailers: m.trailers, Version: p.h.Version, Signer: p.h.Signer,
	}.Write(w)
}

// MovedError means that somebody else moved a branch since the pass read it. Another pass decides again.
type MovedError struct{ Reason string }

// Error names the branch.
func (e *MovedError) Error() string { return "somebody else moved a branch meanwhile: " + e.Reason }

func (p *pass) push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move) error {
	if len(moves) == 0 {
		return nil
	}
	if err := p.h.RequireSigner(ctx, moves, p.fleet.Signers()); err != nil {
		return err
	}
	results, err := p.h.Branches.Push(ctx, w, moves, gitstore.PushOptions{PerPush: p.r.PerPush})
	if err != nil {
		return err
	}
	switch status, reason := hydrate.PushStatus(results); status {
	case hydrate.StatusUpdated:
		return nil
	case hydrate.StatusConflict:
		return &MovedError{reason}
	default:
		return fmt.Errorf("the server refuses: %s", reason)
	}
}

// act carries out one action.
func (p *pass) act(ctx context.Context, e fleet.Environment, a promote.Action, s *promote.Situation, out *Status) error {
	switch a.Kind {
	case promote.MoveEnvironment:
		return p.moveEnvironment(ctx, e, a, out)
	case promote.MoveWave:
		return p.moveWave(ctx, e, a, s, out)
	case promote.DoRollback:
		return p.rollback(ctx, e, a, s, out)
	case promote.OpenRequest:
		return p.request(ctx, e, a, out)
	case promote.CloseRequest:
		return p.closeRequest(ctx, e, a, out)
	case promote.DoHalt:
		out.Done = append(out.Done, "halted: "+a.Reason)
	}
	return nil
}

func (p *pass) closeRequest(ctx context.Context, e fleet.Environment, a promote.Action, out *Status) error {
	if p.r.Adapters.MergeRequests == nil {
		return ErrNoForge
	}
	open, err := p.r.Adapters.MergeRequests.Find(ctx, requestBranch(e.Name), p.states[e.Name].Branch)
	if err != nil {
		return err
	}
	// The record forgets the request first: one that Sluice closes must not look as if a person had declined it.
	if err := p.apply(ctx, e.Name, promote.Event{Kind: promote.EventClosed}); err != nil || open == nil {
		return err
	}
	out.Done = append(out.Done, "merge request closed: "+a.Reason)
	return p.r.Adapters.MergeRequests.Close(ctx, *open, a.Reason)
}

// trailers of a commit on an environment branch.
func trailers(e fleet.Environment, a promote.Action) []gitstore.Trailer {
	list := []gitstore.Trailer{{Key: branch.TrailerSource, Value: a.Source.Commit}, {Key: branch.TrailerEnvironment, Value: e.Name}}
	add := func(key, value string) {
		if value != "" {
			list = append(list, gitstore.Trailer{Key: key, Value: value})
		}
	}
	if a.Kind != promote.DoRollback {
		add(branch.TrailerFrom, strings.Join(e.After, ", "))
	}
	for _, who := range a.ApprovedBy {
		add(branch.TrailerApproved, who)
	}
	add(branch.TrailerBy, a.By)
	add(branch.TrailerApps, strings.Join(a.Apps, ", "))
	if a.Overtakes {
		add(branch.TrailerNow, cmp.Or(a.Reason, "yes"))
	}
	if a.Kind == promote.MoveEnvironment && !a.Overtakes {
		add(branch.TrailerReason, a.Reason)
	}
	if a.Kind == promote.DoRollback {
		add(branch.TrailerRollback, cmp.Or(a.Reason, "yes"))
		add(branch.TrailerClusters, strings.Join(a.Clusters, ", "))
		add(branch.TrailerWave, a.Wave)
	}
	return list
}

// clusterTrailers name the commits that a cluster's tree was rendered from, and why its branch moves.
func clusterTrailers(e fleet.Environment, a promote.Action, cluster string, runs promote.ClusterSource) []gitstore.Trailer {
	a.Source, a.Overtakes, a.ApprovedBy, a.Apps, a.Clusters = promote.Source{Commit: runs.Commit}, a.Overtakes && a.Reason != "", nil, nil, nil
	list := append(trailers(e, a), gitstore.Trailer{Key: branch.TrailerCluster, Value: cluster})
	if a.Wave != "" && a.Kind != promote.DoRollback {
		list = append(list, gitstore.Trailer{Key: branch.TrailerWave, Value: a.Wave})
	}
	for _, app := range slices.Sorted(maps.Keys(runs.Apps)) {
		if c := runs.Apps[app]; c != runs.Commit {
			list = append(list, gitstore.Trailer{Key: branch.TrailerAppSource, Value: app + " " + c})
		}
	}
	return list
}

// decided renders again what was decided on, and fails if that is another tree now: what was approved is what lands.
func (p *pass) decided(ctx context.Context, e fleet.Environment, a promote.Action) (*composition, error) {
	one, err := p.compose(ctx, e.Name, a.Source)
	if err != nil {
		return nil, err
	}
	switch {
	case one.failure != "":
		return nil, fmt.Errorf("%s was decided on and cannot be rendered now, so nothing moved: %s", a.Source, one.failure)
	case one.tree.String() != a.Tree:
		return nil, fmt.Errorf("%s was decided on and renders to another tree now, so nothing moved", a.Source)
	}
	return one, nil
}

func (p *pass) moveEnvironment(ctx context.Context, e fleet.Environment, a promote.Action, out *Status) error {
	one, err := p.decided(ctx, e, a)
	if err != nil {
		return err
	}
	st := p.states[e.Name]
	author, err := p.trunk.author(ctx, a.Source.Commit)
	if err != nil {
		return err
	}
	m := message{fmt.Sprintf("Promote %s to %s", a.Source, e.Name), p.bringing(st, a.Source), trailers(e, a)}
	hash, err := p.commit(one.w, one.tree, st.Tip.Hash, author, m)
	if err != nil {
		return err
	}
	if err := p.push(ctx, one.w, []gitstore.Move{{Branch: st.Branch, Old: st.Tip.Hash, New: hash}}); err != nil {
		return err
	}
	out.Tip, out.Source = hash.String(), a.Source
	out.Done = append(out.Done, fmt.Sprintf("%s has %s", st.Branch, a.Source))
	return nil
}

// subjects are those of the commits that a promotion brings, newest first.
func (p *pass) subjects(st *branch.State, to promote.Source) []string {
	const most = 30
	list := p.trunk.brought(st.Source(), to)
	var lines []string
	for _, c := range slices.Backward(list) {
		subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
		lines = append(lines, c.Hash.Short()+" "+subject)
		if len(lines) == most && len(list) > most {
			lines = append(lines, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
	}
	return lines
}

// bringing is the body of a promotion's commit.
func (p *pass) bringing(st *branch.State, to promote.Source) string {
	lines := p.subjects(st, to)
	for i := range lines {
		lines[i] = "- " + lines[i]
	}
	return strings.Join(lines, "\n")
}

// moveWave moves cluster branches to what the environment branch has.
func (p *pass) moveWave(ctx context.Context, e fleet.Environment, a promote.Action, s *promote.Situation, out *Status) error {
	st := p.states[e.Name]
	if hashText(st.Tip.Hash) != a.Base {
		return &MovedError{st.Branch}
	}
	w, err := p.h.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // what was pushed is on the branches
	moves, err := p.clusterMoves(ctx, e, a, target{st.Clusters, st.Source(), w}, s, out)
	if err != nil {
		return err
	}
	if err := p.push(ctx, w, moves); err != nil {
		return err
	}
	what := "wave " + a.Wave
	if a.Wave == "" {
		what = "rollback"
	}
	out.Done = append(out.Done, fmt.Sprintf("%s: %s at %s", what, hydrate.Count(len(moves), "cluster branch"), st.Source()))
	return nil
}

// target is the state that cluster branches move to, and the writer of their commits.
type target struct {
	trees  map[string]gitstore.Hash
	source promote.Source
	w      *gitstore.Writer
}

// clusterMoves makes the commits of cluster branches. Branches that are not Sluice's to move stay.
func (p *pass) clusterMoves(ctx context.Context, e fleet.Environment, a promote.Action, to target, s *promote.Situation, out *Status) ([]gitstore.Move, error) {
	var moves []gitstore.Move
	for _, name := range a.Clusters {
		c, ok := p.fleet.Cluster(name)
		i := slices.IndexFunc(s.Clusters, func(c promote.ClusterState) bool { return c.Name == name })
		if !ok || i < 0 || to.trees[name].IsZero() || s.Clusters[i].Tree == to.trees[name].String() {
			continue
		}
		if why := s.Clusters[i].Foreign; why != "" {
			out.Done = append(out.Done, "not moved: "+why)
			continue
		}
		runs := to.source.On(name)
		author, err := p.trunk.author(ctx, runs.Commit)
		if err != nil {
			return nil, err
		}
		ref := p.fleet.ClusterBranch(c)
		hash, err := p.commit(to.w, to.trees[name], p.refs[ref], author, message{fmt.Sprintf("%s on %s", runs, name), "", clusterTrailers(e, a, name, runs)})
		if err != nil {
			return nil, err
		}
		moves = append(moves, gitstore.Move{Branch: ref, Old: p.refs[ref], New: hash})
	}
	return moves, nil
}

// request opens the merge request of a promotion, or updates it.
func (p *pass) request(ctx context.Context, e fleet.Environment, a promote.Action, out *Status) error {
	if p.r.Adapters.MergeRequests == nil {
		return ErrNoForge
	}
	one, err := p.decided(ctx, e, a)
	if err != nil {
		return err
	}
	st := p.states[e.Name]
	author, err := p.trunk.author(ctx, a.Source.Commit)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("Promote %s to %s", a.Source, e.Name)
	hash, err := p.commit(one.w, one.tree, st.Tip.Hash, author, message{title, p.bringing(st, a.Source), trailers(e, a)})
	if err != nil {
		return err
	}
	ref := requestBranch(e.Name)
	if err := p.push(ctx, one.w, []gitstore.Move{{Branch: ref, Old: p.refs[ref], New: hash}}); err != nil {
		return err
	}
	r := MergeRequest{From: ref, To: st.Branch, Head: hash.String(), Title: title, Source: a.Source.Commit, Tree: a.Tree, Why: p.bringing(st, a.Source)}
	if err := p.r.Adapters.MergeRequests.Open(ctx, r); err != nil {
		return err
	}
	out.Done = append(out.Done, "a merge request asks for "+a.Source.String())
	return p.apply(ctx, e.Name, promote.Event{Kind: promote.EventOpened, Source: a.Source, Tree: a.Tree})
}

// plan fills in what the proposal of a dry run would do.
func (p *pass) plan(ctx context.Context, e fleet.Environment, s *promote.Situation, out *Status) error {
	next := out.Decision.Proposal
	if next == nil || out.Candidate == "" {
		return nil
	}
	one, err := p.compose(ctx, e.Name, next.Source)
	if err != nil || one.failure != "" {
		return err // the gate says why it cannot be rendered
	}
	plan := &Plan{Tree: out.Candidate, Commits: p.subjects(p.states[e.Name], next.Source)}
	after, err := branch.ReadTree(ctx, p.h.Store, one.tree)
	if err != nil {
		return err
	}
	members := make([]promote.Cluster, 0, len(s.Clusters))
	for _, c := range s.Clusters {
		members = append(members, c.Cluster)
		if after.Clusters[c.Name].String() != c.Tree && !after.Clusters[c.Name].IsZero() {
			plan.Clusters = append(plan.Clusters, c.Name)
		}
	}
	slices.Sort(plan.Clusters)
	if plan.Waves, err = promote.Waves(e, members); err != nil {
		return err
	}
	if p.states[e.Name].Exists() {
		if err := p.count(ctx, p.states[e.Name].Tip.Tree, one.tree, plan); err != nil {
			return err
		}
	}
	out.Plan = plan
	return nil
}

// count counts the objects that differ between two trees of an environment.
func (p *pass) count(ctx context.Context, before, after gitstore.Hash, plan *Plan) error {
	changes, err := p.h.Store.Changes(ctx, before, after)
	if err != nil {
		return err
	}
	for _, c := range changes {
		switch {
		case strings.HasPrefix(c.Path, branch.Dir+"/"):
		case c.Old.Hash.IsZero():
			plan.Added++
		case c.New.Hash.IsZero():
			plan.Removed++
		default:
			plan.Changed++
		}
	}
	return nil
}
