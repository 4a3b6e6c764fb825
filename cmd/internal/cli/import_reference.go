package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// reference is a program that builds a repository with a tool's own libraries. They are not linked into sluice: they
// need Helm's actions and a Kubernetes client, and a second path inside this binary would share most of its code with
// the first one.
type reference struct {
	tool    string
	program string
	build   string // the command that builds the program in a clone of Sluice
	untyped bool   // the tool passes objects on as JSON, where 3.0 is 3
}

// referenceFor returns the program for an entry of spec.import.
func referenceFor(entry fleet.Import) reference {
	if entry.ArgoCD != nil {
		return reference{
			tool: "Argo CD", program: "sluice-reference-argocd", untyped: true,
			build: `go build -C tools/gitops/argocd -o "$HOME/sluice-argocd/" ./sluice-reference-argocd helm.sh/helm/v4/cmd/helm sigs.k8s.io/kustomize/kustomize/v5`,
		}
	}
	return reference{
		tool: "Flux", program: "sluice-reference-flux",
		build: `go build -C tools/gitops -o "$HOME/bin/" ./sluice-reference-flux`,
	}
}

// referenceRequest is what the reference program reads. It may change the files of Dir.
type referenceRequest struct {
	Dir      string                      `json:"dir"`
	Trunk    string                      `json:"trunk,omitempty"` // a revision that means the commit
	Entry    fleet.Import                `json:"entry"`
	Clusters map[string]referenceCluster `json:"clusters"`

	Repositories []referenceRepository `json:"repositories,omitempty"`
}

// referenceRepository is a copy of another repository of the fleet at its pinned commit.
type referenceRepository struct {
	URL    string `json:"url"`
	Ref    string `json:"ref"` // full name of the pinned branch or tag
	Commit string `json:"commit"`
	Dir    string `json:"dir"`
}

// referenceCluster is a cluster as its tool knows it. A cluster of Flux has no server, labels and annotations.
type referenceCluster struct {
	KubeVersion string            `json:"kubeVersion,omitempty"`
	APIVersions []string          `json:"apiVersions,omitempty"`
	Helm        int               `json:"helm,omitempty"` // that the registry names
	Server      string            `json:"server,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// referenceApp is what the tool applies for an app.
type referenceApp struct {
	Objects   []manifest.Object `json:"objects"`
	Namespace string            `json:"namespace"` // of namespaced objects that name none
	// in which the user's object is written, with the line if that is known
	File    string `json:"file"`
	Error   string `json:"error"`
	Skipped string `json:"skipped"` // why the reference cannot build it

	foreign bool   // a server or another repository describes it, so neither side can build it
	parent  string // the app whose objects include the user's object
}

// run writes the commit's files to a temporary directory and has the reference program build them.
func (r reference) run(ctx context.Context, store *gitstore.Store, tree gitstore.Hash, f *fleet.Fleet,
	entry fleet.Import,
) (map[string]map[string]referenceApp, error) {
	program, err := exec.LookPath(r.program)
	if err != nil {
		return nil, fmt.Errorf("--check needs the program %s in PATH (build it in a clone of Sluice: %s)", r.program,
			r.build)
	}
	dir, err := os.MkdirTemp("", "sluice-check")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a copy
	own := filepath.Join(dir, "repository")
	if err := copyFiles(own, store.Snapshot(ctx, tree)); err != nil {
		return nil, fmt.Errorf("copying the commit: %w", err)
	}
	others, err := copyOthers(ctx, dir, store, f)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(referenceRequest{
		Dir: own, Trunk: f.Spec.Trunk, Entry: entry,
		Clusters: referenceClusters(f, entry), Repositories: others,
	})
	if err != nil {
		return nil, err
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program) //nolint:gosec // the user put it in PATH
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", r.program, err, safetext.Message(strings.TrimSpace(errs.String()),
			failureLines, failureWidth))
	}
	var answer struct {
		Clusters map[string]map[string]referenceApp `json:"clusters"`
	}
	decoder := json.NewDecoder(&out)
	decoder.UseNumber() // numbers keep their digits and their type
	if err := decoder.Decode(&answer); err != nil {
		return nil, fmt.Errorf("the answer of %s: %w (build it from the release of this sluice)", r.program, err)
	}
	return answer.Clusters, nil
}

// referenceClusters are the clusters that destinations may name.
func referenceClusters(f *fleet.Fleet, entry fleet.Import) map[string]referenceCluster {
	out := map[string]referenceCluster{}
	for _, c := range f.Clusters {
		one := referenceCluster{KubeVersion: c.ChartVersion(), APIVersions: c.APIVersions, Helm: c.Helm}
		if entry.ArgoCD != nil {
			own := entry.ArgoCD.Clusters[c.Name]
			one.Server, one.Labels, one.Annotations = own.Server, entry.ArgoCD.LabelsOf(c.Name, c.Labels),
				own.Annotations
		}
		out[c.Name] = one
	}
	return out
}

// copyOthers writes the pinned commits of other repositories to directories in dir.
func copyOthers(ctx context.Context, dir string, store *gitstore.Store, f *fleet.Fleet) ([]referenceRepository, error) {
	var out []referenceRepository
	for _, r := range f.Repositories {
		if r.Commit == "" {
			continue // the targets that need it fail
		}
		hash, err := gitstore.ParseHash(r.Commit)
		if err != nil {
			return nil, fmt.Errorf("repository %s: %w", r.Name, err)
		}
		commit, err := store.Commit(ctx, hash)
		if err != nil {
			return nil, fmt.Errorf("repository %s: %w", r.Name, err)
		}
		one := referenceRepository{
			URL: r.URL, Ref: r.Resolved, Commit: r.Commit,
			Dir: filepath.Join(dir, "other", r.Name),
		}
		if err := copyFiles(one.Dir, store.Snapshot(ctx, commit.Tree)); err != nil {
			return nil, fmt.Errorf("copying the repository %s: %w", r.Name, err)
		}
		out = append(out, one)
	}
	return out, nil
}

// copyFiles writes the regular files of a commit. source-controller leaves out symbolic links too, and a link could
// lead the reference out of the directory.
func copyFiles(dir string, tree fs.FS) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, filepath.FromSlash(name)), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), data, 0o600)
	})
}
