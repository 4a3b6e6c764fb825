package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// verdicts remembers what policy said of a source in an environment: a promotion that waits is looked at again and again. What was not
// asked for while many others were is forgotten: each commit of a trunk makes keys anew as long as the service runs.
type verdicts struct {
	mu            sync.Mutex
	known, before map[string]verdict
}

const mostVerdicts = 1000 // in each of the two maps

func newVerdicts() *verdicts { return &verdicts{known: map[string]verdict{}} }

func (v *verdicts) get(key string) (verdict, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	one, ok := v.known[key]
	if !ok {
		if one, ok = v.before[key]; ok {
			v.keep(key, one)
		}
	}
	return one, ok
}

func (v *verdicts) put(key string, one verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keep(key, one)
}

// keep is called with the lock held.
func (v *verdicts) keep(key string, one verdict) {
	if len(v.known) >= mostVerdicts {
		v.before, v.known = v.known, map[string]verdict{}
	}
	v.known[key] = one
}

type verdict struct {
	at     time.Time
	names  []string // of authors
	state  promote.State
	reason string
}

// outside tells promotions what Git does not hold.
type outside struct {
	session  *Session
	trunk    gitstore.Commit
	forge    Forge            // nil: there is none
	repo     forge.Repository // of the sources
	output   forge.Repository // of the branches
	client   *http.Client
	verdicts *verdicts
	noPolicy bool
}

// Outside is what a session knows, without a forge.
func (s *Session) Outside(trunk gitstore.Commit, noPolicy bool) promotion.Adapters {
	return (&outside{session: s, trunk: trunk, client: checkClient(), verdicts: newVerdicts(), noPolicy: noPolicy}).adapters()
}

func (o *outside) adapters() promotion.Adapters {
	return promotion.Adapters{Policy: o, Statuses: o, Checks: o, Authors: o, MergeRequests: o}
}

const (
	checkTimeout = 10 * time.Second
	checkAnswer  = 1 << 20
)

func checkClient() *http.Client {
	return &http.Client{Timeout: checkTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

var errNoStatuses = errors.New("there is no forge to ask for commit statuses")

// Statuses implements promotion.Adapters.
func (o *outside) Statuses(ctx context.Context, commit string) ([]promote.Status, error) {
	if o.forge == nil {
		return nil, errNoStatuses
	}
	list, err := o.forge.Statuses(ctx, o.output, commit)
	if err != nil {
		return nil, err
	}
	out := make([]promote.Status, len(list))
	for i, s := range list {
		state := string(s.State)
		if s.State == forge.Running {
			state = "pending"
		}
		out[i] = promote.Status{Name: s.Context, State: state}
	}
	return out, nil
}

// Check implements promotion.Checker. The addresses are the trunk's, not a merge request's.
func (o *outside) Check(ctx context.Context, e fleet.Environment, now time.Time) []promote.Fact {
	out := make([]promote.Fact, 0, len(e.Promotion.Checks))
	for _, c := range e.Promotion.Checks {
		f := promote.Fact{Name: c.Name, State: promote.Unknown, At: now}
		switch {
		case c.HTTP != nil:
			f.State, f.Reason = o.http(ctx, c.HTTP)
		case c.Prometheus != nil:
			f.State, f.Reason = o.prometheus(ctx, c.Prometheus)
		}
		out = append(out, f)
	}
	return out
}

func (o *outside) get(ctx context.Context, address string) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("User-Agent", "sluice/"+Version())
	resp, err := o.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err = io.ReadAll(io.LimitReader(resp.Body, checkAnswer))
	return resp.StatusCode, body, err
}

func (o *outside) http(ctx context.Context, c *fleet.HTTPCheck) (promote.State, string) {
	want := c.Status
	if want == 0 {
		want = http.StatusOK
	}
	status, _, err := o.get(ctx, c.URL)
	switch {
	case err != nil:
		return promote.Unknown, "it does not answer"
	case status != want:
		return promote.Red, "it answers " + strconv.Itoa(status)
	}
	return promote.Green, ""
}

// prometheus asks the HTTP API (https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries).
func (o *outside) prometheus(ctx context.Context, c *fleet.PrometheusCheck) (promote.State, string) {
	status, body, err := o.get(ctx, strings.TrimSuffix(c.URL, "/")+"/api/v1/query?query="+url.QueryEscape(c.Query))
	if err != nil || status != http.StatusOK {
		return promote.Unknown, "Prometheus does not answer"
	}
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			ResultType string `json:"resultType"`
			Result     []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" || answer.Data.ResultType != "vector" {
		return promote.Unknown, "Prometheus gives no vector"
	}
	if len(answer.Data.Result) == 0 {
		return promote.Unknown, "the query has no result"
	}
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0) {
			return promote.Red, "a value is " + text
		}
	}
	return promote.Green, ""
}

// verdictLife is how long a verdict is remembered: exemptions end with time.
const verdictLife = 10 * time.Minute

