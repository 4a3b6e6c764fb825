// Package giturl compares addresses of Git repositories. The package imports no other package of Sluice.
package giturl

import (
	"io/fs"
	"strings"
)

// Plain returns the host and path of an address, without the parts that do not distinguish repositories: scheme and
// its default port, user, a prefix `git::`, `.git` and a trailing slash. It is equal for
// https://git@GitHub.com/acme/base.git, git@github.com:acme/base, ssh://git@ssh.github.com:443/acme/base and
// github.com/acme/base. The host is in lower case. Forges ignore the case of paths, but the path may continue inside
// the repository, where case matters.
func Plain(address string) string {
	address = strings.TrimPrefix(strings.TrimSpace(address), "git::")
	scheme, rest, hasScheme := strings.Cut(address, "://")
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
	host = strings.ToLower(host)
	if hasScheme {
		host = withoutPort(strings.ToLower(scheme), host)
	}
	plain := strings.TrimSuffix(host+"/"+inner, "/")
	return strings.TrimSuffix(plain, ".git")
}

// WebHost returns the host of a forge's pages and API for a host of its Git addresses, without port. On port 443,
// forges accept SSH at hosts of their own, which serve nothing else, for networks without port 22. Sources:
// https://docs.github.com/en/authentication/troubleshooting-ssh/using-ssh-over-the-https-port and
// https://about.gitlab.com/blog/gitlab-dot-com-now-supports-an-alternate-git-plus-ssh-port/
func WebHost(host string) string {
	switch strings.ToLower(host) {
	case "ssh.github.com":
		return "github.com"
	case "altssh.gitlab.com":
		return "gitlab.com"
	}
	return host
}

// withoutPort removes the port that a scheme implies.
func withoutPort(scheme, host string) string {
	switch scheme {
	case "http":
		return strings.TrimSuffix(host, ":80")
	case "https":
		return strings.TrimSuffix(host, ":443")
	case "git":
		return strings.TrimSuffix(host, ":9418")
	case "ssh":
		if name, ok := strings.CutSuffix(host, ":443"); ok && WebHost(name) != name {
			return WebHost(name)
		}
		return strings.TrimSuffix(host, ":22")
	}
	return host
}

// Key returns Plain in lower case, which is equal for all addresses of one repository.
func Key(address string) string { return strings.ToLower(Plain(address)) }

// Below returns the path of a repository below the address of a server; false if it is not below it. The comparison
// ignores case. The path has no empty elements, and no elements "." and "..".
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
