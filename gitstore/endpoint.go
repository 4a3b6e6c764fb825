package gitstore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/sluice-gitops/sluice/internal/plainhttp"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// endpoint is a remote with the credentials for it.
type endpoint struct {
	url    string // without credentials, for messages
	ep     *transport.Endpoint
	method transport.AuthMethod
	broken error // error of unusable credentials
	secret []string
	most   int64 // bytes of one answer; 0 is any number
}

func newEndpoint(raw string, auth Auth) (endpoint, error) {
	out := endpoint{url: redactURL(raw)}
	if strings.HasPrefix(raw, "-") {
		return out, fmt.Errorf("%q is not a Git address", out.url)
	}
	ep, err := transport.NewEndpoint(raw)
	if err != nil {
		return out, fmt.Errorf("%s is not a Git address", out.url)
	}
	switch ep.Protocol {
	case "http", "https", "ssh", "file":
	default:
		return out, fmt.Errorf("%s: the protocol %q is not supported: use https, ssh or a path", out.url, ep.Protocol)
	}
	if ep.Password != "" || ep.User != "" && ep.Protocol != "ssh" {
		if auth.User == "" && auth.Password == "" && auth.Token == "" && auth.Bearer == "" {
			auth.User, auth.Password = ep.User, ep.Password
		}
		out.secret = append(out.secret, ep.Password, url.QueryEscape(ep.Password), url.PathEscape(ep.Password))
		ep.Password = ""
		if ep.Protocol != "ssh" {
			ep.User = ""
		}
	}
	if len(auth.CABundle) > 0 {
		if !x509.NewCertPool().AppendCertsFromPEM(auth.CABundle) {
			return out, fmt.Errorf("%s: the CA bundle has no PEM certificate", out.url)
		}
		ep.CaBundle = auth.CABundle
	}
	out.ep = ep
	out.secret = append(out.secret, auth.secrets()...)
	out.method, err = auth.method(ep)
	if err == nil && out.method != nil {
		err = plainhttp.Check(&url.URL{Scheme: ep.Protocol, Host: hostOf(ep)}, auth.PlainHTTP)
	}
	if err != nil {
		out.broken = fmt.Errorf("%s: %w", out.url, err)
		return out, out.broken
	}
	return out, nil
}

// hostOf returns the host of an address, in brackets if it is an IPv6 address.
func hostOf(ep *transport.Endpoint) string {
	if strings.Contains(ep.Host, ":") && !strings.HasPrefix(ep.Host, "[") {
		return "[" + ep.Host + "]"
	}
	return ep.Host
}

var userInfo = regexp.MustCompile(`//[^/]*@`)

// redactURL removes credentials from an address.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return userInfo.ReplaceAllString(raw, "//")
	}
	if u.Scheme == "" || u.User == nil {
		return raw
	}
	if u.Scheme == "ssh" {
		u.User = url.User(u.User.Username())
	} else {
		u.User = nil
	}
	return u.String()
}

// explain adds the address and a hint to an error, and removes credentials from its text.
func (e endpoint) explain(err error) error {
	if err == nil {
		return nil
	}
	said := err.Error()
	if request, ok := errors.AsType[*url.Error](err); ok { // its text repeats the address
		said = strings.Replace(said, request.Error(), request.Err.Error(), 1)
	}
	text := safetext.Line(safetext.Shorten(strings.Join(strings.Fields(e.redact(said)), " "), longestReason))
	hint := ""
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed):
		hint = ": set SLUICE_GIT_USERNAME and SLUICE_GIT_PASSWORD, or SLUICE_GIT_TOKEN"
	case errors.Is(err, transport.ErrRepositoryNotFound):
		hint = ": check the address, and that the credential may read the repository"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		hint = ": name the authority's certificates in a CA bundle, or in SSL_CERT_FILE"
	case errors.As(err, new(*net.OpError)), errors.As(err, new(*net.DNSError)):
		hint = ": check the address, the network and the proxy, and whether the server is up"
	case strings.Contains(text, "knownhosts") || strings.Contains(text, "known_hosts"):
		hint = ": add the host's key with `" + keyscan(e.ep) + "` and compare it with what the host's owner says"
	}
	return &remoteError{text: fmt.Sprintf("%s: %s%s", e.url, strings.TrimRight(text, ":"), hint), cause: err}
}

