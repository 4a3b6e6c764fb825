package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/site/index"
)

// Request says what to read.
type Request struct {
	Trunk    gitstore.Commit
	Statuses []promote.Status // of the environments that are promoted; see promotion.Look with DryRun
	Problems []string         // what the caller could not read
	Now      time.Time
	Version  string
	Key      []byte                // of the fingerprints that stand for secrets
	Commits  int                   // most commits of a history; 0 is 100
	Index    *index.Index          // of an earlier call, so that only what changed is read; nil is none
	Touched  Touched               // of an earlier call; nil is none
	Versions promote.KnownVersions // of an earlier call; nil is none
	Images   Images                // of an earlier call; nil is none
	Sources  Sources               // of an earlier call; nil is none
	Posted   *Statuses             // commit statuses, for the health of clusters; nil: it is not known
}

const (
	trunkLine   = 1000 // commits of the trunk that distances are counted on
	historyLine = 100  // commits of an environment branch
)

// Read reads a fleet. An environment or a cluster whose branches cannot be read fails the call: a page must not show
// less than there is. What only adds detail, such as an old commit whose fleet is invalid, is named in Fleet.Problems.
func Read(ctx context.Context, h *hydrate.Hydrator, r Request) (*Fleet, error) {
	f, problems, err := h.Fleet(ctx, r.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	b := &reader{
		ctx: ctx, h: h, fleet: f, request: r, apps: map[string]*App{}, commits: map[string]Commit{},
		views:    map[string]*source.View{},
		versions: map[string]string{}, mask: diff.NewMasker(r.Key), problem: map[string]bool{},
		out: &Fleet{
			Name: f.Name, Trunk: cmp.Or(f.Spec.Trunk, "main"), Version: r.Version, Made: r.Now,
			Problems: slices.Clone(r.Problems), Images: Images{}, Sources: Sources{},
			Catalog: f.Catalog,
		},
	}
	b.files(problems)
	if warning := promote.Unsigned(f); warning != "" {
		b.out.Warnings = append(b.out.Warnings, warning)
	}
	if err := b.trunk(); err != nil {
		return nil, err
	}
	if b.refs, err = h.Branches.List(ctx, f.BranchPrefixes()...); err != nil {
		return nil, err
	}
	b.registry()
	for i := range f.Spec.Environments {
		if err := b.environment(&f.Spec.Environments[i]); err != nil {
			return nil, fmt.Errorf("environment %s: %w", f.Spec.Environments[i].Name, err)
		}
	}
	b.finish()
	if err := b.kubeVersions(); err != nil {
		return nil, err
	}
	if err := b.touches(); err != nil {
		return nil, err
	}
	if err := b.arrivals(); err != nil {
		return nil, err
	}
	b.health()
	if err := b.layers(); err != nil {
		return nil, err
	}
	if err := b.conformance(); err != nil {
		return nil, err
	}
	b.out.Index, _, err = index.Fleet(ctx, r.Index, h, r.Trunk.Tree, true)
	return b.out, err
}

// reader builds a Fleet.
type reader struct {
	ctx      context.Context //nolint:containedctx // a reader lives as long as one call of Read
	h        *hydrate.Hydrator
	fleet    *fleet.Fleet
	request  Request
	out      *Fleet
	refs     map[string]gitstore.Hash
	apps     map[string]*App
	commits  map[string]Commit
	line     *mainLine
	views    map[string]*source.View
	versions map[string]string
	mask     *diff.Masker
	problem  map[string]bool
}

func (b *reader) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !b.problem[text] {
		b.problem[text] = true
		b.out.Problems = append(b.out.Problems, text)
	}
}

const fileWarnings = 20 // of the fleet's files that the pages list

// files lists the warnings of the fleet's files, and the errors in files of a workspace, which was not read.
func (b *reader) files(problems fleet.Problems) {
	warnings := 0
	for _, p := range problems {
		if p.Severity == fleet.SeverityError {
			b.note("%s", p)
			continue
		}
		if warnings++; warnings <= fileWarnings {
			b.out.Warnings = append(b.out.Warnings, p.String())
		}
	}
	if n := warnings - fileWarnings; n > 0 {
		b.out.Warnings = append(b.out.Warnings,
			fmt.Sprintf("The fleet's files have %s: `sluice validate` lists them.", hydrate.Count(n, "more warning")))
	}
}

// trunk reads the trunk's line of first parents.
func (b *reader) trunk() error {
	line, err := promote.Line(b.ctx, b.h, b.request.Trunk, trunkLine)
	if err != nil {
		return err
	}
	b.line = &mainLine{at: map[string]int{}, touched: Touched{}}
	for i, c := range line {
		one := commitOf(c, i)
		b.line.at[one.Hash], b.commits[one.Hash] = i, one
		b.line.commits = append(b.line.commits, one)
	}
	b.out.Tip = b.commits[b.request.Trunk.Hash.String()]
	return nil
}

func commitOf(c gitstore.Commit, behind int) Commit {
	subject, _, _ := strings.Cut(c.Message, "\n")
	return Commit{Hash: c.Hash.String(), Subject: subject, Author: c.Author.Name, At: c.Committer.When, Behind: behind}
}

// commit describes a source commit. One that is not here keeps its hash alone.
func (b *reader) commit(hash string) Commit {
	if c, ok := b.commits[hash]; ok || hash == "" {
		return c
	}
	out := Commit{Hash: hash, Behind: -1}
	if h, err := gitstore.ParseHash(hash); err == nil {
		if c, err := b.h.Store.Commit(b.ctx, h); err == nil {
			out = commitOf(c, -1)
		}
	}
	b.commits[hash] = out
	return out
}

