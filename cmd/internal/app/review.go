package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"time"

	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/bot/review"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/policy/schemas"
)

// ReviewOptions say what to review, and by which policy.
type ReviewOptions struct {
	Compare      compare.Request
	Policy       gitstore.Hash // tree of a source commit whose policy judges; zero: nothing is judged
	Offline      bool          // fetch no schemas
	Whole        bool          // judge whole environments: nothing was there before
	FindingsOnly bool
}

// Review compares and judges. What is wrong with the fleet or its policy is in the review.
func (s *Session) Review(ctx context.Context, o ReviewOptions) (*report.Review, *compare.PreviewResult, error) {
	options := review.Options{Compare: o.Compare, Version: Version(), FindingsOnly: o.FindingsOnly}
	if f, _, err := s.Fleet(ctx, o.Compare.Head.Tree); err == nil {
		options.Fleet = f.Name
	}
	var broken policy.Problems
	if !o.Policy.IsZero() {
		engine, err := s.Policy(ctx, o.Policy, o.Offline)
		switch {
		case errors.As(err, &broken):
		case err != nil:
			return nil, nil, err
		default:
			options.Judge = review.Policy{Engine: engine, Whole: o.Whole}
		}
	}
	r, preview, err := review.Make(ctx, s.Hydrator, options)
	if err != nil {
		return nil, nil, err
	}
	if len(broken) > 0 {
		r.Errors = append(r.Errors, broken.Strings()...)
		r.Verdict = review.Verdict(r)
	}
	return r, preview, nil
}

// Policy loads the policy of a source commit's tree. Its problems are policy.Problems.
func (s *Session) Policy(ctx context.Context, tree gitstore.Hash, offline bool) (*policy.Engine, error) {
	return loadPolicy(ctx, s.Store.Snapshot(ctx, tree), s.env, s.environments(ctx, tree), offline)
}

func (s *Session) environments(ctx context.Context, tree gitstore.Hash) []string {
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return nil
	}
	out := make([]string, len(f.Spec.Environments))
	for i, e := range f.Spec.Environments {
		out[i] = e.Name
	}
	return out
}

func loadPolicy(ctx context.Context, files fs.FS, env Environment, environments []string, offline bool) (*policy.Engine, error) {
	o := policy.Options{Now: time.Now(), Environments: environments, Parallel: runtime.GOMAXPROCS(0)}
	locations, err := policy.SchemaLocations(files)
	if err != nil {
		return nil, err
	}
	source, err := schemas.New(schemas.Config{
		Locations: locations, Files: files, Cache: env.cache("schemas"), Offline: offline || env.Getenv("SLUICE_OFFLINE") != "", UserAgent: "sluice/" + Version(),
	})
	if err != nil {
		return nil, policy.Problems{{File: policy.Dir, Message: err.Error()}}
	}
	o.Schemas = source
	return policy.Load(ctx, files, o)
}

// TestPolicy runs the tests of a tree's own rules.
func (s *Session) TestPolicy(ctx context.Context, tree gitstore.Hash, run string) ([]policy.TestResult, error) {
	return policy.Test(ctx, s.Store.Snapshot(ctx, tree), run, policy.Options{Now: time.Now()})
}

// FingerprintKey is the key of the fingerprints that stand for secrets: SLUICE_FINGERPRINT_KEY, or random. Without the
// variable, fingerprints of two runs cannot be compared.
func (e Environment) FingerprintKey() []byte {
	if key := e.Getenv("SLUICE_FINGERPRINT_KEY"); key != "" {
		return []byte(key)
	}
	return []byte(rand.Text())
}

// MergeBase is the commit that a change begins at: where head left base.
func (s *Session) MergeBase(ctx context.Context, base, head gitstore.Commit) (gitstore.Commit, error) {
	h, err := s.Store.MergeBase(ctx, base.Hash, head.Hash)
	if err != nil {
		return gitstore.Commit{}, fmt.Errorf("where %s left %s: %w", head.Hash.Short(), base.Hash.Short(), err)
	}
	return s.Store.Commit(ctx, h)
}

// FingerprintKey is the session's environment's.
func (s *Session) FingerprintKey() []byte { return s.env.FingerprintKey() }

// FetchCommit makes a commit readable: it is taken from here if it is here, else from the remote, by the ref that should
// hold it, or by itself where the server gives commits by their hashes.
func (s *Session) FetchCommit(ctx context.Context, commit, ref string) (gitstore.Commit, error) {
	h, err := gitstore.ParseHash(commit)
	if err != nil {
		return gitstore.Commit{}, err
	}
	if s.Store.Has(h) {
		return s.Store.Commit(ctx, h)
	}
	if ref != "" {
		if c, err := s.Store.FetchRevision(ctx, ref); err == nil && c.Hash == h {
			return c, nil
		}
	}
	c, err := s.Store.FetchRevision(ctx, commit)
	if err != nil {
		return c, fmt.Errorf("%w (%s may have moved on)", err, ref)
	}
	return c, nil
}

// FetchRef gives the commit of a ref of the remote as it is now; without a remote, or if it does not have the ref, what is here.
func (s *Session) FetchRef(ctx context.Context, ref string) (gitstore.Commit, error) {
	c, err := s.Store.FetchRevision(ctx, ref)
	if err == nil {
		return c, nil
	}
	here, second := s.Store.Resolve(ctx, ref)
	if second != nil {
		return c, err
	}
	return here, nil
}
