package bundle

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/signers"
)

// maxImports limits the imports of a site that are compared with a bundle.
const maxImports = 1000

// ErrOrder means that a bundle does not follow from what the site imported.
var ErrOrder = errors.New("the bundle is out of order")

// KnownError means that the site imported exactly this bundle before. It is an ErrOrder.
type KnownError struct {
	Sequence int64
	At       time.Time
	Newest   bool // nothing was imported since
}

// Error says when.
func (e *KnownError) Error() string {
	text := fmt.Sprintf("bundle %d was imported on %s", e.Sequence, e.At.UTC().Format(time.DateTime))
	if !e.Newest {
		text += ", and newer ones since: it is not imported again"
	}
	return text
}

// Is matches ErrOrder.
func (*KnownError) Is(target error) bool { return target == ErrOrder }

func outOfOrder(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOrder, fmt.Sprintf(format, args...))
}

// Site is the repository that a bundle is for.
type Site struct {
	Store     *gitstore.Store
	Branches  gitstore.Branches // of the environment, and the trunk if bundles bring it
	Trunk     string            // name of the trunk; "" if the site has none yet
	OwnTrunk  bool              // bundles may not bring the trunk, unless the site has none yet
	Allowed   signers.List      // spec.signers of the site's trunk; empty: no signature is required
	Signer    gitstore.Signer   // nil: imports are not signed
	Committer branch.Committer
	Version   string
	Now       time.Time
}

// Opened is a bundle with what it would do at a site. Its objects are in the Store of the site, and in no branch. Close
// forgets them.
type Opened struct {
	*Contents
	Envelope *envelope.Envelope
	Import   incoming.Import  // as it would be recorded
	Last     *incoming.Import // the newest import of the site; nil if there is none
	Moves    []gitstore.Move  // without that of the incoming branch, whose commit Import makes
	Tip      gitstore.Commit  // home's commit
	w        *gitstore.Writer
	refs     map[string]gitstore.Hash
	incoming gitstore.Hash // tip of the branch
}

// Close drops the objects that were not pushed.
func (o *Opened) Close() { _ = o.w.Close() } // nothing of it is kept

