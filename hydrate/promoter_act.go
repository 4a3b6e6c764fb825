package hydrate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	w, err := p.h.store.NewWriter()
	if err != nil {
		return gitstore.Hash{}, "", nil, err
	}
	tree, failure, err := p.compose(ctx, environment, source, w)
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

// compose makes an environment's tree of a source: what has its commit rendered from that, what has another one from there, and what
// stays as it runs taken from the branch. failure says why it cannot be rendered.
func (p *promotion) compose(ctx context.Context, environment string, source promote.Source, w *gitstore.Writer) (tree gitstore.Hash, failure string, err error) {
	st := p.states[environment]
	running := sourceOf(st)
	needed := map[string]bool{}
	if source.Commit != running.Commit || !st.exists() {
		needed[source.Commit] = true
	}
	for app, c := range source.Apps {
		if running.Of(app) != c {
			needed[c] = true
		}
	}
	parts := map[string]*state{}
	for _, c := range slices.Sorted(maps.Keys(needed)) {
		part, why, err := p.rendered(ctx, environment, c, w)
		if err != nil || why != "" {
			return gitstore.Hash{}, why, err
		}
		parts[c] = part
	}
	base := parts[source.Commit]
	if base == nil {
		base = st
	}
	if len(source.Apps) == 0 && base != st {
		return base.tip.Tree, "", nil
	}
	of := func(app string) *state {
		c := source.Of(app)
		if c == running.Of(app) && st.exists() {
			return st
		}
		return parts[c]
	}
	return p.assemble(ctx, recipe{environment, source, base, of}, w)
}

// rendered renders a source commit for an environment. Its state's tip has the tree alone.
func (p *promotion) rendered(ctx context.Context, environment, commit string, w *gitstore.Writer) (*state, string, error) {
	c, ok := p.commits[commit]
	if !ok {
		return nil, fmt.Sprintf("%.10s is not on the trunk", commit), nil
	}
	v, err := p.h.open(ctx, c.Tree)
	if err != nil {
		return nil, fmt.Sprintf("the fleet of %.10s cannot be read: %v", commit, err), ctx.Err()
	}
	if _, ok := v.fleet.Environment(environment); !ok {
		return nil, fmt.Sprintf("%.10s has no environment %s", commit, environment), nil
	}
	plan, err := p.h.plan(ctx, v, environment, p.states[environment], nil, p.all || p.theirs(environment))
	if err != nil {
		return nil, "", err
	}
	done, _, err := p.h.render(ctx, plan, commit, w)
	if err != nil {
		return nil, "", err
	}
	if done == nil {
		return nil, fmt.Sprintf("%d of %d targets cannot be rendered: %s", len(plan.failures), plan.total, plan.failures[0].Message), nil
	}
	st := &state{kinds: kinds{}, clusters: map[string]gitstore.Hash{}, inputs: map[string]gitstore.Hash{}}
	st.tip.Tree = done.tree
	return st, "", p.h.readTree(ctx, st, done.tree)
}

// recipe says what an environment is put together from: the clusters and kinds of base, each app from where of says.
type recipe struct {
	environment string
	source      promote.Source
	base        *state
	of          func(app string) *state
}

// assemble puts an environment together from the parts that its apps come from.
func (p *promotion) assemble(ctx context.Context, r recipe, w *gitstore.Writer) (gitstore.Hash, string, error) {
	environment, source, base, of := r.environment, r.source, r.base, r.of
	var entries, recorded []gitstore.Entry
	objects := 0
	for _, cluster := range slices.Sorted(maps.Keys(base.clusters)) {
		apps, in, err := p.cluster(ctx, cluster, base, of, slices.Sorted(maps.Keys(source.Apps)))
		if err != nil {
			return gitstore.Hash{}, "", err
		}
		for _, a := range apps {
			files, err := p.h.store.Tree(ctx, a.Hash)
			if err != nil {
				return gitstore.Hash{}, "", err
			}
			objects += len(files)
		}
		tree, err := w.Tree(apps)
		if err != nil {
			return gitstore.Hash{}, "", err
		}
		data, err := in.encode()
		if err != nil {
			return gitstore.Hash{}, "", err
		}
		blob, err := w.Blob(data)
		if err != nil {
			return gitstore.Hash{}, "", err
		}
		entries = append(entries, gitstore.Entry{Name: cluster, Mode: gitstore.ModeTree, Hash: tree})
		recorded = append(recorded, gitstore.Entry{Name: cluster + ".yaml", Mode: gitstore.ModeFile, Hash: blob})
	}
	rec := record{Environment: environment, Source: source.Commit, Renderer: Epoch, Objects: objects, Apps: source.Apps}
	tree, err := p.h.root(ctx, rec, base.kinds, entries, recorded, w)
	return tree, "", err
}

