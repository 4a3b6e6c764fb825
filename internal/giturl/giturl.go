// Package giturl compares addresses of Git repositories. The package imports nothing of ours.
package giturl

import "strings"

// Plain is the host and path of an address, without what does not tell repositories apart: scheme, user, a prefix `git::`, `.git` and a
// slash at the end. https://git@GitHub.com/acme/base.git, git@github.com:acme/base and github.com/acme/base are one. The host is in
// lower case; forges compare paths without regard to case, but the path may go on inside the repository, where case matters.
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

// Key is Plain in lower case: equal for addresses of one repository.
func Key(address string) string { return strings.ToLower(Plain(address)) }
