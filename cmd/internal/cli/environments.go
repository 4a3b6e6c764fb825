package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/announce"
	"github.com/sluice-gitops/sluice/service/promotions"
)

// environmentFlags are the flags of every verb that works on environments.
type environmentFlags struct {
	common
	remote   string
	local    bool
	noPolicy bool

	unpublished error // the registry lacks artifacts of the branches that the command moved
}

func (p *environmentFlags) add(cmd *cobra.Command) {
	p.addWith(cmd, "text", "json")
}

// addWith adds the flags with the given formats of --output. Without formats there is no --output.
func (p *environmentFlags) addWith(cmd *cobra.Command, formats ...string) {
	p.flags(cmd, formats...)
	p.branchFlags(cmd)
}

// branchFlags adds the flags that say where the branches are.
func (p *environmentFlags) branchFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	p.remoteFlag(f, &p.remote, "`name` of the remote that has the branches")
	f.BoolVar(&p.local, "local", false, "work on the branches of this clone")
	f.BoolVar(&p.noPolicy, "no-policy", false,
		"do not evaluate the trunk's policy, apart from the bounds of workspaces")
}

// promotionFlags are the flags of the verbs that change environments.
type promotionFlags struct {
	environmentFlags
	signing  signingFlag
	by       string
	listen   string
	perPush  int
	recreate bool
	foreign  bool
	deletes  int
	only     []string // environments to render again, and nothing else; none: all environments, and promotions
}

func (p *promotionFlags) add(cmd *cobra.Command) {
	p.environmentFlags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&p.by, "by", "",
		"`name` of the author of the command (default: SLUICE_USER, GITHUB_ACTOR, GITLAB_USER_LOGIN, GIT_AUTHOR_NAME, Git's user.name or USER)")
	amountVar(f, &p.perPush, "refs-per-push", 0,
		"limit of `refs` in one push (default: no limit); GitLab sends webhooks for at most 3")
	f.BoolVar(&p.recreate, "recreate", false, "create branches again that somebody deleted")
	f.BoolVar(&p.foreign, "overwrite-foreign", false, "commit on top of commits that Sluice did not make")
	amountVar(f, &p.deletes, "max-deletions", 0,
		"`objects` that may be removed from one environment (default: the fleet's limit)")
	p.signing.flag(f)
	receiversFlag(f, &p.listen)
}

func (p *environmentFlags) open(ctx context.Context, o IO) (*app.Session, gitstore.Commit, error) {
	return (&promotionFlags{environmentFlags: *p}).open(ctx, o)
}

// open opens the repository for the verbs that work on environments, with the commit of the trunk whose gates and
// rights apply.
func (p *promotionFlags) open(ctx context.Context, o IO) (*app.Session, gitstore.Commit, error) {
	if err := p.signing.sign(o, &p.Options); err != nil {
		return nil, gitstore.Commit{}, err
	}
	s, err := app.Open(ctx, o.Env, p.Options, p.progress(o))
	if err != nil {
		return nil, gitstore.Commit{}, err
	}
	opened, trunk, err := p.prepare(ctx, o, s)
	if err != nil {
		s.Close()
		return nil, gitstore.Commit{}, err
	}
	return opened, trunk, nil
}

// prepare returns the session with the remote and the receivers that the flags name, and the commit of the trunk whose
// gates and rights apply. Closing either session closes both.
func (p *promotionFlags) prepare(ctx context.Context, o IO, s *app.Session) (*app.Session, gitstore.Commit, error) {
	if p.local && p.Output != "" {
		return nil, gitstore.Commit{}, usagef("--local and --remote %s exclude each other", p.Output)
	}
	trunk, err := trunkOf(ctx, s, !p.local)
	if err != nil {
		return nil, trunk, err
	}
	if good, _, broken := s.Readable(ctx, trunk); broken == nil && good.Hash != trunk.Hash {
		fmt.Fprintf(o.Err, "warning: the fleet of the trunk's tip %s cannot be read; gates and rights are those of %s (run sluice validate)\n",
			trunk.Hash.Short(), good.Hash.Short())
		trunk = good
	}
	if !p.local || s.IsURL() {
		if s, err = s.WithRemote(ctx, trunk, p.remote); err != nil {
			return nil, trunk, withoutRemote(err, "with --local, the command works on the branches of this clone")
		}
	}
	if p.listen != "" {
		tell, err := o.Env.Announce(p.listen, warner(o))
		if err != nil {
			return nil, trunk, err
		}
		s = announce.Pushes(ctx, s, trunk.Tree, tell)
	}
	return s, trunk, nil
}

// trunkOf returns the trunk's tip on the remote or, without one, in this clone. Gates and rights come from it, never
// from the checked-out commit.
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

// withoutRemote adds what works without a remote to an error that says that there is none.
func withoutRemote(err error, instead string) error {
	if errors.Is(err, gitstore.ErrNoRemote) {
		return fmt.Errorf("%w; %s", err, instead)
	}
	return err
}