// cluster takes each app of a cluster from where it belongs.
func (p *promotion) cluster(ctx context.Context, cluster string, base *state, of func(app string) *state, more []string) ([]gitstore.Entry, inputs, error) {
	in := inputs{Apps: map[string]string{}, Scopes: map[string][]string{}}
	names := map[string]bool{}
	trees := map[*state]map[string]gitstore.Entry{}
	digests := map[*state]inputs{}
	load := func(st *state) error {
		if st == nil || trees[st] != nil {
			return nil
		}
		trees[st] = map[string]gitstore.Entry{}
		if tree := st.clusters[cluster]; !tree.IsZero() {
			list, err := p.h.store.Tree(ctx, tree)
			if err != nil {
				return err
			}
			for _, e := range list {
				trees[st][e.Name] = e
				names[e.Name] = true
			}
		}
		var err error
		digests[st], err = p.h.readInputs(ctx, st.inputs[cluster])
		return err
	}
	states := []*state{base}
	if err := load(base); err != nil {
		return nil, in, err
	}
	for name := range maps.Clone(names) {
		states = append(states, of(name))
	}
	for _, app := range more { // those that the base may not have
		states = append(states, of(app))
	}
	for _, st := range states {
		if err := load(st); err != nil {
			return nil, in, err
		}
	}
	var out []gitstore.Entry
	for _, name := range slices.Sorted(maps.Keys(names)) {
		st := of(name)
		e, ok := trees[st][name]
		if !ok {
			continue // it goes, or is not there yet
		}
		out = append(out, e)
		in.Apps[name] = digests[st].Apps[name]
		if scopes := digests[st].Scopes[name]; len(scopes) > 0 {
			in.Scopes[name] = scopes
		}
	}
	return out, in, nil
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
	w, err := p.h.store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	files := map[string]gitstore.Entry{}
	if !p.stateTip.Hash.IsZero() {
		list, err := p.h.store.Snapshot(ctx, p.stateTip.Tree).Entries("environments")
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
	p.stateTip, err = p.h.store.Commit(ctx, hash)
	return err
}

// message is a commit's.
type message struct {
	subject, body string
	trailers      []gitstore.Trailer
}

// commit makes a commit of now.
func (p *promotion) commit(w *gitstore.Writer, tree, parent gitstore.Hash, author gitstore.Commit, m message) (gitstore.Hash, error) {
	committer := p.view.fleet.Spec.Output.Committer
	spec := gitstore.CommitSpec{
		Tree: tree, Author: author.Author,
		Committer: gitstore.Signature{Name: cmp.Or(committer.Name, "Sluice"), Email: cmp.Or(committer.Email, "sluice@localhost"), When: p.r.Now.UTC().Truncate(time.Second)},
		Message:   gitstore.Message(m.subject, m.body, append(m.trailers, gitstore.Trailer{Key: TrailerVersion, Value: p.h.Version})), Signer: p.h.Signer,
	}
	if !parent.IsZero() {
		spec.Parents = []gitstore.Hash{parent}
	}
	return w.Commit(spec)
}

// ErrMoved is a branch that somebody else moved meanwhile: another look decides anew.
type ErrMoved struct{ Reason string }

// Error says which.
func (e *ErrMoved) Error() string { return "somebody else moved a branch meanwhile: " + e.Reason }

func (p *promotion) push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move) error {
	if len(moves) == 0 {
		return nil
	}
	results, err := p.h.Branches.Push(ctx, w, moves, gitstore.PushOptions{PerPush: p.r.PerPush})
	if err != nil {
		return err
	}
	switch status, reason := judge(results); status {
	case StatusUpdated:
		return nil
	case StatusConflict:
		return &ErrMoved{reason}
	default:
		return fmt.Errorf("the server refuses: %s", reason)
	}
}

// act does one thing that was decided.
func (p *promotion) act(ctx context.Context, e fleet.Environment, a promote.Action, out *EnvironmentStatus) error {
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
		open, err := p.r.Outside.Request(ctx, requestBranch(e.Name), p.states[e.Name].branch)
		if err != nil || open == nil {
			return err
		}
		out.Done = append(out.Done, "merge request closed: "+a.Reason)
		return p.r.Outside.Close(ctx, *open, a.Reason)
	case promote.DoHalt:
		out.Done = append(out.Done, "halted: "+a.Reason)
	}
	return nil
}

