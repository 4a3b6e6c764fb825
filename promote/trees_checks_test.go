package promote_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/verify"
	"github.com/sluice-gitops/sluice/internal/signers"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// snapshot is what the branches hold at a moment.
type snapshot struct {
	env      gitstore.Commit
	source   rollout.Source
	desired  map[string]string // cluster/app → tree on env/prod
	running  map[string]string // cluster/app → tree on the cluster branch
	clusters map[string]gitstore.Commit
	halted   bool
}

func (w *trees) read() (*snapshot, error) {
	refs, err := w.h.Branches.List(w.ctx, "env/prod", "cluster/")
	if err != nil {
		return nil, err
	}
	out := &snapshot{desired: map[string]string{}, running: map[string]string{}, clusters: map[string]gitstore.Commit{}}
	st, err := branch.ReadState(w.ctx, w.h.Store, "env/prod", "prod", refs["env/prod"], signers.List{})
	if err != nil {
		return nil, err
	}
	out.env, out.source = st.Tip, st.Source()
	for _, name := range treeClusters {
		if err := w.apps(st.Clusters[name], name, out.desired); err != nil {
			return nil, err
		}
		if out.clusters[name], err = w.h.Store.Commit(w.ctx, refs["cluster/"+name]); err != nil {
			return nil, err
		}
		if err := w.apps(out.clusters[name].Tree, name, out.running); err != nil {
			return nil, err
		}
	}
	record, err := promote.ReadRecord(w.ctx, w.h, "prod", signers.List{})
	out.halted = record.Halt != nil
	return out, err
}

func (w *trees) apps(tree gitstore.Hash, cluster string, into map[string]string) error {
	if tree.IsZero() {
		return nil
	}
	entries, err := w.h.Store.Tree(w.ctx, tree)
	for _, e := range entries {
		into[cluster+"/"+e.Name] = e.Hash.String()
	}
	return err
}

// check holds the branches against the invariants.
func (w *trees) check(before *snapshot) error {
	now, err := w.read()
	if err != nil {
		return err
	}
	if err := w.provenance(now); err != nil {
		return fmt.Errorf("invariant 1, the provenance of a cluster names its tree: %w", err)
	}
	if err := w.moved(before, now); err != nil {
		return err
	}
	if w.r.IntN(4) > 0 {
		return nil
	}
	return w.verified()
}

// provenance is invariant 1: each app of each cluster is the rendering of the commit that the branch names for it.
func (w *trees) provenance(now *snapshot) error {
	for _, name := range treeClusters {
		runs := rollout.ClusterSource{Apps: map[string]string{}}
		for _, t := range gitstore.Trailers(now.clusters[name].Message) {
			switch t.Key {
			case branch.TrailerSource:
				runs.Commit = t.Value
			case branch.TrailerAppSource:
				app, commit, _ := strings.Cut(t.Value, " ")
				runs.Apps[app] = commit
			}
		}
		if err := w.renders(name, runs, now.running); err != nil {
			return fmt.Errorf("branch of %s: %w", name, err)
		}
		if err := w.renders(name, now.source.On(name), now.desired); err != nil {
			return fmt.Errorf("%s in the environment branch: %w", name, err)
		}
	}
	return nil
}

// renders compares the apps of a cluster with the renderings of the commits that they are said to come from.
func (w *trees) renders(cluster string, runs rollout.ClusterSource, have map[string]string) error {
	for _, app := range []string{"a", "b"} {
		want, err := w.rendering(runs.Of(app))
		if err != nil {
			return err
		}
		if key := cluster + "/" + app; have[key] != want[key] || have[key] == "" {
			return fmt.Errorf("%s is %.8s, and %.8s renders to %.8s", app, have[key], runs.Of(app), want[key])
		}
	}
	return nil
}

// rendering renders a source commit for prod, once.
func (w *trees) rendering(commit string) (map[string]string, error) {
	if out := w.rendered[commit]; out != nil {
		return out, nil
	}
	all := slices.Concat(w.trunk, w.dropped)
	i := slices.IndexFunc(all, func(c gitstore.Commit) bool { return c.Hash.String() == commit })
	if i < 0 {
		return nil, fmt.Errorf("%q is not a commit of the trunk", commit)
	}
	writer, err := w.h.Store.NewWriter()
	if err != nil {
		return nil, err
	}
	defer func() { _ = writer.Close() }() // nothing of it is kept
	result, err := w.h.RenderCommit(w.ctx, hydrate.CommitRequest{
		Environment: "prod", Commit: all[i],
		State: branch.NewState("env/prod"), All: true,
	}, writer)
	if err != nil {
		return nil, err
	}
	st, err := branch.ReadTree(w.ctx, w.h.Store, result.Tree)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, name := range treeClusters {
		if err := w.apps(st.Clusters[name], name, out); err != nil {
			return nil, err
		}
	}
	w.rendered[commit] = out
	return out, nil
}

// moved checks invariants 2 and 3 of what a pass did to the environment branch.
func (w *trees) moved(before, now *snapshot) error {
	if now.env.Hash == before.env.Hash {
		return nil
	}
	if len(now.env.Parents) == 0 || now.env.Parents[0] != before.env.Hash {
		return fmt.Errorf("a pass moved env/prod by more than one commit")
	}
	if branch.Trailer(now.env.Message, branch.TrailerRollback) != "" {
		return w.wentBack(before, now)
	}
	w.done["promoted"]++
	asked := branch.Trailer(now.env.Message, branch.TrailerBy) != ""
	for key, tree := range now.desired {
		switch {
		case tree == before.desired[key]:
		case asked:
			delete(w.bad[key], tree)
		case w.bad[key][tree]:
			return fmt.Errorf("invariant 3, nothing that is held comes back unless somebody asks for it: %s is %.8s again", key, tree)
		}
	}
	return nil
}

