package hydrate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// metadataFile is where tools that follow Argo CD's source hydrator look for what a branch was rendered from.
const metadataFile = "hydrator.metadata"

// metadata is the file's content, as GitOps Promoter documents it
// (https://gitops-promoter.readthedocs.io/en/latest/advanced-usage/custom-hydrator/).
type metadata struct {
	DrySHA  string `json:"drySha"`
	RepoURL string `json:"repoURL"`
	Author  string `json:"author"`
	Date    string `json:"date"`
	Subject string `json:"subject"`
	Body    string `json:"body,omitempty"`
}

// root writes the tree of an environment branch: its clusters, and what it was rendered from. recorded are the files of inputs.
func (h *Hydrator) root(ctx context.Context, r record, scopes kinds, clusters, recorded []gitstore.Entry, w *gitstore.Writer) (gitstore.Hash, error) {
	inputsTree, err := w.Tree(recorded)
	if err != nil {
		return gitstore.Hash{}, err
	}
	own := []gitstore.Entry{{Name: inputsDir, Mode: gitstore.ModeTree, Hash: inputsTree}}
	files := map[string]func() ([]byte, error){environmentFile: r.encode}
	if len(scopes) > 0 {
		files[kindsFile] = scopes.encode
	}
	for name, encode := range files {
		data, err := encode()
		if err != nil {
			return gitstore.Hash{}, err
		}
		blob, err := w.Blob(data)
		if err != nil {
			return gitstore.Hash{}, err
		}
		own = append(own, gitstore.Entry{Name: name, Mode: gitstore.ModeFile, Hash: blob})
	}
	dir, err := w.Tree(own)
	if err != nil {
		return gitstore.Hash{}, err
	}
	entries, err := h.rootFiles(ctx, r.Source, w)
	if err != nil {
		return gitstore.Hash{}, err
	}
	entries = append(append(entries, clusters...), gitstore.Entry{Name: recordDir, Mode: gitstore.ModeTree, Hash: dir})
	return w.Tree(entries)
}

// rootFiles are the files that stand beside the clusters on the branch of an environment that runs a source commit.
func (h *Hydrator) rootFiles(ctx context.Context, source string, w *gitstore.Writer) ([]gitstore.Entry, error) {
	hash, err := gitstore.ParseHash(source)
	if err != nil {
		return nil, err
	}
	commit, err := h.store.Commit(ctx, hash)
	if err != nil {
		return nil, fmt.Errorf("source commit %s: %w", hash.Short(), err)
	}
	v, err := h.open(ctx, commit.Tree)
	if err != nil {
		return nil, err
	}
	repo := v.fleet.Spec.Output.HydratorMetadata
	if repo == "" {
		return nil, nil
	}
	subject, body, _ := strings.Cut(strings.TrimSpace(commit.Message), "\n")
	data, err := json.MarshalIndent(metadata{
		DrySHA: source, RepoURL: repo, Author: fmt.Sprintf("%s <%s>", commit.Author.Name, commit.Author.Email),
		Date: commit.Author.When.Format(time.RFC3339), Subject: subject, Body: strings.TrimSpace(body),
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	blob, err := w.Blob(append(data, '\n'))
	if err != nil {
		return nil, err
	}
	return []gitstore.Entry{{Name: metadataFile, Mode: gitstore.ModeFile, Hash: blob}}, nil
}
