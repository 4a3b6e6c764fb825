package kustomize

import (
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

var (
	version    = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+)*([-+.][0-9A-Za-z.-]+)?$`)
	plainWords = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/@:~+-]*$`) // without what a shell or Markdown interprets
)

// withUser matches the short form of an address over SSH, such as git@github.com:acme/components.git.
var withUser = regexp.MustCompile(`(?i)^git@([a-z0-9.-]+)[:/]([^/].*)$`)

// pinCommand returns the command that declares and pins the repository of a remote base. It has placeholders if the
// reference names no repository that can be pinned.
func pinCommand(ref string) string {
	const general = "sluice deps add NAME URL"
	address, query, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(ref), "git::"), "?")
	scheme, repository := repositoryOf(address)
	if repository == "" {
		return general
	}
	name := strings.NewReplacer("_", "-", "~", "-", "+", "-", "@", "-", ":", "-").Replace(path.Base(repository))
	if name = strings.Trim(strings.ToLower(name), "-."); name == "" {
		return general
	}
	return "sluice deps add " + safetext.Shorten(name, 63) + " " + scheme + "://" + repository + wantedFlag(query)
}

// repositoryOf returns the scheme of a remote base's address, and its host and path up to the repository; "" if there
// is none that can be pinned and pasted into a shell.
func repositoryOf(address string) (scheme, repository string) {
	if rest, ok := strings.CutPrefix(strings.ToLower(address), "github.com"); ok && rest != "" {
		address = "https://github.com/" + strings.TrimLeft(address[len("github.com"):], "/:")
	}
	if parts := withUser.FindStringSubmatch(address); parts != nil {
		address = "ssh://git@" + parts[1] + "/" + parts[2]
	}
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok || scheme != "https" && scheme != "ssh" {
		return "", ""
	}
	if host, path, ok := strings.Cut(rest, "/"); ok && scheme == "https" { // what is before the host can be a password
		rest = host[strings.LastIndex(host, "@")+1:] + "/" + path
	}
	// The path inside the repository follows `//` or `.git/`; on GitHub it can also follow the repository's name.
	repository, _, divided := strings.Cut(rest, "//")
	if before, _, ok := strings.Cut(repository, ".git/"); ok {
		repository, divided = before, true
	}
	repository = strings.TrimSuffix(strings.TrimSuffix(repository, "/"), ".git")
	parts := strings.Split(repository, "/")
	const withOwner = 3 // host, owner, repository
	if !divided && len(parts) > withOwner && strings.EqualFold(parts[0], "github.com") {
		repository = strings.Join(parts[:withOwner], "/")
	}
	if len(parts) < withOwner || !plainWords.MatchString(repository) || len(repository) > 200 ||
		strings.HasPrefix(repository, "raw.") {
		return "", ""
	}
	return scheme, repository
}

// wantedFlag returns the flag of `sluice deps add` for the ref of a remote base; "" if there is none.
func wantedFlag(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	wanted := values.Get("ref")
	if wanted == "" {
		wanted = values.Get("version")
	}
	const commit = 40
	switch {
	case version.MatchString(wanted) && len(wanted) < commit:
		return " --tags " + wanted
	case shortID.MatchString(wanted): // no name of a branch
	case plainWords.MatchString(wanted) && len(wanted) < commit:
		return " --branch " + wanted
	}
	return ""
}