func (p *promotion) trailers(e fleet.Environment, a promote.Action) []gitstore.Trailer {
	list := []gitstore.Trailer{{Key: TrailerSource, Value: a.Source.Commit}, {Key: TrailerEnvironment, Value: e.Name}}
	if len(e.After) > 0 && a.Kind != promote.DoRollback {
		list = append(list, gitstore.Trailer{Key: TrailerFrom, Value: strings.Join(e.After, ", ")})
	}
	for _, who := range a.ApprovedBy {
		list = append(list, gitstore.Trailer{Key: TrailerApproved, Value: who})
	}
	if a.By != "" {
		list = append(list, gitstore.Trailer{Key: TrailerBy, Value: a.By})
	}
	if len(a.Apps) > 0 {
		list = append(list, gitstore.Trailer{Key: TrailerApps, Value: strings.Join(a.Apps, ", ")})
	}
	if a.Overtakes {
		list = append(list, gitstore.Trailer{Key: TrailerNow, Value: cmp.Or(a.Reason, "yes")})
	}
	if a.Kind == promote.DoRollback {
		list = append(list, gitstore.Trailer{Key: TrailerRollback, Value: cmp.Or(a.Reason, "yes")})
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

func (p *promotion) moveEnvironment(ctx context.Context, e fleet.Environment, a promote.Action, out *EnvironmentStatus) error {
	tree, w, err := p.made(ctx, e, a)
	if err != nil {
		return err
	}
	st := p.states[e.Name]
	subject := fmt.Sprintf("Promote %s to %s", a.Source, e.Name)
	hash, err := p.commit(w, tree, st.tip.Hash, p.author(ctx, a.Source.Commit), message{subject, p.bringing(st, a.Source), p.trailers(e, a)})
	if err != nil {
		return err
	}
	if err := p.push(ctx, w, []gitstore.Move{{Branch: st.branch, Old: st.tip.Hash, New: hash}}); err != nil {
		return err
	}
	out.Tip, out.Source = hash.String(), a.Source
	out.Done = append(out.Done, fmt.Sprintf("%s has %s", st.branch, a.Source))
	return nil
}

// bringing lists the subjects of the commits that a promotion brings.
func (p *promotion) bringing(st *state, to promote.Source) string {
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
func (p *promotion) moveWave(ctx context.Context, e fleet.Environment, a promote.Action, out *EnvironmentStatus) error {
	st := p.states[e.Name]
	if hashText(st.tip.Hash) != a.Base {
		return &ErrMoved{st.branch}
	}
	w, err := p.h.store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	moves, err := p.clusterMoves(ctx, e, a, moving{st.clusters, w}, out)
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
		if c, err := p.h.store.Commit(ctx, hash); err == nil {
			return c
		}
	}
	return p.r.Trunk
}

func (p *promotion) clusterMoves(ctx context.Context, e fleet.Environment, a promote.Action, to moving, out *EnvironmentStatus) ([]gitstore.Move, error) {
	trees, w := to.trees, to.w
	source := a.Source
	if source.Empty() {
		source = sourceOf(p.states[e.Name])
	}
	author := p.author(ctx, source.Commit)
	var moves []gitstore.Move
	for _, name := range a.Clusters {
		c, ok := p.view.fleet.Cluster(name)
		if !ok || trees[name].IsZero() {
			continue
		}
		if why := p.foreign[name]; why != "" {
			out.Done = append(out.Done, "left as it is: "+why)
			continue
		}
		branch := p.view.fleet.ClusterBranch(c)
		trailers := p.trailers(e, promote.Action{Kind: a.Kind, Source: source, By: a.By, Reason: a.Reason, Overtakes: a.Overtakes && a.Reason != ""})
		if a.Wave != "" {
			trailers = append(trailers, gitstore.Trailer{Key: TrailerWave, Value: a.Wave})
		}
		hash, err := p.commit(w, trees[name], p.refs[branch], author, message{fmt.Sprintf("%s on %s", source, name), "", trailers})
		if err != nil {
			return nil, err
		}
		moves = append(moves, gitstore.Move{Branch: branch, Old: p.refs[branch], New: hash})
	}
	return moves, nil
}

// request keeps the merge request of a promotion current.
func (p *promotion) request(ctx context.Context, e fleet.Environment, a promote.Action, out *EnvironmentStatus) error {
	if p.r.Outside == nil {
		return ErrNoForge
	}
	tree, w, err := p.made(ctx, e, a)
	if err != nil {
		return err
	}
	st := p.states[e.Name]
	title := fmt.Sprintf("Promote %s to %s", a.Source, e.Name)
	hash, err := p.commit(w, tree, st.tip.Hash, p.author(ctx, a.Source.Commit), message{title, p.bringing(st, a.Source), p.trailers(e, a)})
	if err != nil {
		return err
	}
	branch := requestBranch(e.Name)
	if err := p.push(ctx, w, []gitstore.Move{{Branch: branch, Old: p.refs[branch], New: hash}}); err != nil {
		return err
	}
	out.Done = append(out.Done, "a merge request asks for "+a.Source.String())
	return p.r.Outside.Open(ctx, OpenRequest{From: branch, To: st.branch, Head: hash.String(), Title: title, Source: a.Source.Commit, Tree: a.Tree, Why: p.bringing(st, a.Source)})
}
