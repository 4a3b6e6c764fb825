package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/importer"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/page"
	"github.com/sluice-gitops/sluice/review"
)

type tryOptions struct {
	common
	last        int
	trunk, file string
}

func newTry(o IO) *cobra.Command {
	var t tryOptions
	c := &cobra.Command{
		Use:   "try [PATH|URL]",
		Short: "Review the latest changes of your own repository",
		Long: `Reads a repository as it is, without any configuration: a fleet of Sluice, or a repository of Flux or Argo CD objects. It prints
what it finds and what it cannot read, reviews the latest changes of the trunk as if each had been a merge request, and writes
one HTML page: the changes with verdict, risk, size and time, the report behind each, and what to write to read the rest.

A change is a commit of the trunk's first-parent line, compared with the commit before: a merge, or a commit that was pushed.
The trunk is origin's default branch; without a remote, main, master or HEAD.

try writes nothing to the repository. A URL is cloned into a temporary folder. Charts are downloaded in the versions that
sluice.lock or the objects name, other repositories at the commits that sluice.lock pins, and nothing else is.

Exit status: 0, whatever the reviews say; 1 if the repository cannot be read; 2 usage error.`,
		Example: `  sluice try                                 # the repository of this folder
  sluice try ~/src/fleet --last 50
  sluice try https://github.com/fluxcd/flux2-kustomize-helm-example
  sluice try -o json | jq '.changes[] | .review.verdict + " " + .title'`,
		Args: maxArgs("PATH or URL"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := t.check(); err != nil {
				return err
			}
			switch {
			case t.last < 1 || t.last > maxTrial:
				return usagef("--last must be from 1 to %d, not %d", maxTrial, t.last)
			case len(args) > 0 && c.Flags().Changed("repo"):
				return usagef("%q and --repo exclude each other", args[0])
			case len(args) > 0:
				t.Repo = args[0]
			}
			return t.run(c.Context(), o)
		},
	}
	t.flags(c, "text", "json")
	t.capabilityFlags(c)
	amountVar(c.Flags(), &t.last, "last", 20, "`number` of changes to review")
	c.Flags().StringVar(&t.trunk, "trunk", "", "`revision` whose changes are reviewed (default: the trunk)")
	c.Flags().StringVar(&t.file, "html-file", "", "`file` for the page (default: a file in the cache)")
	return c
}

// maxTrial bounds the size of the page.
const maxTrial = 200

func (t *tryOptions) run(ctx context.Context, o IO) error {
	started := time.Now()
	t.Detect, t.Remember, t.Renders, t.PinExact = true, true, true, true // nothing is written
	s, err := app.Open(ctx, o.Env, t.Options, t.progress(o))
	if err != nil {
		return err
	}
	defer s.Close()
	name, tip, err := t.tip(ctx, s)
	if err != nil {
		return err
	}
	s.PinFrom(ctx, tip.Tree)
	f, _, err := s.Fleet(ctx, tip.Tree)
	if err != nil {
		return err
	}
	out := &report.Trial{
		Repository: t.repository(s, o.Dir), Trunk: name, Head: tip.Hash.String(),
		Version: app.Version(), Changes: []report.TrialChange{},
	}
	if err := t.layout(ctx, s, tip.Tree, f, out); err != nil {
		return err
	}
	if out.Next, err = nextSteps(ctx, s, tip.Tree, f, &out.Layout); err != nil {
		return err
	}
	rows := o.Out
	if t.structured() {
		rows = o.Err
		if t.quiet {
			rows = io.Discard
		}
	} else {
		printLayout(o, &out.Layout)
	}
	file, err := t.create(o, s) // before the reviews, which take long
	if err != nil {
		return err
	}
	err = t.reviews(ctx, s, tip, out, rows)
	out.Took = time.Since(started)
	if err := errors.Join(err, page.WriteTrial(file, out), file.Close()); err != nil { // with the reviews so far
		return err
	}
	if t.structured() {
		if !t.quiet {
			fmt.Fprintln(o.Err, "page:", file.Name())
		}
		return t.encode(o.Out, out)
	}
	fmt.Fprintf(o.Out, "\n%s, in %.1f s\npage: %s\n", out.Summary(), out.Took.Seconds(), file.Name())
	return nil
}

// repository names the repository for people.
func (t *tryOptions) repository(s *app.Session, dir string) string {
	if s.IsURL() {
		return s.Store.RemoteURL()
	}
	if !filepath.IsAbs(t.Repo) {
		dir = filepath.Join(dir, t.Repo)
	} else {
		dir = filepath.Clean(t.Repo)
	}
	return filepath.Base(cmp.Or(s.Store.Worktree(), dir))
}

