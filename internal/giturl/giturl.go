// Package giturl compares addresses of Git repositories. The package imports no other package of Sluice.
package giturl

import (
	"io/fs"
	"strings"
)

// Plain returns the host and path of an address, without the parts that do not distinguish repositories: scheme,
// user, a prefix `git::`, `.git` and a trailing slash. It is equal for https://git@GitHub.com/acme/base.git,
// git@github.com:acme/base and github.com/acme/base. The host is in lower case. Forges ignore the case of paths, but
// the path may continue inside the repository, where case matters.
func Plain(address string) string {
	address = strings.TrimPrefix(strings.TrimSpace(address), "git::")
	_, rest, hasScheme := strings.Cut(address, "://")
	if !hasScheme {
		rest = address
	}
	host, inner, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host = host[at+1:]
	}
	if !hasScheme { // git@host:path
		if name, first, scp := strings.Cut(host, ":"); scp {
			host, inner = name, strings.TrimPrefix(first+"/"+inner, "/")
		}
	}
	plain := strings.TrimSuffix(strings.ToLower(host)+"/"+inner, "/")
	return strings.TrimSuffix(plain, ".git")
}

// Key returns Plain in lower case, which is equal for all addresses of one repository.
func Key(address string) string { return strings.ToLower(Plain(address)) }

// Below returns the path of a repository below the address of a server; false if it is not below it. The comparison ignores case. The path
// has no empty elements, and no elements "." and "..".
func Below(server, address string) (string, bool) {
	root, plain := Plain(server)+"/", Plain(address)
	if len(plain) <= len(root) || !strings.EqualFold(plain[:len(root)], root) {
		return "", false
	}
	path := plain[len(root):]
	if path == "." || !fs.ValidPath(path) {
		return "", false
	}
	return path, true
}
