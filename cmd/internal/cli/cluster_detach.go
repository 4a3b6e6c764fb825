package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/replace"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/bootstrap"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/handover"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
)

type detachOptions struct {
	environmentFlags
	dryRun bool
}

func newClusterDetach(o IO) *cobra.Command {
	var d detachOptions
	c := &cobra.Command{
		Use:   "detach NAME",
		Short: "Leave a cluster with what it runs, and print what to hand over",
		Long: `Sets state: detached for a cluster in the working tree, for you to commit and review. From then on the cluster is no part of its
environment: nothing of Sluice writes its branch again, and nothing deletes the branch, not even "sluice hydrate --prune", as long as
the declaration stays. A sync tool that reads the branch keeps applying what is there, so nothing is deleted on the cluster.

The command prints what the next owner needs: the commit of the branch on the remote, the apps with their versions, images, the
objects of Flux or Argo CD that point to it, the Secrets that workloads refer to and that nothing on the branch makes, and the
holds and freezes in force. It prints that again for a cluster that is detached already.

It refuses a cluster that an app with forEach describes: its objects on the management cluster would go, and with them the
cluster. docs/replacing-clusters.md says what to do first.

Exit status: 0; 1 if the cluster cannot be detached.`,
		Example: `  sluice cluster detach eu-1 --dry-run      # what is there to hand over?
  sluice cluster detach eu-1
  sluice cluster detach eu-1 -o json | jq .secrets`,
		Args: exactArgs("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := d.check("text", "json"); err != nil {
				return err
			}
			return d.run(c.Context(), o, args[0])
		},
	}
	d.add(c)
	c.Flags().BoolVar(&d.dryRun, "dry-run", false, "print, and write nothing")
	return c
}

// detached is the output of cluster detach, for JSON.
type detached struct {
	Cluster     string    `json:"cluster"`
	Environment string    `json:"environment"`
	State       string    `json:"state"` // written, planned or done
	Files       []string  `json:"files,omitempty"`
	Message     string    `json:"message,omitempty"` // for the commit
	Notes       []string  `json:"notes,omitempty"`
	Removes     []removal `json:"removes,omitempty"` // from the environment branch, and not from the cluster
	Repository  string    `json:"repository,omitempty"`
	Branch      string    `json:"branch"`
	Commit      string    `json:"commit,omitempty"` // of the branch; absent if it does not exist
	Source      string    `json:"source,omitempty"` // the commit that it was rendered from
	handover.Contents
	Sync    *syncedBy `json:"sync,omitempty"`
	Holds   []string  `json:"holds,omitempty"`
	Freezes []string  `json:"freezes,omitempty"`
}

// syncedBy are the objects that read the branch, with the names that `sluice bootstrap` gives them.
type syncedBy struct {
	Tool    string   `json:"tool"`
	Objects []string `json:"objects"`
}

func (d *detachOptions) run(ctx context.Context, o IO, name string) error {
	s, trunk, err := d.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	f, _, err := s.Fleet(ctx, trunk.Tree)
	if err != nil {
		return err
	}
	if err := mustKnow("cluster", name, clusterNames(f)); err != nil {
		return err
	}
	c, _ := f.Cluster(name) // known
	out := &detached{Cluster: name, Environment: c.Environment, State: stateDone, Branch: f.ClusterBranch(c)}
	if err := detachable(f, c); err != nil {
		return err
	}
	if err := out.handOver(ctx, s, f, c); err != nil {
		return err
	}
	if !c.Detached {
		if err := d.detach(ctx, o, s, trunk, f, c, out); err != nil {
			return err
		}
	}
	if d.structured() {
		return d.encode(o.Out, out)
	}
	return out.text(o.Out)
}

// detachable returns why a cluster cannot be detached.
func detachable(f *fleet.Fleet, c *fleet.Cluster) error {
	for _, a := range f.Apps {
		if d := a.Describes(); d != nil && d.Name == c.Name {
			return fmt.Errorf("the app %s describes the cluster %s: its objects on the management cluster would go, and a sync tool that prunes deletes the cluster with them (first keep the objects and let forEach not select it; docs/replacing-clusters.md)",
				a.Declared(), c.Name)
		}
	}
	if c.Retired() && !c.Detached {
		return fmt.Errorf("the cluster %s is retired, so there is nothing to detach (set state: active in %s first)", c.Name, c.File)
	}
	return nil
}