// tip returns the newest commit of the trunk, and the name of its revision.
func (t *tryOptions) tip(ctx context.Context, s *app.Session) (string, gitstore.Commit, error) {
	names := []string{"origin", "main", "master", "HEAD"} // origin is the default branch of the remote
	switch {
	case t.trunk != "":
		names = []string{t.trunk}
	case s.IsURL():
		names = []string{"HEAD"}
	}
	var err error
	for _, name := range names {
		var c gitstore.Commit
		if c, err = s.Commit(ctx, name); err == nil {
			if name == "origin" {
				name = "origin/HEAD"
			}
			return name, c, nil
		}
		if !errors.Is(err, gitstore.ErrNotFound) {
			break
		}
	}
	return "", gitstore.Commit{}, err
}

// layout describes what a commit has, and what of it cannot be read.
func (t *tryOptions) layout(ctx context.Context, s *app.Session, tree gitstore.Hash, f *fleet.Fleet,
	out *report.Trial,
) error {
	l := &out.Layout
	l.Detected, l.Clusters = f.Detected, clusterNames(f)
	view, err := s.Open(ctx, tree)
	if err != nil {
		return err
	}
	locked := view.LockedOnly() // no chart is downloaded that no change needs
	var failures []string
	for _, one := range f.Imports() {
		switch {
		case one.Err != nil:
			failures = append(failures, fmt.Sprintf("%s: %s: %v", lineOf(one.Located(), one.Line),
				(&importedTarget{App: one.App, Cluster: one.Cluster}).target(), one.Err))
		case one.Suspended:
			l.Suspended++
		}
	}
	for _, target := range f.Targets() {
		if i := target.Imported(); i != nil && (i.Err != nil || i.Suspended) {
			continue
		}
		_, err := locked.Target(target)
		if unlocked, ok := errors.AsType[*fetch.UnlockedError](err); ok && unlocked.Ref.Exact() {
			l.Pinned++
		} else if err != nil {
			failures = append(failures, fmt.Sprintf("%s on %s: %v", target.App.Name, target.Cluster.Name, err))
			continue
		}
		l.Targets++
	}
	l.Failed = len(failures)
	for _, g := range report.Alike(report.GroupMessages(failures)) {
		l.Unreadable = append(l.Unreadable, g.Line(failureLines))
	}
	reached, err := fluxCoverage(s.Store.Snapshot(ctx, tree), f)
	if err != nil {
		return err
	}
	if reached != nil {
		l.Coverage = reached.share()
		l.Unreached = reached.lines()
	}
	l.Found = foundWords(f, l)
	return nil
}

// foundWords says what was found.
func foundWords(f *fleet.Fleet, l *report.TrialLayout) string {
	what := "a fleet of Sluice"
	if len(f.Spec.Import) > 0 {
		what = "a Flux repository"
		if f.Spec.Import[0].ArgoCD != nil {
			what = "an Argo CD repository"
		}
		if !l.Detected {
			what += " with sluice.yaml"
		}
	}
	text := fmt.Sprintf("%s: %s, %s", what, count(len(l.Clusters), "cluster"), count(l.Targets, "target"))
	if l.Pinned > 0 {
		text += fmt.Sprintf(" (%d of them with charts of one version that sluice.lock does not pin)", l.Pinned)
	}
	if l.Failed > 0 {
		text += fmt.Sprintf(", %s cannot be read", count(l.Failed, "other target"))
	}
	if l.Suspended > 0 {
		text += fmt.Sprintf(", %d suspended", l.Suspended)
	}
	return text
}

func printLayout(o IO, l *report.TrialLayout) {
	fmt.Fprintln(o.Out, "found", l.Found)
	if l.Coverage != "" {
		fmt.Fprintln(o.Out, l.Coverage)
	}
	for _, list := range [][]string{l.Unreadable, l.Unreached} {
		const shown = 10
		for n, line := range list {
			if n == shown {
				fmt.Fprintf(o.Out, "  and %d more, which the page lists\n", len(list)-n)
				break
			}
			fmt.Fprintln(o.Out, " ", strings.ReplaceAll(safetext.Lines(line), "\n", "\n    "))
		}
	}
	if l.Detected && l.Targets == 0 {
		fmt.Fprintln(o.Out, "nothing can be rendered yet: `sluice import --detect` prints what the repository does not say")
	}
	fmt.Fprintln(o.Out)
}

