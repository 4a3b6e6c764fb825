package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/bundle/mirror"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/signers"
)

const (
	maxImports = 1000 // of a site that are compared with a bundle
	// How far ahead the number of a bundle may be. A number is used up when it is imported: whoever signs one bundle must
	// not be able to use up all.
	maxJump  = 10_000
	maxFirst = 1_000_000 // of the first bundle of a site
)

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

// OlderError means that the site imported a newer bundle, and not this one. It is an ErrOrder.
type OlderError struct{ Sequence, Has int64 }

// Error says which.
func (e *OlderError) Error() string {
	return fmt.Sprintf("%v: it has the number %d, and this site has %d already: an older bundle is not imported", ErrOrder, e.Sequence, e.Has)
}

// Is matches ErrOrder.
func (*OlderError) Is(target error) bool { return target == ErrOrder }

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
	// Brought is the tree of the site's mirror with what the bundle adds to it; zero if it adds nothing. See package mirror.
	Brought  gitstore.Hash
	w        *gitstore.Writer
	refs     map[string]gitstore.Hash
	incoming gitstore.Hash    // tip of the branch
	mirror   gitstore.Hash    // tip of the branch
	unsigned error            // no signature of the tip counts
	resigns  *incoming.Import // the tip, which Import signs
}

// Close drops the objects that were not pushed.
func (o *Opened) Close() { _ = o.w.Close() } // nothing of it is kept

// Open reads the objects of a bundle for a site, and checks that it follows from what the site imported: its order, its
// history, and that its objects are those of its branches and no others. Errors are an ErrOrder, envelope.ErrInvalid,
// gitstore.ErrReach, or failures to read. The caller has verified the signers.
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
	if err := o.open(ctx, s); err != nil {
		return nil, err
	}
	return o, nil
}

// Read is Open for a repository that need not be the site, such as an empty one for a full bundle: it checks what the bundle
// has, and not that it follows from something. What it returns must not be imported. Of the site, only the Store counts.
func Read(ctx context.Context, s Site, e *envelope.Envelope) (*Opened, error) {
	c, err := ReadContents(e)
	if err != nil {
		return nil, err
	}
	o := &Opened{Contents: c, Envelope: e}
	if err := o.open(ctx, s); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *Opened) open(ctx context.Context, s Site) (err error) {
	if o.w, err = s.Store.NewWriter(); err != nil {
		return err
	}
	if err = o.unpack(ctx, s); err != nil {
		o.Close()
	}
	return err
}

// trunkName matches the name of a trunk where no fleet says it. Other branches of Sluice have a slash.
var trunkName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// history returns the imports of the site, newest first.
func (o *Opened) history(ctx context.Context, s Site) ([]incoming.Import, error) {
	return incoming.History(ctx, s.Store, o.Envelope.Environment, o.incoming, maxImports)
}

