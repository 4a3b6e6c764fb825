package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bot/ci"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/replace"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/gitstore/worktree"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/promotions"
)

type replaceOptions struct {
	environmentFlags
	with    string
	dryRun  bool
	options replace.Options
}

func newClusterReplace(o IO) *cobra.Command {
	var r replaceOptions
	c := &cobra.Command{
		Use:   "replace OLD --with NEW",
		Short: "Write the next step by which a new cluster takes the place of an old one",
		Long: `Replaces a cluster of the fleet by a new one, step by step. Each call reads the trunk, the branches, the records and the commit
statuses, says which step the replacement is in, and writes the files of the next step into the working tree, for you to
commit and review. Nothing else keeps the state: run the command again, from any clone, until it says that nothing is left.

The steps are:
  create  declares NEW with the class, labels and variables of OLD, copies layers that bear the name of OLD, and adds NEW to
          selectors that list OLD by name. NEW gets no traffic: the label of spec.traffic in sluice.yaml has its standby value.
  give    gives NEW the traffic, when it is healthy and has baked. OLD keeps its own.
  take    takes the traffic from OLD. With spec.traffic.exclusive, take comes before give.
  freeze  sets state: frozen for OLD: its branch does not move any more.
  retire  sets state: retired for OLD, when NEW has run everything with OLD frozen for its bake time.

Every step after the first waits until the environment runs the step before, NEW is healthy, and the bake of its wave and of its
environment has passed. What cannot be read makes it wait, with the reason. Commit statuses are read in a CI job with a token of
its forge; elsewhere, the record of the service or of "sluice promote" counts. A revert of the commit takes a step back.

Exit status: 0, also while it waits; 1 if a step cannot be written; 5 if something red is in the way.`,
		Example: `  sluice cluster replace eu-1 --with eu-2 --dry-run    # which files?
  sluice cluster replace eu-1 --with eu-2              # writes clusters/eu-2.yaml
  sluice cluster replace eu-1                          # the next step; the fleet knows that eu-2 replaces eu-1
  sluice cluster replace eu-1 -o json | jq -r .state`,
		Args: exactArgs("OLD"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := r.check("text", "json"); err != nil {
				return err
			}
			return r.run(c.Context(), o, args[0])
		},
	}
	r.add(c)
	f := c.Flags()
	f.StringVar(&r.with, "with", "", "`name` of the new cluster (required for the first step)")
	f.BoolVar(&r.dryRun, "dry-run", false, "print the files, and write nothing")
	f.StringVar(&r.options.File, "file", "", "`file` for the declaration of the new cluster (default: beside that of the old one)")
	f.BoolVar(&r.options.NoTraffic, "no-traffic", false,
		"nothing on the clusters brings traffic, so the new one may have everything at once; for fleets without spec.traffic")
	completeFlag(c, "with", (&names{io: o}).of(func(f *fleetNames) []string { return f.Clusters }))
	return c
}

// replaced is the output of cluster replace, for JSON.
type replaced struct {
	Old         string        `json:"old"`
	New         string        `json:"new"`
	Environment string        `json:"environment"`
	Phase       replace.Phase `json:"phase"`            // of the trunk
	Step        replace.Step  `json:"step,omitempty"`   // the next one; "" if none is left
	State       string        `json:"state"`            // written, planned, waits, blocked or done
	Reason      string        `json:"reason,omitempty"` // why it waits or is blocked
	Until       time.Time     `json:"until,omitzero"`   // when it may go on
	Files       []string      `json:"files,omitempty"`
	Message     string        `json:"message,omitempty"` // for the commit
	Notes       []string      `json:"notes,omitempty"`
	Removes     []removal     `json:"removes,omitempty"`
}

// removal is what leaves an environment branch with a step.
type removal struct {
	Environment string `json:"environment"`
	Cluster     string `json:"cluster"`
	Objects     int    `json:"objects"`
	// Command removes them, if there are more than the fleet removes at once.
	Command string `json:"command,omitempty"`
}

const (
	stateWritten = "written"
	statePlanned = "planned"
	stateWaits   = "waits"
	stateBlocked = "blocked"
	stateDone    = "done"
)

