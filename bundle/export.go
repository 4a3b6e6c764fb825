package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// ExportRequest asks for a bundle.
type ExportRequest struct {
	Trunk       gitstore.Commit // its tip: the fleet
	Environment string
	Full        bool   // build on nothing
	Since       string // the bundle to build on: see Entry; "" with Full
	Again       int64  // write the bundle with this number again, as it was; 0 makes a new one
	Source      bool   // bring the trunk, too
	Signers     []envelope.Signer
	// Images lists the images that a manifest names; nil leaves out the list of images.
	Images func(manifest []byte) []string
	// Evidence returns the signatures of charts of which some are demanded; nil leaves them out.
	Evidence Evidence
	// Policy judges what the bundle changes; nil leaves the verdict out. The bundle is written whatever it says.
	Policy promote.PolicyJudge
	// Output is a file that must not exist, or a folder, in which the name is of the environment and the number.
	Output string
	Now    time.Time
}

// Exported is a bundle that was written.
type Exported struct {
	File     string
	Size     int64
	Manifest envelope.Manifest
	Digest   string
	Contents Contents
	Images   []string
	Warnings []string // what the site lacks to render again
}

// Export writes a bundle, and records its number at home before the file gets its name. If another process exports at
// the same time, it takes the next number. A process that dies in between leaves a number without a file, which Again
// writes.
func Export(ctx context.Context, h *hydrate.Hydrator, r ExportRequest) (*Exported, error) {
	const tries = 5
	for i := 1; ; i++ {
		out, err := export(ctx, h, r)
		if !errors.Is(err, gitstore.ErrConflict) || i == tries {
			return out, err
		}
	}
}

