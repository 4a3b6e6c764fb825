package helmfile

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// locate finds the file that a helmfile names, which can be a pattern. It returns "" if there is none. A file that
// exists for helmfile, and not for Sluice, is a problem.
func (b base) locate(at, name string) (string, *problem) {
	if remote(name) {
		return "", problemf(at, "%s is fetched from a URL (add the file to the repository)", name)
	}
	full, err := b.path(name)
	if err != nil {
		return "", problemf(at, "%s %v", name, err)
	}
	matches := []string{full}
	if strings.ContainsAny(full, `*?[\`) {
		if matches, err = b.glob(full); err != nil {
			return "", problemf(at, "%s: %v", name, err)
		}
	}
	switch {
	case len(matches) > 1:
		return "", problemf(at, "%s matches %s, and helmfile accepts one file (name it)", name,
			strings.Join(matches, ", "))
	case len(matches) == 0:
		return "", b.linked(at, full)
	}
	return b.one(at, matches[0])
}

// literal finds a file whose name is not a pattern, and which must exist.
func (b base) literal(at, name string) (string, *problem) {
	full, err := b.path(name)
	if err != nil {
		return "", problemf(at, "%s %v", name, err)
	}
	found, why := b.one(at, full)
	if why == nil && found == "" {
		why = problemf(at, "the repository has no file %s", full)
	}
	return found, why
}

// one returns the name of a file, or "" if it does not exist.
func (b base) one(at, full string) (string, *problem) {
	if why := b.linked(at, full); why != nil {
		return "", why
	}
	_, err := fs.Lstat(b.files, full)
	switch {
	case err == nil:
		return full, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", problemf(at, "%s cannot be read: %v", full, err)
	}
	if b.worktree != nil {
		if _, err = fs.Lstat(b.worktree, full); !errors.Is(err, fs.ErrNotExist) {
			return "", problemf(at, "Git ignores %s, so the fleet would not have it (add it with git add --force)",
				full)
		}
	}
	return "", nil
}

// glob returns the files that a pattern matches, those that Git ignores included.
func (b base) glob(pattern string) ([]string, error) {
	out, err := fs.Glob(b.files, pattern)
	if err == nil && b.worktree != nil {
		var more []string
		more, err = fs.Glob(b.worktree, pattern)
		out = append(out, more...)
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// linked refuses a name that is a symbolic link, or below one.
func (b base) linked(at, full string) *problem {
	if link := b.link(full); link != "" {
		return problemf(at, "%s is a symbolic link, which Sluice does not follow (replace it by what it leads to)",
			link)
	}
	return nil
}

func (b base) link(full string) string {
	for dir := full; dir != "."; dir = path.Dir(dir) {
		if info, err := fs.Lstat(b.files, dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return dir
		}
	}
	return ""
}

// remote reports whether helmfile fetches a file.
func remote(name string) bool { return strings.Contains(name, "://") || strings.Contains(name, "::") }