// registry makes the apps, and the labels.
func (b *reader) registry() {
	for _, a := range b.fleet.Apps {
		one := &App{Name: a.Name, Namespace: a.Spec.Namespace, File: a.File, file: fileName(a.Name)}
		b.apps[a.Name] = one
		b.out.Apps = append(b.out.Apps, one)
	}
	keys := map[string]int{}
	for _, c := range b.fleet.Clusters {
		for k := range c.Labels {
			keys[k]++
		}
	}
	delete(keys, "cluster")
	delete(keys, "environment")
	b.out.Labels = slices.SortedFunc(maps.Keys(keys), func(x, y string) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x, y))
	})
}

func rank(label string) int {
	if i := slices.Index([]string{"class", "region"}, label); i >= 0 {
		return i
	}
	return len(label) + 2
}

// app returns an app, also one that the trunk's fleet no longer has while a branch still holds it.
func (b *reader) app(name string) *App {
	a, ok := b.apps[name]
	if !ok {
		a = &App{Name: name, file: fileName(name)}
		b.apps[name] = a
		b.out.Apps = append(b.out.Apps, a)
	}
	return a
}

func (b *reader) environment(spec *fleet.Environment) error {
	e := &Environment{
		Name: spec.Name, Branch: b.fleet.EnvironmentBranch(spec.Name), After: spec.After,
		Mode: spec.Promotion.Mode,
	}
	if len(spec.After) > 0 {
		e.Mode = cmp.Or(e.Mode, "manual")
	} else {
		e.Mode = ""
	}
	for i := range b.request.Statuses {
		if b.request.Statuses[i].Environment == spec.Name {
			e.Status = &b.request.Statuses[i]
		}
	}
	b.out.Environments = append(b.out.Environments, e)
	st, err := b.state(e)
	if err != nil {
		return err
	}
	e.Source, e.Since, e.Foreign = st.Source(), st.Tip.Committer.When, st.Foreign
	if st.Exists() {
		e.Tip = st.Tip.Hash.String()
	}
	e.Commit = b.commit(e.Source.Commit)
	for _, name := range spec.After {
		e.Upstream = append(e.Upstream, b.gap(e, name))
		for _, up := range b.out.Environments {
			if up.Name == name {
				e.Level = max(e.Level, up.Level+1)
			}
		}
	}
	if err := b.clusters(e, st); err != nil {
		return err
	}
	if err := b.waves(e, spec); err != nil {
		return err
	}
	e.Next = b.nextReport(e)
	return b.history(e)
}

func (b *reader) state(e *Environment) (*branch.State, error) {
	return b.h.EnvironmentState(b.ctx, b.fleet, e.Name, b.refs[e.Branch])
}

// gap counts the commits that an environment lacks of an upstream one.
func (b *reader) gap(e *Environment, upstream string) Gap {
	g := Gap{Environment: upstream, Behind: -1}
	for _, up := range b.out.Environments {
		if up.Name == upstream && e.Commit.Behind >= 0 && up.Commit.Behind >= 0 {
			g.Behind = max(0, e.Commit.Behind-up.Commit.Behind)
		}
	}
	return g
}

// version describes the sources of an app on a cluster at a source commit: charts with their versions, or paths. It is
// empty if that commit can no longer be read, which Problems names.
func (b *reader) version(c *Cluster, app, commit string) string {
	key := commit + "\x00" + c.Name + "\x00" + app
	if v, ok := b.versions[key]; ok {
		return v
	}
	view := b.view(commit)
	if view == nil {
		return ""
	}
	cluster, ok := view.Fleet.Cluster(c.Name)
	a, known := view.Fleet.App(app)
	if !ok || !known {
		return ""
	}
	list, err := view.Versions(fleet.Target{App: a, Cluster: cluster})
	if err != nil {
		b.note("the version of %s on %s is unknown: %v", app, c.Name, err)
	}
	v := strings.Join(list, ", ")
	b.versions[key] = v
	return v
}

// view opens the fleet of a source commit; nil if that is not possible.
func (b *reader) view(commit string) *source.View {
	if v, ok := b.views[commit]; ok || commit == "" {
		return v
	}
	b.views[commit] = nil
	h, err := gitstore.ParseHash(commit)
	if err != nil {
		b.note("%q is not a commit: versions that it brought are not shown", commit)
		return nil
	}
	c, err := b.h.Store.Commit(b.ctx, h)
	if err == nil {
		b.views[commit], err = b.h.Open(b.ctx, c.Tree)
	}
	if err != nil {
		b.views[commit] = nil
		b.note("versions of commit %s are not shown: %v", h.Short(), firstLine(err))
	}
	return b.views[commit]
}

func firstLine(err error) string {
	if problems, ok := errors.AsType[fleet.Problems](err); ok && len(problems) > 0 {
		return problems[0].String()
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// finish sorts what was collected over environments.
func (b *reader) finish() {
	slices.SortFunc(b.out.Clusters, func(x, y *Cluster) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(b.out.Apps, func(x, y *App) int { return cmp.Compare(x.Name, y.Name) })
	for _, a := range b.out.Apps {
		slices.SortFunc(a.Placed, func(x, y *Placed) int { return cmp.Compare(x.Cluster.Name, y.Cluster.Name) })
	}
}
