package config

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Pages configure the listener of the fleets' pages.
type Pages struct {
	Listen  string `yaml:"listen"`  // address; "" disables the pages. Without auth it must be a loopback address
	Address string `yaml:"address"` // URL at which people open the pages; required for signing in
	// key of the session cookies. Default: a random key, so sessions end with the process
	CookieKey Secret    `yaml:"cookieKey"`
	Reports   ByteSize  `yaml:"reports"` // limit of the size of all reports of merge requests. Default: 2Gi
	Auth      PagesAuth `yaml:"auth"`
}

// PagesAuth configures how the pages identify people, by at most one of these.
type PagesAuth struct {
	Header PagesHeader `yaml:"header"`
	OIDC   PagesOIDC   `yaml:"oidc"`
	Forge  PagesForge  `yaml:"forge"`
}

// PagesHeader trusts a proxy that signs people in and sends their name in a header.
type PagesHeader struct {
	Name string   `yaml:"name"` // such as X-Forwarded-User
	From []string `yaml:"from"` // addresses or CIDR ranges of the proxies
}

// PagesOIDC signs people in with an OpenID Connect provider.
type PagesOIDC struct {
	Issuer       string   `yaml:"issuer"`
	ClientID     string   `yaml:"clientID"`
	ClientSecret Secret   `yaml:"clientSecret"`
	Claim        string   `yaml:"claim"`  // claim that names the person. Default: email
	Groups       []string `yaml:"groups"` // a person needs one of them; empty: everybody whom the provider knows
}

// PagesForge signs people in with a configured forge. They see the repositories that they may read there.
type PagesForge struct {
	Name         string `yaml:"name"` // of the forge
	ClientID     string `yaml:"clientID"`
	ClientSecret Secret `yaml:"clientSecret"`
	Web          string `yaml:"web"` // URL that people open. Default: git of the forge
}

// Networks returns the addresses of the proxies.
func (h PagesHeader) Networks() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range h.From {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		n, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func (c *Config) checkPages(p *problems) {
	g := &c.Pages
	kinds := 0
	for _, set := range []bool{g.Auth.Header.Name != "", g.Auth.OIDC.Issuer != "", g.Auth.Forge.Name != ""} {
		if set {
			kinds++
		}
	}
	if g.Listen == "" {
		if kinds > 0 {
			p.add("pages.listen: set the address to serve the pages on")
		}
		return
	}
	for key, address := range map[string]string{"listen": c.Listen, "metrics": c.Metrics, "debug": c.Debug} {
		if address == g.Listen {
			p.add("pages.listen: %s uses the address %s: choose another one", key, address)
		}
	}
	switch {
	case kinds > 1:
		p.add("pages.auth: set only one of header, oidc and forge")
	case kinds == 0 && !loopback(g.Listen):
		p.add("pages.listen: other machines can reach %s: configure pages.auth, or listen on 127.0.0.1", g.Listen)
	}
	g.checkAuth(p, c.Forges)
}

func (g *Pages) checkAuth(p *problems, forges []Forge) {
	if h := g.Auth.Header; h.Name != "" {
		if _, err := h.Networks(); err != nil {
			p.add("pages.auth.header.from: %w", err)
		}
		if len(h.From) == 0 {
			p.add("pages.auth.header.from: list the addresses of the proxies; otherwise anybody could send the header")
		}
	}
	if (g.Auth.OIDC.Issuer != "" || g.Auth.Forge.Name != "") && !webURL(g.Address) {
		p.add("pages.address: %q must be a URL: browsers return to it after the sign-in", g.Address)
	}
	if o := g.Auth.OIDC; o.Issuer != "" && (!webURL(o.Issuer) || o.ClientID == "" || !o.ClientSecret.Set()) {
		p.add("pages.auth.oidc: issuer must be a URL; set clientID and clientSecret too")
	}
	if f := g.Auth.Forge; f.Name != "" {
		if !slices.ContainsFunc(forges, func(one Forge) bool { return one.Name == f.Name }) {
			p.add("pages.auth.forge.name: there is no forge %q", f.Name)
		}
		if f.ClientID == "" || !f.ClientSecret.Set() {
			p.add("pages.auth.forge: set clientID and clientSecret")
		}
	}
}

func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && a.IsLoopback()
}

func (c *Config) loadPages(p *problems, s Sources) {
	c.Pages.CookieKey.load(p, s, "pages.cookieKey", false)
	c.Pages.Auth.OIDC.ClientSecret.load(p, s, "pages.auth.oidc.clientSecret", false)
	c.Pages.Auth.Forge.ClientSecret.load(p, s, "pages.auth.forge.clientSecret", false)
}
