package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/bootstrap"
	"github.com/sluice-gitops/sluice/internal/nearest"
)

type bootstrapOptions struct {
	common
	bootstrap.Options
	commit, url, dir, forge string
	part                    string
	clusters                []string
}

func (b *bootstrapOptions) add(c *cobra.Command, namespace string) {
	b.flags(c, "yaml", "json")
	f := c.Flags()
	f.StringVar(&b.commit, "commit", "", "`revision` to read (default: the working tree)")
	f.StringSliceVar(&b.clusters, "cluster", nil, "`clusters` to print (default: all that are not retired)")
	f.StringVar(&b.dir, "out", "", "write a file for each cluster into this `folder` instead of printing")
	f.StringVar(&b.url, "url", "",
		"`URL` of the branches, as the clusters reach it (default: spec.output.repository, or the remote origin)")
	f.StringVar(&b.forge, "forge", "",
		"`forge` that receives commit statuses: github, gitlab, gitea or none (default: by the host of the URL)")
	f.StringVar(&b.Namespace, "namespace", namespace, "`namespace` of the objects")
	f.BoolVar(&b.Namespaces, "create-namespaces", true, "create the Namespaces of the apps")
	f.StringVar(&b.part, "part", partObjects, "`part` to print: objects, namespaces or, for Argo CD, notifications or cluster-api")
	completeFlag(c, "part", cobra.FixedCompletions(parts(), cobra.ShellCompDirectiveNoFileComp))
	f.BoolVar(&b.OCI, "oci", false, "sync the OCI artifact of the cluster (spec.output.oci) in place of its branch")
	c.MarkFlagsMutuallyExclusive("out", "output")
	completeFlag(c, "forge", cobra.FixedCompletions(bootstrap.Forges(), cobra.ShellCompDirectiveNoFileComp))
}

// The parts of what a cluster needs. Sluice alone has the objects. Users have the others too, and kubectl apply takes away
// what they applied to them, also with --server-side: namespaces are created, the notifications are a patch.
const (
	partObjects       = "objects"
	partNamespaces    = "namespaces"
	partNotifications = "notifications"
	partClusterAPI    = "cluster-api"
)

func parts() []string {
	return []string{partObjects, partNamespaces, partNotifications, partClusterAPI}
}

// partOf returns the objects of a part.
func partOf(list []bootstrap.Object, part string) []bootstrap.Object {
	return slices.DeleteFunc(slices.Clone(list), func(o bootstrap.Object) bool {
		of := partObjects
		switch o["kind"] {
		case "Namespace":
			of = partNamespaces
		case "ConfigMap":
			of = partNotifications
		}
		return of != part
	})
}

func newBootstrap(o IO) *cobra.Command {
	c := group(&cobra.Command{Use: "bootstrap", Short: "Print the objects that make a cluster sync its branch", Example: `  sluice bootstrap flux --cluster eu-west-1a
  sluice bootstrap argocd --cluster eu-west-1a`})
	c.AddCommand(newBootstrapFlux(o), newBootstrapArgoCD(o))
	return c
}

