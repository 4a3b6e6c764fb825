package fluxref

import (
	"fmt"
	"os"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// other returns a copy of the repository that a GitRepository names, without the files that it ignores.
func (c *cluster) other(namespace, name string) (string, error) {
	key := "GitRepository/" + namespace + "/" + name
	if dir, ok := c.copies[key]; ok {
		return dir, nil
	}
	o, ok := c.store[key]
	if !ok {
		return "", errForeign
	}
	var repository sourcev1.GitRepository
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &repository); err != nil {
		return "", err
	}
	for _, r := range c.Repositories {
		if r.URL != repository.Spec.URL || !fetches(repository.Spec.Reference, r) {
			continue
		}
		dir, err := os.MkdirTemp(c.temp, "repository")
		if err != nil {
			return "", err
		}
		if err := os.CopyFS(dir, os.DirFS(r.Dir)); err != nil {
			return "", fmt.Errorf("%s: %w", key, err)
		}
		if _, err := removeIgnored(dir, repository.Spec.Ignore); err != nil {
			return "", fmt.Errorf("%s: %w", key, err)
		}
		c.copies[key] = dir
		return dir, nil
	}
	return "", errForeign
}

// fetches reports whether a GitRepository's ref can be what a repository was copied at. A range of versions is any tag:
// whoever copied it chose.
func fetches(ref *sourcev1.GitRepositoryRef, r Repository) bool {
	switch {
	case ref == nil:
		return r.Ref == "refs/heads/master"
	case ref.Commit != "":
		return r.Commit == ref.Commit
	case ref.Name != "":
		return r.Ref == ref.Name
	case ref.SemVer != "":
		return true
	case ref.Tag != "":
		return r.Ref == "refs/tags/"+ref.Tag
	case ref.Branch != "":
		return r.Ref == "refs/heads/"+ref.Branch
	}
	return r.Ref == "refs/heads/master"
}
