package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/notify"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// mirrors are the clones of a service's repositories: one folder for each, opened by one task at a time, the one that was not used for
// the longest time given up when they take more than they may. All of it can be deleted at any moment: Git has it.
type mirrors struct {
	dir  string
	most int64 // bytes
	mu   sync.Mutex
	busy map[string]int
	bad  map[string]bool      // to be made again
	kept map[string]keptClone // by folder, measured after each use; nil until the first: others are not walked for a task of one
}

type keptClone struct {
	used time.Time
	size int64
}

// suspect has a repository's mirror made again before it is used next.
func (m *mirrors) suspect(p hint.Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bad[m.folder(p)] = true
}

func (m *mirrors) folder(p hint.Place) string {
	sum := sha256.Sum256([]byte(p.String()))
	return filepath.Join(m.dir, p.Forge(), strings.ReplaceAll(p.Repo().Path, "/", "_")+"-"+hex.EncodeToString(sum[:4]))
}

// take marks a folder as in use, and gives back how to end the use.
func (m *mirrors) take(p hint.Place, now time.Time) (folder string, release func(), err error) {
	folder = m.folder(p)
	m.mu.Lock()
	if m.bad[folder] && m.busy[folder] == 0 && os.RemoveAll(folder) == nil {
		delete(m.bad, folder)
	}
	m.busy[folder]++
	m.mu.Unlock()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", nil, fmt.Errorf("mirror of %s: %w", p, err)
	}
	_ = os.Chtimes(folder, now, now) // only for what is given up first
	return folder, func() { m.release(folder, now) }, nil
}

// release ends a use, and makes room for what it brought.
func (m *mirrors) release(folder string, used time.Time) {
	size := sizeOf(folder)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[folder]--; m.busy[folder] == 0 {
		delete(m.busy, folder)
	}
	if m.kept == nil {
		m.kept = m.found()
	}
	m.kept[folder] = keptClone{used, size}
	m.evict(folder)
}

// found are the mirrors of an earlier process.
func (m *mirrors) found() map[string]keptClone {
	out := map[string]keptClone{}
	forges, _ := os.ReadDir(m.dir)
	for _, f := range forges {
		list, _ := os.ReadDir(filepath.Join(m.dir, f.Name()))
		for _, e := range list {
			if info, err := e.Info(); err == nil {
				folder := filepath.Join(m.dir, f.Name(), e.Name())
				out[folder] = keptClone{info.ModTime(), sizeOf(folder)}
			}
		}
	}
	return out
}

// evict deletes the oldest mirrors that nobody uses until the rest fits, but not the one that was used last: alone, it may be as large as
// it is. The caller holds the lock.
func (m *mirrors) evict(last string) {
	var total int64
	for _, k := range m.kept {
		total += k.size
	}
	if total <= m.most {
		return
	}
	for _, folder := range slices.SortedFunc(maps.Keys(m.kept), func(a, b string) int { return m.kept[a].used.Compare(m.kept[b].used) }) {
		if total <= m.most {
			return
		}
		if folder != last && m.busy[folder] == 0 && os.RemoveAll(folder) == nil {
			total -= m.kept[folder].size
			delete(m.kept, folder)
		}
	}
}

