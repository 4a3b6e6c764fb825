// Package ownpolicy evaluates the own policies of workspaces: the rules of a team, which judge the objects of its own
// apps and no others. Anybody who may write to the workspace writes them, so they are read, compiled and evaluated in
// worker processes (Job), within limits on time and bytes. What a policy does wrong is its result, never an error.
//
// The package is not API: it can change in every release.
package ownpolicy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Limits of the own policy of one workspace.
const (
	ownTimeout = 30 * time.Second // of one call
	ownTotal   = 2 * time.Minute  // CPU time of all calls of one check
	ownRule    = 5 * time.Second  // of all its rules on one object
	ownInput   = 8 << 20          // bytes of targets in one call, less than a question to the parent may have
	ownSent    = 16 * ownInput    // bytes of the targets of one check
	// bytes of one object, with its old state: with the files of the policy it fits into a question
	ownObject = 9 << 20
	ownOutput = 16 << 20 // bytes of all answers together
	ownValues = 1 << 20  // values in the JSON of one answer
)

// tooSlow is the failure of a policy that needs more than ownTotal.
func tooSlow() string {
	return fmt.Sprintf("it took more than %s of processor time for a part of the changed objects (make the rules cheaper, or change fewer objects at a time)", ownTotal)
}

// Judge evaluates the input of Job.
type Judge func(ctx context.Context, input []byte) ([]byte, error)

// Evaluator evaluates the own policies of the workspaces of fleets.
type Evaluator struct {
	Fleets   *hydrate.Hydrator // reads the fleets and the files of the policies
	Clock    func() time.Time
	Exceeded *Exceeded
	Judge    Judge // nil: worker processes of the renderer of Fleets judge
}

// own implements policy.Own for the workspaces of one tree. The files of a policy come from that tree: from its commit,
// or from the commit at which its sluice.lock pins the workspace's repository.
type own struct {
	Evaluator
	tree  gitstore.Hash
	fleet *fleet.Fleet
}

// Exceeded caches policies that exceeded a limit, so that the next checks do not wait for them again. It is safe for
// concurrent use.
type Exceeded struct {
	cache *lru.Cache[*excess] // by the digest of the files
}

// excess is the limit that a policy exceeded.
type excess struct {
	at   time.Time
	text string
}

const (
	maxExceeded = 1000
	excessLife  = 10 * time.Minute // a busy machine can make a policy slow
)

// NewExceeded returns an empty cache.
func NewExceeded() *Exceeded {
	cache := lru.New[*excess](maxExceeded)
	return &Exceeded{cache}
}

// reason returns the limit that a policy exceeded; "" if it did not.
func (s *Exceeded) reason(files []policy.File, now time.Time) string {
	if one, ok := s.cache.Get(digestOf(files)); ok && now.Sub(one.at) < excessLife {
		return one.text
	}
	return ""
}

func (s *Exceeded) add(files []policy.File, now time.Time, text string) {
	s.cache.Add(digestOf(files), &excess{now, text})
}

func digestOf(files []policy.File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %d\n", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	return string(h.Sum(nil))
}

// Of returns the own policies of a fleet's workspaces; nil if no workspace has one.
func (e Evaluator) Of(tree gitstore.Hash, f *fleet.Fleet) policy.Own {
	for _, w := range f.Workspaces {
		if w.PolicyDir() != "" {
			return &own{e, tree, f}
		}
	}
	return nil
}

// Environments returns the names of the environments of a fleet.
func Environments(f *fleet.Fleet) []string {
	out := make([]string, len(f.Spec.Environments))
	for i, e := range f.Spec.Environments {
		out[i] = e.Name
	}
	return out
}

// Judge implements policy.Own.
func (o *own) Judge(ctx context.Context, workspace string, subjects []policy.Subject,
	used *policy.OwnUse,
) (*policy.OwnResult, error) {
	w, ok := o.fleet.Workspace(workspace)
	if !ok || w.PolicyDir() == "" {
		return nil, nil //nolint:nilnil // it has no policy
	}
	out := &policy.OwnResult{}
	answers, err := o.ask(ctx, w, subjects, used)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if text := a.failure(); text != "" {
			return &policy.OwnResult{Failed: text}, nil
		}
		out.Findings, out.Notes = append(out.Findings, a.Findings...), append(out.Notes, a.Notes...)
	}
	return out, nil
}

