package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
	"github.com/sluice-gitops/sluice/service/workspace"
)

// promotionFlags are those of the verbs that work on environments.
type promotionFlags struct {
	common
	remote   string
	local    bool
	by       string
	listen   string
	perPush  int
	recreate bool
	foreign  bool
	deletes  int
	noPolicy bool
}

func (p *promotionFlags) add(cmd *cobra.Command) {
	p.flags(cmd, "text", "json")
	f := cmd.Flags()
	f.StringVar(&p.remote, "remote", "origin", "`name` of the remote whose branches these are")
	f.BoolVar(&p.local, "local", false, "work on the branches of this clone instead")
	f.StringVar(&p.by, "by", "", "`name` of who asks (default: SLUICE_USER, GITHUB_ACTOR, GITLAB_USER_LOGIN, GIT_AUTHOR_NAME or USER)")
	f.IntVar(&p.perPush, "refs-per-push", 0, "most `refs` in one push (default all)")
	f.BoolVar(&p.recreate, "recreate", false, "make branches again that somebody deleted")
	f.BoolVar(&p.foreign, "overwrite-foreign", false, "put what is promoted on top of commits that Sluice did not make")
	f.IntVar(&p.deletes, "max-deletions", 0, "`objects` that may go from one environment (default: what the fleet says)")
	receiversFlag(f, &p.listen)
	f.BoolVar(&p.noPolicy, "no-policy", false, "do not ask the trunk's policy")
}

func (p *promotionFlags) open(ctx context.Context, o IO) (*app.Session, gitstore.Commit, error) {
	s, err := app.Open(ctx, o.Env, p.Options, p.progress(o))
	if err != nil {
		return nil, gitstore.Commit{}, err
	}
	trunk, err := trunkOf(ctx, s, !p.local)
	if good, _, broken := s.Readable(ctx, trunk); err == nil && broken == nil && good.Hash != trunk.Hash {
		fmt.Fprintf(o.Err, "warning: the fleet of the trunk's tip %s cannot be read; gates and rights are those of %s (run sluice validate)\n", trunk.Hash.Short(), good.Hash.Short())
		trunk = good
	}
	if err == nil && (!p.local || s.IsURL()) {
		var at *app.Session
		if at, err = s.WithRemote(ctx, trunk, p.remote); err == nil {
			s = at
		}
	}
	if err == nil && p.listen != "" {
		var announce workspace.Announce
		if announce, err = o.Env.Announce(p.listen, warner(o)); err == nil {
			s = s.WithAnnounce(ctx, trunk.Tree, announce)
		}
	}
	if err != nil {
		s.Close()
		return nil, trunk, err
	}
	return s, trunk, nil
}

// trunkOf is the trunk's tip: the remote's, or this clone's. Gates and rights are read from it, never from what is checked out.
func trunkOf(ctx context.Context, s *app.Session, remote bool) (gitstore.Commit, error) {
	head, err := s.Commit(ctx, "")
	if err != nil {
		return head, err
	}
	name := "main"
	if f, _, err := s.Fleet(ctx, head.Tree); err == nil && f.Spec.Trunk != "" {
		name = f.Spec.Trunk
	}
	if remote || s.IsURL() {
		return s.FetchRef(ctx, "refs/heads/"+name)
	}
	return s.Commit(ctx, name)
}

func (p *promotionFlags) who(o IO) string {
	for _, name := range []string{p.by, o.Env.Getenv("SLUICE_USER"), o.Env.Getenv("GITHUB_ACTOR"), o.Env.Getenv("GITLAB_USER_LOGIN"), o.Env.Getenv("GIT_AUTHOR_NAME"), o.Env.Getenv("USER")} {
		if name != "" {
			return name
		}
	}
	return "somebody"
}

// look runs the promotions once, with commands.
func (p *promotionFlags) look(ctx context.Context, o IO, s *app.Session, trunk gitstore.Commit, dry bool, commands ...promotion.Command) ([]promotion.Status, error) {
	now := time.Now()
	for i := range commands {
		commands[i].CLI = true
		commands[i].ID = fmt.Sprintf("cli/%d/%d", now.UnixNano(), i)
		commands[i].By = p.who(o)
		commands[i].At = now
		commands[i].Person = promote.Person{User: commands[i].By}
	}
	return s.Promotions(ctx, promotion.Request{
		Trunk: trunk, Commands: commands, Now: now, Adapters: s.Outside(trunk, p.noPolicy), DryRun: dry, PerPush: p.perPush,
		Recreate: p.recreate, Overwrite: p.foreign, MaxDeletions: p.deletes,
	})
}

