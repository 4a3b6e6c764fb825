package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
)

// repositories are the folders of the corpus with Kustomize roots.
func (r *run) repositories() ([]string, error) {
	var out []string
	for _, kind := range []string{"kustomize", "flux", "argocd"} {
		found, err := filepath.Glob(filepath.Join(r.corpus, kind, "*"))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no repositories in %s: set CORPUS", r.corpus)
	}
	return out, nil
}

// nameOf is the repository that a folder of the corpus is a copy of.
func nameOf(dir string) string { return strings.Replace(filepath.Base(dir), "--", "/", 1) }

// treeID returns the id that Git gives the files of a folder.
func (r *run) treeID(dir string) (string, error) {
	index := filepath.Join(r.dir, filepath.Base(dir)+".git")
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(r.ctx, "git", append([]string{"--git-dir", index, "--work-tree", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
		return strings.TrimSpace(string(out)), nil
	}
	defer func() { _ = os.RemoveAll(index) }()
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A", "-f", "."}} {
		if _, err := git(args...); err != nil {
			return "", err
		}
	}
	id, err := git("write-tree")
	return "tree " + id[:min(len(id), 12)], err
}

// rootFleet copies a repository into a fleet with an app for each of its Kustomize roots. Components are no roots.
func (r *run) rootFleet(repository string) (dir string, roots map[string]string, err error) {
	dir = filepath.Join(r.dir, "roots-"+filepath.Base(repository))
	content := filepath.Join(dir, "content")
	if err := os.CopyFS(content, os.DirFS(repository)); err != nil {
		return "", nil, err
	}
	roots = map[string]string{}
	files := map[string]string{
		"sluice.yaml":         "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: parity}\nspec: {environments: [{name: all}], policy: {enforce: false}, output: {namespaces: asRendered}}\n",
		"clusters/local.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: local}\nspec: {environment: all, kubeVersion: " + kubeVersion + "}\n",
	}
	err = fs.WalkDir(os.DirFS(content), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains(kustomize.FileNames(), d.Name()) {
			return err
		}
		text, err := os.ReadFile(filepath.Join(content, name))
		if err != nil || bytes.Contains(text, []byte("\nkind: Component")) || bytes.HasPrefix(text, []byte("kind: Component")) {
			return err
		}
		app := fmt.Sprintf("root-%04d", len(roots)+1)
		roots[app] = path.Dir(name)
		files["apps/"+app+"/app.yaml"] = fmt.Sprintf(
			"apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: %s}\nspec: {namespace: ns, placement: {}, source: {kustomize: {path: %q}}}\n", app, path.Join("content", path.Dir(name)))
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	return dir, roots, write(dir, files)
}

// roots compares with `kustomize build`.
func (r *run) roots() (Part, error) {
	kustomize := filepath.Join(r.bin, "kustomize")
	if _, err := os.Stat(kustomize); err != nil {
		return Part{}, errNoTool
	}
	version, err := r.must(r.dir, kustomize, "version")
	if err != nil {
		return Part{}, err
	}
	repositories, err := r.repositories()
	if err != nil {
		return Part{}, err
	}
	part := Part{
		Tool: "kustomize " + version,
		Call: "`kustomize build ROOT --load-restrictor LoadRestrictionsNone`",
	}
	for _, repository := range repositories {
		row, err := r.repositoryRow(kustomize, repository)
		if err != nil {
			return Part{}, fmt.Errorf("%s: %w", repository, err)
		}
		if row.Units+row.Refused+len(row.NotCompared) > 0 {
			part.Rows = append(part.Rows, row)
		}
	}
	return part, nil
}

func (r *run) repositoryRow(kustomize, repository string) (Row, error) {
	row := Row{Source: nameOf(repository)}
	var err error
	if row.ID, err = r.treeID(repository); err != nil {
		return row, err
	}
	dir, roots, err := r.rootFleet(repository)
	if err != nil || len(roots) == 0 {
		return row, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ours, err := r.rendered(dir, "local")
	if err != nil {
		return row, err
	}
	for _, app := range sorted(roots) {
		out, err := r.command(filepath.Join(dir, "content"), kustomize, "build", roots[app], "--load-restrictor", "LoadRestrictionsNone")
		if err != nil && !failed(err) {
			return row, err
		}
		refusal, refused := ours.refused[app]
		switch {
		case err != nil && refused:
			row.skip(1, known().of(out.stderr))
		case err != nil:
			row.Units++
			row.Differences = append(row.Differences,
				Difference{roots[app] + ": kustomize refuses it, Sluice renders it", known().of(out.stderr), 1})
		case refused:
			row.refuse(roots[app], refusal)
		default:
			theirs, err := decode([]byte(out.stdout))
			if err != nil {
				return row, fmt.Errorf("the output of kustomize for %s: %w", roots[app], err)
			}
			row.compare(roots[app], ours.objects[app], theirs, nil)
		}
	}
	return row, nil
}
