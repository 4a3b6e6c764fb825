package compare

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// Preview asks Run to push the rendered targets to a preview branch. Its first commit holds the targets that differ
// before the change, its second commit after it, so that the forge's page of the second commit shows the whole diff.
type Preview struct {
	Branch string // without refs/heads/
	Title  string // of the commit
	Limit  int    // most targets; with more, Run pushes no preview. 0: no limit
}

// PreviewResult describes the pushed preview, or why there is none.
type PreviewResult struct {
	Base, Head string // commits
	Reason     string
	Refused    string // why the server refuses to move the branch, such as a rule that protects it
}

// preview writes and pushes the branch. A server that refuses it does not fail the run.
func (c *run) preview(ctx context.Context, p *Preview) (*PreviewResult, error) {
	out, err := c.pushPreview(ctx, p)
	if refused, ok := errors.AsType[*gitstore.RefusedError](err); ok {
		return &PreviewResult{Reason: "the server refuses it", Refused: refused.Message}, nil
	}
	return out, err
}

// pushPreview writes and pushes the branch. It replaces the whole content by compare-and-swap from the value that it
// read, never by force. If there is nothing to show, it deletes the branch.
func (c *run) pushPreview(ctx context.Context, p *Preview) (*PreviewResult, error) {
	var differing []*candidate
	for _, one := range c.list {
		if one.compared() && one.trees[0] != one.trees[1] {
			differing = append(differing, one)
		}
	}
	if len(differing) == 0 {
		return &PreviewResult{Reason: "nothing differs"}, DropPreview(ctx, c.h.Branches, p.Branch)
	}
	if p.Limit > 0 && len(differing) > p.Limit {
		reason := fmt.Sprintf("%d targets differ, more than the %d of a preview", len(differing), p.Limit)
		return &PreviewResult{Reason: reason}, DropPreview(ctx, c.h.Branches, p.Branch)
	}
	var commits [2]gitstore.Hash
	for side := range commits {
		tree, err := c.previewTree(ctx, differing, side)
		if err != nil {
			return nil, err
		}
		if commits[side], err = c.previewCommit(side, tree, commits[0], p.Title); err != nil {
			return nil, err
		}
	}
	return &PreviewResult{Base: commits[0].String(), Head: commits[1].String()},
		movePreview(ctx, c.h.Branches, c.writer, p.Branch, commits[1])
}

// previewTree writes one side of the targets as <environment>/<cluster>/<app>. It copies trees of branches into the
// writer, since the preview may go to another repository.
func (c *run) previewTree(ctx context.Context, differing []*candidate, side int) (gitstore.Hash, error) {
	byCluster := map[[2]string][]gitstore.Entry{} // environment, cluster
	for _, one := range differing {
		if one.trees[side].IsZero() {
			continue
		}
		if err := branch.CopyTree(ctx, c.h.Store, c.writer, one.trees[side]); err != nil {
			return gitstore.Hash{}, err
		}
		key := [2]string{one.target().Cluster.Environment, one.cluster}
		app := gitstore.Entry{Name: one.app, Mode: gitstore.ModeTree, Hash: one.trees[side]}
		byCluster[key] = append(byCluster[key], app)
	}
	environments := map[string][]gitstore.Entry{}
	for key, apps := range byCluster {
		tree, err := branch.WriteApps(c.writer, apps)
		if err != nil {
			return gitstore.Hash{}, err
		}
		cluster := gitstore.Entry{Name: key[1], Mode: gitstore.ModeTree, Hash: tree}
		environments[key[0]] = append(environments[key[0]], cluster)
	}
	var entries []gitstore.Entry
	for name, clusters := range environments {
		tree, err := c.writer.Tree(clusters)
		if err != nil {
			return gitstore.Hash{}, err
		}
		entries = append(entries, gitstore.Entry{Name: name, Mode: gitstore.ModeTree, Hash: tree})
	}
	return c.writer.Tree(entries)
}

func (c *run) previewCommit(side int, tree, parent gitstore.Hash, title string) (gitstore.Hash, error) {
	head := c.request.Head
	commit := branch.Commit{
		Tree: tree, Parent: parent, Author: head.Author, Committer: branch.Committer{}.At(head.Committer.When),
		Subject: title, Body: fmt.Sprintf("What %s renders to, for the targets that it changes.", head.Hash),
		Trailers: []gitstore.Trailer{{Key: branch.TrailerSource, Value: head.Hash.String()}},
		Version:  c.h.Version, Signer: c.h.Signer,
	}
	if side == 0 {
		commit.Subject, commit.Body, commit.Trailers = "Before: "+title, "The same targets without the change.", nil
	}
	return commit.Write(c.writer)
}

// DropPreview deletes the branch of a preview, if it exists.
func DropPreview(ctx context.Context, branches gitstore.Branches, name string) error {
	return movePreview(ctx, branches, nil, name, gitstore.Hash{})
}

// Previews returns the preview branches with a common prefix, sorted.
func Previews(ctx context.Context, branches gitstore.Branches, prefix string) ([]string, error) {
	refs, err := branches.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(refs)), nil
}

// movePreview moves a branch of a preview, or deletes it if to is zero. The branches may have been listed before the
// rendering, so it lists them again if the branch has moved since.
func movePreview(ctx context.Context, branches gitstore.Branches, w *gitstore.Writer, name string,
	to gitstore.Hash,
) error {
	for again := true; ; again = false {
		refs, err := branches.List(ctx, name)
		if err != nil || refs[name] == to {
			return err
		}
		results, err := branches.Push(ctx, w, []gitstore.Move{{Branch: name, Old: refs[name], New: to}},
			gitstore.PushOptions{})
		if err != nil {
			return err
		}
		bad := slices.IndexFunc(results, func(r gitstore.MoveResult) bool { return r.State != gitstore.Updated })
		if bad < 0 {
			return nil
		}
		if r := results[bad]; r.State != gitstore.Conflict || !again {
			return fmt.Errorf("preview %s: %w", name, r.Err())
		}
	}
}
