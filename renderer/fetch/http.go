package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/sluice-gitops/sluice/internal/retry"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

const (
	maxRedirects  = 5
	maxRetries    = 3
	firstBackoff  = 500 * time.Millisecond
	maxRetryAfter = 30 * time.Second
)

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    15 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
	}
}

// request is one bounded GET.
type request struct {
	url    *url.URL
	access access
	limit  int64
	raw    bool // ask for the stored bytes, without content encoding
}

// get downloads within limits. It follows safe redirects and retries temporary failures.
func (f *Fetcher) get(ctx context.Context, r request) ([]byte, error) {
	var body []byte
	err := f.retry(ctx, r.url, func(ctx context.Context) error {
		var err error
		body, err = f.getOnce(ctx, r)
		return err
	})
	return body, err
}

func (f *Fetcher) getOnce(ctx context.Context, r request) ([]byte, error) {
	if err := f.permitted(r.url); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url.String(), nil)
	if err != nil {
		return nil, fail(ErrInvalid, "the address is not one to ask: %s", display(r.url.String()))
	}
	req.Header.Set("User-Agent", f.opts.UserAgent)
	if r.raw {
		req.Header.Set("Accept-Encoding", "identity")
	}
	same := origin(r.url) == r.access.origin
	if same || r.access.passAll && r.url.Scheme == "https" {
		switch s := r.access.secret; {
		case s.token != "":
			req.Header.Set("Authorization", "Bearer "+s.token)
		case s.username != "" || s.password != "":
			req.SetBasicAuth(s.username, s.password)
		}
	}
	resp, err := f.client(r.access).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode != http.StatusOK {
		return nil, statusFailure(resp.StatusCode, vendorAdvice)
	}
	return readBounded(resp.Body, resp.ContentLength, r.limit)
}

func readBounded(body io.Reader, announced, limit int64) ([]byte, error) {
	if announced <= limit {
		data, err := io.ReadAll(io.LimitReader(body, limit+1))
		if err != nil || int64(len(data)) <= limit {
			return data, err
		}
	}
	return nil, fail(ErrInvalid, "the answer is larger than the limit of %s", byteSize(limit))
}

func byteSize(n int64) string {
	if n >= 1<<20 {
		return strconv.FormatInt(n>>20, 10) + " MiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// client follows redirects within bounds and uses a repository's own TLS settings at that repository only. It checks
// each request, also those that a library makes by itself, such as that for a token at the address that a registry
// names.
func (f *Fetcher) client(a access) *http.Client {
	base, own := f.hinting(f.base), http.RoundTripper(nil)
	if a.transport != nil {
		own = f.hinting(a.transport)
	}
	t := roundTripper(func(r *http.Request) (*http.Response, error) {
		if err := f.permitted(r.URL); err != nil {
			return nil, err
		}
		if own != nil && (a.passAll || origin(r.URL) == a.origin) {
			return own.RoundTrip(r)
		}
		return base.RoundTrip(r)
	})
	return &http.Client{Transport: t, CheckRedirect: f.checkRedirect}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func (f *Fetcher) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fail(ErrInvalid, "more than %d redirects", maxRedirects)
	}
	if req.URL.User != nil {
		return fail(ErrInvalid, "the server redirects to a URL with credentials in it, which is refused")
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fail(ErrInvalid, "the server redirects from https to %s://%s, which is refused",
			safetext.Brief(req.URL.Scheme, 20), safetext.Brief(req.URL.Host, 100))
	}
	if origin(req.URL) != origin(via[0].URL) {
		req.Header.Del("Authorization")
		req.Header.Del("Cookie")
	}
	return f.permitted(req.URL)
}

// permitted allows https, and http to hosts that plain accepts.
func (f *Fetcher) permitted(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && f.plain(u.Host) {
		return nil
	}
	if u.Scheme == "http" {
		return fail(ErrInvalid, "http://%s is not encrypted: use https://, or allow plain HTTP for this host by --plain-http %[1]s", safetext.Brief(u.Host, 100))
	}
	return fail(ErrInvalid, "the scheme %q is refused: charts come over https:// or oci:// only",
		safetext.Brief(u.Scheme, 20))
}

// plain reports whether requests to a host, with or without its port, may use plain HTTP: to this machine, and to hosts
// of Options.PlainHTTP.
func (f *Fetcher) plain(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	return loopback(name) || slices.Contains(f.opts.PlainHTTP, host) || slices.Contains(f.opts.PlainHTTP, name)
}

// hintKey carries a *time.Duration in which the transport leaves the server's Retry-After; oras-go gives no other way.
type hintKey struct{}

func (f *Fetcher) hinting(t http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := t.RoundTrip(r)
		if hint, ok := r.Context().Value(hintKey{}).(*time.Duration); ok && err == nil {
			if s, convErr := strconv.Atoi(resp.Header.Get("Retry-After")); convErr == nil && s > 0 {
				*hint = min(time.Duration(min(s, 3600))*time.Second, maxRetryAfter)
			}
		}
		return resp, err
	})
}

// vendorAdvice is what helps who cannot reach a server with charts.
const vendorAdvice = "`sluice deps vendor`, run where the server can be reached, stores the archives in the repository"

// retry runs op, and runs it again after a pause if the failure is temporary. Each attempt has its own time limit.
func (f *Fetcher) retry(ctx context.Context, u *url.URL, op func(context.Context) error) error {
	return f.retryAdvising(ctx, u, vendorAdvice, op)
}