// Judge implements promotion.PolicyJudge: the trunk's policy judges what would change in the environment.
func (o *outside) Judge(ctx context.Context, part promotion.Part) (promote.State, string) {
	if o.noPolicy {
		return promote.Green, ""
	}
	key := fmt.Sprint("policy ", part.Environment, part.Base, part.Source.Hash, part.Apps, part.Without, o.trunk.Tree)
	v, known := o.verdicts.get(key)
	if known && time.Since(v.at) < verdictLife {
		return v.state, v.reason
	}
	r, _, err := o.session.Review(ctx, ReviewOptions{
		Compare: compare.Request{
			Head: part.Source, Against: compare.AgainstBranches, Environments: []string{part.Environment}, Apps: part.Apps, Without: part.Without, Key: o.session.FingerprintKey(),
		}, Policy: o.trunk.Tree,
	})
	switch {
	case err != nil:
		return promote.Unknown, "policy could not be asked"
	case r.Verdict == report.VerdictFail || r.Verdict == report.VerdictError:
		v = verdict{state: promote.Red, reason: report.Headline(r)}
	default:
		v = verdict{state: promote.Green}
	}
	v.at = time.Now()
	o.verdicts.put(key, v)
	return v.state, v.reason
}

// Authors implements promotion.Adapters: who opened the merge requests that brought the commits.
func (o *outside) Authors(ctx context.Context, commits []gitstore.Commit) ([]string, error) {
	if o.forge == nil {
		return nil, nil
	}
	const most = 500
	if len(commits) > most {
		return nil, fmt.Errorf("it brings %d commits, and of at most %d is asked who wrote them: promote in smaller steps", len(commits), most)
	}
	var out []string
	for _, c := range commits {
		key := fmt.Sprint("authors ", o.repo.Path, c.Hash)
		v, known := o.verdicts.get(key)
		if !known {
			list, err := o.forge.MergeRequestsOf(ctx, o.repo, c.Hash.String())
			if err != nil {
				return nil, fmt.Errorf("the forge does not say who wrote %s", c.Hash.Short())
			}
			for _, mr := range list {
				v.names = append(v.names, mr.Author.Login)
			}
			o.verdicts.put(key, v)
		}
		out = append(out, v.names...)
	}
	return out, nil
}

