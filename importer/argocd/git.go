package argocd

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/importer/internal/pinned"
	"github.com/sluice-gitops/sluice/internal/giturl"
)

// git are the parameters of directories or files of the repository, or of a pinned commit.
func (s *set) git(spec map[string]any) ([]params, error) {
	url, _ := spec["repoURL"].(string)
	revision, _ := spec["revision"].(string)
	from, err := s.contentOf(url, revision)
	if err != nil {
		return nil, err
	}
	directories, _ := spec["directories"].([]any)
	files, _ := spec["files"].([]any)
	prefix, _ := spec["pathParamPrefix"].(string)
	switch {
	case len(directories) > 0:
		return s.directories(from, spec, directories, prefix)
	case len(files) > 0:
		return s.contents(from, spec, files, prefix)
	}
	return nil, errors.New("directories or files are missing")
}

// item is a pattern of a generator.
type item struct {
	Path    string `json:"path"`
	Exclude bool   `json:"exclude"`
}

func items(list []any) ([]item, error) {
	out := make([]item, len(list))
	return out, decode(list, &out)
}

func (s *set) directories(from *importer, spec map[string]any, list []any, prefix string) ([]params, error) {
	patterns, err := items(list)
	if err != nil {
		return nil, err
	}
	dirs := map[string]bool{}
	for _, name := range from.files {
		for dir := path.Dir(name); dir != "." && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	var out []params
	for _, dir := range sorted(dirs) {
		if hidden(dir) {
			continue
		}
		in, excluded := false, false
		for _, p := range patterns {
			if ok, err := path.Match(p.Path, dir); err != nil || !ok {
				continue // Argo CD ignores a bad pattern too
			}
			in, excluded = in || !p.Exclude, excluded || p.Exclude
		}
		if !in || excluded {
			continue
		}
		p := params{}
		s.place(p, prefix, dir, "")
		if err := s.withValues(spec, p); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func hidden(dir string) bool {
	return slices.ContainsFunc(strings.Split(dir, "/"), func(part string) bool { return strings.HasPrefix(part, ".") })
}

// place adds the parameters `path` of a directory, or of a file in it.
func (s *set) place(p params, prefix, dir, file string) {
	if s.templates.goTemplate {
		at := map[string]any{
			"path": dir, "basename": path.Base(dir), "basenameNormalized": sanitize(path.Base(dir)),
			"segments": strings.Split(dir, "/"),
		}
		if file != "" {
			at["filename"], at["filenameNormalized"] = file, sanitize(file)
		}
		if prefix != "" {
			p[prefix] = map[string]any{"path": at}
		} else {
			p["path"] = at
		}
		return
	}
	name := "path"
	if prefix != "" {
		name = prefix + ".path"
	}
	p[name], p[name+".basename"], p[name+".basenameNormalized"] = dir, path.Base(dir), sanitize(path.Base(dir))
	if file != "" {
		p[name+".filename"], p[name+".filenameNormalized"] = file, sanitize(file)
	}
	for n, part := range strings.Split(dir, "/") {
		if part != "" {
			p[name+"["+strconv.Itoa(n)+"]"] = part
		}
	}
}

func (s *set) contents(from *importer, spec map[string]any, list []any, prefix string) ([]params,
	error,
) {
	patterns, err := items(list)
	if err != nil {
		return nil, err
	}
	found, err := matching(from.files, patterns)
	if err != nil {
		return nil, err
	}
	var out []params
	for _, name := range sorted(found) {
		s.reads = append(s.reads, path.Join(from.dir, name))
		data, err := from.Tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		objects, err := mappings(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, o := range objects {
			p := s.fileParams(o)
			s.place(p, prefix, path.Dir(name), path.Base(name))
			if err := s.withValues(spec, p); err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// matching returns the files that a pattern includes and no pattern excludes.
func matching(files []string, patterns []item) (map[string]bool, error) {
	found := map[string]bool{}
	for _, exclude := range []bool{false, true} {
		for _, p := range patterns {
			if p.Exclude != exclude {
				continue
			}
			match, err := pathspec(p.Path)
			if err != nil {
				return nil, err
			}
			for _, name := range files {
				if !match(name) {
					continue
				}
				if exclude {
					delete(found, name)
				} else {
					found[name] = true
				}
			}
		}
	}
	return found, nil
}

// fileParams returns the parameters of one mapping of a file: as it is for goTemplate, otherwise its scalars below
// dotted names.
func (s *set) fileParams(o map[string]any) params {
	p := params{} // not a clone of o, which is nil for an empty file
	if s.templates.goTemplate {
		maps.Copy(p, o)
		return p
	}
	flat := map[string]string{}
	flatten("", o, flat)
	for k, v := range flat {
		p[k] = v
	}
	return p
}

// mappings reads a file that holds a mapping or a list of mappings.
func mappings(data []byte) ([]map[string]any, error) {
	one := map[string]any{}
	if yaml.Unmarshal(data, &one) == nil {
		return []map[string]any{one}, nil
	}
	var out []map[string]any
	if err := yaml.Unmarshal(data, &out); err != nil {
		return nil, errors.New("the file holds neither a mapping nor a list of mappings")
	}
	return out, nil
}

const maxPattern = 1000 // bytes of one pattern

// pathspec matches as `git ls-files` does, which Argo CD asks: a wildcard matches slashes, and a directory stands for
// what is in it.
func pathspec(pattern string) (func(name string) bool, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("a pattern has more than %d characters", maxPattern)
	}
	var expr strings.Builder
	expr.WriteString(`\A`)
	for n := 0; n < len(pattern); n++ {
		switch c := pattern[n]; c {
		case '*':
			expr.WriteString(`.*`)
		case '?':
			expr.WriteString(`.`)
		case '[':
			end := strings.IndexByte(pattern[n+1:], ']')
			if end < 1 {
				return nil, fmt.Errorf("bad pattern %q", pattern)
			}
			class := pattern[n+1 : n+1+end]
			not := strings.HasPrefix(class, "!") || strings.HasPrefix(class, "^")
			class = strings.NewReplacer(`\`, `\\`, `[`, `\[`).Replace(strings.TrimLeft(class, "!^"))
			if not {
				class = "^" + class
			}
			expr.WriteString("[" + class + "]")
			n += end + 1
		default:
			expr.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	expr.WriteString(`\z`)
	// The pattern is the user's, so it cannot be compiled once for the package. RE2 bounds the time to match,
	// maxPattern the program's size.
	re, err := regexp.Compile(expr.String())
	if err != nil {
		return nil, fmt.Errorf("bad pattern %q", pattern)
	}
	dir := strings.TrimSuffix(pattern, "/") + "/"
	return func(name string) bool { return re.MatchString(name) || strings.HasPrefix(name, dir) }, nil
}

var errElsewhere = errors.New("is not this repository, so its content is not rendered")

// thisCommit reports why a source is not the commit under review; nil if it is.
func (i *importer) thisCommit(url, revision string) error {
	if !i.own[giturl.Key(url)] {
		if pinned.Whole(revision) {
			return fmt.Errorf("%s %w", url, errElsewhere)
		}
		return fmt.Errorf("%s %w: the revision %q can move (a commit id of 40 digits cannot)", url, errElsewhere,
			cmp.Or(revision, "HEAD"))
	}
	revision = strings.TrimPrefix(revision, "refs/heads/")
	if revision == "" || revision == "HEAD" || revision == i.Trunk ||
		i.Trunk == "" && (revision == "main" || revision == "master") {
		return nil
	}
	return fmt.Errorf("the revision %q of %s is not the one under review, so it is not rendered", revision, url)
}
