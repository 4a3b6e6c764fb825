// Package plainhttp decides whether a credential may be sent to an address. Anybody on the network path can read
// unencrypted HTTP, so only this machine and hosts that the operator names may get a credential over it. The package
// imports no other package of Sluice.
package plainhttp

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// Variable is the environment variable with the allowed hosts.
const Variable = "SLUICE_PLAIN_HTTP"

// Error means that a credential would be sent over unencrypted HTTP.
type Error struct{ Host string }

// Error returns the host and the two possible next steps.
func (e *Error) Error() string {
	return fmt.Sprintf("credentials are not sent to %s over unencrypted HTTP: use https, or name the host in %s",
		e.Host, Variable)
}

// Check returns an *Error for an http address whose host is neither this machine nor in allowed. The entries of
// allowed are host names or patterns of path.Match, such as *.svc. It accepts every other address.
func Check(u *url.URL, allowed []string) error {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if !strings.EqualFold(u.Scheme, "http") || Loopback(host) {
		return nil
	}
	for _, pattern := range allowed {
		// a malformed pattern allows nothing
		if ok, err := path.Match(strings.ToLower(pattern), host); ok && err == nil {
			return nil
		}
	}
	return &Error{Host: host}
}

// Loopback reports whether a host is this machine: localhost or a loopback address.
func Loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(strings.TrimSuffix(host, "."), "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