// Find implements promotion.MergeRequests.
func (o *outside) Find(ctx context.Context, from, to string) (*promotion.MergeRequest, error) {
	if o.forge == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	list, err := o.forge.OpenMergeRequests(ctx, o.output, to)
	if err != nil {
		return nil, err
	}
	for _, mr := range list {
		if mr.SourceBranch == from && !mr.Fork {
			return &promotion.MergeRequest{Number: mr.Number, From: from, To: to, Head: mr.Head, Title: mr.Title, Body: mr.Body}, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// Open implements promotion.Adapters.
func (o *outside) Open(ctx context.Context, r promotion.MergeRequest) error {
	if o.forge == nil {
		return promotion.ErrNoForge
	}
	body := "Merging this promotes:\n\n" + report.Block(strings.Split(r.Why, "\n"))
	source, err := gitstore.ParseHash(r.Source)
	if err == nil {
		if c, err := o.session.Store.Commit(ctx, source); err == nil {
			review, _, err := o.session.Review(ctx, ReviewOptions{
				Compare: compare.Request{Head: c, Against: compare.AgainstBranches, Environments: []string{o.environmentOf(ctx, r.To)}, Key: o.session.FingerprintKey()}, Policy: o.trunk.Tree,
			})
			if err == nil {
				const margin = 20_000
				text, _ := report.Markdown(review, o.forge.CommentLimit()-margin)
				body += "\n" + text
			}
		}
	}
	have, err := o.Find(ctx, r.From, r.To)
	if err != nil {
		return err
	}
	if have != nil {
		return o.forge.EditMergeRequest(ctx, o.output, have.Number, r.Title, body, false)
	}
	_, err = o.forge.CreateMergeRequest(ctx, o.output, forge.NewRequest{Title: r.Title, Body: body, SourceBranch: r.From, TargetBranch: r.To})
	return err
}

func (o *outside) environmentOf(ctx context.Context, branch string) string {
	f, _, err := o.session.Fleet(ctx, o.trunk.Tree)
	if err != nil {
		return ""
	}
	for _, e := range f.Spec.Environments {
		if f.EnvironmentBranch(e.Name) == branch {
			return e.Name
		}
	}
	return ""
}

// Close implements promotion.Adapters.
func (o *outside) Close(ctx context.Context, r promotion.MergeRequest, why string) error {
	return o.forge.EditMergeRequest(ctx, o.output, r.Number, r.Title, r.Body+"\n\nClosed: "+why+"\n", true)
}

// Promotions looks at all environments until nothing more is due.
func (s *Session) Promotions(ctx context.Context, r promotion.Request) ([]promotion.Status, error) {
	return promotion.Run(ctx, s.Hydrator, r)
}

// Promotions implements bot.Workspace.
func (w *workspace) Promotions(ctx context.Context, trunk gitstore.Commit) ([]promotion.Status, error) {
	return w.promotions(ctx, trunk, nil)
}

func (w *workspace) promotions(ctx context.Context, trunk gitstore.Commit, commands []promotion.Command) ([]promotion.Status, error) {
	if err := w.pushing(ctx, trunk.Tree); err != nil {
		return nil, err
	}
	output, err := w.outputOf(ctx, trunk.Tree)
	if err != nil {
		return nil, err
	}
	return w.Session.Promotions(ctx, promotion.Request{
		Trunk: trunk, Commands: commands, Now: w.clock(), PerPush: w.forgeSettings().PerPush,
		Adapters: (&outside{session: w.Session, trunk: trunk, forge: w.forge.adapter, repo: w.place.Repo(), output: output, client: checkClient(), verdicts: w.verdicts}).adapters(),
	})
}

func (w *workspace) forgeSettings() bot.Settings {
	return bot.Settings{PerPush: w.forge.For(w.place.Repo().Path).PerPush}
}

// Order implements bot.Workspace.
func (w *workspace) Order(ctx context.Context, o bot.Order) (string, error) {
	f, _, err := w.Fleet(ctx, o.Trunk.Tree)
	if err != nil {
		return "", err
	}
	c, err := commandOf(f, o.Command, w.clock())
	if err != nil {
		return "", fmt.Errorf("%w: %w", bot.ErrRefused, err)
	}
	c.ID, c.By, c.At, c.Said = o.ID, o.By.User.Login, w.clock(), o.Said
	c.Person, err = w.person(ctx, f, o, c.Environment)
	if err != nil {
		return "", err
	}
	list, failed := w.promotions(ctx, o.Trunk, []promotion.Command{*c})
	for _, e := range list {
		if e.Environment != c.Environment {
			continue
		}
		if len(e.Refused) > 0 {
			return "", fmt.Errorf("%w: %s", bot.ErrRefused, strings.Join(e.Refused, "; "))
		}
		return outcome(&e), nil
	}
	if failed != nil {
		return "", failed
	}
	return "", fmt.Errorf("%w: %s comes after no other environment: it follows the trunk", bot.ErrRefused, c.Environment)
}

// outcome is what became of a command, in a sentence.
func outcome(e *promotion.Status) string {
	parts := e.Done
	if e.Decision.WaitsFor != "" {
		parts = append(parts, e.Decision.WaitsFor)
	}
	if len(parts) == 0 {
		return "done"
	}
	return strings.Join(parts, "; ")
}

// person is who gave a command, with those of the teams that sluice.yaml names in the environment.
func (w *workspace) person(ctx context.Context, f *fleet.Fleet, o bot.Order, environment string) (promote.Person, error) {
	out := promote.Person{User: o.By.User.Login}
	if o.By.Access != forge.AccessNone {
		out.Role = o.By.Access.String()
	}
	e, ok := f.Environment(environment)
	if !ok {
		return out, nil
	}
	teams := map[string]bool{}
	for _, t := range e.Promotion.Approvers.Teams {
		teams[t] = true
	}
	for _, r := range e.Promotion.Rights {
		for _, t := range r.Teams {
			teams[t] = true
		}
	}
	for t := range teams {
		in, err := o.By.InTeam(ctx, t)
		if err != nil && !errors.Is(err, forge.ErrNotFound) {
			return out, err
		}
		if in {
			out.Teams = append(out.Teams, t)
		}
	}
	return out, nil
}

// commandOf turns a chat command into one of promotions.
func commandOf(f *fleet.Fleet, c command.Command, now time.Time) (*promotion.Command, error) {
	out := &promotion.Command{Environment: c.Env, Verb: string(c.Verb)}
	out.Reason, out.Apps, out.Now, out.Clusters = c.Reason, c.App, c.Now, c.Clusters
	kinds := map[command.Verb]promote.EventKind{
		command.VerbPromote: promote.EventPromote, command.VerbApprove: promote.EventApprove, command.VerbRollback: promote.EventRollback, command.VerbFreeze: promote.EventFreeze,
		command.VerbUnfreeze: promote.EventUnfreeze, command.VerbHalt: promote.EventHalt, command.VerbResume: promote.EventResume,
	}
	kind, ok := kinds[c.Verb]
	if !ok {
		return nil, fmt.Errorf("%s cannot be done here", c.Verb)
	}
	out.Kind, out.Revision = kind, c.Commit
	if c.Verb == command.VerbRollback {
		out.Revision, out.Wave = c.To, c.Wave
	}
	if c.Verb == command.VerbFreeze || c.Verb == command.VerbUnfreeze {
		if err := out.Aim(f, c.Target); err != nil {
			return nil, err
		}
		if c.Until != "" {
			var err error
			if out.Until, err = command.ParseUntil(c.Until, now); err != nil {
				return nil, err
			}
		}
	}
	if _, known := f.Environment(out.Environment); !known {
		return nil, fmt.Errorf("there is no environment %q", out.Environment)
	}
	return out, nil
}
