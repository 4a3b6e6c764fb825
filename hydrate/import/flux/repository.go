package flux

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	"github.com/sluice-gitops/sluice/internal/giturl"
)

// Repository is another repository of the fleet, at the commit that sluice.lock pins.
type Repository struct {
	Name, URL string
	Dir       string // of its content in the tree
	Resolved  string // full name of the pinned branch or tag; "" if the content is missing
	Commit    string // that is pinned
	Missing   string // why the content is missing; "" if it is there
	Declared  string // FILE:LINE of its declaration
}

// content lists the files of one repository.
type content struct {
	name              string // of another repository; "" for the one under review
	dir               string // in the tree; "." for the repository under review
	files, submodules []string
}

// at returns the path in the tree of a path in the repository.
func (c *content) at(name string) string { return path.Join(c.dir, name) }

// errUnavailable is a declared repository whose content is missing. What it holds is unknown, unlike that of one which nobody declares.
var errUnavailable = errors.New("its content is missing")

// contentOf returns the files of the declared repository that a GitRepository means. Several declarations can have one URL and different
// refs.
func (i *Importer) contentOf(key Key, repo *sourcev1.GitRepository) (*content, error) {
	var failed error
	for n := range i.others {
		r := &i.others[n]
		if giturl.Key(r.URL) != giturl.Key(repo.Spec.URL) {
			continue
		}
		if r.Missing != "" {
			failed = fmt.Errorf("is the repository %s, and %w: %s", r.Name, errUnavailable, r.Missing)
			continue
		}
		if err := r.agrees(repo.Spec.Reference); err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		return i.listed(r.Name, r.Dir)
	}
	if failed != nil {
		return nil, failed
	}
	return nil, fmt.Errorf("%w, and the fleet has no kind: Repository with its URL (to render it, run `%s`; to keep the object on the branch as it is, list its file in spec.import[].ignore)", errElsewhere, adding(key, repo))
}

// listed returns the files of the repository in a directory of the tree, listed once.
func (i *Importer) listed(name, dir string) (*content, error) {
	for _, known := range i.contents {
		if known.dir == dir {
			return known, nil
		}
	}
	out := &content{name: name, dir: dir}
	var err error
	if out.files, out.submodules, err = list(i.tree, dir, i.mounted); err != nil {
		return nil, err
	}
	i.contents = append(i.contents, out)
	return out, nil
}

// mounted reports whether a directory of the tree has the content of other repositories.
func (i *Importer) mounted(dir string) bool {
	return len(i.others) > 0 && dir == path.Dir(i.others[0].Dir)
}

// agrees fails if Flux fetches another commit than the pinned one. A branch or tag agrees if it is the pinned one: the lock decides which of
// its commits counts.
func (r *Repository) agrees(ref *sourcev1.GitRepositoryRef) error {
	if ref == nil {
		ref = &sourcev1.GitRepositoryRef{}
	}
	differs := func(field, value, advice string) error {
		return fmt.Errorf("has spec.ref.%s %q, but sluice.lock pins %s at %.10s of the repository %s, which %s declares (%s)", field, value, r.Resolved, r.Commit, r.Name, r.Declared, advice)
	}
	same := func(field, value, want string) error {
		if want == r.Resolved {
			return nil
		}
		return differs(field, value, "declare the same branch or tag, and run `sluice deps lock`")
	}
	switch { // in the order in which the fields take precedence. Between a tag and a range, Flux's documentation and its code differ
	case ref.Tag != "" && ref.SemVer != "" && ref.Commit+ref.Name == "":
		return cmp.Or(r.agrees(&sourcev1.GitRepositoryRef{Tag: ref.Tag}), r.agrees(&sourcev1.GitRepositoryRef{SemVer: ref.SemVer}))
	case ref.Commit != "":
		if ref.Commit != r.Commit {
			return differs("commit", ref.Commit, "run `sluice deps update "+r.Name+"`, or set both to the same commit")
		}
		return nil
	case ref.Name != "":
		return same("name", ref.Name, strings.TrimSuffix(ref.Name, "^{}"))
	case ref.SemVer != "":
		if !inRange(ref.SemVer, r.Resolved) {
			return differs("semver", ref.SemVer, "run `sluice deps update "+r.Name+"`, or declare tags that are in the range")
		}
		return nil
	case ref.Tag != "":
		return same("tag", ref.Tag, tagPrefix+ref.Tag)
	}
	branch := orDefault(ref.Branch, "master") // Flux's default
	return same("branch", branch, branchPrefix+branch)
}

const (
	tagPrefix    = "refs/tags/"
	branchPrefix = "refs/heads/"
)

// inRange reports whether a pinned tag is a version in a range. Flux takes complete versions only, as vX.Y.Z or X.Y.Z; see ParseVersion of
// github.com/fluxcd/pkg/version.
func inRange(constraint, resolved string) bool {
	tag, isTag := strings.CutPrefix(resolved, tagPrefix)
	wanted, err := semver.NewConstraint(constraint)
	if !isTag || err != nil {
		return false
	}
	version, err := semver.NewVersion(tag)
	return err == nil && strings.Count(tag, ".") > 1 && wanted.Check(version)
}

// plainText matches what can be pasted into a shell. Addresses and refs come from a merge request.
var plainText = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~:/@%+-]*$`)

// adding is the command that declares and pins the repository of a GitRepository.
func adding(key Key, repo *sourcev1.GitRepository) string {
	plain := func(text, otherwise string) string {
		if plainText.MatchString(text) {
			return text
		}
		return otherwise
	}
	address := repo.Spec.URL
	if scheme, rest, ok := strings.Cut(address, "://"); ok && scheme != "ssh" { // without credentials
		host, inner, _ := strings.Cut(rest, "/")
		address = scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/" + inner
	}
	which, ref := "--branch master", repo.Spec.Reference
	switch {
	case ref == nil:
	case ref.SemVer != "":
		which = "--tags '*'"
	case ref.Tag != "":
		which = "--tags " + plain(ref.Tag, "TAG")
	case ref.Branch != "":
		which = "--branch " + plain(ref.Branch, "BRANCH")
	case ref.Commit != "", ref.Name != "":
		which = "--branch BRANCH"
	}
	return fmt.Sprintf("sluice deps add %s %s %s", plain(key.Name, "NAME"), plain(address, "URL"), which)
}