// ask judges subjects in as many calls as their size needs. The last answer has the failure, if there is one.
func (o *own) ask(ctx context.Context, w *fleet.Workspace, subjects []policy.Subject, used *policy.OwnUse) ([]ownAnswer,
	error,
) {
	files, problem, err := o.files(ctx, w)
	if err != nil || problem != "" {
		return []ownAnswer{{Failed: problem}}, err
	}
	now := o.Clock()
	if text := o.Exceeded.reason(files, now); text != "" {
		return []ownAnswer{{Failed: text}}, nil
	}
	task := ownTask{
		Workspace: w.Name, Dir: o.fleet.Locate(w.PolicyDir()), Files: files, Now: now,
		Environments: Environments(o.fleet),
	}
	if used.CPU > ownTotal { // since the last call for an earlier batch
		o.Exceeded.add(files, now, tooSlow())
		return []ownAnswer{{Failed: tooSlow()}}, nil
	}
	parts, sent, err := divided(subjects)
	if used.Sent += sent; err == nil && used.Sent > ownSent {
		err = fmt.Errorf("the changed objects of its apps have more than %d MiB (change fewer of them at a time)",
			ownSent>>20)
	}
	if err != nil {
		//nolint:nilerr // an object that is too large is a failure of the policy
		return []ownAnswer{{Failed: err.Error()}}, nil
	}
	var out []ownAnswer
	for i := range parts {
		task.ownPart = parts[i]
		answer, cost, err := o.call(ctx, task)
		if err != nil {
			return nil, err
		}
		used.Answered, used.CPU = used.Answered+cost.bytes, used.CPU+cost.cpu
		switch last := i == len(parts)-1; {
		case used.Answered > ownOutput:
			answer = ownAnswer{Failed: fmt.Sprintf("its findings have more than %d MiB", ownOutput>>20), Limit: true}
		case used.CPU > ownTotal && !last && answer.failure() == "":
			answer = ownAnswer{Failed: tooSlow(), Limit: true}
		}
		if answer.Limit {
			o.Exceeded.add(files, now, answer.Failed)
		}
		if out = append(out, answer); answer.failure() != "" {
			break
		}
	}
	return out, nil
}

// files reads the files of a workspace's policy. The names are those that people know. The problem is why they cannot
// be judged by.
func (o *own) files(ctx context.Context, w *fleet.Workspace) (list []policy.File, problem string, err error) {
	if w.Err != nil {
		return nil, w.Err.Error(), nil //nolint:nilerr // files that cannot be read hold their workspace
	}
	v, err := o.Fleets.Open(ctx, o.tree)
	if err != nil {
		return nil, "", err
	}
	list, err = policy.OwnFiles(v.Files(ctx), w.PolicyDir())
	if source.Unreachable(err) {
		return nil, o.fleet.Locate(err.Error()), nil
	}
	if problems, ok := errors.AsType[policy.Problems](err); ok {
		return nil, o.fleet.Locate(summary(problems)), nil
	}
	for i := range list {
		list[i].Name = o.fleet.Locate(list[i].Name)
	}
	return list, "", err
}

// summary is one line for the mistakes in a policy.
func summary(p policy.Problems) string {
	switch len(p) {
	case 1:
		return p[0].String()
	case 2:
		return p[0].String() + ", and 1 more mistake"
	}
	return fmt.Sprintf("%s, and %d more mistakes", p[0], len(p)-1)
}

// ownCost is what a call costs.
type ownCost struct {
	bytes int // of the answer
	cpu   time.Duration
}

// call runs Job. What the policy itself does wrong is part of the answer.
func (e Evaluator) call(ctx context.Context, task ownTask) (out ownAnswer, cost ownCost, err error) {
	input, err := json.Marshal(task)
	if err != nil {
		return ownAnswer{}, cost, err
	}
	var data []byte
	if e.Judge != nil {
		data, err = e.Judge(ctx, input)
	} else {
		data, err = InWorker(ctx, e.Fleets.Renderer, input)
	}
	if err != nil {
		return ownAnswer{}, cost, fmt.Errorf("policy of workspace %s: %w", task.Workspace, err)
	}
	cost.bytes = len(data)
	if len(data) < cpuHead {
		err = worker.ErrProtocol
	} else {
		cost.cpu = time.Duration(binary.BigEndian.Uint64(data)) //nolint:gosec // by withCPU
		err = worker.Decode(data[cpuHead:], ownValues, &out)
	}
	if err != nil {
		//nolint:nilerr // as a policy that breaks its process
		return ownAnswer{Failed: err.Error(), Limit: true}, cost, nil
	}
	return out, cost, nil
}

// cpuHead are the bytes before the answer of Job, with the CPU time that it took. Between them is the process of a
// review, which asks its parent to run the job.
const cpuHead = 8

func withCPU(spent time.Duration, answer []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, cpuHead+len(answer)), uint64(max(spent, 0))), answer...)
}

// InWorker runs Job in a worker process of the renderer, which has no file of the repository, and returns the answer
// behind the CPU time that it took. Only if an Engine renders in this process, the job runs here too, and nobody counts
// its time.
func InWorker(ctx context.Context, r renderer.Renderer, input []byte) ([]byte, error) {
	if _, here := r.(*renderer.Engine); here {
		data, err := job(ctx, input, nil)
		return withCPU(0, data), err
	}
	caller, ok := renderer.CallerOf(r)
	if !ok {
		return nil, renderer.ErrNoWorkers
	}
	var spent time.Duration
	data, err := caller.Call(ctx, worker.Call{
		Job: Job, Input: input, Timeout: ownTimeout, CPU: ownTimeout,
		MaxOutput: ownOutput, Spent: &spent,
	})
	_, refused := errors.AsType[*worker.JobError](err)
	if refused || worker.IsLimit(err) || errors.Is(err, worker.ErrProtocol) {
		data, err = json.Marshal(ownAnswer{Failed: err.Error(), Limit: true})
	}
	return withCPU(spent, data), err
}

