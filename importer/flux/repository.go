package flux

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	"github.com/sluice-gitops/sluice/importer/internal/pinned"
	"github.com/sluice-gitops/sluice/internal/giturl"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/internal/treefs"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
)

// Repository is another repository of the fleet, at the commit that sluice.lock pins.
type Repository struct {
	Name, URL string
	Dir       string // of its content in the tree
	Resolved  string // full name of the pinned branch or tag; "" if the content is missing
	Commit    string // that is pinned
	Missing   string // why the content is missing; "" if it is there
	Declared  string // FILE:LINE of its declaration
	Exact     bool   // nobody declares it: a GitRepository pins the commit by its whole id
}

// content lists the files of one repository.
type content struct {
	name string // of another repository; "" for the one under review
	dir  string // in the tree; "." for the repository under review

	files, links, submodules []string
}

// at returns the path in the tree of a path in the repository.
func (c *content) at(name string) string { return path.Join(c.dir, name) }

// errUnavailable means that the content of a declared repository is missing. It may have what the fleet needs, whereas
// nothing is expected from a repository that nobody declares; see errElsewhere.
var errUnavailable = errors.New("its content is missing")

// contentOf returns the files of the declared repository that a GitRepository means. Several declarations can have one
// URL and different refs. The text of an error continues a sentence that begins with the GitRepository.
func (i *Importer) contentOf(key Key, repo *sourcev1.GitRepository) (*content, error) {
	var found *Repository
	var missing, failed error
	for n := range i.others {
		r := &i.others[n]
		if r.Exact || giturl.Key(r.URL) != giturl.Key(repo.Spec.URL) {
			continue
		}
		if r.Missing != "" {
			missing = fmt.Errorf("is the repository %s, and %w: %s", r.Name, errUnavailable, r.Missing)
			continue
		}
		err := r.agrees(repo.Spec.Reference)
		if err == nil {
			found, err = preferred(found, r, repo.Spec.Reference)
			if err != nil {
				return nil, err
			}
			continue
		}
		failed = cmp.Or(failed, err)
	}
	failed = cmp.Or(missing, failed)
	// what is missing could have a higher version
	if found != nil && (missing == nil || !byVersion(repo.Spec.Reference)) {
		return i.listed(found.Name, found.Dir)
	}
	if failed == nil {
		failed = fmt.Errorf("%w%s, and the fleet has no kind: Repository with its URL (to render it, run `%s`; to keep the object on the branch as it is, list its file in spec.import[].ignore)", errElsewhere, movableRef(repo.Spec.Reference), addCommand(key, repo))
	}
	return i.contentAt(&repo.Spec, failed)
}

// contentAt returns the files of the commit that a GitRepository pins by its whole id. If it pins none, contentAt
// returns the error otherwise.
func (i *Importer) contentAt(spec *sourcev1.GitRepositorySpec, otherwise error) (*content, error) {
	if spec.Reference == nil || !pinned.Whole(spec.Reference.Commit) {
		return nil, otherwise
	}
	for n := range i.others {
		r := &i.others[n]
		switch {
		case !r.Exact || r.URL != spec.URL || r.Commit != spec.Reference.Commit:
		case r.Missing != "":
			return nil, fmt.Errorf("pins the commit %.10s, and %w: %s", r.Commit, errUnavailable, r.Missing)
		default:
			return i.listed(r.Name, r.Dir)
		}
	}
	return nil, &pinned.LackError{URL: spec.URL, Commit: spec.Reference.Commit, Err: otherwise}
}

// preferred returns that one of two repositories with the same URL which Flux fetches for a ref that agrees with both;
// a can be nil.
func preferred(a, b *Repository, ref *sourcev1.GitRepositoryRef) (*Repository, error) {
	if a == nil || a.Commit == b.Commit {
		return cmp.Or(a, b), nil
	}
	if byVersion(ref) {
		switch x, y := versionOf(a.Resolved), versionOf(b.Resolved); {
		case x.GreaterThan(y):
			return a, nil
		case y.GreaterThan(x):
			return b, nil
		}
	}
	return nil, fmt.Errorf("has a ref that is not clear: the repositories %s and %s pin different commits of it, %s at %.10s and %s at %.10s (run `sluice deps update %s %s`, or remove one)",
		a.Name, b.Name, a.Resolved, a.Commit, b.Resolved, b.Commit, a.Name, b.Name)
}

// byVersion reports whether Flux fetches the highest version of a range.
func byVersion(ref *sourcev1.GitRepositoryRef) bool {
	return ref != nil && ref.SemVer != "" && ref.Commit+ref.Name+ref.Tag == ""
}

// listed returns the files of the repository in a directory of the tree, listed once.
func (i *Importer) listed(name, dir string) (*content, error) {
	for _, known := range i.contents {
		if known.dir == dir {
			return known, nil
		}
	}
	out := &content{name: name, dir: dir}
	if err := list(i.tree, out, i.mounted); err != nil {
		return nil, err
	}
	i.contents = append(i.contents, out)
	return out, nil
}