// Open reads the objects of a bundle for a site, and checks that it follows from what the site imported: its order, its
// history, and that its objects are those of its branches and no others. Errors are an ErrOrder, envelope.ErrInvalid, gitstore.ErrReach, or failures to read. The caller has verified the signers.
func Open(ctx context.Context, s Site, e *envelope.Envelope) (*Opened, error) {
	c, err := ReadContents(e)
	if err != nil {
		return nil, err
	}
	o := &Opened{Contents: c, Envelope: e}
	if err := o.readSite(ctx, s); err != nil {
		return nil, err
	}
	if err := o.order(ctx, s); err != nil {
		return nil, err
	}
	if o.w, err = s.Store.NewWriter(); err != nil {
		return nil, err
	}
	if err := o.unpack(ctx, s); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// trunkName matches the name of a trunk where no fleet says it. Other branches of Sluice have a slash.
var trunkName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// history returns the imports of the site, newest first.
func (o *Opened) history(ctx context.Context, s Site) ([]incoming.Import, error) {
	return incoming.History(ctx, s.Store, o.Envelope.Environment, o.incoming, maxImports)
}

func (o *Opened) readSite(ctx context.Context, s Site) (err error) {
	name := incoming.Branch(o.Envelope.Environment)
	prefixes := []string{name, LogBranch}
	trunk, brings := o.ref(roleTrunk)
	if brings {
		switch {
		case s.Trunk != "" && trunk.Branch != s.Trunk:
			return fmt.Errorf("the bundle brings the trunk %.100q, and that of this site is %s", trunk.Branch, s.Trunk)
		case s.Trunk != "" && s.OwnTrunk:
			return fmt.Errorf("the bundle brings the trunk %.100q, with home's rules: a site takes it only if its file of signers says `trunk: true`", trunk.Branch)
		case s.Trunk == "" && !trunkName.MatchString(trunk.Branch):
			return fmt.Errorf("%.100q cannot be the first trunk of a site: branches of environments and clusters have such names", trunk.Branch)
		}
		prefixes = append(prefixes, trunk.Branch)
	}
	if o.refs, err = s.Branches.List(ctx, prefixes...); err != nil {
		return err
	}
	if !o.refs[LogBranch].IsZero() {
		return fmt.Errorf("this repository has the branch %s: it exports bundles, and is no site that imports them", LogBranch)
	}
	o.incoming = o.refs[name]
	var fetch []gitstore.Hash
	for _, tip := range []gitstore.Hash{o.incoming, o.refs[trunk.Branch]} {
		if !tip.IsZero() {
			fetch = append(fetch, tip)
		}
	}
	if err := s.Branches.Fetch(ctx, fetch...); err != nil || o.incoming.IsZero() {
		return err
	}
	if !s.Allowed.Empty() {
		if _, err := s.Store.VerifySignature(ctx, o.incoming, s.Allowed); err != nil {
			return fmt.Errorf("branch %s: %w: somebody else wrote to it, so nothing is imported on top of it", name, err)
		}
	}
	return nil
}

// order checks the number of the bundle, and that the site has what it builds on.
func (o *Opened) order(ctx context.Context, s Site) error {
	e := o.Envelope
	list, err := o.history(ctx, s)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		o.Last = &list[0]
	}
	if i := slices.IndexFunc(list, func(i incoming.Import) bool { return i.Sequence == e.Sequence }); i >= 0 {
		switch {
		case list[i].Digest != e.Digest:
			return outOfOrder("this site imported another bundle %d (%.12s, this one is %.12s): two homes issue bundles, or one was restored; export the next one with --full there",
				e.Sequence, list[i].Digest, e.Digest)
		default:
			return &KnownError{e.Sequence, list[i].At, i == 0}
		}
	}
	if o.Last == nil {
		if o.Full() {
			return nil
		}
		return outOfOrder("it builds on bundle %d, and this site has none: import bundle %[1]d first, or one that home exported with --full", o.Base.Sequence)
	}
	switch last := o.Last; {
	case e.Sequence < last.Sequence:
		return outOfOrder("it has the number %d, and this site has %d already: an older bundle is not imported", e.Sequence, last.Sequence)
	case o.Full(): // its history says whether it follows
		return nil
	case e.Sequence == last.Sequence+1 && e.Previous != last.Digest:
		return outOfOrder("it follows another bundle %d (%.12s) than this site has (%.12s): two homes issue bundles, or one was restored; export the next one with --full there",
			last.Sequence, e.Previous, last.Digest)
	}
	i := slices.IndexFunc(list, func(i incoming.Import) bool { return i.Sequence == o.Base.Sequence })
	switch {
	case i < 0:
		return outOfOrder("it builds on bundle %d, and this site has %d: a bundle is missing in between; import it, or export with --since %d at home",
			o.Base.Sequence, o.Last.Sequence, o.Last.Sequence)
	case list[i].Digest != o.Base.Digest:
		return outOfOrder("it builds on another bundle %d (%.12s) than this site has (%.12s): export with --full at home", o.Base.Sequence,
			o.Base.Digest, list[i].Digest)
	}
	return nil
}

// unpack reads the objects and checks the histories.
func (o *Opened) unpack(ctx context.Context, s Site) error {
	from, err := o.Envelope.Part(partObjects)
	if err != nil {
		return err
	}
	if err := gitstore.ReadThin(ctx, from, o.w, gitstore.ThinLimits{Objects: maxObjects, Bytes: maxInflated}); err != nil {
		return fmt.Errorf("%s: %w", partObjects, err)
	}
	var tips []gitstore.Hash
	for _, r := range o.Refs {
		tip, err := gitstore.ParseHash(r.To)
		if err != nil {
			return err
		}
		tips = append(tips, tip)
	}
	if err := gitstore.CheckReach(ctx, o.w, tips...); err != nil {
		return err
	}
	if err := o.environment(ctx, s); err != nil {
		return err
	}
	return o.trunk(ctx, s)
}

// environment checks the commit of the environment branch.
func (o *Opened) environment(ctx context.Context, s Site) error {
	ref, _ := o.ref(roleEnvironment) // ReadContents refuses a bundle without it
	tip, err := gitstore.ParseHash(ref.To)
	if err != nil {
		return err
	}
	if o.Tip, err = s.Store.Commit(ctx, tip); err != nil {
		return err
	}
	environment := o.Envelope.Environment
	st, err := branch.ReadState(ctx, s.Store, ref.Branch, environment, tip, signers.List{})
	if err != nil {
		return err
	}
	switch {
	case st.Foreign != "":
		return fmt.Errorf("the bundle's environment branch is not one that Sluice wrote: %s", st.Foreign)
	case st.Record.Source != o.Source:
		return fmt.Errorf("the bundle says that it brings %.10s, and its branch has %.10s", o.Source, st.Record.Source)
	}
	if o.Last != nil {
		switch ok, err := s.Store.IsAncestor(ctx, o.Last.Home, tip); {
		case err != nil:
			return err
		case !ok:
			return outOfOrder("home's branch does not contain commit %s of bundle %d any more: it was rewritten, or home was restored; import it into a new branch after `git branch -m %s old` in this site's repository, if that is intended",
				o.Last.Home.Short(), o.Last.Sequence, incoming.Branch(environment))
		}
	}
	if err := o.goesBack(ctx, s); err != nil {
		return err
	}
	o.Import = incoming.Import{
		Environment: environment, Sequence: o.Envelope.Sequence, Digest: o.Envelope.Digest, Home: tip, Tree: o.Tip.Tree,
	}
	return nil
}

