package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/site"
	"github.com/sluice-gitops/sluice/site/index"
)

// planPairs bounds the pairs of renderings that are compared to show what the next promotions would do.
const planPairs = 2000

type siteOptions struct {
	environmentFlags
	dir      string
	commits  int
	reports  int
	compare  int
	statuses int
}

func newSite(o IO) *cobra.Command {
	var s siteOptions
	c := &cobra.Command{
		Use:   "site --out FOLDER",
		Short: "Write HTML pages of the fleet: what runs where, promotions, history",
		Long: `Writes static HTML pages into a folder. Open them as files, or publish them on a web server or GitHub or GitLab Pages: what
runs where, what promotions wait for, each app and cluster, clusters that differ from their siblings, and the history of
every environment. Everything comes from Git. In a CI job with GITHUB_TOKEN, GITLAB_TOKEN or GITEA_TOKEN
(SLUICE_FORGE_TOKEN overrides them), the health of clusters comes from commit statuses. The pages change nothing: each action
is shown as a command to copy.`,
		Example: `  sluice site --out public
  sluice site --out public --repo https://git.example.com/acme/fleet.git`,
		Args: noArgs("name the folder with --out"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			const most = 100 // states: 4,950 reports
			if s.compare < 0 || s.compare > most || s.reports < 0 || s.statuses < 0 {
				return usagef("--compare takes 0 to %d, --reports and --statuses 0 or more", most)
			}
			if s.dir == "" {
				return usagef("--out is required: the folder to write")
			}
			return s.run(c.Context(), o)
		},
	}
	s.addWith(c)
	f := c.Flags()
	f.StringVar(&s.dir, "out", "", "`folder` to write (required)")
	amountVar(f, &s.commits, "commits", 100, "`number` of commits of each environment's history")
	amountVar(f, &s.reports, "reports", 10,
		"`number` of newest states of each environment that get a report of what they changed")
	amountVar(f, &s.compare, "compare", 10, "`number` of newest states of each environment of which any two are compared")
	amountVar(f, &s.statuses, "statuses", 300,
		"`number` of cluster branches whose commit statuses are read for the health of clusters, in a CI job with a token")
	completeFlag(c, "out", completeFolders)
	return c
}

func (s *siteOptions) run(ctx context.Context, o IO) error {
	session, trunk, err := s.open(ctx, o)
	if err != nil {
		return err
	}
	defer session.Close()
	file := filepath.Join(o.Env.CacheDir(), "index", session.Place())
	x, err := index.Open(file)
	if err != nil {
		return err
	}
	f, err := s.read(ctx, o, session, trunk, x)
	if err != nil {
		return err
	}
	if f.Index != x {
		if err := f.Index.Save(file); err != nil {
			fmt.Fprintf(o.Err, "warning: the next run builds the index again: %v\n", err)
		}
	}
	pages, err := site.NewPages(f, site.Options{Reports: s.reports, Compare: s.compare})
	if err != nil {
		return err
	}
	key := []byte(o.Env.Getenv("SLUICE_FINGERPRINT_KEY")) // without one, the session has a random key
	registry, _, err := session.Fleet(ctx, trunk.Tree)
	if err != nil {
		return err
	}
	reads := compare.NewReads(registry)
	reports := site.Reports{
		Fleet: registry.Name, Version: app.Version(), Key: key,
		Reads: func(one site.Change) ([]byte, error) { return one.Reads(ctx, session.Hydrator, reads) },
		Make: func(one site.Change) (*report.Review, error) {
			return one.Report(ctx, session.Hydrator, trunk.Tree, app.Version(), session.FingerprintKey())
		},
	}
	if err := site.WriteChanges(s.dir, pages, reports); err != nil {
		return err
	}
	if err := site.Write(s.dir, pages); err != nil {
		return err
	}
	for _, p := range f.Problems {
		fmt.Fprintln(o.Err, "warning: "+p)
	}
	fmt.Fprintf(o.Out, "%s of %s, %s and %s: open %s\n", count(len(f.Environments), "environment"), f.Name,
		count(len(f.Clusters), "cluster"), count(len(f.Apps), "app"), filepath.Join(s.dir, "index.html"))
	return nil
}

// read reads the fleet for its pages. Its problems name environments whose promotions cannot be evaluated.
func (s *siteOptions) read(ctx context.Context, o IO, session *app.Session, trunk gitstore.Commit,
	x *index.Index,
) (*site.Fleet, error) {
	r := s.request(session, trunk)
	now := time.Now()
	posted, unread, err := s.posted(ctx, o, session, trunk)
	if err != nil {
		return nil, err
	}
	r.DryRun, r.Changes = true, compare.Differ(session.Hydrator, session.FingerprintKey(), planPairs)
	r.Adapters.Statuses = posted.Reader(now)
	list, failed := promote.Run(ctx, session.Hydrator, r)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	request := site.Request{
		Trunk: trunk, Statuses: list, Now: now, Version: app.Version(),
		Key: session.FingerprintKey(), Commits: s.commits, Index: x, Posted: posted,
	}
	if unread != "" {
		request.Problems = append(request.Problems, unread)
	}
	if failed != nil {
		request.Problems = append(request.Problems, failed.Error())
	}
	return site.Read(ctx, session.Hydrator, request)
}
