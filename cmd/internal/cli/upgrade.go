package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/policy/lifecycle"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/data"
	"github.com/sluice-gitops/sluice/report/page"
	"github.com/sluice-gitops/sluice/review"
	"github.com/sluice-gitops/sluice/review/upgrade"
)

type upgradeOptions struct {
	common
	environments, clusters []string
	class                  string
	kube, argocd           string
	helm                   int
	full, images           bool
	file                   string // of the page
}

func newUpgrade(o IO) *cobra.Command {
	c := group(&cobra.Command{
		Use: "upgrade", Short: "Plan upgrades of clusters and of the tools that render",
		Example: "  sluice upgrade plan --kube 1.37\n  sluice upgrade plan --helm 4",
	})
	c.AddCommand(newUpgradePlan(o))
	return c
}

func newUpgradePlan(o IO) *cobra.Command {
	var u upgradeOptions
	c := &cobra.Command{
		Use:   "plan [REVISION]",
		Short: "Show what a new version of Kubernetes means for the clusters",
		Long: `Renders the clusters at each minor version between their present kubeVersion and the new one, and gives each cluster a
verdict: ready, changes, or blocked. A cluster is blocked by objects whose API the new version no longer serves, charts that
refuse it, targets that cannot be rendered, versions of custom objects that their definition does not serve, admission rules
that would miss the new version of an API, and add-ons that do not work with it. What is only deprecated is a warning, and what
is already so at the present version blocks nothing. Below are the changes that charts make because they see another version.

plan reads the files of the working tree, or REVISION, and writes nothing. --cluster takes names and labels: with several
labels, a cluster must have all. --helm and --argocd show the same for another version of Helm or Argo CD, instead of one of
Kubernetes. docs/upgrade-plan.md describes the checks, and how a fleet adds its own add-ons and APIs.

Exit status: 0; 1 if a cluster is blocked.`,
		Example: `  sluice upgrade plan --kube 1.37
  sluice upgrade plan --kube 1.37 --env staging
  sluice upgrade plan --kube 1.37 --cluster ring=canary --html-file plan.html
  sluice upgrade plan --kube 1.25 --kube-version 1.21.0     # as if every cluster had 1.21 now
  sluice upgrade plan --kube 1.37 -o json | jq '.clusters[] | select(.verdict == "blocked")'
  sluice upgrade plan --helm 4
  sluice upgrade plan --argocd 3.5`,
		Args: maxArgs("REVISION"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := u.check(); err != nil {
				return err
			}
			return u.run(c.Context(), o, strings.Join(args, ""))
		},
		ValidArgsFunction: first((&names{io: o}).revisions),
	}
	u.flags(c, "text", "json")
	u.capabilityFlags(c)
	f := c.Flags()
	f.StringVar(&u.kube, "kube", "", "minor `version` of Kubernetes to plan for, such as 1.37")
	f.IntVar(&u.helm, "helm", 0, "plan for this major `version` of Helm instead: 3 or 4")
	f.StringVar(&u.argocd, "argocd", "", "plan for this `version` of Argo CD instead, such as 3.5")
	f.StringSliceVar(&u.environments, "env", nil, "only these `environments`")
	f.StringSliceVar(&u.clusters, "cluster", nil, "only these `clusters`: names, or labels such as ring=canary")
	f.StringVar(&u.class, "class", "", "only clusters of this `class`")
	f.BoolVar(&u.images, "images", false, "ask the registries for the images that only the new version needs")
	f.BoolVar(&u.full, "full", false, "print the whole plan, without limits on length")
	f.StringVar(&u.file, "html-file", "", "also write the plan as one HTML page to this `file`")
	c.MarkFlagsMutuallyExclusive("kube", "helm", "argocd")
	completeFlag(c, "kube", cobra.FixedCompletions(planned(), cobra.ShellCompDirectiveNoFileComp))
	completeFlag(c, "helm", cobra.FixedCompletions([]string{"3", "4"}, cobra.ShellCompDirectiveNoFileComp))
	completeFlag(c, "argocd", completeNothing)
	return c
}

// planned are the versions that a completion offers: the newest that Sluice knows, and those before it.
func planned() []string {
	at := newestMinor()
	const offered = 5
	var out []string
	for i := range offered {
		out = append(out, lifecycle.Minor{Major: at.Major, Minor: at.Minor - i}.String())
	}
	return out
}

// newestMinor returns the newest minor version that Sluice knows.
func newestMinor() lifecycle.Minor {
	newest, _ := lifecycle.ParseMinor(fleet.NewestKubeVersion) // a constant, and a test parses it
	return newest
}