type promoteOptions struct {
	promotionFlags
	from, commit, reason string
	apps                 []string
	dry, wait, now       bool
	timeout              time.Duration
}

func newPromote(o IO) *cobra.Command {
	var p promoteOptions
	c := &cobra.Command{
		Use:   "promote [ENV]",
		Short: "Bring an environment to a commit that the environments before it run",
		Long: `Asks for a promotion, and does what its gates let through: the environment branch gets the whole state at once, the cluster
branches follow wave by wave. What is asked for is recorded in the branch sluice/state; run the verb again, run it with --wait, or let the
service or a scheduled job look, and the promotion goes on. Without ENV, nothing is asked for, and what is due is done in all environments.

Exit status: 0 it is through, or goes on; 1 it was refused, or failed.`,
		Example: `  sluice promote prod                          # what staging runs
  sluice promote prod --commit 1a2b3c4 --dry-run
  sluice promote prod --app shop --app cart    # only these apps
  sluice promote prod --now --reason "CVE-2026-1234" --wait
  sluice promote                               # goes on with what waits`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			if p.now && p.reason == "" {
				return &exitError{ExitUsage, errors.New("--now needs --reason: it is written down")}
			}
			return p.run(c.Context(), o, strings.Join(args, ""))
		},
	}
	p.add(c)
	f := c.Flags()
	f.StringVar(&p.from, "from", "", "`environment` to take from (default: what all environments before run)")
	f.StringVar(&p.commit, "commit", "", "source `commit` of the trunk")
	f.StringSliceVar(&p.apps, "app", nil, "only these `apps`")
	f.BoolVar(&p.dry, "dry-run", false, "say what would be done, and do nothing")
	f.BoolVar(&p.wait, "wait", false, "go on until it is through, refused or failed")
	f.DurationVar(&p.timeout, "timeout", time.Hour, "most time for --wait")
	f.BoolVar(&p.now, "now", false, "overtake bakes, windows and what is under way; written down")
	f.StringVar(&p.reason, "reason", "", "`why`, of --now")
	return c
}

func (p *promoteOptions) run(ctx context.Context, o IO, environment string) error {
	s, trunk, err := p.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	var commands []promotion.Command
	if environment != "" {
		c := promotion.Command{Environment: environment, Verb: "promote", From: p.from, Revision: p.commit}
		c.Kind, c.Apps, c.Now, c.Reason = promote.EventPromote, p.apps, p.now, p.reason
		commands = append(commands, c)
	}
	list, err := p.look(ctx, o, s, trunk, p.dry, commands...)
	for deadline := time.Now().Add(p.timeout); p.wait && err == nil && waits(list, environment) && time.Now().Before(deadline); {
		const pause = 5 * time.Second
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		list, err = p.look(ctx, o, s, trunk, false)
	}
	return p.showAll(o, list, environment, err)
}

// waits says whether time or others may still bring something.
func waits(list []promotion.Status, environment string) bool {
	for _, e := range list {
		if environment != "" && e.Environment != environment {
			continue
		}
		if len(e.Refused) > 0 || e.Decision.Record.Halt != nil {
			return false
		}
		if e.Decision.WaitsFor != "" && (e.Decision.Wants != nil || e.Decision.Record.Progress != nil && e.Decision.Record.Progress.Done.IsZero()) {
			return true
		}
	}
	return false
}

func (p *promotionFlags) show(o IO, list []promotion.Status, environment string) error {
	found := environment == ""
	bad := false
	for _, e := range list {
		if environment != "" && e.Environment != environment {
			continue
		}
		found = true
		bad = bad || len(e.Refused) > 0 || e.Decision.Record.Halt != nil && e.Decision.Record.Halt.By == ""
	}
	if !found {
		return fmt.Errorf("there is no environment %q that comes after another: those that follow the trunk are hydrated", environment)
	}
	if p.output == "json" {
		if err := printJSON(o.Out, statusJSON(list, environment)); err != nil {
			return err
		}
	} else {
		for i := range list {
			if environment == "" || list[i].Environment == environment {
				workspace.WriteStatus(o.Out, &list[i])
			}
		}
	}
	if bad {
		return &exitError{code: ExitFailed}
	}
	return nil
}

