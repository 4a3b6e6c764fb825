// Package transfer carries receipts from the site of an isolated environment to the fleet's home: a site issues a signed
// file, and home imports it. Each side keeps the newest receipt on the environment's receipt branch, and moves that
// branch by compare-and-swap. The order of receipts comes from their numbers and digests, never from clocks.
//
// The package is not API: it can change in every release.
package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-gitops/sluice/bundle"
	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/bundle/receipt"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/promote"
)

// ErrRefused means that a receipt is not imported: it is about something else, or not newer than the one that is here.
var ErrRefused = errors.New("the receipt is refused")

// The file of the envelope's manifest on a receipt branch, and the folder of the signatures over it.
const (
	manifestFile  = "manifest.json"
	signaturesDir = "signatures"
)

// Order is what a site writes.
type Order struct {
	Request     promote.Request // its Trunk, Now and Adapters
	Environment string
	Site        string
	Signers     []envelope.Signer
}

// Issued is a receipt that a site wrote.
type Issued struct {
	Receipt receipt.Receipt
	Digest  string
	File    []byte
}

// Issue describes what the site runs and signs it. It keeps the receipt on the site's receipt branch before it returns,
// so that no two receipts have one number: a number of which the file is lost is never used again. A *promote.MovedError
// means that another receipt was issued meanwhile.
func Issue(ctx context.Context, h *hydrate.Hydrator, o Order) (*Issued, error) {
	if len(o.Signers) == 0 {
		return nil, errors.New("a receipt needs a signature")
	}
	f, _, err := h.Fleet(ctx, o.Request.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	before, err := promote.ReadReceipt(ctx, h, f, o.Environment)
	if err != nil {
		return nil, err
	}
	r, err := promote.Survey(ctx, h, o.Request, o.Environment)
	if err != nil {
		return nil, err
	}
	r.Site, r.Sequence = o.Site, 1
	m := envelope.Manifest{
		Kind: envelope.Receipt, Fleet: r.Fleet, Environment: r.Environment, Created: r.Made,
	}
	if before != nil {
		r.Sequence, m.Previous = before.Sequence+1, before.Manifest
	}
	m.Sequence = r.Sequence
	data, err := r.Encode()
	if err != nil {
		return nil, err
	}
	parts := []envelope.Content{envelope.Text(receipt.File, data)}
	manifest, err := envelope.Seal(m, parts)
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	if err := envelope.Write(&file, manifest, parts, o.Signers...); err != nil {
		return nil, err
	}
	one, err := read(file.Bytes())
	if err != nil {
		return nil, err
	}
	kept := receipt.Import{At: r.Made, Manifest: one.envelope.Digest}
	if err := (&keeper{h, f, o.Request.Trunk}).keep(ctx, one, kept, before); err != nil {
		return nil, err
	}
	return &Issued{*r, one.envelope.Digest, file.Bytes()}, nil
}

// file is a receipt in its envelope. Nothing says who signed it.
type file struct {
	envelope *envelope.Envelope
	data     []byte
	receipt  receipt.Receipt
}

// Inspect reads a receipt without a trust in anybody. An error is an envelope.ErrInvalid or a receipt.ErrInvalid.
func Inspect(data []byte) (receipt.Receipt, *envelope.Envelope, error) {
	one, err := read(data)
	if err != nil {
		return receipt.Receipt{}, nil, err
	}
	return one.receipt, one.envelope, nil
}

// MaxFile is the size of the largest file that holds a receipt.
const MaxFile = receipt.MaxBytes + 1<<20

// ReadFile reads the bytes of a receipt, at most MaxFile of them.
func ReadFile(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, MaxFile+1))
	if err == nil && len(data) > MaxFile {
		return nil, fmt.Errorf("%w: it has more than %d bytes", receipt.ErrInvalid, MaxFile)
	}
	return data, err
}

func read(data []byte) (*file, error) {
	e, err := envelope.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	if e.Kind != envelope.Receipt {
		return nil, fmt.Errorf("%w: the file is a %s", receipt.ErrInvalid, e.Kind)
	}
	if len(e.Parts) != 1 || e.Parts[0].Name != receipt.File {
		return nil, fmt.Errorf("%w: its only part must be %s", receipt.ErrInvalid, receipt.File)
	}
	out := &file{envelope: e}
	if out.data, err = e.Read(receipt.File, receipt.MaxBytes); err != nil {
		return nil, err
	}
	if out.receipt, err = receipt.Decode(out.data); err != nil {
		return nil, err
	}
	r := out.receipt
	if r.Fleet != e.Fleet || r.Environment != e.Environment || r.Sequence != e.Sequence || !r.Made.Equal(e.Created) {
		return nil, fmt.Errorf("%w: its manifest is about another receipt", receipt.ErrInvalid)
	}
	return out, nil
}

