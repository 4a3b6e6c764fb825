package otlp

import (
	"compress/gzip"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A receiver decodes what New's exporter sends as OpenTelemetry's own message.
func TestExporter(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"", "gzip"} {
		var request collector.ExportTraceServiceRequest
		var headers http.Header
		receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			headers = r.Header
			var body io.Reader = r.Body
			if r.Header.Get("Content-Encoding") == "gzip" {
				unzipped, err := gzip.NewReader(r.Body)
				if err != nil {
					t.Error(err)
					return
				}
				body = unzipped
			}
			text, err := io.ReadAll(body)
			if err != nil {
				t.Error(err)
			}
			if err := proto.Unmarshal(text, &request); err != nil || r.URL.Path != "/v1/traces" ||
				r.Method != http.MethodPost {
				t.Errorf("the method is %s, the path is %s: the error is %v", r.Method, r.URL.Path, err)
			}
		}))
		defer receiver.Close()
		authority := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{
			Type:  "CERTIFICATE",
			Bytes: receiver.Certificate().Raw,
		}), 0o600); err != nil {
			t.Fatal(err)
		}
		env := map[string]string{
			"OTEL_EXPORTER_OTLP_CERTIFICATE": authority, "OTEL_EXPORTER_OTLP_COMPRESSION": compression,
			"OTEL_EXPORTER_OTLP_TIMEOUT":        "60000",
			"OTEL_EXPORTER_OTLP_HEADERS":        "api-key=general",
			"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "api-key=for%20traces%2C2, x-tenant=a",
		}
		exporter, err := New(t.Context(), Config{
			URL:    receiver.URL + "/v1/traces",
			Getenv: func(name string) string { return env[name] },
		})
		if err != nil {
			t.Fatal(err)
		}
		provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
		_, span := provider.Tracer("sluice").Start(t.Context(), "task trunk")
		span.End()
		if err := provider.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := request.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0].GetName(); got != "task trunk" {
			t.Errorf("the span is %q", got)
		}
		got := []string{
			headers.Get("Content-Type"), headers.Get("Content-Encoding"), headers.Get("Api-Key"),
			headers.Get("X-Tenant"),
		}
		if diff := cmp.Diff([]string{"application/x-protobuf", compression, "for traces,2", "a"}, got); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
	}
}

// A refusal is an error with the receiver's words, and a redirect is not followed: it would carry credentials to
// another server.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		code int
		want string // part of the error; "" for none
	}{
		{"taken", 200, ""},
		{"refused", 400, "wrong"},
		{"redirect", 307, "307"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, "wrong")
			}))
			defer receiver.Close()
			exporter, err := New(t.Context(), Config{URL: receiver.URL})
			if err != nil {
				t.Fatal(err)
			}
			span := tracetest.SpanStub{Name: "task trunk"}.Snapshot()
			err = exporter.ExportSpans(t.Context(), []trace.ReadOnlySpan{span})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("sending a span: got the error %v, want %q", err, c.want)
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

// Errors name the variable and never a header's value.
func TestWrongConfiguration(t *testing.T) {
	t.Parallel()
	const good = "http://127.0.0.1:1/v1/traces"
	for _, c := range []struct{ address, name, value, want string }{
		{"127.0.0.1:4318", "", "", "not an HTTP URL"},
		{"ftp://127.0.0.1", "", "", "not an HTTP URL"},
		{"http://me:hunter2@127.0.0.1:1/", "", "", "has a user or a query"},
		{"http://127.0.0.1:1/?token=hunter2", "", "", "has a user or a query"},
		{good, "HEADERS", "hunter2", "OTEL_EXPORTER_OTLP_HEADERS: a header is not NAME=VALUE"},
		{good, "HEADERS", "key=hunter2%zz", "OTEL_EXPORTER_OTLP_HEADERS: a header is not NAME=VALUE"},
		{good, "TIMEOUT", "10s", `OTEL_EXPORTER_OTLP_TIMEOUT: "10s" is not a number of milliseconds`},
		{good, "CERTIFICATE", "otlp_test.go", "OTEL_EXPORTER_OTLP_CERTIFICATE: otlp_test.go has no certificate"},
		{good, "CERTIFICATE", "missing.pem", "OTEL_EXPORTER_OTLP_CERTIFICATE: open missing.pem"},
		{good, "CLIENT_KEY", "key.pem", "OTEL_EXPORTER_OTLP_CLIENT_KEY is set alone"},
	} {
		_, err := New(t.Context(), Config{URL: c.address, Getenv: func(name string) string {
			if name == "OTEL_EXPORTER_OTLP_"+c.name {
				return c.value
			}
			return ""
		}})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the address is %s, the name is %s=the value is %s: the error is %v, want %q", c.address, c.name,
				c.value, err, c.want)
		}
	}
}