// detach writes the declaration.
func (d *detachOptions) detach(ctx context.Context, o IO, s *app.Session, trunk gitstore.Commit, f *fleet.Fleet,
	c *fleet.Cluster, out *detached,
) error {
	here, err := sourceOf(ctx, s, trunk, f, d.dryRun)
	if err != nil {
		return err
	}
	if now, ok := here.fleet.Cluster(c.Name); ok && now.Detached {
		out.State = stateWaits
		out.Notes = append(out.Notes, fmt.Sprintf("the working tree has it already, and the trunk, %s, does not: commit it, and bring it to the trunk", trunk.Hash.Short()))
		return nil
	}
	change, err := replace.Detach(here.fleet, here.of(ctx), c.Name)
	if err != nil {
		return err
	}
	out.Message, out.Files = change.Message, slices.Sorted(maps.Keys(change.Files))
	if out.Removes, err = removals(ctx, s, f, change.Fleet, c.Name); err != nil {
		return err
	}
	out.Notes = append(out.Notes, fmt.Sprintf("keep the declaration in %s: without it, `sluice hydrate --prune` removes the branch", c.File))
	if other, ok := f.Replacement(c.Name); ok {
		out.Notes = append(out.Notes, fmt.Sprintf("%s takes the place of %s, and that ends with it", other.Name, c.Name))
	}
	show := o.Out
	if d.structured() {
		show = io.Discard
	}
	if err := writeChange(ctx, s, here, change, show, "cluster detach", d.dryRun); err != nil {
		return err
	}
	if out.State = stateWritten; d.dryRun {
		out.State = statePlanned
	}
	return nil
}

// handOver reads what the branch has.
func (d *detached) handOver(ctx context.Context, s *app.Session, f *fleet.Fleet, c *fleet.Cluster) error {
	d.Contents = handover.Contents{Apps: []handover.App{}, Images: []string{}, Secrets: []handover.Secret{}}
	if d.Repository = f.Spec.Output.Repository; d.Repository == "" {
		d.Repository = s.Store.RemoteURL()
	}
	if err := d.record(ctx, s, f, c); err != nil {
		return err
	}
	h := s.Hydrator
	refs, err := h.Branches.List(ctx, d.Branch)
	if err != nil {
		return err
	}
	tip := refs[d.Branch]
	if tip.IsZero() {
		d.Notes = append(d.Notes, fmt.Sprintf("the branch %s does not exist, so there is nothing to hand over", d.Branch))
		return nil
	}
	if err := h.Branches.Fetch(ctx, tip); err != nil {
		return err
	}
	commit, err := h.Store.Commit(ctx, tip)
	if err != nil {
		return err
	}
	origin, err := branch.Inspect(ctx, h.Store, commit, branch.Owner{Environment: c.Environment, Cluster: c.Name}, f.Signers())
	if err != nil {
		return err
	}
	if origin.Foreign != "" {
		d.Notes = append(d.Notes, fmt.Sprintf("%s: %s", d.Branch, origin.Foreign))
	}
	d.Commit, d.Source = tip.String(), branch.Trailer(origin.Rendered.Message, branch.TrailerSource)
	envs, err := h.Branches.List(ctx, f.EnvironmentBranch(c.Environment))
	if err != nil {
		return err
	}
	st, err := h.EnvironmentState(ctx, f, c.Environment, envs[f.EnvironmentBranch(c.Environment)])
	if err != nil {
		return err
	}
	if want := st.Clusters[c.Name]; !want.IsZero() && want != commit.Tree {
		d.Notes = append(d.Notes, fmt.Sprintf("the branch does not have yet what %s has for it: what follows is what the branch has", st.Branch))
	}
	others := map[string]string{} // apps of other commits
	for _, t := range gitstore.Trailers(origin.Rendered.Message) {
		if name, source, ok := strings.Cut(t.Value, " "); ok && t.Key == branch.TrailerAppSource {
			others[name] = source
		}
	}
	fleets := map[string]*fleet.Fleet{}
	at := func(text string) *fleet.Fleet {
		if known, ok := fleets[text]; ok {
			return known
		}
		if hash, err := gitstore.ParseHash(text); err == nil {
			if source, err := h.Store.Commit(ctx, hash); err == nil {
				fleets[text], _, _ = s.Fleet(ctx, source.Tree) // nil: versions are not known
			}
		}
		return fleets[text]
	}
	contents, err := handover.Read(ctx, h.Store, handover.Request{
		Tree: commit.Tree, Cluster: c.Name, Fleet: at,
		Commit: func(name string) string {
			if other, ok := others[name]; ok {
				return other
			}
			return d.Source
		},
	})
	if err != nil {
		return fmt.Errorf("branch %s: %w", d.Branch, err)
	}
	d.Contents = *contents
	d.Sync = syncOf(at(d.Source), c.Name)
	return nil
}

// record adds the holds and the freezes that concern the cluster.
func (d *detached) record(ctx context.Context, s *app.Session, f *fleet.Fleet, c *fleet.Cluster) error {
	record, err := promote.ReadRecord(ctx, s.Hydrator, c.Environment, f.Signers())
	if err != nil {
		return err
	}
	for _, h := range record.Holds {
		if len(h.Clusters) == 0 || slices.Contains(h.Clusters, c.Name) {
			d.Holds = append(d.Holds, h.String())
		}
	}
	for _, one := range record.Freezes {
		if (one.Target == "" || one.Target == c.Name) && one.Holds(time.Now()) {
			d.Freezes = append(d.Freezes, one.String())
		}
	}
	if c.Frozen() {
		d.Freezes = append(d.Freezes, "frozen by its declaration in "+c.File)
	}
	return nil
}