// Want is an import at home.
type Want struct {
	Trunk gitstore.Commit
	Trust *envelope.Trust
	Now   time.Time
	By    string
	// Restored is why a receipt may be imported that is not newer than the one that is here: its site was restored from a
	// backup. "": it may not.
	Restored string
}

// Imported is what Import did.
type Imported struct {
	Receipt receipt.Receipt
	Verdict envelope.Verdict
	// Already means that it was here before.
	Already bool
	// Gap is the number of receipts between the one before and this one that did not come.
	Gap int64
	// ClockAhead is by how much the site's clock is ahead at least.
	ClockAhead time.Duration
}

// Import verifies a receipt and makes it the newest one of its environment. Errors are an envelope.ErrInvalid, a
// receipt.ErrInvalid, an envelope.ErrUntrusted or an ErrRefused; a *promote.MovedError means that another one was
// imported meanwhile.
func Import(ctx context.Context, h *hydrate.Hydrator, data []byte, want Want) (*Imported, error) {
	one, err := read(data)
	if err != nil {
		return nil, err
	}
	out := &Imported{Receipt: one.receipt}
	if out.Verdict, err = want.Trust.Verify(one.envelope, want.Now); err != nil {
		return nil, err
	}
	f, _, err := h.Fleet(ctx, want.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	if err := belongs(ctx, h, f, one.receipt); err != nil {
		return nil, err
	}
	before, err := promote.ReadReceipt(ctx, h, f, one.receipt.Environment)
	switch {
	case err != nil && (want.Restored == "" || !errors.Is(err, receipt.ErrInvalid)):
		return nil, err
	case before != nil && before.Manifest == one.envelope.Digest:
		out.Already = true
		return out, nil
	case before != nil:
		why := follows(one.envelope, before)
		if why != "" && want.Restored == "" {
			return nil, fmt.Errorf("%w: %s: if the site was restored from a backup, import it with --restored REASON", ErrRefused, why)
		}
		if why == "" {
			want.Restored, out.Gap = "", one.receipt.Sequence-before.Sequence-1
		}
	}
	kept := receipt.Import{
		At: second(want.Now), By: receipt.Text(want.By), Manifest: one.envelope.Digest, Signers: out.Verdict.Names,
		Restored: receipt.Text(want.Restored),
	}
	if kept.Contradicts, err = otherBundle(ctx, h, one.receipt); err != nil {
		return nil, err
	}
	_, out.ClockAhead = one.receipt.OnClock(kept.At)
	return out, (&keeper{h, f, want.Trunk}).keep(ctx, one, kept, before)
}

func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// belongs refuses a receipt that this repository cannot use.
func belongs(ctx context.Context, h *hydrate.Hydrator, f *fleet.Fleet, r receipt.Receipt) error {
	if r.Fleet != f.Name {
		return fmt.Errorf("%w: it is of fleet %s, and this is %s", ErrRefused, r.Fleet, f.Name)
	}
	e, ok := f.Environment(r.Environment)
	switch {
	case !ok:
		return fmt.Errorf("%w: %w", ErrRefused, promote.UnknownEnvironment(f, r.Environment))
	case e.Isolated == nil:
		return fmt.Errorf("%w: environment %s is not isolated: write `isolated: {}` beside its name in sluice.yaml", ErrRefused, e.Name)
	}
	refs, err := h.Branches.List(ctx, promote.BranchPrefixes(f)...)
	if err != nil {
		return err
	}
	if !promote.Elsewhere(f, *e, refs) {
		return fmt.Errorf("%w: this repository is the site of %s: receipts are imported at the home of the fleet", ErrRefused, e.Name)
	}
	return nil
}

// otherBundle returns why the bundle that a site imported last is not the one that home exported with that number; ""
// if it is, and if home does not remember it.
func otherBundle(ctx context.Context, h *hydrate.Hydrator, r receipt.Receipt) (string, error) {
	if r.Bundle == nil {
		return "", nil
	}
	exports, err := bundle.Exports(ctx, h, r.Environment)
	if err != nil {
		return "", err
	}
	for _, e := range exports {
		switch {
		case e.Sequence != r.Bundle.Sequence:
		case e.Digest != r.Bundle.Digest:
			return fmt.Sprintf("the site imported another bundle %d (%.10s) than was exported here (%.10s)", e.Sequence, r.Bundle.Digest, e.Digest), nil
		case e.Tip != r.Incoming:
			return fmt.Sprintf("the site says that bundle %d brought commit %.10s, and it has %.10s", e.Sequence, cmp.Or(r.Incoming, "nothing"), e.Tip), nil
		}
	}
	return "", nil
}

// follows returns why an envelope does not come after the receipt that is here; "" if it does.
func follows(e *envelope.Envelope, before *promote.StoredReceipt) string {
	switch {
	case e.Sequence < before.Sequence:
		return fmt.Sprintf("receipt %d of %s is older than receipt %d, which was imported %s", e.Sequence, e.Environment, before.Sequence,
			before.At.Format(time.DateTime))
	case e.Sequence == before.Sequence:
		return fmt.Sprintf("it is another receipt %d of %s than the one that was imported %s", e.Sequence, e.Environment,
			before.At.Format(time.DateTime))
	case e.Sequence == before.Sequence+1 && e.Previous != before.Manifest:
		return fmt.Sprintf("receipt %d of %s follows another receipt %d than the one that was imported %s", e.Sequence, e.Environment,
			before.Sequence, before.At.Format(time.DateTime))
	}
	return ""
}

// keeper stores receipts.
type keeper struct {
	h     *hydrate.Hydrator
	fleet *fleet.Fleet
	trunk gitstore.Commit
}

// keep commits a receipt to its branch. It fails if the branch is no longer at before.
func (k *keeper) keep(ctx context.Context, one *file, kept receipt.Import, before *promote.StoredReceipt) error {
	name := promote.ReceiptBranch(one.receipt.Environment)
	var old gitstore.Hash
	if before != nil {
		old = before.Commit
	} else { // a branch without a receipt, if a person decided to replace it
		refs, err := k.h.Branches.List(ctx, name)
		if err != nil {
			return err
		}
		old = refs[name]
	}
	w, err := k.h.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // what was pushed is on the branch
	tree, err := writeTree(w, one, kept)
	if err != nil {
		return err
	}
	commit, err := branch.Commit{
		Tree: tree, Parent: old, Author: k.trunk.Author,
		Committer: branch.Committer(k.fleet.Spec.Output.Committer).At(kept.At),
		Subject:   fmt.Sprintf("Receipt %d of %s", one.receipt.Sequence, one.receipt.Environment), Body: kept.Restored,
		Version: k.h.Version, Signer: k.h.Signer,
	}.Write(w)
	if err != nil {
		return err
	}
	moves := []gitstore.Move{{Branch: name, Old: old, New: commit}}
	if err := hydrate.RequireSigner(ctx, k.h.Store, moves, k.fleet.Signers()); err != nil {
		return err
	}
	results, err := k.h.Branches.Push(ctx, w, moves, gitstore.PushOptions{})
	if err != nil {
		return err
	}
	switch status, reason := hydrate.PushStatus(results); status {
	case hydrate.StatusUpdated:
		return nil
	case hydrate.StatusConflict:
		return &promote.MovedError{Reason: reason}
	default:
		return fmt.Errorf("the server refuses: %s", reason)
	}
}

// writeTree writes the files of a receipt branch: the receipt, and what proves who signed it.
func writeTree(w *gitstore.Writer, one *file, kept receipt.Import) (gitstore.Hash, error) {
	manifest, err := one.envelope.Encode()
	if err != nil {
		return gitstore.Hash{}, err
	}
	about, err := kept.Encode()
	if err != nil {
		return gitstore.Hash{}, err
	}
	entry := func(name string, data []byte) gitstore.Entry {
		blob, failed := w.Blob(data)
		err = errors.Join(err, failed)
		return gitstore.Entry{Name: name, Mode: gitstore.ModeFile, Hash: blob}
	}
	var signatures []gitstore.Entry
	for i, s := range one.envelope.Signatures {
		signatures = append(signatures, entry(strconv.Itoa(i+1)+".sig", s))
	}
	slices.SortFunc(signatures, func(a, b gitstore.Entry) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	files := []gitstore.Entry{
		entry(receipt.ImportFile, about), entry(manifestFile, manifest), entry(receipt.File, one.data),
	}
	if err != nil {
		return gitstore.Hash{}, err
	}
	dir, err := w.Tree(signatures)
	if err != nil {
		return gitstore.Hash{}, err
	}
	return w.Tree(append(files, gitstore.Entry{Name: signaturesDir, Mode: gitstore.ModeTree, Hash: dir}))
}
