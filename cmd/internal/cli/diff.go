package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/gitstore/worktree"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/report"
)

type diffOptions struct {
	reviewFlags
	against  string
	exitCode bool
	with     []string
	helm     int
	// trunkAsks says that the trunk, and not the base, names the servers that may be asked: somebody else has chosen
	// the base.
	trunkAsks bool
}

func newDiff(o IO) *cobra.Command {
	var d diffOptions
	c := &cobra.Command{
		Use:   "diff [BASE[..HEAD]]",
		Short: "Show which objects a change affects, on which clusters",
		Long: `Renders both sides of a change, where their inputs differ, and compares the objects: each field with its path, grouped over
the clusters on which the change is the same. It masks secrets.

diff compares HEAD with the merge base of HEAD and BASE. BASE is by default the trunk of the fleet, HEAD the files of the
working tree. --against compares with what an environment's branch holds, in this clone or, if the clone has no such
branch, on the remote.

--helm 4 compares HEAD with itself as if Helm 4 rendered all charts, except those of apps and clusters that name a version:
what a switch would change.

With --cluster A --against B, where B is a cluster, diff shows how A differs from B in the working tree (or in the revision
BASE): apps that only one of them has, values with the layers that set them, and objects.

Exit status: 0; 1 if a target could not be rendered or the policy forbids the change; 3 with --exit-code if anything
changes.`,
		Example: `  sluice diff                               # the working tree, compared with the trunk
  sluice diff main..feature --app shop
  sluice diff HEAD~1..HEAD -o markdown
  sluice diff --against env/prod            # what a promotion to prod would change
  sluice diff main --with components=../components@feature   # with a change of another repository
  sluice diff --helm 4                      # what another version of Helm would change
  sluice diff --cluster prod-eu-1 --against prod-us-1
  sluice diff --against env/prod --kube-version 1.34.0       # what charts render differently for a newer Kubernetes
  sluice diff --html-file diff.html --full`,
		Args: maxArgs("BASE[..HEAD]"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := d.check(); err != nil {
				return err
			}
			return d.run(c.Context(), o, strings.Join(args, ""))
		},
	}
	d.add(c, "text", "markdown", "html", "json")
	d.selection.flags(c)
	d.capabilityFlags(c)
	c.Flags().StringVar(&d.against, "against", "",
		"compare with what this environment `branch` holds, or with a cluster")
	c.Flags().StringArrayVar(&d.with, "with", nil,
		"take another repository from a local clone: `NAME=FOLDER`, or NAME=FOLDER@REVISION")
	c.Flags().IntVar(&d.helm, "helm", 0, "compare with what this major `version` of Helm renders: 3 or 4")
	c.Flags().BoolVar(&d.exitCode, "exit-code", false, "exit with status 3 if anything changes")
	return c
}