// retryAdvising is retry with a text that says what else helps if the server cannot be reached.
func (f *Fetcher) retryAdvising(ctx context.Context, u *url.URL, advice string, op func(context.Context) error) error {
	policy := retry.Policy{Tries: maxRetries + 1, First: firstBackoff, Max: maxRetryAfter, Sleep: f.opts.Sleep}
	_, err := retry.Do(ctx, policy, func(ctx context.Context) (struct{}, error) {
		var hint time.Duration
		err := f.attempt(context.WithValue(ctx, hintKey{}, &hint), op)
		if err == nil {
			return struct{}{}, nil
		}
		err = f.explain(err, u, advice, ctx.Err())
		if e, ok := errors.AsType[*failure](err); ok && e.temporary {
			err = retry.After(err, hint)
		}
		return struct{}{}, err
	})
	if err != nil && ctx.Err() != nil { // also while it waited for the next attempt
		return f.explain(err, u, advice, ctx.Err())
	}
	return err
}

// attempt runs op once, in one of the slots and within the time limit.
func (f *Fetcher) attempt(ctx context.Context, op func(context.Context) error) error {
	if err := f.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	defer f.slots.Release(1)
	ctx, cancel := context.WithTimeout(ctx, f.opts.Timeout)
	defer cancel()
	return op(ctx)
}

// explain turns an error of a library into one of this package.
func (f *Fetcher) explain(err error, u *url.URL, advice string, cancelled error) error {
	host := safetext.Brief(u.Host, 100)
	if cancelled != nil {
		return &failure{text: "interrupted while asking " + host, kind: cancelled}
	}
	var own *failure
	var coded *errcode.ErrorResponse
	switch {
	case errors.As(err, &own):
	case errors.As(err, &coded):
		own = statusFailure(coded.StatusCode, advice, codesOf(coded.Errors)...)
	case errors.Is(err, errdef.ErrNotFound):
		own = statusFailure(http.StatusNotFound, advice)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		own = statusFailure(http.StatusUnauthorized, advice)
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData),
		errors.Is(err, content.ErrInvalidDescriptorSize):
		own = fail(ErrDigest, "what the server gives is not what it announced")
	case errors.Is(err, context.DeadlineExceeded):
		own = fail(ErrUnavailable, "no whole answer within %s", f.opts.Timeout)
	default:
		own = connectionFailure(err, advice)
	}
	out := *own
	out.text = display(u.Scheme+"://"+u.Host+u.Path) + ": " + own.text
	if errors.Is(own.kind, ErrDenied) {
		out.text += ": give credentials for " + host + " by " + envHint(u.Host) +
			", Helm's repositories.yaml or registry login, or Docker's config.json"
	}
	return &out
}

// errorCode is the form of the codes in answers of registries, such as MANIFEST_INVALID.
var errorCode = regexp.MustCompile(`^[A-Z][A-Z_]+$`)

// codesOf returns the codes of a registry's errors. Their texts are not shown: a server can write anything there.
func codesOf(list errcode.Errors) []string {
	const longest = 40
	var out []string
	for _, e := range list {
		if errorCode.MatchString(e.Code) && len(e.Code) <= longest && len(out) < 3 && !slices.Contains(out, e.Code) {
			out = append(out, e.Code)
		}
	}
	return out
}

func statusFailure(code int, advice string, names ...string) *failure {
	text := strconv.Itoa(code) + " " + http.StatusText(code)
	if len(names) > 0 {
		text += " (" + strings.Join(names, ", ") + ")"
	}
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fail(ErrDenied, "%s", text)
	case code == http.StatusNotFound || code == http.StatusGone:
		return fail(ErrNotFound,
			"%s: check the name and the URL; some servers say this too when credentials are missing", text)
	case code == http.StatusTooManyRequests || code >= 500:
		e := fail(ErrUnavailable, "%s, also after retries: try later; %s", text, advice)
		e.temporary = true
		return e
	}
	if len(names) > 0 { // the answer of a registry
		return fail(ErrInvalid, "the registry refuses it: %s", text)
	}
	return fail(ErrUnavailable, "unexpected answer %s: is this the URL of a chart repository or registry?", text)
}

// connectionFailure returns the text of errors that are known to contain only addresses and reasons.
func connectionFailure(err error, advice string) *failure {
	next := "check the network, the proxy and the URL; " + advice
	var dns *net.DNSError
	var op *net.OpError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	e := &failure{kind: ErrUnavailable}
	switch {
	case strings.HasSuffix(err.Error(), "missing username or password for basic auth"):
		// oras-go has no sentinel for it
		e.kind, e.text = ErrDenied, "the registry wants a user name and password, not a token"
	case errors.As(err, &verify), errors.As(err, &unknown):
		e.text = "the server's certificate is not trusted: install its authority, or name it as caFile in Helm's repositories.yaml"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		e.text = "the server does not speak TLS: if it is meant to be plain HTTP, allow the host by --plain-http"
	case errors.As(err, &dns):
		e.text, e.temporary = "the host's name cannot be looked up: "+next, !dns.IsNotFound
	case errors.As(err, &op):
		e.text, e.temporary = "no connection ("+safetext.Brief(op.Err.Error(), 120)+"): "+next, true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.text, e.temporary = "the connection broke off: "+next, true
	default:
		e.text = "the answer is malformed: is this the URL of a chart repository or registry?"
	}
	return e
}