type statusEntry struct {
	Environment string                 `json:"environment"`
	Branch      string                 `json:"branch"`
	Tip         string                 `json:"tip,omitempty"`
	Commit      string                 `json:"commit,omitempty"`
	Apps        map[string]string      `json:"apps,omitempty"` // whose commit is another one
	Behind      int                    `json:"behind"`
	Done        []string               `json:"done,omitempty"`
	Refused     []string               `json:"refused,omitempty"`
	Gates       []gateEntry            `json:"gates,omitempty"`
	WaveGates   []gateEntry            `json:"waveGates,omitempty"`
	Waves       []promote.WaveProgress `json:"waves,omitempty"`
	Frozen      []string               `json:"frozen,omitempty"`
	WaitsFor    string                 `json:"waitsFor,omitempty"`
	Next        time.Time              `json:"next,omitzero"`
	Candidate   string                 `json:"candidate,omitempty"`
}

type gateEntry struct {
	Name   string    `json:"name"`
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
}

func statusJSON(list []promotion.Status, environment string) []statusEntry {
	gates := func(in []promote.Gate) []gateEntry {
		var out []gateEntry
		for _, g := range in {
			out = append(out, gateEntry{g.Name, string(g.State), g.Reason, g.Since, g.Until})
		}
		return out
	}
	out := []statusEntry{}
	for _, e := range list {
		if environment != "" && e.Environment != environment {
			continue
		}
		d := e.Decision
		out = append(out, statusEntry{
			Environment: e.Environment, Branch: e.Branch, Tip: e.Tip, Commit: e.Source.Commit, Apps: e.Source.Apps, Behind: e.Behind, Done: e.Done, Refused: e.Refused,
			Gates: gates(d.Gates), WaveGates: gates(d.WaveGates), Waves: d.Waves, Frozen: d.Frozen, WaitsFor: d.WaitsFor, Next: d.Next, Candidate: e.Candidate,
		})
	}
	return out
}

// ordered runs one command and shows what became of it.
func (p *promotionFlags) ordered(ctx context.Context, o IO, make func(s *app.Session, trunk gitstore.Commit) (*promotion.Command, error)) error {
	s, trunk, err := p.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := make(s, trunk)
	if err != nil {
		return err
	}
	list, err := p.look(ctx, o, s, trunk, false, *c)
	if err := p.showAll(o, list, c.Environment, err); err != nil {
		return err
	}
	for i := range list { // a rollback waits for nothing: one that is not done is in trouble
		if list[i].Environment == c.Environment && c.Kind == promote.EventRollback && list[i].Decision.Record.Rollback != nil {
			return &exitError{ExitFailed, errors.New("the rollback is recorded and not done: see what it waits for")}
		}
	}
	return nil
}

// showAll shows the environments that could be looked at, and then the error of the others.
func (p *promotionFlags) showAll(o IO, list []promotion.Status, environment string, failed error) error {
	known := slices.ContainsFunc(list, func(e promotion.Status) bool { return environment == "" || e.Environment == environment })
	if failed != nil && !known {
		return failed
	}
	return errors.Join(failed, p.show(o, list, environment))
}