func export(ctx context.Context, h *hydrate.Hydrator, r ExportRequest) (*Exported, error) {
	x, err := newExporter(ctx, h, r)
	if err != nil {
		return nil, err
	}
	if err := x.choose(ctx); err != nil {
		return nil, err
	}
	pack, err := os.CreateTemp("", "sluice-objects-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = errors.Join(pack.Close(), os.Remove(pack.Name())) }() // its content is in the bundle
	parts, err := x.parts(ctx, pack)
	if err != nil {
		return nil, err
	}
	manifest, err := envelope.Seal(envelope.Manifest{
		Kind: envelope.Bundle, Fleet: x.fleet.Name, Environment: r.Environment, Sequence: x.entry.Sequence,
		Previous: x.entry.Previous, Created: x.entry.Created,
	}, parts)
	if err != nil {
		return nil, err
	}
	return x.write(ctx, manifest, parts)
}

// exporter makes one bundle.
type exporter struct {
	h       *hydrate.Hydrator
	r       ExportRequest
	fleet   *fleet.Fleet
	refs    map[string]gitstore.Hash
	log     *log
	entry   Entry // of the new bundle
	base    Entry // zero: the bundle is full
	tip     gitstore.Commit
	state   *branch.State
	trunk   gitstore.Commit
	out     Exported
	records gitstore.Hash

	baseTree gitstore.Hash // of the commit that the site has; zero if the bundle is full
}

func newExporter(ctx context.Context, h *hydrate.Hydrator, r ExportRequest) (*exporter, error) {
	f, _, err := h.Fleet(ctx, r.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	if _, ok := f.Environment(r.Environment); !ok {
		return nil, fmt.Errorf("%s has no environment %s", fleet.File, r.Environment)
	}
	x := &exporter{h: h, r: r, fleet: f}
	name := f.EnvironmentBranch(r.Environment)
	prefixes := append(incoming.Prefixes(f), LogBranch, rollout.StateBranch)
	for _, e := range f.Spec.Environments {
		prefixes = append(prefixes, f.EnvironmentBranch(e.Name))
	}
	if x.refs, err = h.Branches.List(ctx, prefixes...); err != nil {
		return nil, err
	}
	for _, e := range f.Spec.Environments {
		if incoming.Site(f, e.Name, x.refs) {
			return nil, fmt.Errorf("this repository has the branch %s: it is a site that imports bundles, and exports none", incoming.Branch(e.Name))
		}
	}
	if x.refs[name].IsZero() {
		return nil, fmt.Errorf("branch %s does not exist yet: promote %s first", name, r.Environment)
	}
	var fetch []gitstore.Hash
	for _, ref := range []string{name, LogBranch, rollout.StateBranch} {
		if !x.refs[ref].IsZero() {
			fetch = append(fetch, x.refs[ref])
		}
	}
	if err := h.Branches.Fetch(ctx, fetch...); err != nil {
		return nil, err
	}
	x.log, err = readLog(ctx, h.Store, x.refs[LogBranch], r.Environment)
	return x, err
}

// choose decides on the number, the commits and the base.
func (x *exporter) choose(ctx context.Context) error {
	name := x.fleet.EnvironmentBranch(x.r.Environment)
	tip := x.refs[name]
	if x.r.Again > 0 {
		return x.chooseAgain(ctx)
	}
	if !x.r.Full {
		var err error
		if x.base, err = x.log.find(x.r.Since); err != nil {
			return err
		}
	}
	x.entry = Entry{
		Sequence: x.log.last().Sequence + 1, Previous: x.log.last().Digest, Base: x.base.Sequence, Tip: tip.String(),
	}
	if x.r.Source {
		x.entry.Trunk = x.r.Trunk.Hash.String()
	}
	if records := x.refs[rollout.StateBranch]; !records.IsZero() {
		x.entry.Records = records.String()
	}
	if x.base.Sequence > 0 && x.base.Tip == x.entry.Tip && (x.entry.Trunk == "" || x.base.Trunk == x.entry.Trunk) {
		return fmt.Errorf("bundle %d brought all that %s has: there is nothing to export (--again %[1]d writes it again)", x.base.Sequence, name)
	}
	return x.read(ctx, tip)
}

func (x *exporter) chooseAgain(ctx context.Context) error {
	i := slices.IndexFunc(x.log.entries, func(e Entry) bool { return e.Sequence == x.r.Again })
	if i < 0 {
		return fmt.Errorf("no bundle %d of %s was exported here", x.r.Again, x.r.Environment)
	}
	x.entry = x.log.entries[i]
	if x.entry.Base > 0 {
		b := slices.IndexFunc(x.log.entries, func(e Entry) bool { return e.Sequence == x.entry.Base })
		if b < 0 {
			return fmt.Errorf("bundle %d builds on bundle %d, which the log has forgotten: export with --full", x.entry.Sequence, x.entry.Base)
		}
		x.base = x.log.entries[b]
	}
	tip, err := gitstore.ParseHash(x.entry.Tip)
	if err != nil {
		return err
	}
	if err := x.h.Branches.Fetch(ctx, tip); err != nil {
		return err
	}
	return x.read(ctx, tip)
}

// read reads the commits that the bundle brings.
func (x *exporter) read(ctx context.Context, tip gitstore.Hash) (err error) {
	store, name := x.h.Store, x.fleet.EnvironmentBranch(x.r.Environment)
	if x.state, err = branch.ReadState(ctx, store, name, x.r.Environment, tip, x.fleet.Signers()); err != nil {
		return err
	}
	if x.state.Foreign != "" {
		return fmt.Errorf("%s: %s: nothing of it is exported until `sluice repair %s` mends it", name, x.state.Foreign, x.r.Environment)
	}
	x.tip = x.state.Tip
	x.entry.Created = x.tip.Committer.When.UTC().Truncate(time.Second)
	if x.entry.Trunk != "" {
		commit, err := gitstore.ParseHash(x.entry.Trunk)
		if err != nil {
			return err
		}
		if x.trunk, err = store.Commit(ctx, commit); err != nil {
			return err
		}
		if when := x.trunk.Committer.When.UTC().Truncate(time.Second); when.After(x.entry.Created) {
			x.entry.Created = when
		}
	}
	if x.entry.Records != "" {
		if x.records, err = gitstore.ParseHash(x.entry.Records); err != nil {
			return err
		}
	}
	if x.base.Sequence == 0 {
		return nil
	}
	from, err := gitstore.ParseHash(x.base.Tip)
	if err != nil {
		return err
	}
	had, err := store.Commit(ctx, from)
	if err != nil {
		return err
	}
	x.baseTree = had.Tree
	switch ok, err := store.IsAncestor(ctx, from, tip); {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%s does not contain commit %s of bundle %d any more: somebody rewrote it; export with --full", name,
			from.Short(), x.base.Sequence)
	}
	return nil
}

// ranges are the parts of the histories that the bundle brings.
func (x *exporter) ranges() (list []gitstore.Range, refs []Ref, err error) {
	add := func(role, name, from, to string) error {
		var r gitstore.Range
		if from != "" {
			if r.From, err = gitstore.ParseHash(from); err != nil {
				return err
			}
		}
		if r.To, err = gitstore.ParseHash(to); err != nil {
			return err
		}
		if r.From != r.To {
			list = append(list, r)
		}
		refs = append(refs, Ref{Role: role, Branch: name, From: from, To: to})
		return nil
	}
	if err := add(roleEnvironment, x.fleet.EnvironmentBranch(x.r.Environment), x.base.Tip, x.entry.Tip); err != nil {
		return nil, nil, err
	}
	if x.entry.Trunk == "" {
		return list, refs, nil
	}
	return list, refs, add(roleTrunk, x.fleet.Spec.Trunk, x.base.Trunk, x.entry.Trunk)
}

// parts makes the parts. The packfile goes to a file.
func (x *exporter) parts(ctx context.Context, pack *os.File) ([]envelope.Content, error) {
	ranges, refs, err := x.ranges()
	if err != nil {
		return nil, err
	}
	c := Contents{
		Refs: refs, Source: x.state.Record.Source, Clusters: len(x.state.Clusters), Manifests: x.state.Record.Objects,
		Records: x.entry.Records,
	}
	if x.base.Sequence > 0 {
		c.Base = &Base{Sequence: x.base.Sequence, Digest: x.base.Digest}
	}
	outside, err := x.outside(ctx)
	if err != nil {
		return nil, err
	}
	trees, err := x.commits(ctx, outside.Commits, &c)
	if err != nil {
		return nil, err
	}
	ranges = append(ranges, trees...)
	charts, err := x.charts(ctx, outside.Charts, &c)
	if err != nil {
		return nil, err
	}
	if c.Policy, err = x.policy(ctx); err != nil {
		return nil, err
	}
	if c.Objects, err = x.h.Store.WriteThin(ctx, pack, ranges...); err != nil {
		return nil, fmt.Errorf("the objects of the bundle: %w", err)
	}
	if err := x.evidence(ctx, &c); err != nil {
		return nil, err
	}
	size, err := pack.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, err
	}
	parts := []envelope.Content{envelope.Text(partContents, append(data, '\n'))}
	record, err := x.record(ctx)
	if err != nil {
		return nil, err
	}
	if record != nil {
		parts = append(parts, envelope.Text(partRecord, record))
	}
	if x.r.Images != nil {
		if x.out.Images, err = newImages(ctx, x.h.Store, x.baseTree, x.tip.Tree, x.r.Images); err != nil {
			return nil, err
		}
		bom, err := sbom(x.fleet.Name, x.r.Environment, x.entry, c, x.out.Images)
		if err != nil {
			return nil, err
		}
		parts = append(parts, envelope.Text(partImages, []byte(strings.Join(append(x.out.Images, ""), "\n"))),
			envelope.Text(partSBOM, bom))
	}
	x.out.Contents = c
	parts = append(parts, charts...)
	return append(parts, envelope.Content{Name: partObjects, Data: io.NewSectionReader(pack, 0, size)}), nil
}

