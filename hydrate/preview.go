package hydrate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// Preview asks a comparison to push what it rendered to a branch: a commit with what the targets that differ are, upon a
// commit with what they were, so that a forge's own view of the branch's last commit is the whole diff.
type Preview struct {
	Branch string // without refs/heads/
	Title  string // of the commit
	Limit  int    // targets; beyond it there is no preview. 0: no limit
}

// PreviewResult is what became of it.
type PreviewResult struct {
	Base, Head string // commits
	Reason     string // why there is none
}

// preview writes and pushes the branch. It belongs to Sluice alone and is replaced as a whole: from where it was read, never forced.
func (c *comparison) preview(ctx context.Context, p *Preview) (*PreviewResult, error) {
	count := 0
	var trees [2][]gitstore.Entry
	for i := range trees {
		byCluster := map[[2]string][]gitstore.Entry{}
		for _, one := range c.list {
			if one.skip || one.withheld() || one.trees[0] == one.trees[1] {
				continue
			}
			count++
			if !one.trees[i].IsZero() {
				key := [2]string{one.target().Cluster.Environment, one.cluster}
				byCluster[key] = append(byCluster[key], gitstore.Entry{Name: one.app, Mode: gitstore.ModeTree, Hash: one.trees[i]})
			}
		}
		var err error
		if trees[i], err = c.environmentTrees(byCluster); err != nil {
			return nil, err
		}
	}
	if count /= len(trees); count == 0 {
		return &PreviewResult{Reason: "nothing differs"}, c.dropPreview(ctx, p.Branch)
	}
	if p.Limit > 0 && count > p.Limit {
		return &PreviewResult{Reason: fmt.Sprintf("%d targets differ, more than the %d of a preview", count, p.Limit)}, c.dropPreview(ctx, p.Branch)
	}
	var commits [2]gitstore.Hash
	for i := range trees {
		tree, err := c.writer.Tree(trees[i])
		if err != nil {
			return nil, err
		}
		if commits[i], err = c.previewCommit(i, tree, commits[0], p.Title); err != nil {
			return nil, err
		}
	}
	return &PreviewResult{Base: commits[0].String(), Head: commits[1].String()}, c.pushPreview(ctx, p.Branch, commits[1])
}

func (c *comparison) previewCommit(side int, tree, parent gitstore.Hash, title string) (gitstore.Hash, error) {
	head := c.request.Head
	commit := branch.Commit{
		Tree: tree, Parent: parent, Author: head.Author, Committer: branch.Committer{}.At(head.Committer.When),
		Subject: title, Body: fmt.Sprintf("What %s makes of the targets that it changes.", head.Hash),
		Trailers: []gitstore.Trailer{{Key: branch.TrailerSource, Value: head.Hash.String()}},
		Version:  c.h.Version, Signer: c.h.Signer,
	}
	if side == 0 {
		commit.Subject, commit.Body, commit.Trailers = "Before: "+title, "What these targets are without the change.", nil
	}
	return commit.Write(c.writer)
}

// environmentTrees puts targets' trees under <environment>/<cluster>.
func (c *comparison) environmentTrees(byCluster map[[2]string][]gitstore.Entry) ([]gitstore.Entry, error) {
	environments := map[string][]gitstore.Entry{}
	for key, apps := range byCluster {
		tree, err := c.writer.Tree(apps)
		if err != nil {
			return nil, err
		}
		environments[key[0]] = append(environments[key[0]], gitstore.Entry{Name: key[1], Mode: gitstore.ModeTree, Hash: tree})
	}
	var out []gitstore.Entry
	for name, clusters := range environments {
		tree, err := c.writer.Tree(clusters)
		if err != nil {
			return nil, err
		}
		out = append(out, gitstore.Entry{Name: name, Mode: gitstore.ModeTree, Hash: tree})
	}
	return out, nil
}

func (c *comparison) pushPreview(ctx context.Context, branch string, to gitstore.Hash) error {
	if err := c.borrow(ctx); err != nil {
		return err
	}
	refs, err := c.h.Branches.List(ctx, branch)
	if err != nil {
		return err
	}
	old := refs[branch]
	if old == to {
		return nil
	}
	return c.h.movePreview(ctx, c.writer, gitstore.Move{Branch: branch, Old: old, New: to})
}

// borrow copies the trees that a branch holds into the writer: the place that the preview goes to may be another.
func (c *comparison) borrow(ctx context.Context) error {
	for _, one := range c.list {
		for _, tree := range one.trees {
			if !tree.IsZero() && !one.skip && !one.withheld() {
				if err := c.h.adopt(ctx, tree, c.writer); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *comparison) dropPreview(ctx context.Context, branch string) error {
	return c.h.DropPreview(ctx, branch)
}

// DropPreview deletes a preview's branch, if it is there.
func (h *Hydrator) DropPreview(ctx context.Context, branch string) error {
	refs, err := h.Branches.List(ctx, branch)
	if err != nil {
		return err
	}
	old, ok := refs[branch]
	if !ok {
		return nil
	}
	return h.movePreview(ctx, nil, gitstore.Move{Branch: branch, Old: old})
}

// Previews lists the branches of previews, which all begin with a prefix.
func (h *Hydrator) Previews(ctx context.Context, prefix string) ([]string, error) {
	refs, err := h.Branches.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(refs)), nil
}

func (h *Hydrator) movePreview(ctx context.Context, w *gitstore.Writer, move gitstore.Move) error {
	results, err := h.Branches.Push(ctx, w, []gitstore.Move{move}, gitstore.PushOptions{})
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(results, func(r gitstore.MoveResult) bool { return r.State != gitstore.Updated }); i >= 0 {
		return fmt.Errorf("preview %s: %s %s", move.Branch, results[i].State, results[i].Reason)
	}
	return nil
}
