package helm

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/ignore"
)

// Link is a symbolic link in a chart's directory.
type Link struct {
	Path   string // slash path inside the chart's directory
	Target string // as the link has it
}

const (
	maxHops    = 40   // links on one path, as on Linux
	maxFollows = 2000 // links followed in one chart; a link that two paths reach counts twice
)

// FollowLinks returns a chart's files with every link replaced by its target, as Helm reads a directory. It omits links
// that .helmignore excludes. A link that leaves the chart, has no target or leads to one of its parent directories is
// an error; with several such links, the error is about the first one by path.
func FollowLinks(files []File, links []Link, limits Limits) ([]File, error) {
	t := linkTree{
		files: map[string][]byte{}, dirs: map[string]bool{".": true}, links: map[string]string{},
		limits: limits,
	}
	for _, f := range files {
		t.files[f.Path] = f.Data
		t.addDirs(f.Path)
	}
	for _, l := range links {
		t.links[l.Path] = l.Target
		t.addDirs(l.Path)
	}
	t.out = slices.Clone(files)
	rules, err := t.rules()
	if err != nil {
		return nil, err
	}
	sorted := slices.SortedStableFunc(slices.Values(links), func(a, b Link) int {
		return strings.Compare(a.Path, b.Path)
	})
	for _, l := range sorted {
		if ignored(rules, File{Path: l.Path}) || rules.Ignore(l.Path, info{name: path.Base(l.Path), dir: true}) {
			continue
		}
		if err := t.follow(l.Path, l.Path, nil); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(t.out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return t.out, nil
}

type linkTree struct {
	files  map[string][]byte
	dirs   map[string]bool
	links  map[string]string
	limits Limits

	out      []File
	followed int
	added    int
	bytes    int64
}

func (t *linkTree) addDirs(name string) {
	for dir := path.Dir(name); !t.dirs[dir]; dir = path.Dir(dir) {
		t.dirs[dir] = true
	}
}

// rules reads .helmignore, which may itself be a link.
func (t *linkTree) rules() (*ignore.Rules, error) {
	if _, ok := t.links[ignore.HelmIgnore]; ok {
		target, err := t.resolve(ignore.HelmIgnore)
		if err != nil {
			return nil, err
		}
		return ignoreRules([]File{{Path: ignore.HelmIgnore, Data: t.files[target]}})
	}
	return ignoreRules([]File{{Path: ignore.HelmIgnore, Data: t.files[ignore.HelmIgnore]}})
}

// resolve returns the target of a link as a path without links.
func (t *linkTree) resolve(link string) (string, error) {
	at, rest := ".", strings.Split(link, "/")
	for hops := 0; len(rest) > 0; {
		next := rest[0]
		rest = rest[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return "", fmt.Errorf("%s is a symbolic link to %q, which is outside the chart: copy the file into the chart, or exclude it in .helmignore", link, t.links[link])
			}
			at = path.Dir(at)
			continue
		}
		at = path.Join(at, next)
		target, ok := t.links[at]
		if !ok {
			continue
		}
		if hops++; hops > maxHops {
			return "", fmt.Errorf("%s is a symbolic link to itself: remove it", link)
		}
		if path.IsAbs(target) {
			return "", fmt.Errorf("%s is a symbolic link to the absolute path %q: copy the file into the chart, or exclude it in .helmignore", link, target)
		}
		at, rest = path.Dir(at), append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// follow adds the target of link under the name shown. above lists the directories that are being added.
func (t *linkTree) follow(link, shown string, above []string) error {
	if t.followed++; t.followed > maxFollows {
		return t.multiplied()
	}
	target, err := t.resolve(link)
	if err != nil {
		return err
	}
	if data, ok := t.files[target]; ok {
		return t.add(File{Path: shown, Data: data})
	}
	if !t.dirs[target] {
		return fmt.Errorf("%s is a symbolic link to %q, which does not exist: correct or remove it", link,
			t.links[link])
	}
	if target == "." || strings.HasPrefix(link, target+"/") || slices.Contains(above, target) {
		return fmt.Errorf("%s is a symbolic link that leads back to the directory %q: remove it", link, target)
	}
	above = append(slices.Clip(above), target)
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		if rest, ok := strings.CutPrefix(name, target+"/"); ok {
			if err := t.add(File{Path: path.Join(shown, rest), Data: t.files[name]}); err != nil {
				return err
			}
		}
	}
	for _, inner := range slices.Sorted(maps.Keys(t.links)) { // in order, so that the same link is reported each time
		if rest, ok := strings.CutPrefix(inner, target+"/"); ok {
			if err := t.follow(inner, path.Join(shown, rest), above); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *linkTree) add(f File) error {
	t.added++
	t.bytes += int64(len(f.Data))
	if t.added > t.limits.Entries || t.bytes > t.limits.Bytes {
		return t.multiplied()
	}
	t.out = append(t.out, f)
	return nil
}

func (t *linkTree) multiplied() error {
	return fmt.Errorf("the symbolic links of the chart lead to more than %d links, %d files or %d MiB: remove some",
		maxFollows, t.limits.Entries, t.limits.Bytes>>20)
}
