package kustomize

import (
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Remote is a Git repository that a kustomization names by URL, with the directory in it.
type Remote struct {
	URL string // https, http or ssh
	Dir string // "." for the repository's root
	Ref string // branch, tag or commit; "" for the default branch
}

// commitID matches the whole id of a commit, which is a digest of its content.
var commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// Exact reports whether the reference pins what it reads: it names a commit by its whole id.
func (r Remote) Exact() bool { return commitID.MatchString(r.Ref) }

var (
	schemeOf = regexp.MustCompile(`(?i)^(ssh|https?)://`)
	userOf   = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]*@`)
)

// ParseRemote divides a reference as Kustomize does, which clones the repository, and builds the directory. It returns
// false for a path, for a file of the local disk, and for an address that names no repository. See NewRepoSpecFromURL
// in the library.
func ParseRemote(reference string) (Remote, bool) {
	rest, query, _ := strings.Cut(strings.TrimSpace(reference), "?")
	if len(rest) >= len("git::") && strings.EqualFold(rest[:len("git::")], "git::") {
		rest = rest[len("git::"):]
	}
	scheme := strings.ToLower(schemeOf.FindString(rest))
	rest = rest[len(scheme):]
	user := userOf.FindString(rest)
	rest = rest[len(user):]
	const github = "github.com"
	onGitHub := len(rest) > len(github) && strings.EqualFold(rest[:len(github)], github) &&
		strings.ContainsRune("/:", rune(rest[len(github)]))
	if scheme == "" && user == "" && !onGitHub {
		return Remote{}, false
	}
	end := strings.IndexByte(rest, '/')
	if colon := strings.IndexByte(rest, ':'); scheme == "" && colon > 0 && (end < 0 || colon < end) { // user@host:path
		end = colon
	}
	if end <= 0 {
		return Remote{}, false
	}
	host := rest[:end]
	switch {
	case onGitHub && (user != "" || scheme == "ssh://"):
		scheme, host = "ssh://git@", github
	case onGitHub:
		scheme, host = "https://", github
	case scheme == "":
		scheme = "ssh://" + user
	default:
		scheme += user
	}
	repository, dir, ok := divide(strings.TrimPrefix(rest[end+1:], "/"))
	if dir = path.Clean(strings.Trim(dir, "/")); !ok || dir == ".." || strings.HasPrefix(dir, "../") {
		return Remote{}, false
	}
	out := Remote{URL: scheme + host + "/" + repository, Dir: dir}
	if values, err := url.ParseQuery(query); err == nil {
		if out.Ref = values.Get("ref"); out.Ref == "" {
			out.Ref = values.Get("version")
		}
	}
	return out, true
}

// divide divides a path on a server into that of the repository and the directory in it. A marker tells where the
// repository ends: Azure's _git, two slashes, or .git; without one, it has two segments.
func divide(rest string) (repository, dir string, ok bool) {
	if before, after, found := strings.Cut(rest, "_git/"); found {
		name, dir, _ := strings.Cut(after, "/")
		return before + "_git/" + name, dir, name != ""
	}
	if before, after, found := strings.Cut(rest, "//"); found {
		return before, after, before != ""
	}
	if before, after, found := strings.Cut(rest, ".git"); found {
		return before + ".git", after, before != ""
	}
	const ofOwner = 3 // owner, repository, and the rest
	parts := strings.SplitN(rest, "/", ofOwner)
	if len(parts) < ofOwner-1 || parts[0] == "" || parts[1] == "" {
		return "", "", false
	}
	return parts[0] + "/" + parts[1], strings.Join(parts[2:], "/"), true
}