func (o *Opened) readSite(ctx context.Context, s Site) (err error) {
	name := incoming.Branch(o.Envelope.Environment)
	prefixes := []string{name, LogBranch, mirror.Branch(o.Envelope.Environment)}
	trunk, brings := o.ref(roleTrunk)
	if brings {
		switch {
		case s.Trunk != "" && trunk.Branch != s.Trunk:
			return fmt.Errorf("the bundle brings the trunk %.100q, and that of this site is %s", trunk.Branch, s.Trunk)
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
	if brings && s.Trunk != "" && s.OwnTrunk && o.refs[trunk.Branch].String() != trunk.To { // else it moves nothing
		return fmt.Errorf("the bundle brings the trunk %.100q, with home's rules: a site takes it only if its file of signers says `trunk: true`", trunk.Branch)
	}
	o.incoming = o.refs[name]
	if len(o.Charts)+len(o.Commits) > 0 {
		o.mirror = o.refs[mirror.Branch(o.Envelope.Environment)]
	}
	var fetch []gitstore.Hash
	for _, tip := range []gitstore.Hash{o.incoming, o.refs[trunk.Branch], o.mirror} {
		if !tip.IsZero() {
			fetch = append(fetch, tip)
		}
	}
	if err := s.Branches.Fetch(ctx, fetch...); err != nil || o.incoming.IsZero() {
		return err
	}
	if !s.Allowed.Empty() {
		_, err := s.Store.VerifySignature(ctx, o.incoming, s.Allowed)
		if _, ok := errors.AsType[*gitstore.SignatureError](err); ok {
			o.unsigned = err // order decides
		} else if err != nil {
			return fmt.Errorf("branch %s: %w", name, err)
		}
	}
	return nil
}

// order checks the number of the bundle, and that the site has what it builds on.
func (o *Opened) order(ctx context.Context, s Site) error {
	e := o.Envelope
	list, err := o.history(ctx, s)
	if o.unsigned != nil {
		return o.signs(ctx, s, list)
	}
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
		if e.Sequence > maxFirst {
			return outOfOrder("it has the number %d: more than %d is refused, since no bundle with a lower number could follow", e.Sequence, maxFirst)
		}
		if o.Full() {
			return nil
		}
		return outOfOrder("it builds on bundle %d, and this site has none: import bundle %[1]d first, or one that home exported with --full", o.Base.Sequence)
	}
	switch last := o.Last; {
	case e.Sequence < last.Sequence:
		return &OlderError{e.Sequence, last.Sequence}
	case e.Sequence-last.Sequence > maxJump:
		return outOfOrder("it has the number %d, and this site has %d: a jump of more than %d is refused, since no bundle with a number in between could follow",
			e.Sequence, last.Sequence, maxJump)
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
	// ReadContents refuses a bundle without the ref
	if ref, _ := o.ref(roleEnvironment); ref.From != list[i].Home.String() {
		return fmt.Errorf("%s says that bundle %d brought %.10s, and it brought %s", partContents, o.Base.Sequence, ref.From, list[i].Home.Short())
	}
	return nil
}

// signs decides whether the bundle may be imported although no signature of the branch's tip counts: only to sign the
// same bundle. The commit then counts as the first import of the site, since nobody vouches for those before it; but it
// must not be older than one that a signature vouches for.
func (o *Opened) signs(ctx context.Context, s Site, list []incoming.Import) error {
	name := incoming.Branch(o.Envelope.Environment)
	if len(list) == 0 || list[0].Sequence != o.Envelope.Sequence || list[0].Digest != o.Envelope.Digest {
		text := "somebody else wrote to it, so nothing is imported on top of it"
		if len(list) > 0 {
			text = fmt.Sprintf("its tip is an import of bundle %d: sign it first, by an import of that bundle with --sign-key", list[0].Sequence)
		}
		return fmt.Errorf("branch %s: %w: %s", name, o.unsigned, text)
	}
	if s.Signer == nil {
		return fmt.Errorf("branch %s: %w: this import of bundle %d does not count; sign it with --sign-key FILE", name, o.unsigned, list[0].Sequence)
	}
	o.resigns = &list[0]
	var err error
	if o.Last, err = o.lastSigned(ctx, s); err != nil {
		return err
	}
	if o.Last != nil && o.Last.Sequence > o.Envelope.Sequence {
		return outOfOrder("it has the number %d, and this site has a signed import of bundle %d: somebody else wrote to branch %s", o.Envelope.Sequence,
			o.Last.Sequence, name)
	}
	return nil
}

// lastSigned returns the newest import below an unsigned tip that a signature vouches for; nil if there is none. Nothing of
// the imports above it is believed, not even that one of them is the first: whoever may push must not hide signed imports. Home's
// history, which the bundle vouches for, has no import of the site, so each of their other parents must be in it.
func (o *Opened) lastSigned(ctx context.Context, s Site) (*incoming.Import, error) {
	at := o.resigns.Before
	for n := 0; !at.IsZero(); n++ {
		c, err := s.Store.Commit(ctx, at)
		if err != nil {
			return nil, err
		}
		one, err := incoming.Parse(c, o.Envelope.Environment)
		if err != nil {
			return nil, err
		}
		_, err = s.Store.VerifySignature(ctx, at, s.Allowed)
		if err == nil {
			return &one, nil
		}
		if _, ok := errors.AsType[*gitstore.SignatureError](err); !ok {
			return nil, err
		}
		switch ok, err := s.Store.IsAncestor(ctx, one.Home, o.resigns.Home); {
		case err != nil:
			return nil, err
		case n == maxImports:
			return nil, fmt.Errorf("branch %s has more than %d imports that are not signed: import the bundle into a new branch", incoming.Branch(o.Envelope.Environment), n)
		case !ok:
			return nil, fmt.Errorf("branch %s: commit %s is not signed, and names a commit that home does not have: somebody else wrote to it",
				incoming.Branch(o.Envelope.Environment), at.Short())
		}
		at = one.Before
	}
	return nil, nil //nolint:nilnil // there is none
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
	objects := o.w.Len()
	var tips, trees []gitstore.Hash
	for _, r := range o.Refs {
		tip, err := gitstore.ParseHash(r.To)
		if err != nil {
			return err
		}
		tips = append(tips, tip)
	}
	for _, c := range o.Commits {
		id, err := gitstore.ParseHash(c.Commit)
		if err != nil {
			return err
		}
		tree, err := mirror.TreeOf(ctx, s.Store, id, c.Object)
		if err != nil {
			return err
		}
		trees = append(trees, tree)
	}
	if err := gitstore.CheckReach(ctx, o.w, tips, trees); err != nil {
		return err
	}
	if objects != o.Objects {
		return fmt.Errorf("%s says that the bundle has %d objects, and it has %d", partContents, o.Objects, objects)
	}
	if err := o.environment(ctx, s); err != nil {
		return err
	}
	if err := o.trunk(ctx, s); err != nil {
		return err
	}
	return o.outside(ctx, s)
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
	case len(st.Clusters) != o.Clusters || st.Record.Objects != o.Manifests:
		return fmt.Errorf("the bundle says that it brings %d clusters and %d manifests, and its branch has %d and %d", o.Clusters, o.Manifests,
			len(st.Clusters), st.Record.Objects)
	case o.resigns != nil && (o.resigns.Home != tip || o.resigns.Tree != o.Tip.Tree):
		return fmt.Errorf("the tip of branch %s says that it is an import of this bundle and has other content: somebody else wrote to it",
			incoming.Branch(environment))
	}
	if err := o.promotions(ctx, s, ref); err != nil {
		return err
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

// promotions refuses a bundle that tells of other promotions than its commits do.
func (o *Opened) promotions(ctx context.Context, s Site, ref Ref) error {
	from := gitstore.Hash{}
	if ref.From != "" {
		var err error
		if from, err = gitstore.ParseHash(ref.From); err != nil {
			return err
		}
	}
	have, err := promotionsOf(ctx, s.Store, o.Tip, from)
	if err != nil {
		return err
	}
	says, err := json.Marshal(o.Promotions)
	if err != nil {
		return err
	}
	does, err := json.Marshal(have) // which replaces what is no text, as in the bundle
	if err != nil {
		return err
	}
	if !bytes.Equal(says, does) {
		return fmt.Errorf("%s tells of other promotions than the commits that the bundle brings", partContents)
	}
	if r := branch.Trailer(o.Tip.Message, branch.TrailerRollback); r != "" && strings.ToValidUTF8(r, "\uFFFD") != o.Rollback {
		return fmt.Errorf("%s gives %.100q as the reason of the rollback, and its commit %.100q", partContents, o.Rollback, r)
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
	one := o.Import
	one.First = o.resigns != nil
	trailers := append(one.Trailers(), gitstore.Trailer{Key: branch.TrailerVersion, Value: s.Version})
	at := s.Now.UTC().Truncate(time.Second)
	subject := "Import bundle %d for %s"
	if one.First {
		subject = "Sign the import of bundle %d for %s"
	}
	body := fmt.Sprintf("Bundle %d of %s brings %.10s.", o.Import.Sequence, o.Envelope.Fleet, o.Source)
	if o.Rollback != "" {
		body += "\nIt is a rollback: " + o.Rollback
	}
	hash, err := o.w.Commit(gitstore.CommitSpec{
		Tree: o.Import.Tree, Parents: parents, Author: o.Tip.Author, Committer: s.Committer.At(at),
		Message: gitstore.Message(fmt.Sprintf(subject, o.Import.Sequence, o.Import.Environment), body, trailers),
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
	if !o.Brought.IsZero() {
		m, err := o.mirrorMove(s, at)
		if err != nil {
			return incoming.Import{}, err
		}
		moves = append([]gitstore.Move{m}, moves...) // what an import needs is there before it
	}
	if err := push(ctx, s.Branches, o.w, moves...); err != nil {
		return incoming.Import{}, err
	}
	out := one
	out.Commit, out.At = hash, at
	return out, nil
}

// mirrorMove makes the commit of the site's mirror.
func (o *Opened) mirrorMove(s Site, at time.Time) (gitstore.Move, error) {
	who := s.Committer.At(at)
	var parents []gitstore.Hash
	if !o.mirror.IsZero() {
		parents = []gitstore.Hash{o.mirror}
	}
	hash, err := o.w.Commit(gitstore.CommitSpec{
		Tree: o.Brought, Parents: parents, Author: who, Committer: who, Signer: s.Signer,
		Message: gitstore.Message(fmt.Sprintf("Keep charts and repositories of bundle %d for %s", o.Import.Sequence, o.Import.Environment),
			"Rendering here takes them from this branch, by their digests.",
			[]gitstore.Trailer{{Key: branch.TrailerVersion, Value: s.Version}}),
	})
	return gitstore.Move{Branch: mirror.Branch(o.Import.Environment), Old: o.mirror, New: hash}, err
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