// run compares, prints the review and returns the exit status.
func (d *diffOptions) run(ctx context.Context, o IO, span string) error {
	d.Detect, d.Remember, d.Renders, d.PinExact = true, true, true, true // for verbs that write no branch
	s, err := app.Open(ctx, o.Env, d.Options, d.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	request, err := d.request(ctx, s, span)
	if err != nil {
		return err
	}
	judging := judgingTree(request)
	d.pinFrom(ctx, s, judging)
	if other, ok := d.otherCluster(ctx, s, request.Head.Tree); ok {
		return d.clusters(ctx, o, s, request.Head.Tree, other)
	}
	r, err := d.compare(ctx, s, request, judging)
	if err != nil {
		return err
	}
	if err := d.show(o, r); err != nil {
		return err
	}
	return d.status(r)
}

// judgingTree returns the tree whose policy judges: that of the old side or, where that is not a commit, of the new side.
func judgingTree(request compare.Request) gitstore.Hash {
	if request.Against != compare.AgainstCommit {
		return request.Head.Tree
	}
	return request.Base.Tree
}

// pinFrom lets the session ask the servers that the base names or, with trunkAsks, those of the trunk. If the trunk is
// not known, nobody is asked.
func (d *diffOptions) pinFrom(ctx context.Context, s *app.Session, base gitstore.Hash) {
	if d.trunkAsks {
		own, err := (&diffOptions{reviewFlags: d.reviewFlags}).request(ctx, s, "")
		if err != nil || own.Against != compare.AgainstCommit {
			return
		}
		base = own.Base.Tree
	}
	s.PinFrom(ctx, base)
}

// compare chooses the branches that the comparison reads, and reviews what differs by the policy of the tree judging.
func (d *diffOptions) compare(ctx context.Context, s *app.Session, request compare.Request,
	judging gitstore.Hash,
) (*report.Review, error) {
	s, note, err := d.branchesFor(ctx, s, request)
	if err != nil {
		return nil, err
	}
	r, err := d.review(ctx, s, request, judging)
	if err != nil {
		return nil, err
	}
	if d.against != "" {
		r.Against = d.against
	}
	if r.Helm = d.helm; d.helm != 0 {
		r.Findings.Notes = append(r.Findings.Notes,
			fmt.Sprintf("compared with the same files as if Helm %d rendered the charts", d.helm))
	}
	if note != "" {
		r.Findings.Notes = append(r.Findings.Notes, note)
	}
	return r, nil
}

// status returns the exit status that the review gives the command.
func (d *diffOptions) status(r *report.Review) error {
	switch {
	case r.Verdict == report.VerdictError || r.Verdict == report.VerdictFail:
		return &exitError{code: ExitFailed}
	case d.exitCode && !r.Changes.Empty():
		return &exitError{code: ExitDiffers}
	}
	return nil
}

// request determines both sides of the comparison.
func (d *diffOptions) request(ctx context.Context, s *app.Session, span string) (compare.Request, error) {
	out := compare.Request{Key: s.FingerprintKey()}
	base, head, both := strings.Cut(span, "..")
	if strings.HasPrefix(head, ".") || both && base == "" {
		return out, usagef("%q is not BASE or BASE..HEAD, such as main..feature", span)
	}
	if d.against != "" && base != "" && both {
		return out, usagef("--against and BASE exclude each other: give one revision, or none")
	}
	if (d.against != "" || d.helm != 0) && head == "" {
		head = base // `sluice diff --against env/prod REV`, `sluice diff --helm 4 REV`
	}
	var err error
	if out.Head, err = headOf(ctx, s, head, d.Repo); err != nil {
		return out, err
	}
	if out.Head, err = d.withCompanions(ctx, s, out.Head); err != nil {
		return out, err
	}
	if err := d.narrow(ctx, s, out.Head.Tree, &out); err != nil {
		return out, err
	}
	if d.helm != 0 {
		if both || d.against != "" {
			return out, usagef("--helm compares one revision with itself: it excludes BASE..HEAD and --against")
		}
		return out, d.otherHelm(ctx, s, &out)
	}
	f, _, err := s.Fleet(ctx, out.Head.Tree)
	if d.against != "" {
		if err != nil {
			return out, err
		}
		return out, d.againstBranch(f, &out)
	}
	switch {
	case base != "":
	case err == nil && f.Detected:
		if base, err = lastCommit(ctx, s, out.Head); err != nil {
			return out, err
		}
	case err == nil && f.Spec.Trunk != "":
		base = f.Spec.Trunk
	default:
		base = "main"
	}
	out.Base, err = baseOf(ctx, s, base, out.Head)
	return out, err
}

// lastCommit returns the base for a repository without sluice.yaml, which names no trunk: HEAD for a changed working
// tree, otherwise the commit before HEAD.
func lastCommit(ctx context.Context, s *app.Session, head gitstore.Commit) (string, error) {
	at, err := s.Commit(ctx, "HEAD")
	if err != nil {
		return "", err
	}
	if at.Tree != head.Tree || len(at.Parents) == 0 {
		return at.Hash.String(), nil
	}
	return at.Parents[0].String(), nil
}

// againstBranch makes a request compare with the environment, or environment branch, in --against. If --against is a
// cluster, the request stays unchanged.
func (d *diffOptions) againstBranch(f *fleet.Fleet, out *compare.Request) error {
	var known []string
	for _, e := range f.Spec.Environments {
		known = append(known, f.EnvironmentBranch(e.Name))
		if d.against != e.Name && d.against != f.EnvironmentBranch(e.Name) {
			continue
		}
		if n := d.selection.environments; len(n) > 0 && !slices.Equal(n, []string{e.Name}) {
			return usagef("--against %s and --env %s exclude each other", d.against, strings.Join(n, ","))
		}
		out.Against, out.Environments = compare.AgainstBranches, []string{e.Name}
		return nil
	}
	if _, ok := f.Cluster(d.against); !ok {
		return mustKnow("environment branch or cluster", d.against,
			slices.Concat(known, environmentNames(f), clusterNames(f)))
	}
	if len(d.selection.clusters) != 1 {
		return usagef("--against %s names a cluster: name the other one with --cluster", d.against)
	}
	return nil
}

// otherCluster returns the cluster in --against, if it is a cluster and not an environment.
func (d *diffOptions) otherCluster(ctx context.Context, s *app.Session, tree gitstore.Hash) (string, bool) {
	if d.against == "" || len(d.selection.clusters) != 1 {
		return "", false
	}
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return "", false // request has reported it
	}
	for _, e := range f.Spec.Environments {
		if d.against == e.Name || d.against == f.EnvironmentBranch(e.Name) {
			return "", false
		}
	}
	_, ok := f.Cluster(d.against)
	return d.against, ok
}

// headOf returns the commit of a revision. Without a revision, it returns the files of the working tree as a commit
// without a hash, whose parent is HEAD.
func headOf(ctx context.Context, s *app.Session, rev, dir string) (gitstore.Commit, error) {
	if rev != "" || s.Store.Worktree() == "" {
		return s.Commit(ctx, rev)
	}
	head, err := s.Commit(ctx, "HEAD")
	if err != nil {
		return head, err
	}
	if root := s.Store.Worktree(); root != "" {
		dir = root
	}
	tree, err := worktree.Tree(ctx, s.Store, dir)
	if err != nil {
		return head, err
	}
	if tree != head.Tree {
		head = gitstore.Commit{Tree: tree, Parents: []gitstore.Hash{head.Hash}}
	}
	return head, nil
}

// baseOf returns the merge base of head with a revision of this repository, or of its remote origin.
func baseOf(ctx context.Context, s *app.Session, rev string, head gitstore.Commit) (gitstore.Commit, error) {
	base, err := s.Commit(ctx, rev)
	if err != nil {
		var second error
		if base, second = s.Commit(ctx, "origin/"+rev); second != nil {
			return base, fmt.Errorf("base %s: %w", rev, err)
		}
	}
	if head.Hash.IsZero() {
		if head, err = s.Store.Commit(ctx, head.Parents[0]); err != nil {
			return base, err
		}
	}
	return s.MergeBase(ctx, base, head)
}