func (r *replaceOptions) run(ctx context.Context, o IO, old string) error {
	s, trunk, err := r.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	f, _, err := s.Fleet(ctx, trunk.Tree)
	if err != nil {
		return err
	}
	here, err := sourceOf(ctx, s, trunk, f, r.dryRun)
	if err != nil {
		return err
	}
	if err := r.names(f, here.fleet, old); err != nil {
		return err
	}
	x := &replacement{replaceOptions: r, io: o, session: s, trunk: trunk, fleet: f, here: here}
	x.out = replaced{Old: old, New: r.with}
	if err := x.plan(ctx); err != nil {
		return err
	}
	if r.structured() {
		err = r.encode(o.Out, x.out)
	} else {
		x.out.text(o.Out)
	}
	if err == nil && x.out.State == stateBlocked {
		return &exitError{code: ExitBlocked}
	}
	return err
}

// names checks the names of the call, and finds the new cluster where the fleet says which it is.
func (r *replaceOptions) names(f, here *fleet.Fleet, old string) error {
	declared, ok := f.Replacement(old)
	if !ok {
		declared, ok = here.Replacement(old)
	}
	if r.with == "" && ok {
		r.with = declared.Name
	}
	_, exists := f.Cluster(old)
	switch {
	case r.with == "" && exists:
		return usagef("--with is required: name the cluster that takes the place of %s", old)
	case !exists && !ok:
		return mustKnow("cluster", old, clusterNames(f))
	case r.with == old:
		return usagef("--with %s: a cluster cannot replace itself", r.with)
	case !fleet.ValidName(r.with):
		return usagef("--with %q cannot be the name of a cluster: lower-case letters, digits, - and ., at most 63", r.with)
	case ok && r.with != declared.Name:
		return usagef("--with %s: %s replaces %s already, as %s says", r.with, declared.Name, old, declared.File)
	}
	return nil
}

// replacement is one call.
type replacement struct {
	*replaceOptions
	io      IO
	session *app.Session
	trunk   gitstore.Commit
	fleet   *fleet.Fleet   // of the trunk
	here    *replaceSource // gets the files
	out     replaced
}

func (x *replacement) waits(state rollout.State, until time.Time, format string, args ...any) {
	x.out.State, x.out.Until, x.out.Reason = stateWaits, until, fmt.Sprintf(format, args...)
	if state == rollout.Red {
		x.out.State = stateBlocked
	}
}

func (x *replacement) plan(ctx context.Context) error {
	var err error
	if x.out.Phase, err = replace.PhaseOf(x.fleet, x.out.Old, x.out.New); err != nil {
		return err
	}
	x.out.Step = replace.Next(x.fleet, x.out.Phase)
	one, ok := x.fleet.Cluster(x.out.Old)
	if !ok {
		if one, ok = x.fleet.Cluster(x.out.New); !ok { // only the working tree says that it replaces the old one
			return fmt.Errorf("the trunk has neither %s nor %s: push the declaration of %[1]s to the trunk first", x.out.Old, x.out.New)
		}
	}
	x.out.Environment = one.Environment
	if ahead, err := x.ahead(); err != nil || ahead {
		return err
	}
	if ready, err := x.ready(ctx); err != nil || !ready {
		return err
	}
	if x.out.Step == replace.Done {
		x.left(one)
		return nil
	}
	change, err := replace.Write(x.here.fleet, x.here.of(ctx), x.out.Step, x.out.Old, x.out.New, x.options)
	if err != nil {
		return err
	}
	x.out.Message, x.out.Files, x.out.Notes = change.Message, slices.Sorted(maps.Keys(change.Files)), append(x.out.Notes, change.Notes...)
	if x.out.Removes, err = x.removes(ctx, change.Fleet); err != nil {
		return err
	}
	if err := x.leftover(ctx, change.Fleet); err != nil {
		return err
	}
	return x.write(ctx, change)
}

// leftover notes a branch that an earlier cluster of the name left.
func (x *replacement) leftover(ctx context.Context, after *fleet.Fleet) error {
	c, ok := after.Cluster(x.out.New)
	if !ok || x.out.Step != replace.Create {
		return nil
	}
	name := after.ClusterBranch(c)
	refs, err := x.session.Branches.List(ctx, name)
	if err == nil && !refs[name].IsZero() {
		x.out.Notes = append(x.out.Notes, fmt.Sprintf("the branch %s exists already, and what it has may be applied before the first step is there", name))
	}
	return err
}

