package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/hydrate/bootstrap"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

type bootstrapOptions struct {
	common
	bootstrap.Options
	commit, url, dir, forge string
	clusters                []string
}

func (b *bootstrapOptions) add(c *cobra.Command, namespace string) {
	b.flags(c)
	f := c.Flags()
	f.StringVar(&b.commit, "commit", "", "`revision` to read (default: the working tree)")
	f.StringSliceVar(&b.clusters, "cluster", nil, "these `clusters` (default: all but retired ones)")
	f.StringVar(&b.dir, "out", "", "write <cluster>.yaml into this `folder` instead of printing")
	f.StringVar(&b.url, "url", "", "`URL` by which clusters reach the branches (default: spec.output.repository, or the remote origin)")
	f.StringVar(&b.forge, "forge", "", "where commit statuses are written: github, gitlab or none (default: by the URL's host)")
	f.StringVar(&b.Namespace, "namespace", namespace, "`namespace` of the objects")
	f.BoolVar(&b.Namespaces, "create-namespaces", true, "make the namespaces of apps, too")
	completeFlag(c, "forge", cobra.FixedCompletions(bootstrap.Forges(), cobra.ShellCompDirectiveNoFileComp))
}

func newBootstrap(o IO) *cobra.Command {
	c := group(&cobra.Command{Use: "bootstrap", Short: "Print the objects that make a cluster sync its branch"})
	c.AddCommand(newBootstrapFlux(o), newBootstrapArgoCD(o))
	return c
}

func newBootstrapFlux(o IO) *cobra.Command {
	var b bootstrapOptions
	var f bootstrap.FluxOptions
	c := &cobra.Command{
		Use:   "flux",
		Short: "Print the objects with which Flux syncs a cluster",
		Long: `Prints, for one cluster or into one file for each: a GitRepository for the cluster's branch, a Kustomization for each of its apps
in the order that dependsOn gives, and a Provider and an Alert that write commit statuses, kustomization/<app>/<cluster>, which
promotions can wait for. Apply them to the cluster, and again when apps come or go. Nothing is sent anywhere.

The Secrets that the objects name are yours to create: see docs/flux.md.`,
		Example: `  sluice bootstrap flux --cluster eu-west-1a | kubectl --context eu-west-1a apply -f -
  sluice bootstrap flux --out clusters-flux                       # a file for each cluster
  sluice bootstrap flux --cluster eu-west-1a --url ssh://git@git.example.com/acme/fleet --secret fleet-ssh --forge gitlab
  sluice bootstrap flux --cluster eu-west-1a --receiver receiver-token`,
		Args: noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			return b.run(c.Context(), o, func(fl *fleet.Fleet, cluster *fleet.Cluster) ([]bootstrap.Object, error) {
				f.Options = b.Options
				if err := f.Check(); err != nil {
					return nil, &exitError{ExitUsage, err}
				}
				return bootstrap.Flux(fl, cluster, f)
			})
		},
	}
	b.add(c, "flux-system")
	s := c.Flags()
	s.StringVar(&f.Name, "name", "sluice", "`name` of the GitRepository, the Provider, the Alert and the Receiver")
	s.StringVar(&f.Secret, "secret", "sluice-git", "`name` of the Secret that reads the repository; \"\" for a public one")
	s.StringVar(&f.StatusSecret, "status-secret", "sluice-status", "`name` of the Secret with the token that writes commit statuses")
	s.StringVar(&f.ReceiverSecret, "receiver", "", "print a Receiver, too; its token is in the Secret of this `name`")
	s.DurationVar(&f.Interval, "interval", time.Minute, "time between two looks at the branch")
	s.DurationVar(&f.Timeout, "timeout", 5*time.Minute, "most time for an app to become healthy")
	return c
}

