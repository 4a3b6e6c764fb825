package session

import (
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
)

// OutputCredential is the credential of an output repository that is not on the host of the source repository.
type OutputCredential struct {
	Auth   gitstore.Auth
	Host   string // host that gets the credential: a host name, which means HTTPS, or a URL
	Prefix string // prefix of the environment variables, for messages
}

func (o OutputCredential) set() bool {
	return o.Auth.User != "" || o.Auth.Password != "" || o.Auth.Token != ""
}

// outputAuth returns the credential for an output repository: the configured one if the host is the configured host,
// otherwise that of the source if both are on the same host. A fleet file must not be able to send a credential to
// another host.
func (r Runtime) outputAuth(output, source string) (gitstore.Auth, error) {
	if o := r.Output; o.set() {
		host := o.Host
		if host == "" {
			return gitstore.Auth{}, fmt.Errorf("a credential in %s* needs %sHOST, the host that gets it: a fleet file must not choose who gets a credential", o.Prefix, o.Prefix)
		}
		if !strings.Contains(host, "://") {
			host = "https://" + host
		}
		if strings.EqualFold(hostOf(output), hostOf(host)) {
			return o.Auth, nil
		}
	}
	a := r.Git
	if x, y := hostOf(output), hostOf(source); x != "" && x == y {
		return a, nil
	}
	a.User, a.Password, a.Token = "", "", ""
	return a, nil
}

// HostCredentials returns the credential for a host, such as git.example.com or git.example.com:8443. The second result
// is false if there is none.
type HostCredentials func(host string) (gitstore.Auth, bool)

// credentialsFor returns the credentials for other repositories of the fleet: the one configured for the host or, if
// the repository and the source have the same host and owner, that of the source. Somebody who merges into a fleet
// must not read repositories of other owners with the service's credential.
func (s *Session) credentialsFor(r Runtime) func(address string) gitstore.Auth {
	return func(address string) gitstore.Auth {
		a := s.shared.git
		if u, err := url.Parse(address); err == nil && r.Hosts != nil {
			if own, ok := r.Hosts(u.Host); ok {
				return own
			}
		}
		if x, y := ownerOf(address), ownerOf(s.Store.RemoteURL()); x == "" || x != y {
			a.User, a.Password, a.Token, a.Bearer = "", "", "", ""
		}
		return a
	}
}

// SameHost reports whether two URLs have the same scheme and host.
func SameHost(a, b string) bool {
	x := hostOf(a)
	return x != "" && x == hostOf(b)
}

// ownerOf returns the scheme, the host and the first part of the path of a URL, which is the owner, organisation or top
// group. It returns "" if the address lacks one of them, or if a server could read its path as that of another owner:
// Git sends /acme/../other/x as it is written.
func ownerOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(u.Path, "/"), "/")
	owner, _, found := strings.Cut(inner, "/")
	// fs.ValidPath refuses "..", "." and empty elements
	if !found || !fs.ValidPath(inner) || strings.ContainsAny(inner, `%\`) {
		return ""
	}
	return strings.ToLower(hostOf(address) + "/" + owner)
}

// hostOf returns the scheme and host of a URL; "" if the address is not a URL.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
