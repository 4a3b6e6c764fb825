package fetch

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// Guard refuses connections into networks that the public cannot reach: loopback, private, link-local (where clouds
// serve metadata and credentials) and the other special addresses. A server that fetches addresses from untrusted input
// needs a Guard; otherwise a stranger can use it to reach internal services. The Guard checks the address after DNS,
// when the connection is made, so neither a redirect nor a name that changes its address bypasses it. Safe for
// concurrent use.
type Guard struct {
	hosts    []string // lower case, with or without port
	prefixes []netip.Prefix
	special  []netip.Prefix
	resolver *net.Resolver
	system   func(*http.Request) (*url.URL, error) // the proxy that the environment names

	once      sync.Once
	transport http.RoundTripper

	mu      sync.Mutex
	proxies map[string]bool // host:port of proxies that the environment names
}

// NewGuard returns a guard that allows the given hosts: names, names with a port, addresses, or networks such as
// 10.20.0.0/16.
func NewGuard(allow ...string) (*Guard, error) {
	g := &Guard{
		special: special(), resolver: net.DefaultResolver, system: http.ProxyFromEnvironment,
		proxies: map[string]bool{},
	}
	for _, entry := range allow {
		entry = strings.ToLower(strings.TrimSpace(entry))
		switch prefix, err := netip.ParsePrefix(entry); {
		case err == nil:
			g.prefixes = append(g.prefixes, prefix.Masked())
		case entry == "" || strings.ContainsAny(entry, "/*@ "):
			return nil, fail(ErrInvalid,
				"%q is not a host to allow: name a host, a host with a port, or a network such as 10.20.0.0/16",
				safetext.Brief(entry, 100))
		default:
			g.hosts = append(g.hosts, entry)
		}
	}
	return g, nil
}

// DialContext connects like net.Dialer.DialContext, within the guard.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	const timeout = 30 * time.Second
	dialer := net.Dialer{Timeout: timeout}
	if !g.named(host, address) && !g.proxy(address) {
		dialer.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			return g.check(host, resolved)
		}
	}
	return dialer.DialContext(ctx, network, address)
}

// Transport returns the transport that connects within the guard, always the same one; nil, which stands for the
// default transport, if there is no guard.
func (g *Guard) Transport() http.RoundTripper {
	if g == nil {
		return nil
	}
	g.once.Do(func() {
		t := newTransport()
		t.DialContext, t.Proxy = g.DialContext, g.Proxy
		g.transport = t
	})
	return g.transport
}

// named reports whether the guard allows a host by its name, with or without the port.
func (g *Guard) named(host, address string) bool {
	return slices.Contains(g.hosts, strings.ToLower(host)) || slices.Contains(g.hosts, strings.ToLower(address))
}

func (g *Guard) proxy(address string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.proxies[address]
}

// check refuses an address that a host resolved to.
func (g *Guard) check(host, resolved string) error {
	at, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fail(ErrInvalid, "the host %s has no usable address", safetext.Brief(host, 100))
	}
	return g.checkAddress(host, at.Addr())
}

func (g *Guard) checkAddress(host string, ip netip.Addr) error {
	ip = embedded(ip.WithZone(""))
	if slices.ContainsFunc(g.prefixes, func(p netip.Prefix) bool { return p.Contains(ip) }) || g.public(ip) {
		return nil
	}
	return fail(ErrInvalid, "the host %s is in an internal network, which this service does not ask: use a public address, or have the operator allow the host", safetext.Brief(host, 100))
}

// Proxy is a http.Transport.Proxy that takes the proxy from the environment. A proxy connects on our behalf and
// resolves the name again, so the guard resolves it first: it refuses a host that has an internal address, and a name
// that does not resolve here, unless it is allowed by name.
func (g *Guard) Proxy(r *http.Request) (*url.URL, error) {
	u, err := g.system(r)
	if err != nil {
		return nil, err
	}
	host := r.URL.Hostname()
	if u == nil {
		if target := canonicalAddress(r.URL); g.proxy(target) && !g.named(host, target) { // DialContext lets it pass
			return nil, fail(ErrInvalid,
				"the host %s is this service's proxy, which serves no charts: use the repository's own address",
				safetext.Brief(host, 100))
		}
		return nil, nil
	}
	g.mu.Lock()
	g.proxies[canonicalAddress(u)] = true
	g.mu.Unlock()
	if g.named(host, canonicalAddress(r.URL)) {
		return u, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return u, g.checkAddress(host, ip)
	}
	addresses, err := g.resolver.LookupNetIP(r.Context(), "ip", host)
	if err != nil {
		if r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		return nil, fail(ErrInvalid,
			"the name %s does not resolve here, so that nobody can check where the proxy would connect: have the operator allow the host", safetext.Brief(host, 100))
	}
	for _, ip := range addresses {
		if err := g.checkAddress(host, ip); err != nil {
			return nil, err
		}
	}
	return u, nil
}

func canonicalAddress(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// embedded returns the IPv4 address inside an IPv6 one: mapped (RFC 4291), NAT64 (RFC 6052) and 6to4 (RFC 3056).
func embedded(ip netip.Addr) netip.Addr {
	ip = ip.Unmap()
	if !ip.Is6() {
		return ip
	}
	b := ip.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case netip.MustParsePrefix("2002::/16").Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return ip
}

// special are the networks of the IANA special-purpose registries that netip has no method for and that are not
// globally reachable.
func special() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "5f00::/16", "fec0::/10",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func (g *Guard) public(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() &&
		!slices.ContainsFunc(g.special, func(p netip.Prefix) bool { return p.Contains(ip) })
}