// policy returns what home's policy says of what the bundle changes. A bundle that is written again says what it said.
func (x *exporter) policy(ctx context.Context) (*Policy, error) {
	if x.r.Again > 0 || x.r.Policy == nil {
		return x.entry.Policy, nil
	}
	base, err := gitstore.ParseHash(x.base.Tip)
	if err != nil {
		base = gitstore.Hash{} // the bundle is full
	}
	then, err := branch.ReadTree(ctx, x.h.Store, x.tip.Tree)
	if err != nil {
		return nil, err
	}
	out := &Policy{Verdict: Passed}
	for _, text := range x.state.Source().Commits() {
		hash, err := gitstore.ParseHash(text)
		if err != nil {
			continue // the record says what it says
		}
		commit, err := x.h.Store.Commit(ctx, hash)
		if err != nil {
			if out.Verdict == Passed {
				out = &Policy{Verdict: Unknown, Reason: "source commit " + hash.Short() + " cannot be read"}
			}
			continue
		}
		state, why := x.r.Policy.Judge(ctx, promote.Part{Environment: x.r.Environment, Base: base, Source: commit, Rendered: then})
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if state == rollout.Red || state != rollout.Green && out.Verdict == Passed {
			out = &Policy{Verdict: Unknown, Reason: why}
		}
		if state == rollout.Red {
			out.Verdict = Failed
			break
		}
	}
	x.entry.Policy = out
	return out, nil
}

