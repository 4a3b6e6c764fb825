package fluxref

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fluxcd/pkg/sourceignore"
)

// removeIgnored removes the files that source-controller leaves out of an artifact: those that .sourceignore files, the
// GitRepository's spec.ignore and the default patterns exclude. It returns what it has removed, by path.
func removeIgnored(dir string, spec *string) (map[string][]byte, error) {
	patterns, err := sourceignore.LoadIgnorePatterns(dir, nil)
	if err != nil {
		return nil, err
	}
	if spec != nil {
		patterns = append(patterns, sourceignore.ReadPatterns(strings.NewReader(*spec), nil)...)
	}
	matcher := sourceignore.NewDefaultMatcher(patterns, nil)
	removed := map[string][]byte{}
	return removed, files(dir, func(full, name string) error {
		if !matcher.Match(strings.Split(name, "/"), false) {
			return nil
		}
		data, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		removed[full] = data
		return os.Remove(full)
	})
}

// restore writes removed files again, because another cluster may not ignore them.
func restore(removed map[string][]byte) error {
	for full, data := range removed {
		if err := os.WriteFile(full, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writtenIn returns the objects, as KIND/NAME, in files that match patterns.
func writtenIn(dir string, patterns []string) (map[string]bool, error) {
	out := map[string]bool{}
	if len(patterns) == 0 {
		return out, nil
	}
	root := []string{"repository"} // an empty domain would match anywhere
	matcher := sourceignore.NewMatcher(sourceignore.ReadPatterns(strings.NewReader(strings.Join(patterns, "\n")), root))
	return out, files(dir, func(full, name string) error {
		if ext := filepath.Ext(name); ext != ".yaml" && ext != ".yml" ||
			!matcher.Match(append(root, strings.Split(name, "/")...), false) {
			return nil
		}
		data, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		list, err := decode(string(data))
		if err != nil {
			return nil //nolint:nilerr // no Kustomization reads it, or the one that does fails
		}
		for _, o := range list {
			out[o.GetKind()+"/"+o.GetName()] = true
		}
		return nil
	})
}

// files calls visit for each file with its path relative to dir.
func files(dir string, visit func(full, name string) error) error {
	return filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, full)
		if err != nil {
			return err
		}
		return visit(full, filepath.ToSlash(name))
	})
}