// Rules lists the rules of the workspaces' own policies, and what is wrong with these policies.
func (e Evaluator) Rules(ctx context.Context, tree gitstore.Hash) ([]policy.Rule, []string, error) {
	f, _, err := e.Fleets.Fleet(ctx, tree)
	if err != nil {
		return nil, nil, err
	}
	o := &own{e, tree, f}
	var rules []policy.Rule
	var mistakes []string
	for _, w := range f.Workspaces {
		if w.PolicyDir() == "" {
			continue
		}
		answers, err := o.ask(ctx, w, nil, &policy.OwnUse{})
		if err != nil {
			return nil, nil, err
		}
		for _, a := range answers {
			if text := a.failure(); text != "" {
				mistakes = append(mistakes, fmt.Sprintf("the policy of workspace %s could not be evaluated: %s", w.Name,
					text))
				continue
			}
			for _, r := range a.Rules {
				r.ID, r.Title, r.BuiltIn = policy.OwnRule(w.Name, r.ID), policy.OwnText(r.Title), false
				rules = append(rules, r)
			}
		}
	}
	return rules, mistakes, nil
}

// Test runs the tests of the own policy of a workspace, in this process: for the files of the person who runs them.
func (e Evaluator) Test(ctx context.Context, tree gitstore.Hash, workspace, run string) ([]policy.TestResult, error) {
	f, _, err := e.Fleets.Fleet(ctx, tree)
	if err != nil {
		return nil, err
	}
	w, ok := f.Workspace(workspace)
	if !ok {
		return nil, fmt.Errorf("the fleet has no workspace %q", workspace)
	}
	if w.PolicyDir() == "" {
		return nil, fmt.Errorf("%s:%d: workspace %s has no policy of its own (set spec.policy.path)", w.File, w.Line,
			w.Name)
	}
	files, problem, err := (&own{e, tree, f}).files(ctx, w)
	if err != nil {
		return nil, err
	}
	if problem != "" {
		return nil, errors.New(problem)
	}
	return policy.TestOwn(ctx, f.Locate(w.PolicyDir()), files, run,
		policy.Options{Now: e.Clock(), Environments: Environments(f)})
}

// Proposed returns the mistakes in own policies that the head changes. The review is judged by the policies of the
// trunk; these apply after the merge, and each would then hold its workspace.
func (e Evaluator) Proposed(ctx context.Context, judging, head gitstore.Hash) ([]string, error) {
	after, _, err := e.Fleets.Fleet(ctx, head)
	if err != nil {
		return nil, nil //nolint:nilerr // the report has the problems of the fleet
	}
	if e.Of(head, after) == nil {
		return nil, nil
	}
	before, _, err := e.Fleets.Fleet(ctx, judging)
	if err != nil {
		before = &fleet.Fleet{}
	}
	o := &own{e, head, after}
	var out []string
	for _, w := range after.Workspaces {
		if w.PolicyDir() == "" || w.Err != nil {
			continue
		}
		same, err := e.same(ctx, judging, head, before, w)
		if err != nil {
			return nil, err
		}
		if same {
			continue
		}
		answers, err := o.ask(ctx, w, nil, &policy.OwnUse{})
		if err != nil {
			return nil, err
		}
		for _, a := range answers {
			if text := a.failure(); text != "" {
				out = append(out, fmt.Sprintf("the policy of workspace %s cannot be evaluated after the merge: %s",
					w.Name, policy.OwnText(text)))
			}
		}
	}
	return out, nil
}

// same reports whether a workspace has the same policy in two trees.
func (e Evaluator) same(ctx context.Context, judging, head gitstore.Hash, before *fleet.Fleet,
	w *fleet.Workspace,
) (bool, error) {
	old, ok := before.Workspace(w.Name)
	if !ok || old.Err != nil || old.PolicyDir() == "" {
		return false, nil //nolint:nilerr // what cannot be read differs
	}
	was, err := e.Fleets.Open(ctx, judging)
	if err != nil {
		return false, err
	}
	is, err := e.Fleets.Open(ctx, head)
	if err != nil {
		return false, err
	}
	a, err := was.Files(ctx).Entry(old.PolicyDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !source.Unreachable(err) {
		return false, err
	}
	b, failed := is.Files(ctx).Entry(w.PolicyDir())
	if failed != nil && !errors.Is(failed, fs.ErrNotExist) && !source.Unreachable(failed) {
		return false, failed
	}
	return a.Hash == b.Hash && !source.Unreachable(err) && !source.Unreachable(failed), nil
}