// replaceSource is the tree that a step changes.
type replaceSource struct {
	session *app.Session
	tree    gitstore.Hash
	fleet   *fleet.Fleet
	root    string // of the working tree; "" if there is none
}

// of returns how a step reads and tries files.
func (c *replaceSource) of(ctx context.Context) replace.Files {
	return replace.Files{
		Read: c.session.Store.Snapshot(ctx, c.tree).ReadFile,
		Load: func(files map[string][]byte) (*fleet.Fleet, error) {
			w, err := c.session.Store.NewWriter()
			if err != nil {
				return nil, err
			}
			defer func() { _ = w.Close() }() // nothing in it is kept
			tree, err := overlaid(ctx, c.session.Store, w, c.tree, files)
			if err != nil {
				return nil, err
			}
			f, _, err := c.session.Fleet(ctx, tree)
			return f, err
		},
	}
}

// sourceOf returns the working tree or, with a dry run in a repository without one, the trunk.
func sourceOf(ctx context.Context, s *app.Session, trunk gitstore.Commit, f *fleet.Fleet, dryRun bool) (*replaceSource, error) {
	out := &replaceSource{session: s, tree: trunk.Tree, fleet: f}
	if out.root = s.Store.Worktree(); out.root == "" || s.IsURL() {
		if !dryRun {
			return nil, usagef("there is no working tree to write into: run it in a clone, or with --dry-run")
		}
		out.root = ""
		return out, nil
	}
	var err error
	if out.tree, err = worktree.Tree(ctx, s.Store, out.root); err != nil {
		return nil, err
	}
	out.fleet, _, err = s.Fleet(ctx, out.tree)
	return out, err
}

// ahead reports whether the files have the step already, and the trunk lacks it.
func (x *replacement) ahead() (bool, error) {
	phase, err := replace.PhaseOf(x.here.fleet, x.out.Old, x.out.New)
	switch {
	case err != nil:
		return false, fmt.Errorf("the working tree: %w", err)
	case x.out.Phase.Before(phase):
		x.waits(rollout.Waiting, time.Time{}, "the working tree has the step already (it is %s), and the trunk, %s, does not: commit it, and bring it to the trunk",
			phase, x.trunk.Hash.Short())
		return true, nil
	case phase.Before(x.out.Phase):
		return false, fmt.Errorf("the working tree is %s, and the trunk, %s, is %s already (run `git pull`)", phase, x.trunk.Hash.Short(),
			x.out.Phase)
	}
	return false, nil
}

// ready reports whether the step may follow, as the clusters are.
func (x *replacement) ready(ctx context.Context) (bool, error) {
	has := func(f *fleet.Fleet) bool {
		phase, err := replace.PhaseOf(f, x.out.Old, x.out.New)
		return err == nil && !phase.Before(x.out.Phase)
	}
	if x.out.Step == replace.Create {
		return true, nil
	}
	request := x.request(x.session, x.trunk)
	request.DryRun = true
	reader, err := x.statuses()
	if err != nil {
		return false, err
	}
	if reader != nil {
		request.Adapters.Statuses = reader
	}
	asked := []promote.StandingRequest{{Request: request, Cluster: x.out.New, Has: has, Health: true}}
	if _, ok := x.fleet.Cluster(x.out.Old); ok && x.out.Step != replace.Take {
		asked = append(asked, promote.StandingRequest{Request: request, Cluster: x.out.Old, Has: has})
	}
	if x.out.Phase == replace.Frozen || x.out.Phase == replace.Retired {
		asked[len(asked)-1].Has = func(*fleet.Fleet) bool { return true } // it runs what it had, or nothing
	}
	if x.out.Step == replace.Done {
		asked[0].Health = false
	}
	for _, a := range asked {
		st, err := promote.Stands(ctx, x.session.Hydrator, a)
		if err != nil {
			return false, err
		}
		if st.State != rollout.Green {
			x.waits(st.State, st.Until, "%s", safetext.Line(st.Reason))
			return false, nil
		}
		if st.Blind {
			x.out.Notes = append(x.out.Notes, fmt.Sprintf("nothing tells whether %s is healthy, because no commit statuses and no checks are declared for %s: look at it before you commit",
				st.Cluster, st.Environment))
		}
	}
	return x.described(ctx)
}