// goesBack refuses a bundle that takes the environment back and does not say so.
func (o *Opened) goesBack(ctx context.Context, s Site) error {
	if o.Rollback != "" || o.Last == nil || o.Tip.Tree == o.Last.Tree {
		return nil
	}
	list, err := o.history(ctx, s)
	if err != nil {
		return err
	}
	had, err := branch.ReadSource(ctx, s.Store, o.Last.Tree)
	if err != nil {
		return err
	}
	back, err := older(ctx, s.Store, o.Source, had.Commit)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(list, func(i incoming.Import) bool { return i.Tree == o.Tip.Tree }); i > 0 || back {
		return outOfOrder("it goes back to an older state and does not say that it is a rollback")
	}
	return nil
}

// trunk checks that the trunk only goes forward.
func (o *Opened) trunk(ctx context.Context, s Site) error {
	ref, ok := o.ref(roleTrunk)
	if !ok {
		return nil
	}
	to, err := gitstore.ParseHash(ref.To)
	if err != nil {
		return err
	}
	have := o.refs[ref.Branch]
	if have == to {
		return nil
	}
	if !have.IsZero() {
		switch ok, err := s.Store.IsAncestor(ctx, have, to); {
		case err != nil:
			return err
		case !ok:
			return fmt.Errorf("the branch %s of this site has commits that home does not have (%s): a site that takes the trunk from bundles has no commits of its own there", ref.Branch,
				have.Short())
		}
	}
	o.Moves = append(o.Moves, gitstore.Move{Branch: ref.Branch, Old: have, New: to})
	return nil
}

// Import records an open bundle at its site: it moves the incoming branch, and the trunk if the bundle brings it, by
// compare-and-swap and all at once where the server can. It moves no branch that promotions own.
func Import(ctx context.Context, s Site, o *Opened) (incoming.Import, error) {
	parents := []gitstore.Hash{o.Import.Home}
	if !o.incoming.IsZero() {
		parents = []gitstore.Hash{o.incoming, o.Import.Home}
	}
	trailers := append(o.Import.Trailers(), gitstore.Trailer{Key: branch.TrailerVersion, Value: s.Version})
	at := s.Now.UTC().Truncate(time.Second)
	body := fmt.Sprintf("Bundle %d of %s brings %.10s.", o.Import.Sequence, o.Envelope.Fleet, o.Source)
	if o.Rollback != "" {
		body += "\nIt is a rollback: " + o.Rollback
	}
	hash, err := o.w.Commit(gitstore.CommitSpec{
		Tree: o.Import.Tree, Parents: parents, Author: o.Tip.Author, Committer: s.Committer.At(at),
		Message: gitstore.Message(fmt.Sprintf("Import bundle %d for %s", o.Import.Sequence, o.Import.Environment), body, trailers),
		Signer:  s.Signer,
	})
	if err != nil {
		return incoming.Import{}, err
	}
	if !s.Allowed.Empty() {
		if _, err := s.Store.VerifySignature(ctx, hash, s.Allowed); err != nil {
			return incoming.Import{}, fmt.Errorf("spec.signers does not allow the commit of this import: sign with an allowed key (--sign-key FILE): %w", err)
		}
	}
	moves := append(slices.Clone(o.Moves),
		gitstore.Move{Branch: incoming.Branch(o.Import.Environment), Old: o.incoming, New: hash})
	if err := push(ctx, s.Branches, o.w, moves...); err != nil {
		return incoming.Import{}, err
	}
	out := o.Import
	out.Commit, out.At = hash, at
	return out, nil
}

// TrunkCommit returns the commit of the trunk that an open bundle brings; zero if it brings none.
func (o *Opened) TrunkCommit() gitstore.Hash {
	ref, _ := o.ref(roleTrunk) // empty without one, and no hash
	to, err := gitstore.ParseHash(ref.To)
	if err != nil {
		return gitstore.Hash{}
	}
	return to
}