// mountDir is the directory of the tree with the content of other repositories; "" if there are none.
func (i *Importer) mountDir() string {
	if len(i.others) == 0 {
		return ""
	}
	return path.Dir(i.others[0].Dir)
}

// mounted reports whether a directory of the tree has the content of other repositories.
func (i *Importer) mounted(dir string) bool { return dir != "" && dir == i.mountDir() }

// elsewhere reports whether a file of the tree is one of another repository.
func (i *Importer) elsewhere(name string) bool {
	return len(i.others) > 0 && strings.HasPrefix(name, i.mountDir()+"/")
}

// redirected is an artifact in which kustomizations find the commits of other repositories that they name by their
// whole ids.
func (i *Importer) redirected(a view) *kustomize.Redirected {
	var have pinned.Bases
	for _, r := range i.others {
		if r.Exact {
			have = append(have, pinned.Commit{URL: r.URL, Commit: r.Commit, Dir: r.Dir, Missing: r.Missing})
		}
	}
	if len(have) == 0 {
		return kustomize.Redirect(a, have)
	}
	return kustomize.Redirect(treefs.Graft{Tree: a, Dir: i.mountDir(), From: i.tree}, have)
}

// agrees returns an error if Flux fetches another commit than the pinned one. A branch or tag agrees if it has the name
// of the pinned one: which of its commits counts is decided by the lock.
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
	// in the order in which the fields take precedence. Between a tag and a range, Flux's documentation and its code
	// differ
	switch {
	case ref.Tag != "" && ref.SemVer != "" && ref.Commit+ref.Name == "":
		return cmp.Or(r.agrees(&sourcev1.GitRepositoryRef{Tag: ref.Tag}),
			r.agrees(&sourcev1.GitRepositoryRef{SemVer: ref.SemVer}))
	case ref.Commit != "":
		if ref.Commit != r.Commit {
			return differs("commit", ref.Commit, "run `sluice deps update "+r.Name+"`, or set both to the same commit")
		}
		return nil
	case ref.Name != "":
		return same("name", ref.Name, strings.TrimSuffix(ref.Name, "^{}"))
	case ref.SemVer != "":
		if !inRange(ref.SemVer, r.Resolved) {
			return differs("semver", ref.SemVer, "run `sluice deps update "+r.Name+
				"`, or declare tags that are in the range")
		}
		return nil
	case ref.Tag != "":
		return same("tag", ref.Tag, tagPrefix+ref.Tag)
	}
	branch := cmp.Or(ref.Branch, "master") // Flux's default
	return same("branch", branch, branchPrefix+branch)
}

const (
	tagPrefix    = "refs/tags/"
	branchPrefix = "refs/heads/"
)

// inRange reports whether a pinned tag is a version in a range. Flux takes complete versions only, as vX.Y.Z or X.Y.Z;
// see ParseVersion of github.com/fluxcd/pkg/version.
func inRange(constraint, resolved string) bool {
	wanted, err := semver.NewConstraint(constraint)
	version := versionOf(resolved)
	return err == nil && version != nil && wanted.Check(version)
}

// versionOf returns the version of a tag by its full name; nil if it has none.
func versionOf(resolved string) *semver.Version {
	tag, isTag := strings.CutPrefix(resolved, tagPrefix)
	version, err := semver.NewVersion(tag)
	if !isTag || err != nil || strings.Count(tag, ".") < 2 {
		return nil
	}
	return version
}

// movableRef tells which ref of a GitRepository can mean another commit tomorrow; "" if the ref is a commit.
func movableRef(ref *sourcev1.GitRepositoryRef) string {
	if ref == nil {
		ref = &sourcev1.GitRepositoryRef{}
	}
	what, name := "branch", cmp.Or(ref.Branch, "master")
	switch {
	case ref.Commit != "":
		return ""
	case ref.Name != "":
		what, name = "ref", ref.Name
	case ref.SemVer != "":
		what, name = "range", ref.SemVer
	case ref.Tag != "":
		what, name = "tag", ref.Tag
	}
	return fmt.Sprintf(": the %s %s can move", what, safetext.Brief(name, 60))
}

// shellSafe matches what can be pasted into a shell without quotes. Addresses and refs come from a merge request.
var shellSafe = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~:/@%+-]*$`)

// addCommand returns the command that declares and pins the repository of a GitRepository.
func addCommand(key Key, repo *sourcev1.GitRepository) string {
	plain := func(text, otherwise string) string {
		if shellSafe.MatchString(text) {
			return text
		}
		return otherwise
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
	return fmt.Sprintf("sluice deps add %s %s %s", plain(key.Name, "NAME"),
		plain(withoutCredentials(repo.Spec.URL), "URL"), which)
}

// withoutCredentials returns an address for messages: without a password, and without a user except that of SSH.
func withoutCredentials(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return "not a valid URL"
	case u.User != nil && u.Scheme == "ssh":
		u.User = url.User(u.User.Username())
	default:
		u.User = nil
	}
	return u.String()
}