func newBootstrapFlux(o IO) *cobra.Command {
	var b bootstrapOptions
	var f bootstrap.FluxOptions
	c := &cobra.Command{
		Use:   "flux",
		Short: "Print the objects that make Flux sync a cluster",
		Long: `Prints a GitRepository for the branch of the cluster, a Kustomization for each app in the order of dependsOn, and a Provider and
an Alert that write commit statuses (kustomization/<app>/<cluster>), which promotions can wait for. Apply the objects to the
cluster with --server-side, and again when apps are added or removed. The command contacts no cluster and no forge.

With --oci, an OCIRepository takes the place of the GitRepository, and the default of --secret is sluice-oci: see docs/oci.md.

Namespaces are a part of their own, because kubectl apply removes labels that you applied to them. Create the Secrets that the
objects name yourself: see docs/flux.md.`,
		Example: `  sluice bootstrap flux --cluster eu-west-1a --part namespaces | kubectl --context eu-west-1a create -f -
  sluice bootstrap flux --cluster eu-west-1a | kubectl --context eu-west-1a apply --server-side --field-manager sluice -f -
  sluice bootstrap flux --out clusters-flux                       # a file for each cluster
  sluice bootstrap flux --cluster eu-west-1a --url ssh://git@git.example.com/acme/fleet --secret fleet-ssh --forge gitlab
  sluice bootstrap flux --cluster eu-west-1a --receiver receiver-token
  sluice bootstrap flux --cluster eu-west-1a --oci`,
		Args: noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			if b.part == partClusterAPI {
				return usagef("--part cluster-api is for Argo CD: Flux has the rules in its Kustomizations")
			}
			return b.run(c.Context(), o, func(fl *fleet.Fleet, cluster *fleet.Cluster) ([]bootstrap.Object, error) {
				f.Options = b.Options
				if f.OCI && !c.Flags().Changed("secret") {
					f.Secret = "sluice-oci"
				}
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
	s.StringVar(&f.Secret, "secret", "sluice-git",
		"`name` of the Secret with the credential that reads the repository; \"\" for a public repository")
	s.StringVar(&f.TrustedRootSecret, "trusted-root-secret", "",
		"with --oci, the `name` of the Secret with trusted_root.json of your own Sigstore, for artifacts that an identity signs")
	s.StringVar(&f.VerifySecret, "verify-secret", "sluice-cosign",
		"with --oci, `name` of the Secret with the public keys that verify artifacts, if the fleet signs them")
	s.StringVar(&f.StatusSecret, "status-secret", "sluice-status",
		"`name` of the Secret with the token that writes commit statuses")
	s.StringVar(&f.ReceiverSecret, "receiver", "", "also print a Receiver, with its token in the Secret of this `name`")
	s.DurationVar(&f.Interval, "interval", time.Minute, "`interval` at which Flux polls the branch")
	s.DurationVar(&f.Timeout, "timeout", 5*time.Minute, "time limit for an app to become healthy")
	return c
}

func newBootstrapArgoCD(o IO) *cobra.Command {
	var b bootstrapOptions
	var a bootstrap.ArgoOptions
	c := &cobra.Command{
		Use:   "argocd",
		Short: "Print the objects that make Argo CD sync a cluster",
		Long: `Prints an Application for each app, with sync waves in the order of dependsOn. With --applicationset, one ApplicationSet makes
an Application of every folder of the branch. --part notifications prints a patch of argocd-notifications-cm, so that Argo CD
writes commit statuses (argocd/<app>/<cluster>), which promotions can wait for. --part cluster-api prints a patch of argocd-cm
with the health of objects of Cluster API: see docs/cluster-api.md. The command contacts no cluster and no forge.

With --oci, Applications have an oci:// source, which Argo CD reads since version 3.1, and there are no notifications: see
docs/oci.md.

Argo CD orders waves among the Applications of one parent only: see docs/argocd.md, which also names the Secrets to create.`,
		Example: `  sluice bootstrap argocd --cluster eu-west-1a | kubectl --context eu-west-1a apply --server-side --field-manager sluice -n argocd -f -
  sluice bootstrap argocd --cluster eu-west-1a --part notifications | kubectl -n argocd patch configmap argocd-notifications-cm --type merge --patch-file /dev/stdin
  sluice bootstrap argocd --cluster eu-west-1a --applicationset
  sluice bootstrap argocd --hub --out clusters-argocd             # one Argo CD for all clusters`,
		Args: noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			ordered := false
			if b.part == partClusterAPI && b.dir == "" {
				return printPatch(o.Out, []bootstrap.Object{{"data": bootstrap.ClusterAPICustomizations()}})
			}
			if b.OCI { // Argo CD knows no commit of an artifact that a status could belong to
				b.forge = string(bootstrap.None)
			}
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
				fmt.Fprintln(o.Err, "warning: an ApplicationSet ignores the order of dependsOn; leave out --applicationset to keep it")
			}
			return err
		},
	}
	b.add(c, "argocd")
	s := c.Flags()
	s.StringVar(&a.Project, "project", "default", "`project` of the Applications")
	s.BoolVar(&a.Hub, "hub", false,
		"print for one Argo CD that manages all clusters by name, instead of one on each cluster")
	s.BoolVar(&a.ApplicationSet, "applicationset", false, "one ApplicationSet instead of an Application for each app")
	return c
}

// run prints the objects of one cluster, or writes a file for each.
func (b *bootstrapOptions) run(ctx context.Context, o IO, objects func(*fleet.Fleet,
	*fleet.Cluster) ([]bootstrap.Object, error),
) error {
	if err := b.check(); err != nil {
		return err
	}
	if !slices.Contains(parts(), b.part) {
		return usagef("there is no part %q (known are %s)%s", b.part, strings.Join(parts(), ", "),
			nearest.DidYouMean(b.part, parts()))
	}
	if (b.part == partNotifications || b.part == partClusterAPI) && b.dir != "" {
		return usagef("--part %s is one patch for all clusters: leave out --out", b.part)
	}
	s, _, f, err := openFleet(ctx, o, &b.common, b.commit)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := b.placeOf(f, s.Store.RemoteURL()); err != nil {
		return err
	}
	chosen, err := b.choose(o, f)
	if err != nil {
		return err
	}
	if b.dir != "" {
		if err := os.MkdirAll(b.dir, 0o755); err != nil { //nolint:gosec // the files hold no secret
			return err
		}
	}
	if f.Publishes() {
		host, _, _ := strings.Cut(strings.TrimPrefix(f.Artifacts(), "oci://"), "/")
		b.Insecure = slices.Contains(b.PlainHTTP, host) || slices.Contains(b.PlainHTTP, (&url.URL{Host: host}).Hostname())
	}
	for _, c := range chosen {
		list, err := objects(f, c)
		if err != nil {
			return err
		}
		if list = partOf(list, b.part); b.part == partNotifications {
			return printPatch(o.Out, list)
		}
		data, err := bootstrap.YAML(list)
		if err != nil {
			return err
		}
		if b.dir == "" && b.output == "json" {
			return printObjects(o.Out, list)
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

// printPatch writes the data of a ConfigMap as a merge patch. All clusters have the same.
func printPatch(w io.Writer, list []bootstrap.Object) error {
	if len(list) == 0 {
		return errors.New("no forge receives commit statuses, so there are no notifications")
	}
	data, err := json.MarshalIndent(map[string]any{"data": list[0]["data"]}, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// printObjects writes objects as a JSON List.
func printObjects(w io.Writer, list []bootstrap.Object) error {
	out := make([]hydrate.Manifest, len(list))
	for i, one := range list {
		data, err := bootstrap.YAML([]bootstrap.Object{one})
		if err != nil {
			return err
		}
		out[i] = hydrate.Manifest{Data: data}
	}
	return printList(w, out)
}

// placeOf determines the repository that clusters read and the forge that receives statuses, for a fleet. remote is the
// URL of its source.
func (b *bootstrapOptions) placeOf(f *fleet.Fleet, remote string) error {
	switch {
	case f.OutputRegistry() == "":
		return b.place(cmp.Or(b.url, f.Spec.Output.Repository, remote))
	case !b.OCI:
		return usagef("the branches of this fleet are in a registry, where nothing can sync them: add --oci")
	case b.url != "" || b.forge != "" && b.forge != string(bootstrap.None):
		return usagef("the branches of this fleet are in a registry, so that no forge has their commits: leave out --url and --forge")
	}
	b.Repository, b.Forge = bootstrap.Repository{URL: f.OutputRegistry()}, bootstrap.None
	return nil
}

// place is placeOf for the address of a Git repository.
func (b *bootstrapOptions) place(address string) error {
	if address == "" {
		return &exitError{
			ExitUsage,
			errors.New("the repository has no remote origin: name the URL of the branches with --url"),
		}
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

// choose returns the clusters to print. Naming a retired one is an error; otherwise retired ones are left out.
func (b *bootstrapOptions) choose(o IO, f *fleet.Fleet) ([]*fleet.Cluster, error) {
	var out []*fleet.Cluster
	for _, name := range b.clusters {
		c, ok := f.Cluster(name)
		switch {
		case !ok:
			return nil, mustKnow("cluster", name, clusterNames(f))
		case c.Retired():
			return nil, fmt.Errorf("cluster %s is retired, and nothing should sync its branch", name)
		case !slices.Contains(out, c):
			out = append(out, c)
		}
	}
	if len(b.clusters) > 0 {
		if b.dir == "" && len(out) > 1 {
			return nil, &exitError{
				ExitUsage,
				fmt.Errorf("%s cannot be printed into one stream: add --out to write a file for each, or name one --cluster", strings.Join(b.clusters, " and ")),
			}
		}
		return out, nil
	}
	for _, c := range f.Clusters {
		if c.Retired() {
			fmt.Fprintf(o.Err, "note: cluster %s is retired and left out\n", c.Name)
		} else if len(f.TargetsOf(c)) == 0 {
			fmt.Fprintf(o.Err, "note: cluster %s has no app and is left out\n", c.Name)
		} else {
			out = append(out, c)
		}
	}
	if b.dir == "" && len(out) != 1 {
		return nil, &exitError{
			ExitUsage,
			fmt.Errorf("the fleet has %s: name one with --cluster, or add --out to write a file for each",
				count(len(out), "cluster")),
		}
	}
	return out, nil
}
