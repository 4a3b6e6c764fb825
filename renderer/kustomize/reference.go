package kustomize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// place is the position of a reference, for messages.
type place struct {
	file   string // as its reader knows it
	data   []byte // of the file
	field  string
	area   string // that references must stay in, if it is not the repository
	mounts string // see Walker.Mounts
}

func (p place) bounds() string {
	if p.area == "" {
		return "the repository"
	}
	return p.area
}

// leaves reports whether a reference from a directory to a path leads out of the tree, or out of another repository
// that is mounted in it.
func (p place) leaves(dir, full string) bool {
	return full == ".." || strings.HasPrefix(full, "../") || p.mounts != "" && within(p.mounts, dir) &&
		!within(p.mounts, full)
}

// at returns the place of another field of the same file.
func (p place) at(format string, args ...any) place {
	p.field = fmt.Sprintf(format, args...)
	return p
}

// refuse returns an error about a reference, with its file, line and field.
func (p place) refuse(ref, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %s "+format, append([]any{p.where(ref), p.field, shown(ref)}, args...)...)
}

// where returns the file, and the line of the value if only one line holds it.
func (p place) where(value string) string {
	var doc yaml.Node
	if err := yaml.Unmarshal(p.data, &doc); err != nil {
		return p.file
	}
	node := &doc
	if len(doc.Content) > 0 && doc.Content[0].Kind == yaml.MappingNode {
		field, _, _ := strings.Cut(p.field, "[")
		field, _, _ = strings.Cut(field, ".")
		top := doc.Content[0].Content
		for i := 0; i+1 < len(top); i += 2 {
			if strings.EqualFold(top[i].Value, field) {
				node = top[i+1]
			}
		}
	}
	if line := lineOf(node, value); line > 0 {
		return p.file + ":" + strconv.Itoa(line)
	}
	return p.file
}

// whereKey returns the file, and the line of a mapping's key if exactly one key has that name.
func (p place) whereKey(name string) string {
	var doc yaml.Node
	if err := yaml.Unmarshal(p.data, &doc); err != nil {
		return p.file
	}
	if line := lineOfKey(&doc, name); line > 0 {
		return p.file + ":" + strconv.Itoa(line)
	}
	return p.file
}

func lineOfKey(node *yaml.Node, name string) int {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && child.Value == name {
			return child.Line
		}
		if line := lineOfKey(child, name); line > 0 {
			return line
		}
	}
	return 0
}

func lineOf(node *yaml.Node, value string) int {
	if node.Kind == yaml.ScalarNode && (node.Value == value || strings.HasSuffix(node.Value, "="+value)) {
		return node.Line
	}
	for _, child := range node.Content {
		if line := lineOf(child, value); line > 0 {
			return line
		}
	}
	return 0
}

// shown returns a reference for messages: quoted, shortened and without a password.
func shown(ref string) string {
	return strconv.Quote(safetext.Shorten(password.ReplaceAllString(ref, "$1"), 120))
}

// password matches what an address over http has before its host: it can be a password or a token.
var password = regexp.MustCompile(`(?i)(https?://)[^/?#\s]*@`)

// remote matches what the library treats as a URL or a Git repository, even if the bundle has a file of that name: a
// scheme, a user, GitHub's host or a go-getter prefix. See NewRepoSpecFromURL and IsRemoteFile in the library.
var remote = regexp.MustCompile(`(?i)^\s*(git::|[a-z][a-z0-9+.-]*://|https?:|file:|ssh:|[a-z][a-z0-9-]*@|github\.com[/:])`)

// looksRemote matches other spellings of remote locations, which the library does not know either.
var looksRemote = regexp.MustCompile(`(?i)\?(.*&)?(ref|version|timeout|submodules)=|\.git($|[/?])|_git/|^(git@|gh:|oci:|s3:|hg:)|^(www\.|gitlab\.com|bitbucket\.org|raw\.)|^[a-z0-9-]+(\.[a-z0-9-]+)+/.*//`)

// locate finds the file or directory that a reference names, relative to the directory of its kustomization.
func locate(tree Tree, dir, ref string, at place) (string, fs.FileInfo, error) {
	switch {
	case ref == "":
		return "", nil, at.refuse(ref, "is empty: name a path or remove the entry")
	case remote.MatchString(ref):
		return "", nil, refuseRemote(tree, ref, at)
	case path.IsAbs(ref):
		return "", nil, at.refuse(ref, "is an absolute path: write it relative to the kustomization's directory")
	case strings.ContainsAny(ref, "\\\x00\n"):
		return "", nil, at.refuse(ref, "must be a path with forward slashes")
	}
	full := path.Join(dir, ref)
	if at.leaves(dir, full) {
		return "", nil, at.refuse(ref, "leaves %s: only paths inside it are allowed; copy it there", at.bounds())
	}
	if err := noLink(tree, full, ref, at); err != nil {
		return "", nil, err
	}
	found, err := lstat(tree, full)
	switch {
	case err == nil && (found.IsDir() || found.Mode().IsRegular()):
		return full, found, nil
	case err != nil && !absent(err):
		return "", nil, at.refuse(ref, "cannot be looked up: %w", err)
	case looksRemote.MatchString(ref):
		return "", nil, at.refuse(ref, "looks remote, and no such path is in %s: copy it there and name the path",
			at.bounds())
	default:
		return "", nil, at.refuse(ref, "does not exist (looked for %s): add it or correct the path", full)
	}
}

// absent reports whether a tree's error means that the path does not exist or goes through a file.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, syscall.ENOTDIR)
}

// shortID matches what can be the id of a commit in part.
var shortID = regexp.MustCompile(`^[0-9a-f]{7,39}$`)

// refuseRemote returns the error of a remote base that a tree does not have.
func refuseRemote(tree Tree, ref string, at place) error {
	if bases, ok := tree.(interface{ Unpinned(reference string) error }); ok {
		if err := bases.Unpinned(ref); err != nil {
			return at.refuse(ref, "%w", err)
		}
	}
	if r, ok := ParseRemote(ref); ok && shortID.MatchString(r.Ref) && !version.MatchString(r.Ref) {
		return at.refuse(ref,
			"is remote, and %s can be a part of a commit's id: write all 40 digits, which need no declaration, or pin its repository: `%s`",
			r.Ref, pinCommand(ref))
	}
	return at.refuse(ref,
		"is remote: only paths inside %s are allowed; copy it there and name the path, or pin its repository: `%s`",
		at.bounds(), pinCommand(ref))
}

// noLink refuses a path that is a symbolic link or submodule, or goes through one.
func noLink(tree Tree, full, ref string, at place) error {
	for end := 0; end < len(full); {
		if next := strings.IndexByte(full[end:], '/'); next >= 0 {
			end += next
		} else {
			end = len(full)
		}
		part := full[:end]
		end++
		i, err := lstat(tree, part)
		if err != nil {
			return nil //nolint:nilerr // the caller says that it is missing
		}
		switch {
		case i.Mode()&fs.ModeSymlink != 0:
			return at.refuse(ref, "goes through the symbolic link %s: links are not followed; name the target", part)
		case i.Mode()&fs.ModeIrregular != 0:
			return at.refuse(ref, "goes into the submodule %s: submodules are not read; copy the files into the repository", part)
		}
	}
	return nil
}

// within reports whether name is dir or inside it.
func within(dir, name string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}