// wentBack is invariant 2: a rollback moves nothing outside its scope. Clusters whose rollout it stops keep what they
// run.
func (w *trees) wentBack(before, now *snapshot) error {
	list := func(key string) []string {
		return slices.DeleteFunc(strings.Split(branch.Trailer(now.env.Message, key), ", "),
			func(s string) bool { return s == "" })
	}
	clusters, apps := list(branch.TrailerClusters), list(branch.TrailerApps)
	switch {
	case len(clusters) > 0:
		w.done["rollback of clusters"]++
	case len(apps) > 0:
		w.done["rollback of apps"]++
	default:
		w.done["rollback of all"]++
	}
	for _, key := range slices.Sorted(maps.Keys(now.desired)) {
		cluster, app, _ := strings.Cut(key, "/")
		named := len(clusters) == 0 || slices.Contains(clusters, cluster)
		inScope := named && (len(apps) == 0 || slices.Contains(apps, app))
		if !inScope && now.desired[key] != before.desired[key] && now.desired[key] != before.running[key] {
			return fmt.Errorf("invariant 2: %s is outside of the rollback of %v %v, and is another one in env/prod",
				key, clusters, apps)
		}
		if !inScope && now.running[key] != before.running[key] {
			return fmt.Errorf("invariant 2: %s is outside of the rollback of %v %v, and its branch moved", key,
				clusters, apps)
		}
		if was := before.desired[key]; now.desired[key] != was {
			if w.bad[key] == nil {
				w.bad[key] = map[string]bool{}
			}
			w.bad[key][was] = true
		}
		if inScope {
			delete(w.bad[key], now.desired[key]) // somebody asked for that state
		}
	}
	return nil
}

// verified is invariant 5: verify finds nothing, since nobody but Sluice wrote to the branches.
func (w *trees) verified() error {
	list, err := verify.Run(w.ctx, w.h, w.trunk[len(w.trunk)-1], []string{"prod"}, w.now)
	if err != nil {
		return err
	}
	w.done["verified"]++
	for _, v := range list {
		switch v.Status {
		case verify.StatusOK:
		case verify.StatusBehind:
			w.done["behind as planned"]++
		case verify.StatusUnmerged:
			if len(w.dropped) == 0 {
				return fmt.Errorf("invariant 5, verify is clean: %s, and nobody rewrote the trunk", v.Reason)
			}
		default:
			return fmt.Errorf("invariant 5, verify is clean: %s %s %v %v", v.Status, v.Reason, v.Differences,
				v.Failures)
		}
	}
	return nil
}

// arrive lets everything be healthy and free, and checks invariant 4: prod gets to a commit that changes every app.
func (w *trees) arrive() error {
	clear(w.red)
	w.versions["a"]++
	w.versions["b"]++
	if err := w.commit("dev"); err != nil {
		return err
	}
	w.now = time.Date(w.now.Year(), w.now.Month(), w.now.Day()+1, 8, 0, 0, 0, time.UTC)
	for _, target := range append([]string{""}, treeClusters...) {
		c := w.command(rollout.EventUnfreeze, "")
		c.Target = target
		if err := w.passes(1, c); err != nil {
			return err
		}
	}
	latest := w.trunk[len(w.trunk)-1].Hash.String()
	for i := range 60 {
		w.now = w.now.Add(15 * time.Minute)
		if w.now.Hour() > 20 {
			w.now = w.now.Add(10 * time.Hour)
		}
		now, err := w.read()
		if err != nil {
			return err
		}
		behind := slices.ContainsFunc(slices.Collect(maps.Keys(now.desired)),
			func(key string) bool { return now.desired[key] != now.running[key] })
		if now.source.Equal(rollout.Source{Commit: latest}) && !behind {
			w.done["arrived"]++
			return w.verified()
		}
		var commands []promote.Command
		if now.halted {
			resume := w.command(rollout.EventResume, "")
			resume.Clusters, resume.Apps, resume.Wave = nil, nil, ""
			commands = append(commands, resume)
		}
		if open := w.requests.open; open != nil {
			if err := w.merge(*open, false); err != nil {
				return err
			}
		}
		// a person goes on from what the trunk lost, or from a request that waits
		lost := i == 30 || slices.ContainsFunc(w.dropped, func(c gitstore.Commit) bool {
			return slices.Contains(now.source.Commits(), c.Hash.String())
		})
		if (w.manual || lost) && !now.source.Equal(rollout.Source{Commit: latest}) {
			c := w.command(rollout.EventPromote, "")
			c.Now, c.Apps, c.Revision = lost, nil, ""
			if lost {
				c.Again = "the trunk was rewritten"
			}
			commands = append(commands, c)
		}
		commands = append(commands, w.command(rollout.EventApprove, ""))
		if err := w.passes(1, commands...); err != nil {
			return err
		}
	}
	return fmt.Errorf("invariant 4, an environment whose gates pass gets where it should: prod never arrives at %.8s",
		latest)
}