func (u *upgradeOptions) run(ctx context.Context, o IO, rev string) error {
	started := time.Now()
	var to lifecycle.Minor
	switch {
	case u.kube == "" && u.helm == 0 && u.argocd == "":
		return usagef("name the new version: --kube 1.37, --helm 4 or --argocd 3.5")
	case u.kube != "":
		var ok bool
		if to, ok = lifecycle.ParseMinor(u.kube); !ok || fleet.CheckKubeVersion(u.kube) != nil {
			return usagef("--kube: %q is not a version of Kubernetes, such as 1.37", u.kube)
		}
	case u.kube == "" && u.images:
		return usagef("--images goes with --kube")
	case u.argocd != "" && fleet.CheckKubeVersion(u.argocd) != nil:
		return usagef("--argocd: %q is not a version of Argo CD, such as 3.5", u.argocd)
	}
	u.Detect, u.Remember, u.Renders, u.PinExact = true, true, true, true // nothing is written
	s, err := app.Open(ctx, o.Env, u.Options, u.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	head, err := headOf(ctx, s, rev, u.Repo)
	if err != nil {
		return err
	}
	s.PinFrom(ctx, head.Tree)
	f, _, err := s.Fleet(ctx, head.Tree)
	if err != nil {
		return err
	}
	covers, err := u.covers(f)
	if err != nil {
		return err
	}
	var plan *report.Upgrade
	if u.kube != "" {
		request := upgrade.Request{Tree: head.Tree, To: to, Covers: covers, Key: s.FingerprintKey()}
		if u.images {
			request.Images = func(ctx context.Context, names []string) (map[string]error, []string, error) {
				return review.MissingImages(ctx, s.Images(), names)
			}
		}
		plan, err = upgrade.Plan(ctx, s.Hydrator, request)
	} else {
		plan, err = u.engine(ctx, s, head, f, covers)
	}
	if err != nil {
		return err
	}
	if known := newestMinor(); known.Before(to) {
		plan.Notes = append(plan.Notes, fmt.Sprintf("this version of Sluice knows the APIs of Kubernetes up to %s: what a newer one removes is known only as far as it was announced", known))
	}
	plan.Repository, plan.Version = (&tryOptions{common: u.common}).repository(s, o.Dir), app.Version()
	if !head.Hash.IsZero() {
		plan.Commit = head.Hash.String()
	}
	plan.Took = time.Since(started)
	return u.show(o, plan)
}

// covers returns what selects the clusters of the plan.
func (u *upgradeOptions) covers(f *fleet.Fleet) (func(*fleet.Cluster) bool, error) {
	var list []string
	labels := map[string]string{}
	for _, one := range u.clusters {
		if key, value, ok := strings.Cut(one, "="); ok {
			labels[key] = value
			continue
		}
		if err := mustKnow("cluster", one, clusterNames(f)); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	for _, one := range u.environments {
		if err := mustKnow("environment", one, environmentNames(f)); err != nil {
			return nil, err
		}
	}
	if u.class != "" {
		if err := mustKnow("class", u.class, classNames(f)); err != nil {
			return nil, err
		}
	}
	covers := func(c *fleet.Cluster) bool {
		for key, value := range labels {
			if have, ok := c.Labels[key]; !ok || have != value {
				return false
			}
		}
		return (len(list) == 0 || slices.Contains(list, c.Name)) && (u.class == "" || c.Class == u.class) &&
			(len(u.environments) == 0 || slices.Contains(u.environments, c.Environment))
	}
	if !slices.ContainsFunc(f.Clusters, func(c *fleet.Cluster) bool { return !c.Retired() && covers(c) }) {
		return nil, usagef("no cluster matches: `sluice where` lists the clusters")
	}
	return covers, nil
}

// engine plans for another version of a tool that renders.
func (u *upgradeOptions) engine(ctx context.Context, s *app.Session, head gitstore.Commit, f *fleet.Fleet,
	covers func(*fleet.Cluster) bool,
) (*report.Upgrade, error) {
	request := compare.Request{Key: s.FingerprintKey(), Head: head}
	to, edit := fmt.Sprintf("Helm %d", u.helm), func(text []byte) ([]byte, error) { return withHelm(text, u.helm) }
	flag := "--helm"
	switch {
	case u.argocd != "":
		if !slices.ContainsFunc(f.Spec.Import, func(i fleet.Import) bool { return i.ArgoCD != nil }) {
			return nil, usagef("--argocd: the fleet imports no Argo CD repository")
		}
		flag, to = "--argocd", "Argo CD "+u.argocd
		edit = func(text []byte) ([]byte, error) { return withArgoCD(text, u.argocd) }
	case u.helm != fleet.Helm3 && u.helm != fleet.Helm4:
		return nil, usagef("--helm is 3 or 4, not %d", u.helm)
	}
	for _, c := range f.Clusters {
		if covers(c) {
			request.Clusters = append(request.Clusters, c.Name)
		}
	}
	if err := otherFleet(ctx, s, flag, edit, &request); err != nil {
		return nil, err
	}
	found, err := (review.Local{Session: s}).Review(ctx, review.Request{Request: request, Offline: true})
	if err != nil {
		return nil, err
	}
	return upgrade.OfTool(to, f, found.Review, covers)
}

// show prints the plan and writes the page.
func (u *upgradeOptions) show(o IO, plan *report.Upgrade) error {
	if u.file != "" {
		if err := createFile(u.file, func(w io.Writer) error { return page.WriteUpgrade(w, plan) }); err != nil {
			return err
		}
	}
	var err error
	if u.structured() {
		err = u.encode(o.Out, data.Upgrade(plan))
	} else {
		err = o.paged(func(w io.Writer) error {
			report.UpgradeTerminal(w, plan, report.TerminalOptions{Color: o.color(), Width: o.width(), Full: u.full})
			return nil
		})
	}
	if err == nil && plan.Blocked() > 0 {
		return &exitError{code: ExitFailed}
	}
	return err
}