func sizeOf(folder string) int64 {
	var total int64
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what cannot be read counts nothing
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// workspace is a repository for one task of the bot.
type workspace struct {
	*Session
	open     func(env Environment) (*Session, error)
	forge    *configured
	place    hint.Place
	clock    func() time.Time
	release  func()
	keyed    []byte
	verdicts *verdicts
	metrics  *metrics
	told     func(ctx context.Context, n *notify.Notifier, repository string, moves []notify.Move)
	others   []*Session
}

// Close frees it.
func (w *workspace) Close() {
	for _, s := range w.others {
		s.Close()
	}
	w.Session.Close()
	w.release()
}

// Revision implements bot.Workspace.
func (w *workspace) Revision(ctx context.Context, rev string) (gitstore.Commit, error) {
	return w.Store.FetchRevision(ctx, rev)
}

// pushing makes the output of a source commit's fleet the place of the branches, with the credential that may push.
func (w *workspace) pushing(ctx context.Context, tree gitstore.Hash) error {
	output, err := w.outputOf(ctx, tree)
	if err != nil {
		return err
	}
	env, err := w.forge.environment(ctx, output, true)
	if err != nil {
		return err
	}
	w.env = env
	if err := w.UseRemote(ctx, gitstore.Commit{Tree: tree}, ""); err != nil {
		return err
	}
	w.Branches = countedBranches{w.Branches, w.metrics}
	if n := w.forge.notifier(w.place.Repo().Path); len(n.Receivers) > 0 {
		return w.announce(ctx, tree, func(ctx context.Context, repository string, moves []notify.Move) { w.told(ctx, n, repository, moves) })
	}
	return nil
}

// Review implements bot.Workspace.
func (w *workspace) Review(ctx context.Context, r bot.ReviewRequest) (*report.Review, *compare.PreviewResult, error) {
	s := w.Session
	trunk, err := w.trunk(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !r.Trusted {
		if _, err := w.outputOf(ctx, trunk); err != nil {
			return nil, nil, err
		}
		if s, err = w.untrusted(ctx, r.Base, r.Head); err != nil {
			return nil, nil, err
		}
		if err := s.UseRemote(ctx, gitstore.Commit{Tree: trunk}, ""); err != nil {
			return nil, nil, err
		}
	} else if err := w.pushing(ctx, trunk); err != nil {
		return nil, nil, err
	}
	return s.Review(ctx, ReviewOptions{
		Compare: compare.Request{Base: r.Base, Head: r.Head, Key: w.keyed, Preview: r.Preview}, Policy: r.Policy,
	})
}

// untrusted opens the repository without credentials, to render what is not of somebody who may write.
func (w *workspace) untrusted(ctx context.Context, commits ...gitstore.Commit) (*Session, error) {
	env := w.env
	env.Untrusted = true
	s, err := w.open(env)
	if err != nil {
		return nil, err
	}
	w.others = append(w.others, s)
	for _, c := range commits { // what was fetched is in the same mirror
		if _, err := s.Store.Commit(ctx, c.Hash); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// head is the head that was looked at before it was said to be trusted, and no other.
func (w *workspace) head(ctx context.Context, mr *forge.MergeRequest) (gitstore.Commit, error) {
	head, err := w.Revision(ctx, w.forge.adapter.MergeRequestRef(mr.Number))
	if err == nil && head.Hash.String() != mr.Head {
		err = fmt.Errorf("%w: the merge request has another head by now: ask again", bot.ErrRefused)
	}
	return head, err
}

// Hydrate implements bot.Workspace.
func (w *workspace) Hydrate(ctx context.Context, r hydrate.Request) (*hydrate.Result, error) {
	if err := w.pushing(ctx, r.Commit.Tree); err != nil {
		return nil, err
	}
	result, err := w.Session.Hydrate(ctx, r)
	if result != nil {
		for i := range result.Environments {
			w.metrics.targets.WithLabelValues("rendered").Add(float64(result.Environments[i].Rendered))
			w.metrics.targets.WithLabelValues("reused").Add(float64(result.Environments[i].Reused))
		}
	}
	return result, err
}

// Running implements bot.Workspace.
func (w *workspace) Running(ctx context.Context, tree gitstore.Hash) ([]promotion.Running, error) {
	if err := w.pushing(ctx, tree); err != nil {
		return nil, err
	}
	return promotion.ReadRunning(ctx, w.Hydrator, tree)
}

// Line implements bot.Workspace.
func (w *workspace) Line(ctx context.Context, tip gitstore.Commit, most int) ([]gitstore.Commit, error) {
	return promotion.Line(ctx, w.Hydrator, tip, most)
}

// Missed implements bot.Workspace.
func (w *workspace) Missed(ctx context.Context, tip gitstore.Commit, most int) ([]gitstore.Commit, error) {
	if err := w.pushing(ctx, tip.Tree); err != nil {
		return nil, err
	}
	return promotion.Missed(ctx, w.Hydrator, tip, most)
}

// DropPreview implements bot.Workspace.
func (w *workspace) DropPreview(ctx context.Context, branch string) error {
	if err := w.pushingTip(ctx); err != nil {
		return err
	}
	return compare.DropPreview(ctx, w.Branches, branch)
}

// Previews implements bot.Workspace.
func (w *workspace) Previews(ctx context.Context, prefix string) ([]string, error) {
	if err := w.pushingTip(ctx); err != nil {
		return nil, err
	}
	return compare.Previews(ctx, w.Branches, prefix)
}

func (w *workspace) pushingTip(ctx context.Context) error {
	tree, err := w.trunk(ctx)
	if err != nil {
		return err
	}
	return w.pushing(ctx, tree)
}

// Answer implements bot.Workspace.
func (w *workspace) Answer(ctx context.Context, o bot.Order) (string, error) {
	switch o.Verb {
	case command.VerbStatus:
		return w.status(ctx, o)
	case command.VerbExplain:
		return w.explain(ctx, o)
	}
	return w.narrowed(ctx, o)
}

func (w *workspace) explain(ctx context.Context, o bot.Order) (string, error) {
	head, err := w.head(ctx, o.MR)
	if err != nil {
		return "", err
	}
	session := w.Session
	if !o.Own {
		if session, err = w.untrusted(ctx, head); err != nil {
			return "", err
		}
	}
	f, _, err := session.Fleet(ctx, head.Tree)
	if err != nil {
		return "", fmt.Errorf("%w: the fleet of the merge request cannot be read", bot.ErrRefused)
	}
	a, ok := f.App(first(o.App))
	c, found := f.Cluster(first(o.Clusters))
	if !ok || !found || !f.Places(a, c) {
		return "", fmt.Errorf("%w: the app %s does not go to a cluster %s", bot.ErrRefused, first(o.App), first(o.Clusters))
	}
	t := fleet.Target{App: a, Cluster: c}
	view, err := session.Hydrator.Open(ctx, head.Tree)
	if err != nil {
		return "", err
	}
	defaults, err := view.Defaults(ctx, t, "")
	if err != nil {
		defaults = fleet.Defaults{}
	}
	chains, err := f.Explain(t, "", o.Path, defaults)
	if err != nil {
		return "", fmt.Errorf("%w: %w", bot.ErrRefused, err)
	}
	var lines []string
	mask := diff.NewMasker(w.keyed)
	for _, chain := range chains {
		lines = append(lines, chain.Path)
		for _, origin := range chain.Origins {
			mark := "  "
			if origin.Winner {
				mark = "* "
			}
			layer := origin.Layer
			if origin.Value != "" {
				layer += "=" + origin.Value
			}
			lines = append(lines, fmt.Sprintf("  %s%s  %s  %s:%d", mark, layer, mask.Text(fmt.Sprint(origin.Set)), cmp.Or(origin.File, "-"), origin.Line))
		}
	}
	const most = 300
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("… and %d lines more: name a path", len(lines)-most))
	}
	return report.Block(lines), nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// narrowed is the review of the merge request, for some environments, apps and clusters.
func (w *workspace) narrowed(ctx context.Context, o bot.Order) (string, error) {
	head, err := w.head(ctx, o.MR)
	if err != nil {
		return "", err
	}
	target, err := w.Revision(ctx, "refs/heads/"+o.MR.TargetBranch)
	if err != nil {
		return "", err
	}
	base, err := w.MergeBase(ctx, target, head)
	if err != nil {
		return "", err
	}
	r, _, err := w.Review(ctx, bot.ReviewRequest{Base: base, Head: head, Policy: target.Tree, Trusted: o.Own})
	if err != nil {
		return "", err
	}
	if r.Changes != nil {
		r.Changes.Groups = slices.DeleteFunc(r.Changes.Groups, func(g diff.Group) bool { return !narrow(&o, &g) })
		r.Changes.Apps = slices.DeleteFunc(r.Changes.Apps, func(a diff.App) bool {
			return !slices.ContainsFunc(r.Changes.Groups, func(g diff.Group) bool { return g.App == a.Name })
		})
	}
	const margin = 2000
	text, _ := report.Markdown(r, w.forge.adapter.CommentLimit()-margin)
	return text, nil
}

func narrow(o *bot.Order, g *diff.Group) bool {
	if len(o.App) > 0 && !slices.Contains(o.App, g.App) {
		return false
	}
	if o.Env != "" && !slices.ContainsFunc(g.Where, func(r diff.Reach) bool { return r.Environment == o.Env }) {
		return false
	}
	return len(o.Clusters) == 0 || slices.ContainsFunc(o.Clusters, func(c string) bool { return slices.Contains(g.Clusters, c) })
}

// workspaces opens repositories for the bot.
type workspaces struct{ service *Service }

// Open implements bot.Workspaces. A mirror that cannot be opened is thrown away and made again.
func (w workspaces) Open(ctx context.Context, p hint.Place) (bot.Workspace, error) {
	s := w.service
	f := s.state().forges[p.Forge()]
	if f == nil {
		return nil, bot.ErrUnknownForge
	}
	env, err := f.environment(ctx, p.Repo(), false)
	if err != nil {
		return nil, fmt.Errorf("credential for %s: %w", p, err)
	}
	folder, release, err := s.mirrors.take(p, s.clock())
	if err != nil {
		return nil, err
	}
	open := func(env Environment) (*Session, error) {
		outer := env.Getenv
		env.Getenv = func(name string) string {
			if name == "SLUICE_MIRROR_DIR" {
				return folder
			}
			return outer(name)
		}
		return Open(ctx, env, Options{Repo: f.Git + "/" + p.Repo().Path + ".git", Jobs: s.inFlight, Renderer: s.renderer}, nil)
	}
	session, err := open(env)
	if err != nil {
		release()
		s.mirrors.suspect(p)
		return nil, fmt.Errorf("mirror of %s: %w", p, err)
	}
	session.Signer = s.state().signer
	return &workspace{Session: session, open: open, forge: f, place: p, clock: s.clock, release: release, keyed: s.key, verdicts: s.verdicts, metrics: s.metrics, told: s.tell}, nil
}

// damaged says whether an error may be of the mirror rather than of the server: what is not there may be missing from it.
func damaged(err error) bool {
	if errors.Is(err, gitstore.ErrNoRef) || errors.Is(err, gitstore.ErrUnrelated) {
		return false
	}
	if errors.Is(err, gitstore.ErrNotFound) {
		return true
	}
	text := err.Error()
	if _, network := errors.AsType[*url.Error](err); !network && (errors.Is(err, io.EOF) || strings.HasSuffix(text, ": EOF")) {
		return true // a file ends too early, as one does whose writer was killed; a server that hangs up costs a clone at worst
	}
	for _, word := range []string{"packfile", "object not found", "zlib", "malformed", "corrupt", "invalid checksum", "unexpected EOF", "no such file"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
