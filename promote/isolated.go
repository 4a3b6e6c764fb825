package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/bundle/receipt"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/rollout"
)

const receiptPrefix = "sluice/receipts/"

// ReceiptBranch is the branch with the newest receipt of an isolated environment: the one that the home imported, or the
// one that the site wrote.
func ReceiptBranch(environment string) string { return receiptPrefix + environment }

// BranchPrefixes are the prefixes of a fleet's rendered branches, and of those that say where an isolated environment's
// clusters move. SetBacks needs the branches with all of them.
func BranchPrefixes(f *fleet.Fleet) []string {
	out := f.BranchPrefixes()
	if sites := incoming.Prefixes(f); len(sites) > 0 {
		out = append(append(out, sites...), receiptPrefix)
	}
	return out
}

// Elsewhere reports whether the cluster branches of an environment move on a site, and not in the repository with these
// branches, which are those with BranchPrefixes.
func Elsewhere(f *fleet.Fleet, e fleet.Environment, refs map[string]gitstore.Hash) bool {
	return e.Isolated != nil && !incoming.Site(f, e.Name, refs)
}

// StoredReceipt is a receipt on a receipt branch.
type StoredReceipt struct {
	receipt.Receipt
	receipt.Import
	Commit gitstore.Hash // of the branch
}

// ReadReceipt reads the newest receipt of an isolated environment; nil if there is none. If spec.signers is not empty,
// one of these signers must have signed the branch's tip, else the error is a *gitstore.SignatureError. A branch that
// holds no receipt is an error that wraps receipt.ErrInvalid.
func ReadReceipt(ctx context.Context, h *hydrate.Hydrator, f *fleet.Fleet, environment string) (*StoredReceipt, error) {
	refs, err := h.Branches.List(ctx, ReceiptBranch(environment))
	if err != nil {
		return nil, err
	}
	return readReceipt(ctx, h, f, environment, refs[ReceiptBranch(environment)])
}