// statuses returns what reads commit statuses, in a CI job of the fleet's repository with a token; nil elsewhere.
func (x *replacement) statuses() (promote.StatusReader, error) {
	at, err := ci.Detect(x.io.Env.Getenv, func(string) ([]byte, error) { return []byte("{}"), nil }) // the event does not matter
	if errors.Is(err, ci.ErrNoCI) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	address := ""
	if x.session.IsURL() {
		address = x.session.Store.RemoteURL()
	}
	place, err := placeOfBranches(at.Repository, address, x.fleet.Spec.Output.Repository, at.ServerURL)
	if err != nil {
		return nil, nil //nolint:nilerr // then the record counts
	}
	hub, err := x.io.Env.StatusForge(at)
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	return promotions.Statuses{Forge: hub, Repository: forge.Repository{Path: place}}, nil
}

// described reports whether the branches of management clusters have what describes the new cluster and, at the end,
// nothing any more that describes the old one.
func (x *replacement) described(ctx context.Context) (bool, error) {
	for _, a := range x.fleet.Declared() {
		if a.Spec.ForEach == nil {
			continue
		}
		name, wanted := a.Name+"."+x.out.New, true
		if x.out.Step == replace.Done {
			name, wanted = a.Name+"."+x.out.Old, false
		}
		if _, declared := x.fleet.App(name); declared != wanted {
			continue // forEach does not select the new cluster, or still selects the old one
		}
		for _, c := range x.fleet.Clusters {
			if c.Retired() || !a.Selects(c) {
				continue
			}
			apps, err := x.apps(ctx, c)
			if err != nil {
				return false, err
			}
			if _, has := apps[name]; has == wanted {
				continue
			}
			how := "does not have the app " + name + " yet"
			if !wanted {
				how = "still has the app " + name
			}
			x.waits(rollout.Waiting, time.Time{}, "the branch of %s %s: `sluice promote %s`", c.Name, how, c.Environment)
			return false, nil
		}
	}
	return true, nil
}

// apps returns the trees of the apps on the branch of a cluster.
func (x *replacement) apps(ctx context.Context, c *fleet.Cluster) (map[string]gitstore.Hash, error) {
	out := map[string]gitstore.Hash{}
	h := x.session.Hydrator
	name := x.fleet.ClusterBranch(c)
	refs, err := h.Branches.List(ctx, name)
	if err != nil || refs[name].IsZero() {
		return out, err
	}
	if err := h.Branches.Fetch(ctx, refs[name]); err != nil {
		return nil, err
	}
	tip, err := h.Store.Commit(ctx, refs[name])
	if err != nil {
		return nil, err
	}
	entries, err := branch.Apps(ctx, h.Store, tip.Tree)
	for _, e := range entries {
		out[e.Name] = e.Hash
	}
	return out, err
}

// removes counts the objects that leave the branches with the step.
func (x *replacement) removes(ctx context.Context, after *fleet.Fleet) ([]removal, error) {
	if x.out.Step != replace.Take && x.out.Step != replace.Retire {
		return nil, nil
	}
	return removals(ctx, x.session, x.fleet, after, x.out.Old)
}

// removals counts the objects of a cluster, and of the apps that describe it, that another fleet no longer has.
func removals(ctx context.Context, s *app.Session, before, after *fleet.Fleet, cluster string) ([]removal, error) {
	refs, err := s.Branches.List(ctx, before.BranchPrefixes()...)
	if err != nil {
		return nil, err
	}
	var out []removal
	for _, e := range before.Spec.Environments {
		st, err := s.EnvironmentState(ctx, before, e.Name, refs[before.EnvironmentBranch(e.Name)])
		if err != nil {
			return nil, err
		}
		sum, first := 0, len(out)
		for _, c := range before.ClustersOf(e.Name) {
			if st.Clusters[c.Name].IsZero() {
				continue
			}
			keeps := map[string]bool{}
			if now, ok := after.Cluster(c.Name); ok {
				for _, t := range after.TargetsOf(now) {
					keeps[t.App.Name] = true
				}
			}
			apps, err := branch.Apps(ctx, s.Store, st.Clusters[c.Name])
			if err != nil {
				return nil, err
			}
			one := removal{Environment: e.Name, Cluster: c.Name}
			total := 0
			for _, a := range apps {
				files, err := s.Store.Tree(ctx, a.Hash)
				if err != nil {
					return nil, err
				}
				total += len(files)
				app, ok := before.App(a.Name)
				concerns := c.Name == cluster || ok && app.Describes() != nil && app.Describes().Name == cluster
				if concerns && !keeps[a.Name] {
					one.Objects += len(files)
				}
			}
			now, ok := after.Cluster(c.Name)
			leaves := !ok || now.Retired()
			if one.Objects > 0 {
				sum += one.Objects
				if !leaves && one.Objects > before.MaxLoss(total) {
					one.Command = "more"
				}
				out = append(out, one)
			}
		}
		for i := first; i < len(out); i++ {
			if out[i].Command == "" && sum <= before.MaxDeletions(st.Record.Objects) {
				continue
			}
			verb := "hydrate --push --env"
			if len(e.After) > 0 {
				verb = "promote"
			}
			out[i].Command = fmt.Sprintf("sluice %s %s --max-deletions %d", verb, e.Name, sum)
		}
	}
	return out, nil
}

