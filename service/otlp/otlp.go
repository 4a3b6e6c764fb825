// Package otlp sends spans to an OpenTelemetry collector: OTLP over HTTP, as protobuf. OpenTelemetry's own client for
// this links gRPC and its gateway for one request, 1.7 MB of the binary. The exporter, the batches and the messages are
// OpenTelemetry's.
package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-gitops/sluice/internal/retry"
)

// Config of an exporter.
type Config struct {
	URL string // of the receiver, such as https://otel.example.com/v1/traces
	// Getenv returns the variables of OpenTelemetry's specification: OTEL_EXPORTER_OTLP_HEADERS, TIMEOUT, COMPRESSION,
	// CERTIFICATE, CLIENT_CERTIFICATE and CLIENT_KEY. OTEL_EXPORTER_OTLP_TRACES_… precede them. The variables of the
	// endpoint and the protocol have no effect. nil: no variable is set.
	Getenv func(string) string
	// Sleep waits between two tries. nil: retry.Sleep
	Sleep func(ctx context.Context, d time.Duration) error
}

const (
	timeout    = 10 * time.Second // of a request
	firstDelay = 5 * time.Second
	maxDelay   = 30 * time.Second
	tries      = 4
	maxAnswer  = 4 << 10 // bytes of an error that are read
)

// New returns an exporter that sends each batch in one request. It retries a batch that the receiver could not take
// yet. Errors name the variable that is wrong, and never its value.
func New(ctx context.Context, c Config) (*otlptrace.Exporter, error) {
	out, err := newClient(c)
	if err != nil {
		return nil, err
	}
	return otlptrace.New(ctx, out)
}

// client implements otlptrace.Client. It is safe for concurrent use.
type client struct {
	url      string
	headers  http.Header
	compress bool
	http     *http.Client
	retry    retry.Policy
}

func newClient(c Config) (*client, error) {
	address, err := url.Parse(c.URL)
	if err != nil || (address.Scheme != "http" && address.Scheme != "https") || address.Host == "" {
		return nil, errors.New("the address of the OTLP receiver is not an HTTP URL (write one such as https://otel.example.com/v1/traces)")
	}
	env := variables{c.Getenv}
	headers, err := env.headers()
	if err != nil {
		return nil, err
	}
	wait, err := env.timeout()
	if err != nil {
		return nil, err
	}
	transport, err := env.transport()
	if err != nil {
		return nil, err
	}
	_, compression := env.get("COMPRESSION")
	address.Path = cmp.Or(address.Path, "/")
	return &client{
		url: address.String(), headers: headers, compress: compression == "gzip",
		// A redirect would carry the headers, which are often credentials, to another server.
		http:  &http.Client{Transport: transport, Timeout: wait, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		retry: retry.Policy{Tries: tries, First: firstDelay, Max: maxDelay, Jitter: 0.5, Sleep: c.Sleep},
	}, nil
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// TracesData has the encoding of ExportTraceServiceRequest, whose package imports gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.compress {
		var small bytes.Buffer
		w := gzip.NewWriter(&small)
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		body = small.Bytes()
	}
	_, err = retry.Do(ctx, c.retry, func(ctx context.Context) (struct{}, error) { return struct{}{}, c.send(ctx, body) })
	return err
}

func (c *client) send(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = c.headers.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	if c.compress {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return retry.Again(fmt.Errorf("send spans: %w", err))
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch code := answer.StatusCode; {
	case code >= 200 && code <= 299:
		return nil // a receiver that takes only some of the spans has logged the reason
	case err != nil:
		return retry.Again(fmt.Errorf("send spans: %s: %w", answer.Status, err))
	case code == http.StatusTooManyRequests || code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout:
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if err != nil || seconds < 0 || seconds > int(maxDelay/time.Second) {
			seconds = 0 // a date, or longer than the client waits
		}
		return retry.After(fmt.Errorf("send spans: %s %q", answer.Status, text), time.Duration(seconds)*time.Second)
	default:
		return fmt.Errorf("send spans: %s %q", answer.Status, text)
	}
}

// variables of OpenTelemetry's specification.
type variables struct{ getenv func(string) string }

// get returns the variable that is set, and its value, or "".
func (v variables) get(suffix string) (name, value string) {
	if v.getenv == nil {
		return "", ""
	}
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		if value := strings.TrimSpace(v.getenv(prefix + suffix)); value != "" {
			return prefix + suffix, value
		}
	}
	return "", ""
}

// headers decodes NAME=VALUE,…, whose values can have escapes such as %20.
func (v variables) headers() (http.Header, error) {
	out := http.Header{}
	name, list := v.get("HEADERS")
	for part := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || err != nil || key == "" {
			return nil, fmt.Errorf("%s: a header is not NAME=VALUE (separate headers by commas, and write %%2C for a comma in a value)", name)
		}
		out.Set(key, value)
	}
	return out, nil
}

func (v variables) timeout() (time.Duration, error) {
	name, value := v.get("TIMEOUT")
	if name == "" {
		return timeout, nil
	}
	ms, err := strconv.Atoi(value)
	if err != nil || ms <= 0 {
		return 0, fmt.Errorf("%s: %q is not a number of milliseconds above 0", name, value)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// transport returns Go's usual transport with the certificates that the variables name.
func (v variables) transport() (*http.Transport, error) {
	out := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: timeout, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if name, file := v.get("CERTIFICATE"); name != "" {
		text, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !out.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM form", name, file)
		}
	}
	name, file := v.get("CLIENT_CERTIFICATE")
	other, key := v.get("CLIENT_KEY")
	if (name == "") != (other == "") {
		return nil, fmt.Errorf("%s is set alone (a client's certificate needs OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY)", cmp.Or(name, other))
	}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