func newBootstrapArgoCD(o IO) *cobra.Command {
	var b bootstrapOptions
	var a bootstrap.ArgoOptions
	c := &cobra.Command{
		Use:   "argocd",
		Short: "Print the objects with which Argo CD syncs a cluster",
		Long: `Prints, for one cluster or into one file for each: an Application for each app, with sync waves in the order that dependsOn gives,
and a ConfigMap for Argo CD's notifications that writes commit statuses, argocd/<app>/<cluster>, which promotions can wait for.
With --applicationset, one ApplicationSet takes every folder of the branch for an app instead. Nothing is sent anywhere.

Waves hold among the Applications of one parent: see docs/argocd.md, which also names the Secrets to create.`,
		Example: `  sluice bootstrap argocd --cluster eu-west-1a | kubectl --context eu-west-1a apply -n argocd -f -
  sluice bootstrap argocd --cluster eu-west-1a --applicationset
  sluice bootstrap argocd --hub --out clusters-argocd             # one Argo CD for all clusters`,
		Args: noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			ordered := false
			err := b.run(c.Context(), o, func(fl *fleet.Fleet, cluster *fleet.Cluster) ([]bootstrap.Object, error) {
				a.Options = b.Options
				if err := a.Check(); err != nil {
					return nil, &exitError{ExitUsage, err}
				}
				for _, n := range fl.Steps(cluster) {
					ordered = ordered || n > 0
				}
				return bootstrap.ArgoCD(fl, cluster, a)
			})
			if err == nil && ordered && a.ApplicationSet {
				fmt.Fprintln(o.Err, "sluice: an ApplicationSet does not keep the order of dependsOn: leave --applicationset out for that")
			}
			return err
		},
	}
	b.add(c, "argocd")
	s := c.Flags()
	s.StringVar(&a.Project, "project", "default", "`project` of the Applications")
	s.BoolVar(&a.Hub, "hub", false, "for one Argo CD that knows all clusters by their names, instead of one on each")
	s.BoolVar(&a.ApplicationSet, "applicationset", false, "one ApplicationSet instead of an Application for each app")
	return c
}

// run prints what one cluster needs, or writes a file for each.
func (b *bootstrapOptions) run(ctx context.Context, o IO, objects func(*fleet.Fleet, *fleet.Cluster) ([]bootstrap.Object, error)) error {
	if err := b.check(); err != nil {
		return err
	}
	s, tree, err := openTree(ctx, o, &b.common, b.commit)
	if err != nil {
		return err
	}
	defer s.Close()
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return err
	}
	if err := b.place(cmp.Or(b.url, f.Spec.Output.Repository, s.Store.RemoteURL())); err != nil {
		return err
	}
	chosen, err := b.choose(o, f)
	if err != nil {
		return err
	}
	if b.dir != "" {
		if err := os.MkdirAll(b.dir, 0o755); err != nil { //nolint:gosec // what is written holds no secret
			return err
		}
	}
	for _, c := range chosen {
		list, err := objects(f, c)
		if err != nil {
			return err
		}
		data, err := bootstrap.YAML(list)
		if err != nil {
			return err
		}
		if b.dir == "" {
			_, err = o.Out.Write(data)
			return err
		}
		file := filepath.Join(b.dir, c.Name+".yaml")
		if err := os.WriteFile(file, data, 0o644); err != nil { //nolint:gosec // as above
			return err
		}
		fmt.Fprintf(o.Err, "%s: %s\n", file, count(len(list), "object"))
	}
	return nil
}

// place finds out how clusters reach the branches, and where statuses go.
func (b *bootstrapOptions) place(address string) error {
	if address == "" {
		return &exitError{ExitUsage, errors.New("the repository has no remote origin: give --url, by which clusters reach the branches")}
	}
	repository, err := bootstrap.ParseRepository(address)
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	forge, err := repository.ForgeOf(bootstrap.Forge(b.forge))
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	b.Repository, b.Forge = repository, forge
	return nil
}

// choose gives the clusters that are asked for. A retired one is an error if it is named, and left out otherwise.
func (b *bootstrapOptions) choose(o IO, f *fleet.Fleet) ([]*fleet.Cluster, error) {
	var out []*fleet.Cluster
	for _, name := range b.clusters {
		c, ok := f.Cluster(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("there is no cluster %q: `sluice where` lists them", name)
		case c.Retired():
			return nil, fmt.Errorf("cluster %s is retired: nothing should sync its branch any more", name)
		case !slices.Contains(out, c):
			out = append(out, c)
		}
	}
	if len(b.clusters) > 0 {
		if b.dir == "" && len(out) > 1 {
			return nil, &exitError{ExitUsage, fmt.Errorf("%s would be mixed up: give --out, for a file of each, or one --cluster", strings.Join(b.clusters, " and "))}
		}
		return out, nil
	}
	for _, c := range f.Clusters {
		if c.Retired() {
			fmt.Fprintf(o.Err, "sluice: cluster %s is retired and left out\n", c.Name)
		} else if len(f.TargetsOf(c)) == 0 {
			fmt.Fprintf(o.Err, "sluice: no app is placed on cluster %s, which is left out\n", c.Name)
		} else {
			out = append(out, c)
		}
	}
	if b.dir == "" && len(out) != 1 {
		return nil, &exitError{ExitUsage, fmt.Errorf("the fleet has %s: name one with --cluster, or give --out, for a file of each", count(len(out), "cluster"))}
	}
	return out, nil
}
