package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

func TestGuardKnowsInternalAddresses(t *testing.T) {
	g, err := NewGuard("10.20.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	for ip, allowed := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "10.20.1.2": true, "::ffff:10.20.1.2": true,
		"127.0.0.1": false, "127.8.8.8": false, "::1": false, "0.0.0.0": false, "::": false,
		"10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "fd00:ec2::254": false,
		"169.254.169.254": false, "fe80::1": false, "100.100.100.200": false, "224.0.0.1": false, "ff02::1": false,
		"255.255.255.255":  false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "64:ff9b::7f00:1": false,
		"64:ff9b::a9fe:a9fe": false, "2002:7f00:1::": false, "::127.0.0.1": false,
		"192.0.0.192": false, "198.18.0.1": false, "fec0::1": false,
	} {
		if err := g.checkAddress("host.example.com", netip.MustParseAddr(ip)); (err == nil) != allowed {
			t.Errorf("%s: the error is %v", ip, err)
		}
	}
}

func TestGuardRefusesInternalServers(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("apiVersion: v1\nentries: {}\n"))
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		allow []string
		url   string
		asks  bool
	}{
		"address":       {nil, server.URL, false},
		"name":          {nil, "http://localhost:" + port, false},
		"OCI":           {nil, "oci://127.0.0.1:" + port + "/charts", false},
		"IPv6":          {nil, "http://[::ffff:127.0.0.1]:" + port, false},
		"other port":    {[]string{"127.0.0.1:1"}, server.URL, false},
		"allowed":       {[]string{"127.0.0.1"}, server.URL, true},
		"allowed port":  {[]string{"127.0.0.1:" + port}, server.URL, true},
		"allowed name":  {[]string{"LocalHost"}, "http://localhost:" + port, true},
		"allowed range": {[]string{"127.0.0.0/8", "::1/128"}, "http://localhost:" + port, true},
	} {
		g, err := NewGuard(c.allow...)
		if err != nil {
			t.Fatal(err)
		}
		asked.Store(0)
		_, err = New(Options{
			Guard: g, Sleep: (&instant{}).sleep,
			PlainHTTP: []string{"127.0.0.1", "localhost"},
		}).Resolve(t.Context(),
			Ref{Repo: c.url, Chart: "x", Version: "1.0.0"})
		if (asked.Load() > 0) != c.asks {
			t.Errorf("%s: asked %d times: %v", name, asked.Load(), err)
		}
		if refused := err != nil && strings.Contains(err.Error(), "internal network"); refused == c.asks {
			t.Errorf("%s: the error is %v", name, err)
		}
		if !c.asks && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func TestGuardChecksRedirects(t *testing.T) {
	var asked atomic.Int64
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer inner.Close()
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inner.URL, http.StatusFound)
	}))
	defer outer.Close()
	at, err := url.Parse(outer.URL)
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGuard(at.Host)
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{Guard: g, Sleep: (&instant{}).sleep}).Resolve(t.Context(),
		Ref{Repo: outer.URL, Chart: "x", Version: "1.0.0"})
	if asked.Load() > 0 || err == nil || !strings.Contains(err.Error(), "internal network") {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}

func TestGuardRefusesToSendAProxyIntoTheNetwork(t *testing.T) {
	g, err := NewGuard()
	if err != nil {
		t.Fatal(err)
	}
	g.system = func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.internal:3128") }
	g.resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn,
		error,
	) {
		return nil, errors.New("no name server")
	}}
	g.hosts = []string{"charts.known.invalid", "charts.port.invalid:8443"}
	for target, allowed := range map[string]bool{
		"https://10.1.2.3/index.yaml": false, "http://localhost/": false, "https://8.8.8.8/": true,
		"http://[::ffff:169.254.169.254]/": false,
		"https://charts.unknown.invalid/":  false, "https://charts.known.invalid/": true,
		"https://charts.port.invalid/": false, "https://charts.port.invalid:8443/": true,
	} {
		u, err := g.Proxy(httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
		if (err == nil) != allowed || allowed && (u == nil || !g.proxy("proxy.internal:3128")) {
			t.Errorf("%s: the result of Proxy is %v, the error is %v", target, u, err)
		}
	}
}

// A proxy that NO_PROXY covers is no way into the network either: DialContext connects to it without a check.
func TestGuardRefusesTheProxyAsATarget(t *testing.T) {
	g, err := NewGuard()
	if err != nil {
		t.Fatal(err)
	}
	g.system = func(r *http.Request) (*url.URL, error) {
		if r.URL.Hostname() == "10.0.0.1" {
			return nil, nil
		}
		return url.Parse("http://10.0.0.1:3128")
	}
	if _, err := g.Proxy(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://8.8.8.8/",
		nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Proxy(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://10.0.0.1:3128/metrics",
		nil)); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if u, err := g.Proxy(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://10.0.0.1:80/",
		nil)); u != nil || err != nil {
		t.Errorf("another port is for DialContext to check: %v, %v", u, err)
	}
}

func TestGuardTakesHostsOnly(t *testing.T) {
	for _, bad := range []string{"", "https://x", "*.example.com", "10.0.0.0/99", "a b", "user@host"} {
		if _, err := NewGuard(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestGuardTransport: other clients can connect within the guard, too.
func TestGuardTransport(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for _, allow := range [][]string{nil, {"127.0.0.1"}} {
		g, err := NewGuard(allow...)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: g.Transport()}).Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != (allow != nil) {
			t.Errorf("allowed %q: %v", allow, err)
		}
	}
	if none := (*Guard)(nil).Transport(); none != nil {
		t.Errorf("without a guard: %v", none)
	}
}
