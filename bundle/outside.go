package bundle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/bundle/mirror"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Limits of what a bundle brings from outside of the fleet's own repository.
const (
	maxChartParts = 1000
	maxCharts     = 2 << 30 // bytes of all
	maxSignatures = 8 << 20 // bytes of the signatures of one chart
	maxCommits    = 500
)

// Chart is a packed chart that a bundle brings, or whose signatures it brings.
type Chart struct {
	Chart   string `json:"chart"` // as the fleet names it
	Repo    string `json:"repo,omitempty"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // of the archive
}

// Commit is a commit of another repository that a bundle brings, with the files and without the history.
type Commit struct {
	URL    string `json:"url"`
	Commit string `json:"commit"`
	// From is a commit of which the site has the files: the packfile has what differs. "" for none.
	From   string `json:"from,omitempty"`
	Public bool   `json:"public,omitempty"` // anybody may read it: see fleet.GitCommit.Nested
	Object []byte `json:"object,omitempty"` // the bytes of the commit; not in the log
}

func (c Commit) key() string { return fmt.Sprint(c.Commit, c.Public) }

const chartPrefix = "chart-"

func chartPart(digits string) string      { return chartPrefix + mirror.ChartFile(digits) }
func signaturesPart(digits string) string { return chartPrefix + mirror.SignaturesFile(digits) }

// Evidence returns the signatures of a locked chart.
type Evidence func(ctx context.Context, r fetch.Ref, l fetch.Locked) (fetch.Evidence, error)

// has returns the parts of charts, and the commits, that a site has which imported a bundle: those of the bundle and of
// all that it builds on.
func (l *log) has(e Entry) (parts map[string]bool, commits []Commit) {
	parts = map[string]bool{}
	for e.Sequence > 0 {
		for _, p := range e.Charts {
			parts[p] = true
		}
		commits = append(commits, e.Commits...)
		i := slices.IndexFunc(l.entries, func(b Entry) bool { return e.Base > 0 && b.Sequence == e.Base })
		if i < 0 {
			break // it is full, or the log has forgotten the rest
		}
		e = l.entries[i]
	}
	return parts, commits
}

// sources returns the commits from which the environment was rendered, as far as the trunk that the bundle brings has them.
func (x *exporter) sources(ctx context.Context) ([]gitstore.Commit, error) {
	var out []gitstore.Commit
	for _, text := range x.state.Source().Commits() {
		hash, err := gitstore.ParseHash(text)
		if err != nil {
			continue // the record says what it says
		}
		c, err := x.h.Store.Commit(ctx, hash)
		if errors.Is(err, gitstore.ErrNotFound) {
			x.warn("source commit %s cannot be read here, so its charts and repositories are not in the bundle: %v", hash.Short(), err)
			continue
		}
		if err != nil {
			return nil, err
		}
		switch ok, err := x.h.Store.IsAncestor(ctx, hash, x.trunk.Hash); {
		case err != nil:
			return nil, err
		case ok: // else the site does not have it, and renders nothing from it
			out = append(out, c)
		}
	}
	return out, nil
}

// outside returns what rendering at the site needs from outside of the fleet's own repository.
func (x *exporter) outside(ctx context.Context) (*source.Outside, error) {
	out := &source.Outside{}
	if x.entry.Trunk == "" {
		return out, nil
	}
	commits, err := x.sources(ctx)
	if err != nil {
		return nil, err
	}
	runs := x.state.Source()
	for i, c := range append(commits, x.trunk) {
		tip := i == len(commits)
		view, err := x.h.Open(ctx, c.Tree)
		if err != nil {
			if tip {
				return nil, err
			}
			x.warn("source commit %s cannot be read here, so its charts and repositories are not in the bundle: %v", c.Hash.Short(), err)
			continue
		}
		one, err := view.Outside(ctx, x.r.Environment, func(cluster, app string) bool {
			return tip || runs.On(cluster).Of(app) == c.Hash.String() // apps can come from several commits
		})
		if err != nil {
			return nil, err
		}
		out.Commits = append(out.Commits, one.Commits...) // of the tip, too: the site reads its fleet
		if tip {
			continue
		}
		out.Charts = append(out.Charts, one.Charts...)
		for _, u := range one.Unread {
			x.warn("the site cannot render %s again: %v", u.App, u.Err)
		}
	}
	slices.SortStableFunc(out.Charts, func(a, b source.OutsideChart) int { return cmp.Compare(a.Locked.Digest, b.Locked.Digest) })
	return out, nil
}

func (x *exporter) warn(format string, args ...any) {
	x.out.Warnings = append(x.out.Warnings, fmt.Sprintf(format, args...))
}

// charts returns the parts with charts that the site lacks, and describes them. A chart that cannot be read is left out
// with a warning, so that an unreachable registry does not block the export.
func (x *exporter) charts(ctx context.Context, list []source.OutsideChart, c *Contents) ([]envelope.Content, error) {
	has, _ := x.log.has(x.base)
	wants := func(name string) bool {
		if x.r.Again > 0 {
			return slices.Contains(x.entry.Charts, name)
		}
		return !has[name]
	}
	var out []envelope.Content
	total := 0
	add := func(name string, data []byte, most int) {
		if len(data) > most || total+len(data) > maxCharts || len(out) == maxChartParts {
			x.warn("%s with %d bytes does not fit into the bundle: vendor the chart (`sluice deps vendor`)", name, len(data))
			return
		}
		total += len(data)
		out = append(out, envelope.Text(name, data))
		if x.r.Again == 0 {
			x.entry.Charts = append(x.entry.Charts, name)
		}
		has[name] = true
	}
	for _, one := range list {
		digits, ok := strings.CutPrefix(one.Locked.Digest, "sha256:")
		archive, signatures := chartPart(digits), signaturesPart(digits)
		before := len(out)
		if ok && wants(archive) && !contains(out, archive) {
			data, err := x.h.Archives.Archive(ctx, one.Ref, one.Locked)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				x.warn("the site cannot render with a chart that cannot be read here: %v", err)
				continue
			}
			add(archive, data, gitstore.MaxObject)
		}
		if ok && one.Signed && x.r.Evidence != nil && wants(signatures) && !contains(out, signatures) {
			found, err := x.r.Evidence(ctx, one.Ref, one.Locked)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			data, encodes := json.Marshal(found)
			if err = errors.Join(err, encodes); err != nil {
				x.warn("the site cannot verify who signed a chart: %v", err)
			} else {
				add(signatures, data, maxSignatures)
			}
		}
		if len(out) > before {
			c.describe(Chart{Chart: one.Ref.Chart, Repo: one.Ref.Repo, Version: one.Locked.Version, SHA256: digits})
		}
	}
	slices.SortFunc(out, func(a, b envelope.Content) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func contains(list []envelope.Content, name string) bool {
	return slices.ContainsFunc(list, func(p envelope.Content) bool { return p.Name == name })
}

// describe adds a chart, once.
func (c *Contents) describe(one Chart) {
	if !slices.ContainsFunc(c.Charts, func(k Chart) bool { return k.SHA256 == one.SHA256 }) {
		c.Charts = append(c.Charts, one)
	}
}

// commits describes the commits of other repositories that the site lacks, and returns what of their trees it lacks. A
// commit that cannot be read is left out with a warning.
func (x *exporter) commits(ctx context.Context, list []fleet.GitCommit, c *Contents) ([]gitstore.Range, error) {
	var add []Commit
	_, has := x.log.has(x.base)
	if x.r.Again > 0 {
		add = x.entry.Commits
	} else {
		known := map[string]bool{}
		for _, k := range has {
			known[k.key()] = true
		}
		for _, one := range list {
			next := Commit{URL: one.URL, Commit: one.Commit, Public: one.Nested}
			if !known[next.key()] {
				known[next.key()] = true
				add = append(add, next)
			}
		}
	}
	var out []gitstore.Range
	var logged []Commit
	for _, one := range add {
		if x.r.Again == 0 {
			one.From = x.earlier(ctx, has, one)
		}
		r, err := x.commit(ctx, &one)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if len(c.Commits) == maxCommits {
			x.warn("commit %.10s of %s does not fit into the bundle, which brings at most %d commits", one.Commit, one.URL, maxCommits)
			continue
		}
		if err != nil {
			x.warn("the site cannot render with commit %.10s of %s, which cannot be read here: %v", one.Commit, one.URL, err)
			continue
		}
		out, c.Commits = append(out, r), append(c.Commits, one)
		one.Object = nil
		logged = append(logged, one)
	}
	x.entry.Commits = logged
	return out, nil
}

// earlier returns a commit of the same repository that the site has and that can be read here.
func (x *exporter) earlier(ctx context.Context, has []Commit, of Commit) string {
	for _, k := range has { // the newest bundle comes first
		if k.URL != of.URL || k.Commit == of.Commit {
			continue
		}
		if _, err := x.commit(ctx, &Commit{URL: k.URL, Commit: k.Commit, Public: k.Public}); err == nil {
			return k.Commit
		}
		break
	}
	return ""
}

// commit reads a commit of another repository with the files that its range has.
func (x *exporter) commit(ctx context.Context, c *Commit) (gitstore.Range, error) {
	r := gitstore.Range{Tree: true}
	store := x.h.Store
	tree := func(text string) (gitstore.Hash, []byte, error) {
		hash, err := gitstore.ParseHash(text)
		if err != nil {
			return hash, nil, err
		}
		if err := x.fetch(ctx, c, hash); err != nil {
			return hash, nil, err
		}
		raw, err := store.ReadRaw(ctx, []gitstore.Hash{hash}, mirror.MaxCommit)
		if err != nil {
			return hash, nil, err
		}
		at, err := mirror.TreeOf(ctx, store, hash, raw[0].Data)
		return at, raw[0].Data, err
	}
	var err error
	if r.To, c.Object, err = tree(c.Commit); err != nil {
		return r, err
	}
	if c.From != "" {
		if r.From, _, err = tree(c.From); err != nil {
			return r, err
		}
	}
	changes, err := store.Changes(ctx, r.From, r.To)
	if err != nil {
		return r, err
	}
	var files []gitstore.Hash // at once, while the store knows whom to ask
	for _, change := range changes {
		for _, side := range []gitstore.Entry{change.New, change.Old} {
			if !side.Hash.IsZero() && side.Mode != gitstore.ModeSubmodule {
				files = append(files, side.Hash)
			}
		}
	}
	return r, store.Ensure(ctx, files...)
}

// fetch brings a commit of another repository into the store.
func (x *exporter) fetch(ctx context.Context, c *Commit, hash gitstore.Hash) error {
	switch {
	case x.h.Store.Has(hash):
		return nil
	case c.Public:
		return x.h.Store.FetchPublic(ctx, c.URL, nil, hash)
	case x.h.Credentials != nil:
		return x.h.Store.FetchPinned(ctx, c.URL, x.h.Credentials(c.URL), hash)
	}
	return x.h.Store.Ensure(ctx, hash)
}

// ranks of the parts: a bundle has them in this order.
func rank(name string) int {
	if strings.HasPrefix(name, chartPrefix) {
		return 4
	}
	return slices.Index([]string{partContents, partRecord, partImages, partSBOM, "", partObjects}, name)
}

// checkParts refuses parts that no bundle has, another order, and charts that bundle.json does not describe, or that do
// not have the digest in their names.
func (c *Contents) checkParts(e *envelope.Envelope) error {
	described, total := map[string]bool{}, int64(0)
	for i, p := range e.Parts {
		if rank(p.Name) < 0 {
			return fmt.Errorf("it has a part %.100s, which no bundle has", p.Name)
		}
		if i > 0 && (rank(e.Parts[i-1].Name) > rank(p.Name) || rank(p.Name) == 4 && rank(e.Parts[i-1].Name) == 4 && e.Parts[i-1].Name >= p.Name) {
			return fmt.Errorf("its part %s is not where sluice writes it", p.Name)
		}
		rest, ok := strings.CutPrefix(p.Name, chartPrefix)
		if !ok {
			continue
		}
		digits, _, _ := strings.Cut(rest, ".")
		switch {
		case !slices.ContainsFunc(c.Charts, func(k Chart) bool { return k.SHA256 == digits }):
			return fmt.Errorf("%s does not describe the chart in %s", partContents, p.Name)
		case p.Name == chartPart(digits) && p.SHA256 != digits:
			return fmt.Errorf("the part %s has the SHA-256 %s", p.Name, p.SHA256)
		case p.Name == chartPart(digits) && p.Size > gitstore.MaxObject, p.Name == signaturesPart(digits) && p.Size > maxSignatures:
			return fmt.Errorf("the part %s has %d bytes, more than it may have", p.Name, p.Size)
		case p.Name != chartPart(digits) && p.Name != signaturesPart(digits):
			return fmt.Errorf("it has a part %s, which no bundle has", p.Name)
		}
		described[digits] = true
		if total += p.Size; total > maxCharts {
			return fmt.Errorf("its charts have more than %d bytes", int64(maxCharts))
		}
	}
	for _, k := range c.Charts {
		if !described[k.SHA256] {
			return fmt.Errorf("%s describes the chart %.100s (%.12s), and the bundle does not have it", partContents, k.Chart, k.SHA256)
		}
	}
	return nil
}

// checkOutside checks the lists of charts and commits.
func (c *Contents) checkOutside() error {
	switch {
	case len(c.Charts) > maxChartParts:
		return fmt.Errorf("%s lists %d charts, more than %d", partContents, len(c.Charts), maxChartParts)
	case len(c.Commits) > maxCommits:
		return fmt.Errorf("%s lists %d commits of other repositories, more than %d", partContents, len(c.Commits), maxCommits)
	case len(c.Charts)+len(c.Commits) > 0 && !c.Trunk():
		return fmt.Errorf("%s lists charts or commits of other repositories, and no trunk that needs them", partContents)
	}
	for i, k := range c.Charts {
		if digest.SHA256.Validate(k.SHA256) != nil || i > 0 && c.Charts[i-1].SHA256 >= k.SHA256 {
			return fmt.Errorf("%s: the list of charts is not in order, or has one without a SHA-256", partContents)
		}
	}
	seen := map[string]bool{}
	for _, k := range c.Commits {
		hash, err := gitstore.ParseHash(k.Commit)
		switch {
		case err != nil || k.From != "" && !isHash(k.From):
			return fmt.Errorf("%s: %.50q is not a commit", partContents, k.Commit)
		case seen[k.key()]:
			return fmt.Errorf("%s lists the commit %.10s of another repository twice", partContents, k.Commit)
		case len(k.Object) > mirror.MaxCommit || gitstore.Sum("commit", k.Object) != hash:
			return fmt.Errorf("%s: the bytes of commit %.10s of another repository do not have this id", partContents, k.Commit)
		}
		seen[k.key()] = true
	}
	return nil
}

// outside adds the charts and commits of the bundle to the mirror of the site, in the Writer, after it has checked that the
// source commits need them. CheckReach has checked the trees of the commits.
func (o *Opened) outside(ctx context.Context, s Site) error {
	if len(o.Charts)+len(o.Commits) == 0 {
		return nil
	}
	if err := o.needed(ctx, s); err != nil {
		return err
	}
	var add mirror.Additions
	for _, p := range o.Envelope.Parts {
		rest, ok := strings.CutPrefix(p.Name, chartPrefix)
		if !ok {
			continue
		}
		data, err := o.Envelope.Read(p.Name, gitstore.MaxObject)
		if err != nil {
			return err
		}
		if strings.HasSuffix(rest, ".json") && !json.Valid(bytes.TrimSpace(data)) {
			return fmt.Errorf("%s is not JSON", p.Name)
		}
		blob, err := o.w.Blob(data)
		if err != nil {
			return err
		}
		add.File(rest, blob)
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
		if err := add.Commit(o.w, id, c.Object, tree, c.Public); err != nil {
			return err
		}
	}
	var before gitstore.Hash
	if !o.mirror.IsZero() {
		tip, err := s.Store.Commit(ctx, o.mirror)
		if err != nil {
			return err
		}
		before = tip.Tree
	}
	tree, err := add.Tree(ctx, s.Store, o.w, before)
	if err != nil {
		return err
	}
	if o.Brought = tree; tree == before {
		o.Brought = gitstore.Hash{}
	}
	return nil
}

// needed refuses charts that no sluice.lock of the environment's source commits names. Commits of other repositories are not
// compared, since those that kustomizations and objects of other tools name by their ids are in no lock file: their number is
// bounded.
func (o *Opened) needed(ctx context.Context, s Site) error {
	runs, err := branch.ReadSource(ctx, s.Store, o.Tip.Tree)
	if err != nil {
		return err
	}
	charts := map[string]bool{}
	for _, text := range append(runs.Commits(), o.TrunkCommit().String()) {
		hash, err := gitstore.ParseHash(text)
		if err != nil {
			continue // no commit needs a chart
		}
		c, err := s.Store.Commit(ctx, hash)
		if errors.Is(err, gitstore.ErrNotFound) {
			continue // neither does one that is not here
		}
		if err != nil {
			return err
		}
		lock, err := source.ReadLock(ctx, s.Store, c.Tree)
		if err != nil {
			return fmt.Errorf("source commit %s: %w", hash.Short(), err)
		}
		for _, ref := range lock.Refs() {
			locked, _ := lock.Lookup(ref) // the lock has each of its own references
			charts[strings.TrimPrefix(locked.Digest, "sha256:")] = true
		}
	}
	for _, k := range o.Charts {
		if !charts[k.SHA256] {
			return fmt.Errorf("the bundle brings the chart %.100s (%.12s), which %s of its source commits does not name", k.Chart, k.SHA256, fetch.LockFile)
		}
	}
	return nil
}
