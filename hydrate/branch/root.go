package branch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
)

// MetadataFile is the file in which tools that support Argo CD's source hydrator find the source commit of a branch.
const MetadataFile = "hydrator.metadata"

// metadata is the content of MetadataFile in the format of GitOps Promoter
// (https://gitops-promoter.readthedocs.io/en/latest/advanced-usage/custom-hydrator/).
type metadata struct {
	DrySHA  string `json:"drySha"`
	RepoURL string `json:"repoURL"`
	Author  string `json:"author"`
	Date    string `json:"date"`
	Subject string `json:"subject"`
	Body    string `json:"body,omitempty"`
}

// Root describes the root tree of an environment branch.
type Root struct {
	Record   Record
	Kinds    Kinds
	Clusters map[string]gitstore.Hash // cluster → its subtree
	Inputs   map[string]gitstore.Hash // as in State; clusters that Clusters lacks are ignored
	Scoped   map[string]gitstore.Hash // as in State
	// Source and MetadataURL are written to MetadataFile. An empty URL omits the file.
	Source      gitstore.Commit
	MetadataURL string

	order []string // names of clusters in order; Clusters may have others
}

// Write writes the tree and returns its hash.
func (r Root) Write(w *gitstore.Writer) (gitstore.Hash, error) {
	dir, err := r.writeDir(w)
	if err != nil {
		return gitstore.Hash{}, err
	}
	entries := make([]gitstore.Entry, 1, len(r.Clusters)+2)
	entries[0] = gitstore.Entry{Name: Dir, Mode: gitstore.ModeTree, Hash: dir}
	for _, name := range inOrder(r.order, r.Clusters) {
		entries = append(entries, gitstore.Entry{Name: name, Mode: gitstore.ModeTree, Hash: r.Clusters[name]})
	}
	if r.MetadataURL != "" {
		data, err := r.metadata()
		if err != nil {
			return gitstore.Hash{}, err
		}
		blob, err := w.Blob(data)
		if err != nil {
			return gitstore.Hash{}, err
		}
		entries = append(entries, gitstore.Entry{Name: MetadataFile, Mode: gitstore.ModeFile, Hash: blob})
	}
	return w.Tree(entries)
}

// inOrder returns the keys of a map, sorted. They are usually among those of order, which is sorted: sorting thousands
// of names again takes most of the time of writing a tree.
func inOrder(order []string, m map[string]gitstore.Hash) []string {
	out := make([]string, 0, len(m))
	for _, name := range order {
		if _, ok := m[name]; ok {
			out = append(out, name)
		}
	}
	if len(out) == len(m) {
		return out
	}
	return slices.Sorted(maps.Keys(m))
}

// writeDir writes the folder .sluice.
func (r Root) writeDir(w *gitstore.Writer) (gitstore.Hash, error) {
	inputs := make([]gitstore.Entry, 0, len(r.Inputs))
	for _, name := range inOrder(r.order, r.Inputs) {
		if _, ok := r.Clusters[name]; ok {
			inputs = append(inputs, gitstore.Entry{
				Name: inputsFile(name), Mode: gitstore.ModeFile,
				Hash: r.Inputs[name],
			})
		}
	}
	tree, err := w.Tree(inputs)
	if err != nil {
		return gitstore.Hash{}, err
	}
	entries := []gitstore.Entry{{Name: inputsDir, Mode: gitstore.ModeTree, Hash: tree}}
	var scoped []gitstore.Entry
	for workspace, folder := range r.Scoped {
		scoped = append(scoped, gitstore.Entry{Name: workspace, Mode: gitstore.ModeTree, Hash: folder})
	}
	if len(scoped) > 0 {
		if tree, err = w.Tree(scoped); err != nil {
			return gitstore.Hash{}, err
		}
		entries = append(entries, gitstore.Entry{Name: scopedDir, Mode: gitstore.ModeTree, Hash: tree})
	}
	files := map[string]func() ([]byte, error){environmentFile: r.Record.Encode}
	if len(r.Kinds) > 0 {
		files[kindsFile] = r.Kinds.Encode
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
		entries = append(entries, gitstore.Entry{Name: name, Mode: gitstore.ModeFile, Hash: blob})
	}
	return w.Tree(entries)
}

func (r Root) metadata() ([]byte, error) {
	subject, body, _ := strings.Cut(strings.TrimSpace(r.Source.Message), "\n")
	data, err := json.MarshalIndent(metadata{
		DrySHA: r.Source.Hash.String(), RepoURL: r.MetadataURL,
		Author: fmt.Sprintf("%s <%s>", r.Source.Author.Name, r.Source.Author.Email),
		Date:   r.Source.Author.When.Format(time.RFC3339), Subject: subject, Body: strings.TrimSpace(body),
	}, "", "  ")
	return append(data, '\n'), err
}