func newRollback(o IO) *cobra.Command {
	var p promotionFlags
	var to, why, wave string
	var clusters, apps []string
	c := &cobra.Command{
		Use:   "rollback ENV",
		Short: "Bring back an earlier state of an environment, of a wave, of clusters or of apps, at once",
		Long: `Makes a new commit with the tree that the environment had, byte for byte, and moves the cluster branches to it at once; nothing is
rendered, and no gate is waited for. Frozen clusters stay. What was rolled back is not promoted again by itself.`,
		Example: `  sluice rollback prod                       # the state before
  sluice rollback prod --to 1a2b3c4          # that source commit, or that commit of the branch
  sluice rollback prod --wave canary         # the clusters of a wave
  sluice rollback prod --cluster eu-1a --app shop --reason "checkout is down"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			return p.ordered(cmd.Context(), o, func(*app.Session, gitstore.Commit) (*promotion.Command, error) {
				c := &promotion.Command{Environment: args[0], Verb: "rollback", Revision: to, Wave: wave}
				c.Kind, c.Clusters, c.Apps, c.Reason = promote.EventRollback, clusters, apps, cmp.Or(why, "by command")
				return c, nil
			})
		},
	}
	p.add(c)
	c.Flags().StringVar(&to, "to", "", "source `commit`, or commit of the environment branch, to go back to (default: the state before)")
	c.Flags().StringVar(&wave, "wave", "", "only the clusters of this `wave`")
	c.Flags().StringSliceVar(&clusters, "cluster", nil, "only these `clusters`")
	c.Flags().StringSliceVar(&apps, "app", nil, "only these `apps`")
	c.Flags().StringVar(&why, "reason", "", "`why`; it is written down")
	return c
}

func newApprove(o IO) *cobra.Command {
	return simple(o, "approve", "Agree to what waits for an environment: to exactly this tree", promote.EventApprove, "approve prod")
}

func newHalt(o IO) *cobra.Command {
	return simple(o, "halt", "Stop an environment where it is", promote.EventHalt, `halt prod --reason "error rate"`)
}

func newResume(o IO) *cobra.Command {
	return simple(o, "resume", "Let a halted environment go on", promote.EventResume, "resume prod")
}

// simple is a verb with an environment and a reason.
func simple(o IO, verb, short string, kind promote.EventKind, example string) *cobra.Command {
	var p promotionFlags
	var why string
	c := &cobra.Command{
		Use: verb + " ENV", Short: short, Example: "  sluice " + example, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			return p.ordered(cmd.Context(), o, func(*app.Session, gitstore.Commit) (*promotion.Command, error) {
				c := &promotion.Command{Environment: args[0], Verb: verb}
				c.Kind, c.Reason = kind, cmp.Or(why, "by command")
				return c, nil
			})
		},
	}
	p.add(c)
	c.Flags().StringVar(&why, "reason", "", "`why`; it is written down")
	return c
}

func newFreeze(o IO) *cobra.Command {
	var p promotionFlags
	var until, why string
	c := &cobra.Command{
		Use:     "freeze ENV|CLUSTER",
		Short:   "Keep an environment or a cluster where it is; recorded in Git",
		Example: "  sluice freeze prod --until 2026-12-27 --reason \"the holidays\"\n  sluice freeze eu-1a --until 4h --reason \"an incident\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			if why == "" {
				return &exitError{ExitUsage, errors.New("--reason is needed: whoever waits will want to know")}
			}
			return p.aimed(cmd.Context(), o, promote.EventFreeze, args[0], until, why)
		},
	}
	p.add(c)
	c.Flags().StringVar(&until, "until", "", "`time`: 2026-12-27T08:00:00Z, 2026-12-27 or 4h (default: until somebody unfreezes it)")
	c.Flags().StringVar(&why, "reason", "", "`why` (needed)")
	return c
}

func newUnfreeze(o IO) *cobra.Command {
	var p promotionFlags
	c := &cobra.Command{
		Use: "unfreeze ENV|CLUSTER", Short: "Let a frozen environment or cluster go on, up to date", Example: "  sluice unfreeze eu-1a", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			return p.aimed(cmd.Context(), o, promote.EventUnfreeze, args[0], "", "")
		},
	}
	p.add(c)
	return c
}

func (p *promotionFlags) aimed(ctx context.Context, o IO, kind promote.EventKind, target, until, why string) error {
	return p.ordered(ctx, o, func(s *app.Session, trunk gitstore.Commit) (*promotion.Command, error) {
		f, _, err := s.Fleet(ctx, trunk.Tree)
		if err != nil {
			return nil, err
		}
		c := &promotion.Command{Verb: string(kind)}
		c.Kind, c.Reason = kind, why
		if until != "" {
			if c.Until, err = command.ParseUntil(until, time.Now()); err != nil {
				return nil, err
			}
		}
		return c, c.Aim(f, target)
	})
}

func newStatus(o IO) *cobra.Command {
	var p promotionFlags
	c := &cobra.Command{
		Use:     "status [ENV]",
		Short:   "Show what environments run, and what promotions wait for",
		Long:    "Reads branches and records, decides, and does nothing.",
		Example: "  sluice status\n  sluice status prod -o json | jq '.[0].gates'",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			ctx := cmd.Context()
			s, trunk, err := p.open(ctx, o)
			if err != nil {
				return err
			}
			defer s.Close()
			list, err := p.look(ctx, o, s, trunk, true)
			if err != nil {
				return err
			}
			running, err := promotion.ReadRunning(ctx, s.Hydrator, trunk.Tree)
			if err != nil {
				return err
			}
			only := strings.Join(args, "")
			if p.output == "text" {
				for _, r := range running {
					if follows(list, r.Environment) && (only == "" || only == r.Environment) {
						workspace.WriteFollower(o.Out, &r)
					}
				}
			}
			if only != "" && follows(list, only) {
				return nil
			}
			err = p.show(o, list, only)
			if exit, ok := errors.AsType[*exitError](err); ok && exit.err == nil {
				return nil // a halted environment is no failure of looking at it
			}
			return err
		},
	}
	p.add(c)
	return c
}

func follows(list []promotion.Status, environment string) bool {
	for _, e := range list {
		if e.Environment == environment {
			return false
		}
	}
	return true
}

func newHistory(o IO) *cobra.Command {
	var p promotionFlags
	var most int
	c := &cobra.Command{
		Use:     "history ENV",
		Short:   "Show what an environment ran: who brought it there, when, and why; from Git alone",
		Example: "  sluice history prod\n  sluice history prod -n 5 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check("text", "json"); err != nil {
				return err
			}
			ctx := cmd.Context()
			s, trunk, err := p.open(ctx, o)
			if err != nil {
				return err
			}
			defer s.Close()
			list, err := promotion.ReadHistory(ctx, s.Hydrator, trunk.Tree, args[0], most)
			if err != nil {
				return err
			}
			if p.output == "json" {
				return printJSON(o.Out, historyJSON(list))
			}
			return printHistory(o.Out, list)
		},
	}
	p.add(c)
	c.Flags().IntVarP(&most, "number", "n", 20, "most `entries`")
	return c
}

type historyEntry struct {
	Commit   string              `json:"commit"`
	Tree     string              `json:"tree"`
	Source   string              `json:"source"`
	At       time.Time           `json:"at"`
	Subject  string              `json:"subject"`
	Author   string              `json:"author"`
	Trailers map[string][]string `json:"trailers"`
}

func historyJSON(list []promotion.HistoryEntry) []historyEntry {
	out := []historyEntry{}
	for _, e := range list {
		one := historyEntry{Commit: e.Commit.String(), Tree: e.Tree.String(), Source: e.Source.Commit, At: e.At, Subject: e.Subject, Author: e.Author, Trailers: map[string][]string{}}
		for _, t := range e.Trailers {
			one.Trailers[t.Key] = append(one.Trailers[t.Key], t.Value)
		}
		out = append(out, one)
	}
	return out
}

func printHistory(w io.Writer, list []promotion.HistoryEntry) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COMMIT\tSOURCE\tWHEN\tBY\tWHAT")
	for _, e := range list {
		by := map[string]string{}
		for _, t := range e.Trailers {
			by[t.Key] = strings.TrimPrefix(by[t.Key]+", "+t.Value, ", ")
		}
		what := []string{e.Subject}
		for _, more := range [][2]string{{branch.TrailerApproved, "approved by "}, {branch.TrailerNow, "overtook: "}, {branch.TrailerRollback, "rollback: "}, {branch.TrailerApps, "apps: "}} {
			if v := by[more[0]]; v != "" {
				what = append(what, more[1]+v)
			}
		}
		fmt.Fprintf(table, "%s\t%.10s\t%s\t%s\t%s\n", e.Commit.Short(), e.Source.Commit, e.At.UTC().Format(time.DateTime), cmp.Or(by[branch.TrailerBy], e.Author), strings.Join(what, "; "))
	}
	return table.Flush()
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