// write writes the files of the step, or prints them.
func (x *replacement) write(ctx context.Context, change *replace.Change) error {
	x.out.State = statePlanned
	show := x.io.Out
	if x.structured() {
		show = io.Discard
	}
	if err := writeChange(ctx, x.session, x.here, change, show, "cluster replace", x.dryRun); err != nil {
		return err
	}
	if !x.dryRun {
		x.out.State = stateWritten
	}
	return nil
}

// writeChange writes the files of a change into the working tree, or prints them.
func writeChange(ctx context.Context, s *app.Session, c *replaceSource, change *replace.Change, show io.Writer, verb string, dryRun bool) error {
	w := changedFiles{newFiles: newFiles{
		session: s, tree: c.tree, files: map[string][]byte{}, out: show, verb: verb, remedy: "choose another name, or --file",
	}, changed: map[string][]byte{}}
	for name, data := range change.Files {
		if slices.Contains(change.Added, name) {
			w.files[name] = data
		} else {
			w.changed[name] = data
		}
	}
	if c.root == "" {
		w.print()
		return nil
	}
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // a descriptor
	w.root = root
	if err := w.free(ctx); err != nil {
		return err
	}
	if dryRun {
		w.print()
		return nil
	}
	return w.write(ctx)
}

// left says what is left to do when the old cluster is retired.
func (x *replacement) left(old *fleet.Cluster) {
	x.out.State = stateDone
	if old.Name != x.out.Old {
		return
	}
	if !old.Detached {
		x.out.Notes = append(x.out.Notes, fmt.Sprintf("when nothing syncs %s any more, `sluice hydrate --push --env %s --prune` removes it",
			x.fleet.ClusterBranch(old), old.Environment))
	}
	x.out.Notes = append(x.out.Notes, fmt.Sprintf("remove the declaration of %s from %s, with its layers, and `replaces` from that of %s, when nobody wants to go back",
		x.out.Old, old.File, x.out.New))
}

// text prints the result for people.
func (r *replaced) text(w io.Writer) {
	fmt.Fprintf(w, "%s → %s in %s: %s\n", r.Old, r.New, r.Environment, r.Phase)
	switch r.State {
	case stateWaits, stateBlocked:
		fmt.Fprintf(w, "%s %s: %s\n", cmp.Or(string(r.Step), "the end"), r.State, r.Reason)
	case stateDone:
		fmt.Fprintln(w, "done: nothing is left to write")
	case statePlanned:
		fmt.Fprintf(w, "next step: %s; nothing is written\n", r.Step)
	case stateWritten:
		fmt.Fprintf(w, "step %s is written; review and commit it: %s\n", r.Step, commitCommand(r.Files, r.Message))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", safetext.Line(note))
	}
	printRemovals(w, r.Removes)
}

func printRemovals(w io.Writer, list []removal) {
	for _, one := range list {
		how := ""
		if one.Command != "" {
			how = fmt.Sprintf(", more than the fleet removes at once: `%s`", one.Command)
		}
		fmt.Fprintf(w, "removes %s of %s from env %s%s\n", count(one.Objects, "object"), one.Cluster, one.Environment, how)
	}
}

// commitCommand returns the command that commits files.
func commitCommand(files []string, message string) string {
	words := []string{"git add"}
	for _, name := range files {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/") != "" {
			name = "'" + strings.ReplaceAll(safetext.Line(name), "'", `'\''`) + "'"
		}
		words = append(words, name)
	}
	return strings.Join(words, " ") + " && git commit -m '" + message + "'"
}