// who returns the author of a command.
func (p *promotionFlags) who(ctx context.Context, o IO) (string, error) {
	env := o.Env.Getenv
	name := cmp.Or(p.by, env("SLUICE_USER"), env("GITHUB_ACTOR"), env("GITLAB_USER_LOGIN"), env("GIT_AUTHOR_NAME"))
	if name == "" && p.Repo != "" {
		name = gitstore.UserName(ctx, p.Repo)
	}
	if name = cmp.Or(name, env("USER")); name == "" {
		return "", usagef("the author of the command is unknown: name them with --by, or set Git's user.name")
	}
	return name, nil
}

// request returns the request for verbs that read and verbs that write.
func (p *environmentFlags) request(s *app.Session, trunk gitstore.Commit) promote.Request {
	return promote.Request{
		Trunk: trunk, Now: time.Now(), Adapters: promotions.WithoutForge(s, trunk, p.noPolicy),
		CommandPrefix: "sluice",
	}
}

// look evaluates promotions, with commands, and publishes the artifacts of the branches that moved.
func (p *promotionFlags) look(ctx context.Context, o IO, s *app.Session, trunk gitstore.Commit, dry bool,
	commands ...promote.Command,
) ([]promote.Status, error) {
	r := p.request(s, trunk)
	for i := range commands {
		who, err := p.who(ctx, o)
		if err != nil {
			return nil, err
		}
		commands[i].CLI, commands[i].ID = true, fmt.Sprintf("cli/%d/%d", r.Now.UnixNano(), i)
		commands[i].By, commands[i].At, commands[i].Person = who, r.Now, rollout.Person{User: who}
	}
	r.Commands, r.DryRun, r.PerPush, r.Recreate, r.Overwrite, r.MaxDeletions = commands, dry, p.perPush, p.recreate,
		p.foreign, p.deletes
	r.Environments, r.OnlyRender = p.only, len(p.only) > 0
	list, err := promote.Run(ctx, s.Hydrator, r)
	if !dry && ctx.Err() == nil && (!p.local || s.IsURL()) {
		_, p.unpublished = publishArtifacts(ctx, o.Err, s, trunk.Tree, p.remote)
	}
	return list, err
}

// known refuses an environment that the fleet does not have, that belongs to home, or, if it is to be promoted, that follows
// the trunk.
func known(ctx context.Context, s *app.Session, trunk gitstore.Commit, name string, promoted bool) error {
	f, _, err := s.Fleet(ctx, trunk.Tree)
	if err != nil {
		return err
	}
	e, ok := f.Environment(name)
	if !ok {
		return mustKnow("environment", name, environmentNames(f))
	}
	if prefixes := incoming.Prefixes(f); len(prefixes) > 0 {
		refs, err := s.Branches.List(ctx, append(prefixes, f.BranchPrefixes()...)...)
		if err != nil {
			return err
		}
		if site := incoming.AtHome(f, name, refs); site != "" {
			return usagef("%s belongs to home: this repository is the site of %s", name, site)
		}
	}
	if promoted && len(e.After) == 0 {
		return usagef("%s follows the trunk: change or revert the commit on the trunk, and run `sluice hydrate --push`",
			name)
	}
	return nil
}

// ordered runs one command and prints its result.
func (p *promotionFlags) ordered(ctx context.Context, o IO, make func(s *app.Session,
	trunk gitstore.Commit) (*promote.Command, error),
) error {
	s, trunk, err := p.open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := make(s, trunk)
	if err != nil {
		return err
	}
	if err := known(ctx, s, trunk, c.Environment, true); err != nil {
		return err
	}
	list, err := p.look(ctx, o, s, trunk, false, *c)
	if err := p.showAll(o, list, c.Environment, err); err != nil {
		return err
	}
	for i := range list { // a rollback waits for no gate: if it is not done, a person must act
		if list[i].Environment == c.Environment && c.Kind == rollout.EventRollback &&
			list[i].Decision.Record.Rollback != nil {
			return &exitError{
				ExitFailed,
				errors.New("the rollback is recorded but not complete: see what it waits for"),
			}
		}
	}
	return nil
}

// showAll prints the environments that could be read, and then the errors of the others and of artifacts.
func (p *environmentFlags) showAll(o IO, list []promote.Status, environment string, failed error) error {
	shown := slices.ContainsFunc(list, func(e promote.Status) bool {
		return environment == "" ||
			e.Environment == environment
	})
	if failed != nil && !shown {
		return failed
	}
	return errors.Join(failed, p.show(o, list, environment), p.unpublished)
}

// show prints environments. The error has no text: it only sets the exit status if a command was refused or failed.
func (p *environmentFlags) show(o IO, list []promote.Status, environment string) error {
	bad := false
	for i := range list {
		e := &list[i]
		if environment != "" && e.Environment != environment {
			continue
		}
		bad = bad || len(e.Refused) > 0 || e.Decision.Record.Halt != nil && e.Decision.Record.Halt.By == ""
		if !p.structured() {
			e.WriteText(o.Out, "sluice")
		}
	}
	if p.structured() {
		if err := p.encode(o.Out, statusEntries(list, environment)); err != nil {
			return err
		}
	}
	if bad {
		return &exitError{code: ExitFailed}
	}
	return nil
}
