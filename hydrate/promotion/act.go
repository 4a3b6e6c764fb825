package promotion

import (
	"bytes"
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

// composed is a tree with the writer that has its new objects.
type composed struct {
	tree    gitstore.Hash
	failure string
	w       *gitstore.Writer
}

// once composes a source for an environment once in a call.
func (p *promotion) once(ctx context.Context, environment string, source promote.Source) (gitstore.Hash, string, *gitstore.Writer, error) {
	key := environment + " " + source.String()
	if c := p.composed[key]; c != nil {
		return c.tree, c.failure, c.w, nil
	}
	w, err := p.h.Store.NewWriter()
	if err != nil {
		return gitstore.Hash{}, "", nil, err
	}
	tree, failure, err := p.h.Compose(ctx, hydrate.Composition{
		Environment: environment, Source: branch.Source(source), Running: p.states[environment], Commits: p.commits, All: p.theirs(environment),
	}, w)
	if err != nil {
		_ = w.Close()
		return gitstore.Hash{}, "", nil, err
	}
	p.composed[key] = &composed{tree, failure, w}
	return tree, failure, w, nil
}

func (p *promotion) close() {
	for _, c := range p.composed {
		_ = c.w.Close()
	}
}

// store writes an environment's record, if it is another than before.
func (p *promotion) store(ctx context.Context, before, after promote.Record, changed bool, environment string) error {
	old, err := before.Encode()
	if err != nil {
		return err
	}
	data, err := after.Encode()
	if err != nil {
		return err
	}
	if !changed && bytes.Equal(old, data) {
		return nil
	}
	w, err := p.h.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	files := map[string]gitstore.Entry{}
	if !p.stateTip.Hash.IsZero() {
		list, err := p.h.Store.Snapshot(ctx, p.stateTip.Tree).Entries("environments")
		if err == nil {
			for _, e := range list {
				files[e.Name] = e
			}
		}
	}
	blob, err := w.Blob(data)
	if err != nil {
		return err
	}
	name := environment + ".yaml"
	files[name] = gitstore.Entry{Name: name, Mode: gitstore.ModeFile, Hash: blob}
	dir, err := w.Tree(slices.Collect(maps.Values(files)))
	if err != nil {
		return err
	}
	root, err := w.Tree([]gitstore.Entry{{Name: "environments", Mode: gitstore.ModeTree, Hash: dir}})
	if err != nil {
		return err
	}
	if root == p.stateTip.Tree {
		return nil
	}
	hash, err := p.commit(w, root, p.stateTip.Hash, p.r.Trunk, message{subject: "Record of " + environment})
	if err != nil {
		return err
	}
	if err := p.push(ctx, w, []gitstore.Move{{Branch: promote.StateBranch, Old: p.stateTip.Hash, New: hash}}); err != nil {
		return err
	}
	p.stateTip, err = p.h.Store.Commit(ctx, hash)
	return err
}

// message is a commit's.
type message struct {
	subject, body string
	trailers      []gitstore.Trailer
}

// commit makes a commit of now.
func (p *promotion) commit(w *gitstore.Writer, tree, parent gitstore.Hash, author gitstore.Commit, m message) (gitstore.Hash, error) {
	return branch.Commit{
		Tree: tree, Parent: parent, Author: author.Author, Committer: branch.Committer(p.fleet.Spec.Output.Committer).At(p.r.Now.UTC().Truncate(time.Second)),
		Subject: m.subject, Body: m.body, Trailers: m.trailers, Version: p.h.Version, Signer: p.h.Signer,
	}.Write(w)
}

// MovedError is a branch that somebody else moved meanwhile: another look decides anew.
type MovedError struct{ Reason string }

// Error says which.
func (e *MovedError) Error() string { return "somebody else moved a branch meanwhile: " + e.Reason }

func (p *promotion) push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move) error {
	if len(moves) == 0 {
		return nil
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

// act does one thing that was decided.
func (p *promotion) act(ctx context.Context, e fleet.Environment, a promote.Action, out *Status) error {
	switch a.Kind {
	case promote.MoveEnvironment:
		return p.moveEnvironment(ctx, e, a, out)
	case promote.MoveWave:
		return p.moveWave(ctx, e, a, out)
	case promote.DoRollback:
		return p.rollback(ctx, e, a, out)
	case promote.OpenRequest:
		return p.request(ctx, e, a, out)
	case promote.CloseRequest:
		if p.r.Adapters.MergeRequests == nil {
			return ErrNoForge
		}
		open, err := p.r.Adapters.MergeRequests.Find(ctx, requestBranch(e.Name), p.states[e.Name].Branch)
		if err != nil || open == nil {
			return err
		}
		out.Done = append(out.Done, "merge request closed: "+a.Reason)
		return p.r.Adapters.MergeRequests.Close(ctx, *open, a.Reason)
	case promote.DoHalt:
		out.Done = append(out.Done, "halted: "+a.Reason)
	}
	return nil
}

func (p *promotion) trailers(e fleet.Environment, a promote.Action) []gitstore.Trailer {
	list := []gitstore.Trailer{{Key: branch.TrailerSource, Value: a.Source.Commit}, {Key: branch.TrailerEnvironment, Value: e.Name}}
	if len(e.After) > 0 && a.Kind != promote.DoRollback {
		list = append(list, gitstore.Trailer{Key: branch.TrailerFrom, Value: strings.Join(e.After, ", ")})
	}
	for _, who := range a.ApprovedBy {
		list = append(list, gitstore.Trailer{Key: branch.TrailerApproved, Value: who})
	}
	if a.By != "" {
		list = append(list, gitstore.Trailer{Key: branch.TrailerBy, Value: a.By})
	}
	if len(a.Apps) > 0 {
		list = append(list, gitstore.Trailer{Key: branch.TrailerApps, Value: strings.Join(a.Apps, ", ")})
	}
	if a.Overtakes {
		list = append(list, gitstore.Trailer{Key: branch.TrailerNow, Value: cmp.Or(a.Reason, "yes")})
	}
	if a.Kind == promote.DoRollback {
		list = append(list, gitstore.Trailer{Key: branch.TrailerRollback, Value: cmp.Or(a.Reason, "yes")})
	}
	return list
}

// made renders again what was decided on, and gives it only if it is the same tree: what was approved is what lands.
func (p *promotion) made(ctx context.Context, e fleet.Environment, a promote.Action) (gitstore.Hash, *gitstore.Writer, error) {
	tree, failure, w, err := p.once(ctx, e.Name, a.Source)
	if err != nil {
		return tree, nil, err
	}
	if failure != "" || tree.String() != a.Tree {
		return tree, nil, fmt.Errorf("%s was decided on and is another tree now: nothing was moved%s", a.Source, optional(": ", failure))
	}
	return tree, w, nil
}

func optional(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func (p *promotion) moveEnvironment(ctx context.Context, e fleet.Environment, a promote.Action, out *Status) error {
	tree, w, err := p.made(ctx, e, a)
	if err != nil {
		return err
	}
	st := p.states[e.Name]
	subject := fmt.Sprintf("Promote %s to %s", a.Source, e.Name)
	hash, err := p.commit(w, tree, st.Tip.Hash, p.author(ctx, a.Source.Commit), message{subject, p.bringing(st, a.Source), p.trailers(e, a)})
	if err != nil {
		return err
	}
	if err := p.push(ctx, w, []gitstore.Move{{Branch: st.Branch, Old: st.Tip.Hash, New: hash}}); err != nil {
		return err
	}
	out.Tip, out.Source = hash.String(), a.Source
	out.Done = append(out.Done, fmt.Sprintf("%s has %s", st.Branch, a.Source))
	return nil
}

// bringing lists the subjects of the commits that a promotion brings.
func (p *promotion) bringing(st *branch.State, to promote.Source) string {
	const most = 30
	list := p.brought(sourceOf(st), to)
	var lines []string
	for _, c := range slices.Backward(list) {
		subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
		lines = append(lines, "- "+c.Hash.Short()+" "+subject)
		if len(lines) == most {
			lines = append(lines, fmt.Sprintf("- and %d more", len(list)-most))
			break
		}
	}
	return strings.Join(lines, "\n")
}

// moveWave brings cluster branches to what the environment branch has.
func (p *promotion) moveWave(ctx context.Context, e fleet.Environment, a promote.Action, out *Status) error {
	st := p.states[e.Name]
	if hashText(st.Tip.Hash) != a.Base {
		return &MovedError{st.Branch}
	}
	w, err := p.h.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	moves, err := p.clusterMoves(ctx, e, a, moving{st.Clusters, w}, out)
	if err != nil {
		return err
	}
	if err := p.push(ctx, w, moves); err != nil {
		return err
	}
	out.Done = append(out.Done, fmt.Sprintf("wave %s: %d cluster branches have %s", a.Wave, len(moves), sourceOf(st)))
	return nil
}

// moving are the trees that cluster branches get, and where their commits are written.
type moving struct {
	trees map[string]gitstore.Hash
	w     *gitstore.Writer
}

// author is the commit whose author a rendered commit has: the source, or the trunk's tip if that is not known here.
func (p *promotion) author(ctx context.Context, source string) gitstore.Commit {
	if c, ok := p.commits[source]; ok {
		return c
	}
	if hash, err := gitstore.ParseHash(source); err == nil {
		if c, err := p.h.Store.Commit(ctx, hash); err == nil {
			return c
		}
	}
	return p.r.Trunk
}

func (p *promotion) clusterMoves(ctx context.Context, e fleet.Environment, a promote.Action, to moving, out *Status) ([]gitstore.Move, error) {
	trees, w := to.trees, to.w
	source := a.Source
	if source.Empty() {
		source = sourceOf(p.states[e.Name])
	}
	author := p.author(ctx, source.Commit)
	var moves []gitstore.Move
	for _, name := range a.Clusters {
		c, ok := p.fleet.Cluster(name)
		if !ok || trees[name].IsZero() {
			continue
		}
		if why := p.foreign[name]; why != "" {
			out.Done = append(out.Done, "left as it is: "+why)
			continue
		}
		name := p.fleet.ClusterBranch(c)
		trailers := p.trailers(e, promote.Action{Kind: a.Kind, Source: source, By: a.By, Reason: a.Reason, Overtakes: a.Overtakes && a.Reason != ""})
		if a.Wave != "" {
			trailers = append(trailers, gitstore.Trailer{Key: branch.TrailerWave, Value: a.Wave})
		}
		hash, err := p.commit(w, trees[c.Name], p.refs[name], author, message{fmt.Sprintf("%s on %s", source, c.Name), "", trailers})
		if err != nil {
			return nil, err
		}
		moves = append(moves, gitstore.Move{Branch: name, Old: p.refs[name], New: hash})
	}
	return moves, nil
}

// request keeps the merge request of a promotion current.
func (p *promotion) request(ctx context.Context, e fleet.Environment, a promote.Action, out *Status) error {
	if p.r.Adapters.MergeRequests == nil {
		return ErrNoForge
	}
	tree, w, err := p.made(ctx, e, a)
	if err != nil {
		return err
	}
	st := p.states[e.Name]
	title := fmt.Sprintf("Promote %s to %s", a.Source, e.Name)
	hash, err := p.commit(w, tree, st.Tip.Hash, p.author(ctx, a.Source.Commit), message{title, p.bringing(st, a.Source), p.trailers(e, a)})
	if err != nil {
		return err
	}
	branch := requestBranch(e.Name)
	if err := p.push(ctx, w, []gitstore.Move{{Branch: branch, Old: p.refs[branch], New: hash}}); err != nil {
		return err
	}
	out.Done = append(out.Done, "a merge request asks for "+a.Source.String())
	return p.r.Adapters.MergeRequests.Open(ctx, MergeRequest{From: branch, To: st.Branch, Head: hash.String(), Title: title, Source: a.Source.Commit, Tree: a.Tree, Why: p.bringing(st, a.Source)})
}