// record returns the record of the environment; nil if there is none.
func (x *exporter) record(ctx context.Context) ([]byte, error) {
	if x.records.IsZero() {
		return nil, nil
	}
	commit, err := x.h.Store.Commit(ctx, x.records)
	if err != nil {
		return nil, err
	}
	data, err := x.h.Store.Snapshot(ctx, commit.Tree).ReadFile(rollout.RecordPath(x.r.Environment))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// evidence adds the promotions that the bundle brings, and says whether it goes back.
func (x *exporter) evidence(ctx context.Context, c *Contents) error {
	from, err := gitstore.ParseHash(x.base.Tip)
	if err != nil {
		from = gitstore.Hash{}
	}
	if c.Promotions, err = promotionsOf(ctx, x.h.Store, x.tip, from); err != nil {
		return err
	}
	c.Rollback = branch.Trailer(x.tip.Message, branch.TrailerRollback)
	if c.Rollback != "" || from.IsZero() {
		return nil
	}
	had, err := branch.ReadSource(ctx, x.h.Store, x.baseTree)
	if err != nil {
		return err
	}
	if back, err := older(ctx, x.h.Store, x.state.Record.Source, had.Commit); err != nil || !back {
		return err
	}
	c.Rollback = "home went back to an older commit"
	for _, p := range c.Promotions {
		if p.Rollback != "" {
			c.Rollback = p.Rollback
			break
		}
	}
	return nil
}

// promotionsOf lists the commits of an environment branch after another one, newest first, at most 100.
func promotionsOf(ctx context.Context, store *gitstore.Store, tip gitstore.Commit, from gitstore.Hash) (out []Promotion, err error) {
	const most = 100
	for at := tip; at.Hash != from && len(out) < most; {
		out = append(out, promotionOf(at))
		if len(at.Parents) == 0 {
			break
		}
		if at, err = store.Commit(ctx, at.Parents[0]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// older reports whether a source commit is an ancestor of another one, as far as the store has both.
func older(ctx context.Context, store *gitstore.Store, commit, than string) (bool, error) {
	a, err := gitstore.ParseHash(commit)
	if err != nil {
		return false, nil //nolint:nilerr // a damaged record
	}
	b, err := gitstore.ParseHash(than)
	if err != nil || a == b || !store.Has(a) || !store.Has(b) {
		return false, nil //nolint:nilerr // not known
	}
	return store.IsAncestor(ctx, a, b)
}

func promotionOf(c gitstore.Commit) Promotion {
	subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	out := Promotion{Commit: c.Hash.String(), Subject: subject, At: c.Committer.When.UTC()}
	for _, t := range gitstore.Trailers(c.Message) {
		switch t.Key {
		case branch.TrailerSource:
			out.Source = t.Value
		case branch.TrailerBy:
			out.By = t.Value
		case branch.TrailerApproved:
			out.ApprovedBy = append(out.ApprovedBy, t.Value)
		case branch.TrailerReason, branch.TrailerNow:
			out.Reason = t.Value
		case branch.TrailerRollback:
			out.Rollback = t.Value
		case branch.TrailerPolicyException:
			out.Exceptions = append(out.Exceptions, t.Value)
		}
	}
	return out
}

// write writes the file, then the log, and then gives the file its name.
func (x *exporter) write(ctx context.Context, manifest []byte, parts []envelope.Content) (*Exported, error) {
	out := &x.out
	out.Digest = envelope.Digest(manifest)
	if x.r.Again > 0 && out.Digest != x.entry.Digest {
		return nil, fmt.Errorf("bundle %d cannot be written as it was (digest %.12s): another version of sluice made it, or a chart or its signatures are not to be had as they were; export a new one", x.entry.Sequence,
			x.entry.Digest)
	}
	x.entry.Digest = out.Digest
	out.File = x.r.Output
	if info, err := os.Stat(out.File); err == nil && info.IsDir() || strings.HasSuffix(out.File, "/") {
		out.File = filepath.Join(out.File, fmt.Sprintf("%s-%04d.sluice", x.r.Environment, x.entry.Sequence))
	}
	if _, err := os.Lstat(out.File); err == nil {
		return nil, fmt.Errorf("%s exists: name another file", out.File)
	}
	if err := os.MkdirAll(filepath.Dir(out.File), 0o755); err != nil { //nolint:gosec // for whoever carries it
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(out.File), ".sluice-bundle-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }() // renamed if all went well
	if err := envelope.Write(file, manifest, parts, x.r.Signers...); err != nil {
		return nil, err
	}
	if out.Size, err = file.Seek(0, io.SeekCurrent); err != nil {
		return nil, err
	}
	if err := errors.Join(file.Chmod(0o644), file.Sync()); err != nil {
		return nil, err
	}
	opened, err := envelope.Open(file, out.Size)
	if err != nil {
		return nil, fmt.Errorf("the written file cannot be read: %w", err)
	}
	out.Manifest = opened.Manifest
	if x.r.Again == 0 {
		if err := x.logExport(ctx); err != nil {
			return nil, err
		}
	}
	return out, os.Rename(file.Name(), out.File)
}

// logExport adds the export to the log.
func (x *exporter) logExport(ctx context.Context) error {
	w, err := x.h.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // what was pushed is on the branch
	tree, err := x.log.write(ctx, x.h.Store, w, x.r.Environment, x.entry)
	if err != nil {
		return err
	}
	who := branch.Committer(x.fleet.Spec.Output.Committer).At(x.r.Now.UTC().Truncate(time.Second))
	commit, err := branch.Commit{
		Tree: tree, Parent: x.log.tip.Hash, Author: who, Committer: who,
		Subject: fmt.Sprintf("Export bundle %d of %s", x.entry.Sequence, x.r.Environment), Version: x.h.Version, Signer: x.h.Signer,
	}.Write(w)
	if err != nil {
		return err
	}
	return push(ctx, x.h.Branches, w, gitstore.Move{Branch: LogBranch, Old: x.log.tip.Hash, New: commit})
}

// push moves branches, all or none, and returns the first reason why one did not move.
func push(ctx context.Context, branches gitstore.Branches, w *gitstore.Writer, moves ...gitstore.Move) error {
	results, err := branches.Push(ctx, w, moves, gitstore.PushOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range results {
		errs = append(errs, r.Err())
	}
	return errors.Join(errs...)
}