// nextSteps lists what to write so that Sluice reads the rest.
func nextSteps(ctx context.Context, s *app.Session, tree gitstore.Hash, f *fleet.Fleet,
	l *report.TrialLayout,
) ([]report.TrialStep, error) {
	out := []report.TrialStep{}
	if l.Detected {
		text, err := s.DetectImport(ctx, tree)
		if err != nil {
			return nil, err
		}
		text = importer.WithTrunk(text, s.Trunk)
		out = append(out, report.TrialStep{Title: "Store what was found: `sluice import --detect --write` writes sluice.yaml. Then give the environments their names and their order.", Text: string(text)})
	}
	if l.Pinned > 0 || slices.ContainsFunc(l.Unreadable, func(line string) bool {
		return strings.Contains(line,
			"sluice deps lock")
	}) {
		out = append(out, report.TrialStep{Title: "Pin the charts with their digests, and commit sluice.lock. Until then, a review uses the versions that the objects name, and charts of a range are not read.", Text: "sluice deps lock\ngit add sluice.lock\n"})
	}
	if len(l.Unreadable) > 0 {
		out = append(out, report.TrialStep{Title: "Give Sluice what these targets need. Each line says what is missing.", Text: lines(l.Unreadable)})
	}
	if len(l.Unreached) > 0 {
		out = append(out, report.TrialStep{Title: "No cluster applies these objects: add the cluster that does to `spec.import`, or their files to `ignore`.", Text: lines(l.Unreached)})
	}
	if slices.ContainsFunc(f.Clusters, func(c *fleet.Cluster) bool {
		return l.Detected && len(c.APIVersions) == 0 ||
			c.KubeVersion == ""
	}) {
		out = append(out, report.TrialStep{Title: "Write down what the clusters serve. Until then, charts see a version of Kubernetes that is a guess. If sluice.yaml has the guess, remove that kubeVersion: a file that differs from it is an error.", Text: "sluice capabilities | sh\ngit add capabilities\n"})
	}
	return out, nil
}

func lines(list []string) string {
	var out strings.Builder
	for _, line := range list {
		out.WriteString(safetext.Lines(line) + "\n")
	}
	return out.String()
}

// reviews reviews the latest changes, the newest first, and prints a line for each.
func (t *tryOptions) reviews(ctx context.Context, s *app.Session, tip gitstore.Commit, out *report.Trial,
	rows io.Writer,
) error {
	line, err := s.Store.FirstParents(ctx, tip.Hash, t.last+1)
	if err != nil && !errors.Is(err, gitstore.ErrShallow) {
		return err
	}
	shallow := err
	for n := 1; n < len(line); n++ {
		head, base := line[n-1], line[n]
		started := time.Now()
		r, err := (review.Local{Session: s}).Review(ctx, review.Request{
			Request: compare.Request{Key: s.FingerprintKey(), Base: base, Head: head}, Policy: base.Tree, Offline: true,
		})
		if err != nil {
			return err
		}
		title, _, _ := strings.Cut(strings.TrimSpace(head.Message), "\n")
		one := report.TrialChange{
			Commit: head.Hash.String(), Title: title, Author: head.Author.Name, When: head.Committer.When,
			Merge: len(head.Parents) > 1,
			Took:  time.Since(started), Review: r.Review,
		}
		out.Changes = append(out.Changes, one)
		fmt.Fprintf(rows, "%2d/%d  %-7s  %-8s  %5.1f s  %s  %s\n              %s\n", n, len(line)-1, r.Review.Verdict,
			cmp.Or(report.Risk(r.Review), "-"), one.Took.Seconds(),
			head.Hash.Short(), safetext.Shorten(safetext.Line(title), 80), report.Scope(r.Review))
	}
	if len(out.Changes) == 0 {
		return fmt.Errorf("%s has no change to review: it is the first commit, or the history of the clone ends there (%w)", tip.Hash.Short(), cmp.Or(shallow, errors.New("name another revision with --trunk")))
	}
	if shallow != nil {
		fmt.Fprintf(rows, "the history of the clone ends here: %v\n", shallow)
	}
	return nil
}

// create creates the file of the page.
func (t *tryOptions) create(o IO, s *app.Session) (*os.File, error) {
	name := t.file
	if name == "" {
		dir := filepath.Join(o.Env.CacheDir(), "try")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		name = filepath.Join(dir, s.Place()+".html")
	}
	return os.Create(name) //nolint:gosec // the path comes from the user, or is in the user's cache
}
