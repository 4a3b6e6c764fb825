// Package otlp configures OpenTelemetry's exporter of spans: OTLP over HTTP, as protobuf. It reads the variables of the
// environment itself, because OpenTelemetry's reader logs and skips what is wrong, with the value, which can be a
// credential.
//
// The package is not API: it can change in every release.
package otlp

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
)

// Config of an exporter.
type Config struct {
	URL string // of the receiver, such as https://otel.example.com/v1/traces
	// Getenv returns the variables of OpenTelemetry's specification: OTEL_EXPORTER_OTLP_HEADERS, TIMEOUT, COMPRESSION,
	// CERTIFICATE, CLIENT_CERTIFICATE and CLIENT_KEY. OTEL_EXPORTER_OTLP_TRACES_… precede them. The variables of the
	// endpoint and the protocol have no effect. nil: no variable is set.
	Getenv func(string) string
}

const timeout = 10 * time.Second // of a request

// New returns an exporter that sends each batch in one request. It retries a batch that the receiver could not take
// yet. Errors name the variable that is wrong, and never its value.
func New(ctx context.Context, c Config) (*otlptrace.Exporter, error) {
	address, err := url.Parse(c.URL)
	if err != nil || (address.Scheme != "http" && address.Scheme != "https") || address.Host == "" {
		return nil, errors.New("the address of the OTLP receiver is not an HTTP URL (write one such as https://otel.example.com/v1/traces)")
	}
	if address.User != nil || address.RawQuery != "" {
		return nil, errors.New("the address of the OTLP receiver has a user or a query, which are not sent (put credentials into OTEL_EXPORTER_OTLP_HEADERS)")
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
	compression := otlptracehttp.NoCompression
	if _, value := env.get("COMPRESSION"); value == "gzip" {
		compression = otlptracehttp.GzipCompression
	}
	// The exporter reads the variables again and logs those that are malformed, which can be credentials. New has read
	// and checked them.
	otel.SetLogger(logr.Discard())
	return otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(address.String()), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithTimeout(wait),
		otlptracehttp.WithCompression(compression), otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		// A redirect would carry the headers, which are often credentials, to another server.
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: transport, Timeout: wait,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		}),
	)
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
func (v variables) headers() (map[string]string, error) {
	out := map[string]string{}
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
		out[key] = value
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
	out := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: timeout, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
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