// longestReason limits the text of a server in an error, in characters.
const longestReason = 1 << 10

func (e endpoint) redact(text string) string {
	for _, s := range e.secret {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}

// remoteError hides the text of its cause, which may contain credentials, but supports errors.Is.
type remoteError struct {
	text  string
	cause error
}

// Error returns the redacted text.
func (e *remoteError) Error() string { return e.text }

// Format prevents %#v and similar verbs from printing the cause.
func (e *remoteError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.text) }

// Is compares with the hidden cause. There is no Unwrap, because it would expose the text.
func (e *remoteError) Is(target error) bool {
	var opaque *plumbing.UnexpectedError // go-git's error type, which has no Unwrap
	return errors.Is(e.cause, target) || errors.As(e.cause, &opaque) && errors.Is(opaque.Err, target)
}

// session has the methods that go-git's two session types share.
type session interface {
	transport.Session
	comparable
}

// connect opens a session. go-git connects without a context, so connect runs in a goroutine: if the context ends, the
// caller does not wait for a host that does not answer.
func connect[S session](ctx context.Context, e endpoint, open func(transport.Transport, *transport.Endpoint) (S,
	error),
) (S, error) {
	var none S
	if e.broken != nil {
		return none, e.broken
	}
	t, ep, err := e.transport()
	if err != nil {
		return none, e.explain(err)
	}
	type opened struct {
		session S
		err     error
	}
	done := make(chan opened, 1)
	go func() {
		s, err := open(t, ep)
		done <- opened{s, err}
	}()
	var o opened
	select {
	case o = <-done:
	case <-ctx.Done():
		go func() {
			if late := <-done; late.err == nil {
				_ = late.session.Close() // the caller has returned
			}
		}()
		return none, e.explain(ctx.Err())
	}
	if o.err != nil {
		return none, e.explain(o.err)
	}
	return o.session, nil
}

// advertisedBy reads the refs that the server advertises. If it fails, it closes the session.
func advertisedBy(ctx context.Context, e endpoint, session transport.Session) (*packp.AdvRefs, error) {
	refs, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		refs, err = packp.NewAdvRefs(), nil
	}
	if err == nil {
		err = namesNothing(refs)
	}
	if err != nil {
		abandon(ctx, session)
		return nil, e.explain(err)
	}
	return refs, nil
}

// namesNothing refuses an advertisement with the zero id, which stands for "no such ref": taken for a commit, it would
// look like a branch that does not exist. go-git refuses a HEAD of that kind.
func namesNothing(advertised *packp.AdvRefs) error {
	for _, refs := range []map[string]plumbing.Hash{advertised.References, advertised.Peeled} {
		for name, h := range refs {
			if h.IsZero() {
				return fmt.Errorf("the server gives the ref %.100q the id %s, which names no object: the repository or a proxy before it is damaged", name, h)
			}
		}
	}
	return nil
}

// upload begins a fetch.
func (e endpoint) upload(ctx context.Context) (transport.UploadPackSession, *packp.AdvRefs, error) {
	session, err := e.openUpload(ctx)
	if err != nil {
		return nil, nil, err
	}
	refs, err := advertisedBy(ctx, e, session)
	return session, refs, err
}

func (e endpoint) openUpload(ctx context.Context) (transport.UploadPackSession, error) {
	return connect(ctx, e, func(t transport.Transport, ep *transport.Endpoint) (transport.UploadPackSession, error) {
		return t.NewUploadPackSession(ep, e.method)
	})
}

func (e endpoint) openReceive(ctx context.Context) (transport.ReceivePackSession, error) {
	return connect(ctx, e, func(t transport.Transport, ep *transport.Endpoint) (transport.ReceivePackSession, error) {
		return t.NewReceivePackSession(ep, e.method)
	})
}

// copyOf copies an endpoint for one session, because go-git changes it when a server redirects.
func copyOf(ep *transport.Endpoint) *transport.Endpoint {
	out := *ep
	return &out
}

func refsOf(advertised *packp.AdvRefs) map[string]Hash {
	out := make(map[string]Hash, len(advertised.References)+1)
	for name, h := range advertised.References {
		out[name] = Hash(h)
	}
	if advertised.Head != nil {
		out["HEAD"] = Hash(*advertised.Head)
	}
	return out
}