// syncOf lists the objects that `sluice bootstrap` prints for a cluster; nil if the tool is not known.
func syncOf(f *fleet.Fleet, cluster string) *syncedBy {
	if f == nil {
		return nil
	}
	c, ok := f.Cluster(cluster)
	if !ok {
		return nil
	}
	var list []bootstrap.Object
	var err error
	tool := f.SyncOf(c.Environment)
	switch tool {
	case fleet.SyncFlux:
		list, err = bootstrap.Flux(f, c, bootstrap.FluxOptions{
			Options: bootstrap.Options{Forge: bootstrap.None, Namespace: "flux-system"}, Name: "sluice", Interval: time.Minute, Timeout: time.Minute,
		})
	case fleet.SyncArgoCD:
		list, err = bootstrap.ArgoCD(f, c, bootstrap.ArgoOptions{
			Options: bootstrap.Options{Forge: bootstrap.None, Namespace: "argocd"}, Project: "default",
		})
	default:
		return nil
	}
	if err != nil {
		return nil // the cluster has no app, or another one has its name
	}
	out := &syncedBy{Tool: tool, Objects: []string{}}
	for _, one := range partOf(list, partObjects) {
		metadata, _ := one["metadata"].(map[string]any)
		out.Objects = append(out.Objects, fmt.Sprintf("%v %v/%v", one["kind"], metadata["namespace"], metadata["name"]))
	}
	return out
}

// text prints the result for people.
func (d *detached) text(w io.Writer) error {
	switch d.State {
	case stateWritten:
		fmt.Fprintf(w, "%s is detached from %s; review and commit it: %s\n", d.Cluster, d.Environment, commitCommand(d.Files, d.Message))
	case statePlanned:
		fmt.Fprintf(w, "%s would be detached from %s; nothing is written\n", d.Cluster, d.Environment)
	case stateDone:
		fmt.Fprintf(w, "%s is detached from %s\n", d.Cluster, d.Environment)
	}
	for _, note := range d.Notes {
		fmt.Fprintf(w, "note: %s\n", safetext.Line(note))
	}
	for _, one := range d.Removes {
		how := ""
		if one.Command != "" {
			how = fmt.Sprintf(", more than the fleet removes at once: `%s`", one.Command)
		}
		fmt.Fprintf(w, "%s of %s leave the branch of env %s, and stay on the cluster%s\n", count(one.Objects, "object"), one.Cluster, one.Environment, how)
	}
	if d.Commit == "" {
		return nil
	}
	fmt.Fprintf(w, "\nbranch   %s at %s\n", d.Branch, d.Commit)
	if d.Repository != "" {
		fmt.Fprintf(w, "of       %s\n", safetext.Line(d.Repository))
	}
	fmt.Fprintf(w, "source   %s\n\n", safetext.Line(d.Source))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) //nolint:mnd // two spaces
	fmt.Fprintln(table, "APP\tCOMMIT\tOBJECTS\tCHARTS\tIMAGES")
	for _, a := range d.Apps {
		commit := a.Commit
		if h, err := gitstore.ParseHash(commit); err == nil {
			commit = h.Short()
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", safetext.Line(a.Name), safetext.Line(commit), a.Objects, safetext.Line(strings.Join(a.Charts, ", ")),
			safetext.Line(strings.Join(a.Images, ", ")))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if d.Sync != nil {
		fmt.Fprintf(w, "\nsynced by %s, with the names of `sluice bootstrap %[1]s`:\n", d.Sync.Tool)
		for _, name := range d.Sync.Objects {
			fmt.Fprintf(w, "  %s\n", name)
		}
	} else {
		fmt.Fprintf(w, "\nsynced by whatever reads the branch: spec.sync of sluice.yaml does not say which tool that is\n")
	}
	if len(d.Secrets) > 0 {
		fmt.Fprintf(w, "\nSecrets that nothing on the branch makes:\n")
	}
	for _, one := range d.Secrets {
		optional := ""
		if one.Optional {
			optional = ", optional"
		}
		fmt.Fprintf(w, "  %s/%s of %s%s\n", safetext.Line(one.Namespace), safetext.Line(one.Name),
			safetext.Line(strings.Join(one.UsedBy, ", ")), optional)
	}
	for _, h := range d.Holds {
		fmt.Fprintf(w, "\nheld back: %s\n", safetext.Line(h))
	}
	for _, one := range d.Freezes {
		fmt.Fprintf(w, "\n%s\n", safetext.Line(one))
	}
	return nil
}