func readReceipt(ctx context.Context, h *hydrate.Hydrator, f *fleet.Fleet, environment string,
	tip gitstore.Hash,
) (*StoredReceipt, error) {
	if tip.IsZero() {
		return nil, nil
	}
	if err := h.Branches.Fetch(ctx, tip); err != nil {
		return nil, err
	}
	if allowed := f.Signers(); !allowed.Empty() {
		if _, err := h.Store.VerifySignature(ctx, tip, allowed); err != nil {
			return nil, fmt.Errorf("branch %s: %w", ReceiptBranch(environment), err)
		}
	}
	commit, err := h.Store.Commit(ctx, tip)
	if err != nil {
		return nil, err
	}
	entries, err := h.Store.Tree(ctx, commit.Tree)
	if err != nil {
		return nil, err
	}
	file := func(name string) ([]byte, error) {
		i := slices.IndexFunc(entries, func(e gitstore.Entry) bool { return e.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("branch %s: %w: it has no %s", ReceiptBranch(environment), receipt.ErrInvalid, name)
		}
		return h.Store.Blob(ctx, entries[i].Hash)
	}
	out := &StoredReceipt{Commit: tip}
	data, err := file(receipt.File)
	if err != nil {
		return nil, err
	}
	if out.Receipt, err = receipt.Decode(data); err != nil {
		return nil, fmt.Errorf("branch %s: %w", ReceiptBranch(environment), err)
	}
	if data, err = file(receipt.ImportFile); err != nil {
		return nil, err
	}
	if out.Import, err = receipt.DecodeImport(data); err != nil {
		return nil, fmt.Errorf("branch %s: %w", ReceiptBranch(environment), err)
	}
	return out, nil
}

// site is what the newest receipt says of an isolated environment, compared with what this repository made.
type site struct {
	commit  string // of the receipt branch
	known   rollout.Site
	receipt *receipt.Receipt // with times on the clock of this side; nil: there is none
	source  rollout.Source   // of the site's environment branch; empty if it is unknown
	since   time.Time
	has     map[string]gitstore.Hash // the clusters' trees of the site's environment branch; nil if this side never had it
}

// readSites reads the receipts of the environments whose clusters move elsewhere.
func (s *snapshot) readSites(ctx context.Context) error {
	s.sites = map[string]*site{}
	for _, e := range s.fleet.Spec.Environments {
		if i := s.imports[e.Name]; i != nil && i.foreign != "" && e.Isolated != nil { // nobody knows whether this is the site
			s.sites[e.Name] = &site{known: rollout.Site{MaxAge: e.Isolated.Receipts.Age(), Unknown: i.foreign}}
		}
		if !Elsewhere(s.fleet, e, s.refs) {
			continue
		}
		one, err := s.readSite(ctx, e)
		if err != nil {
			return err
		}
		s.sites[e.Name] = one
	}
	return nil
}

// receiptSetBack reports whether the branch has an older receipt than it had. One that was accepted because its site was
// restored follows the newer one on the branch.
func (s *snapshot) receiptSetBack(ctx context.Context, known rollout.Record, stored *StoredReceipt) (bool, error) {
	if stored.Sequence >= known.Receipt {
		return false, nil
	}
	before, err := gitstore.ParseHash(known.ReceiptCommit)
	if stored.Restored == "" || err != nil {
		return true, nil //nolint:nilerr // the record does not say which commit it was
	}
	follows, err := s.hydrator.Store.IsAncestor(ctx, before, stored.Commit)
	if err != nil && ctx.Err() == nil { // the commit is gone, so the branch does not contain it
		return true, nil
	}
	return !follows, err
}

func (s *snapshot) readSite(ctx context.Context, e fleet.Environment) (*site, error) {
	out := &site{known: rollout.Site{MaxAge: e.Isolated.Receipts.Age()}}
	stored, err := readReceipt(ctx, s.hydrator, s.fleet, e.Name, s.refs[ReceiptBranch(e.Name)])
	switch {
	case errors.Is(err, receipt.ErrInvalid), errors.Is(err, gitstore.ErrUnverified):
		out.known.Unknown = "its receipt cannot be believed: " + err.Error()
		return out, nil
	case err != nil:
		return nil, err
	case stored == nil:
		out.known.Unknown = fmt.Sprintf("no receipt of %s was imported (`sluice receipt import`)", e.Name)
		return out, nil
	}
	known := s.records.known[e.Name]
	setBack, err := s.receiptSetBack(ctx, known, stored)
	if err != nil {
		return nil, err
	}
	if last := known.Receipt; setBack {
		out.known.Unknown = fmt.Sprintf("somebody set %s back: it has receipt %d, and had receipt %d before: import the newest receipt again",
			ReceiptBranch(e.Name), stored.Sequence, last)
		return out, nil
	}
	out.commit = stored.Commit.String()
	r, ahead := stored.OnClock(stored.At)
	out.receipt = &r
	out.known.Made, out.known.Sequence, out.known.ClockAhead = r.Made, r.Sequence, ahead
	if r.Halt != nil {
		out.known.Halt = &rollout.Halt{By: r.Halt.By, Reason: r.Halt.Reason, At: r.Halt.At}
	}
	for _, f := range r.Freezes {
		if one := (rollout.Freeze{Target: f.Cluster, By: f.By, Reason: f.Reason, From: f.From, Until: f.Until}); one.Holds(r.Made) {
			out.known.Freezes = append(out.known.Freezes, one)
		}
	}
	if r.Environment != e.Name || r.Fleet != s.fleet.Name {
		out.known.Contradicts = fmt.Sprintf("it is of environment %s of fleet %s", r.Environment, r.Fleet)
		return out, nil
	}
	if out.known.Contradicts = stored.Contradicts; out.known.Contradicts != "" {
		return out, nil
	}
	err = (&witness{s, e.Name, out}).examine(ctx)
	if unknownHistory(err) {
		out.known.Unknown, err = fmt.Sprintf("what its receipt says cannot be compared with %s: %v", s.fleet.EnvironmentBranch(e.Name), err), nil
	}
	return out, err
}

// witness compares what a receipt says with what the environment branch had.
type witness struct {
	*snapshot
	environment string
	site        *site
}

// examine finds out what the site runs, by the trees that this repository made. What it never made is a contradiction.
func (w *witness) examine(ctx context.Context) error {
	r, known := w.site.receipt, &w.site.known
	if why := foreignOn(*r, w.fleet.EnvironmentBranch(w.environment)); why != "" {
		known.Contradicts = why
		return nil
	}
	var err error
	if known.Contradicts, err = w.imported(ctx); err != nil || known.Contradicts+known.Unknown != "" || r.Branch.Commit == "" {
		return err
	}
	err = w.trees(ctx)
	if _, never := errors.AsType[*neverMadeError](err); never {
		known.Contradicts, err = err.Error(), nil
	}
	if known.Contradicts+known.Unknown != "" || err != nil {
		w.site.source = rollout.Source{}
		return err
	}
	if r.Rollout.Tree == r.Branch.Tree && !r.Rollout.Done.IsZero() && r.Halt == nil {
		known.Healthy = later(cmp.Or(r.Rollout.Healthy, r.Rollout.Done), w.site.since)
	}
	return nil
}

// foreignOn returns which branch of a site has a commit that its Sluice did not make; "" if none has.
func foreignOn(r receipt.Receipt, branch string) string {
	if r.Branch.Foreign != "" {
		return fmt.Sprintf("the site says of its branch %s: %s", branch, r.Branch.Foreign)
	}
	for _, c := range r.Clusters {
		if c.Branch.Foreign != "" {
			return fmt.Sprintf("the site says of the branch of cluster %s: %s", c.Name, c.Branch.Foreign)
		}
	}
	return ""
}

// neverMadeError means that a site says that it has what this repository never made.
type neverMadeError struct{ what string }

// Error names it.
func (e *neverMadeError) Error() string { return e.what }

// never returns a *neverMadeError, or an error that says that the history does not tell.
func (w *witness) never(ctx context.Context, format string, args ...any) error {
	entries, err := w.past[w.environment].history(ctx)
	if err != nil {
		return err
	}
	if len(entries) >= maxHistory {
		w.site.known.Unknown = fmt.Sprintf("the newest receipt is about a state before the last %d of %s", maxHistory,
			w.fleet.EnvironmentBranch(w.environment))
		return nil
	}
	return &neverMadeError{fmt.Sprintf(format, args...)}
}

// imported returns what contradicts the commit that the site imported last; "" if nothing does.
func (w *witness) imported(ctx context.Context) (string, error) {
	want := w.site.receipt.Incoming
	if want == "" || want == hashText(w.states[w.environment].Tip.Hash) {
		return "", nil
	}
	entries, err := w.past[w.environment].history(ctx)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(entries, func(e HistoryEntry) bool { return e.Commit.String() == want }) {
		return "", nil
	}
	err = w.never(ctx, "the site imported commit %.10s, which %s never had", want, w.fleet.EnvironmentBranch(w.environment))
	if _, never := errors.AsType[*neverMadeError](err); never {
		return err.Error(), nil
	}
	return "", err
}

// trees finds the states of the environment branch that the site and its clusters have. After a rollback of single
// clusters on the site, the tree of its branch is one that only the site made, and the trees of the clusters tell.
func (w *witness) trees(ctx context.Context) error {
	r, past := w.site.receipt, w.past[w.environment]
	w.site.since = r.Branch.Since
	whole, err := past.stateOf(ctx, r.Branch.Tree)
	if err != nil && !errors.Is(err, rollout.ErrNoTree) {
		return err
	}
	if err == nil {
		w.site.source, w.site.has = whole.Source(), whole.Clusters
		if r.Branch.Source != "" && r.Branch.Source != w.site.source.Commit {
			return &neverMadeError{fmt.Sprintf("it says that tree %.10s is of %.10s, and %s has it of %s", r.Branch.Tree, r.Branch.Source,
				w.fleet.EnvironmentBranch(w.environment), w.site.source)}
		}
		made, err := w.made(ctx, r.Branch.Tree)
		if err != nil {
			return err
		}
		w.site.since = later(w.site.since, made) // nothing ran before it was made, whatever the site's clock says
	}
	composed := rollout.Source{Clusters: map[string]rollout.ClusterSource{}}
	for _, c := range r.Clusters {
		if whole != nil && hashText(whole.Clusters[c.Name]) != c.Desired {
			return &neverMadeError{fmt.Sprintf("it says that tree %.10s has %.10s for cluster %s, and %s has %.10s", r.Branch.Tree,
				cmp.Or(c.Desired, "nothing"), c.Name, w.fleet.EnvironmentBranch(w.environment),
				cmp.Or(hashText(whole.Clusters[c.Name]), "nothing"))}
		}
		for _, tree := range slices.Compact([]string{c.Desired, c.Branch.Tree}) {
			if tree == "" || whole != nil && hashText(whole.Clusters[c.Name]) == tree {
				continue
			}
			hash, err := gitstore.ParseHash(tree)
			if err != nil {
				return err
			}
			st, err := past.with(ctx, c.Name, hash)
			if errors.Is(err, rollout.ErrNoTree) {
				return w.never(ctx, "cluster %s has tree %.10s, which %s never had for it", c.Name, tree,
					w.fleet.EnvironmentBranch(w.environment))
			}
			if err != nil {
				return err
			}
			if tree == c.Desired {
				composed.Clusters[c.Name] = st.Source().On(c.Name)
			}
		}
	}
	if whole == nil {
		if len(composed.Clusters) == 0 {
			return w.never(ctx, "%s of the site has tree %.10s, which it never had here", w.fleet.EnvironmentBranch(w.environment),
				r.Branch.Tree)
		}
		composed.Commit = composed.Clusters[slices.Min(slices.Collect(maps.Keys(composed.Clusters)))].Commit
		w.site.source = composed
	}
	return nil
}

// made returns when the environment branch got a tree last; zero if that is further back than maxHistory.
func (w *witness) made(ctx context.Context, tree string) (time.Time, error) {
	var at time.Time
	commit := w.states[w.environment].Tip
	for range maxHistory {
		switch is := commit.Tree.String() == tree; {
		case is:
			at = commit.Committer.When
		case !at.IsZero():
			return at, nil
		}
		if len(commit.Parents) == 0 {
			break
		}
		var err error
		if commit, err = parent(ctx, w.hydrator, commit); err != nil {
			return at, err
		}
	}
	return at, nil
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// on returns what the receipt says of a cluster; nil if it says nothing.
func (s *site) on(cluster string) *receipt.Cluster {
	if s == nil || s.receipt == nil || s.known.Contradicts != "" || s.known.Unknown != "" {
		return nil
	}
	i, ok := slices.BinarySearchFunc(s.receipt.Clusters, cluster,
		func(c receipt.Cluster, name string) int { return strings.Compare(c.Name, name) })
	if !ok {
		return nil
	}
	return &s.receipt.Clusters[i]
}

// clusters describes the clusters of the fleet's environment as the receipt has them. Desired is what the environment
// branch here has.
func (s *site) clusters(list []rollout.ClusterState) {
	for i := range list {
		c := &list[i]
		c.Tree, c.Foreign = "", ""
		one := s.on(c.Name)
		if one == nil {
			c.StatusesUnknown = cmp.Or(s.known.Unknown, "the newest receipt does not name it")
			continue
		}
		c.Tree, c.StatusesUnknown = one.Branch.Tree, one.StatusesUnknown
		for _, st := range one.Statuses {
			c.Statuses = append(c.Statuses, rollout.Status(st))
		}
	}
}

// upstream describes the environment as others see it that come after it: as the site has it.
func (s *site) upstream(out *rollout.Upstream) {
	known := s.known
	out.Site, out.Source, out.Since = &known, s.source, s.since
	for i := range out.Clusters {
		c := &out.Clusters[i]
		one := s.on(c.Name)
		if one == nil { // what it does not say about a cluster is not known
			if s.has != nil {
				c.Desired = hashText(s.has[c.Name])
			}
			continue
		}
		c.Desired = one.Desired
		frozen := slices.ContainsFunc(known.Freezes, func(f rollout.Freeze) bool { return f.Target == c.Name })
		if one.Frozen || frozen {
			c.State = "frozen"
		}
	}
}
