package gitea_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/sluice-gitops/sluice/bed/bedtest"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
)

// forgejo is the newest version of Forgejo that the Go module proxy has: 10.0 while it was developed. It cannot be built from
// there, because the proxy has no module of code.forgejo.org, but it contains Forgejo's description of its API.
const forgejo = "codeberg.org/forgejo/forgejo@v1.21.0-rc0.0.20241219112042-456d05998231"

// TestContractOfForgejo runs the contract of the adapters against a real Gitea that is cut down to the API of Forgejo: the
// operations and the fields of requests must be in Forgejo's description; parameters that are not, and fields of answers that
// are not, are removed.
func TestContractOfForgejo(t *testing.T) {
	bedtest.Need(t, "gitea")
	forgetest.Run(t, forgejoBackend{described(t)})
}

type forgejoBackend struct{ router routers.Router }

func (b forgejoBackend) New(t *testing.T) forgetest.World {
	t.Helper()
	w := newWorld(t, fmt.Sprintf("[api]\nMAX_RESPONSE_ITEMS = %[1]d\nDEFAULT_PAGING_NUM = %[1]d\n", pageItems))
	w.next = &cutDown{t: t, router: b.router}
	return w
}

// described returns the operations of Forgejo's description of its API.
func described(t *testing.T) routers.Router {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", forgejo)
	cmd.Env, cmd.Dir = append(os.Environ(), "GOFLAGS=-mod=mod"), t.TempDir()
	out, err := cmd.Output()
	check(t, err)
	var module struct{ Dir string }
	check(t, json.Unmarshal(out, &module))
	text, err := os.ReadFile(filepath.Join(module.Dir, "templates", "swagger", "v1_json.tmpl"))
	check(t, err)
	var old openapi2.T
	check(t, json.Unmarshal(regexp.MustCompile(`\{\{[^}]*\}\}`).ReplaceAll(text, nil), &old))
	doc, err := openapi2conv.ToV3(&old)
	check(t, err)
	check(t, openapi3.NewLoader().ResolveRefsIn(doc, nil))
	doc.Servers = openapi3.Servers{{URL: "http://gitea/api/v1"}}
	router, err := gorillamux.NewRouter(doc)
	check(t, err)
	return router
}

// cutDown sends requests to Gitea that Forgejo describes, and returns of the answers what Forgejo describes.
type cutDown struct {
	t      *testing.T
	router routers.Router
}

// RoundTrip implements http.RoundTripper.
func (c *cutDown) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r.Clone(r.Context())
	asked.Host = "gitea"
	asked.URL = &url.URL{Scheme: "http", Host: "gitea", Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	route, _, err := c.router.FindRoute(asked)
	if err != nil {
		c.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		return nil, err
	}
	sent, query := r.Clone(r.Context()), r.URL.Query()
	for name := range query { // servers ignore parameters that they do not know
		if route.Operation.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) == nil {
			query.Del(name)
		}
	}
	sent.URL.RawQuery = query.Encode()
	if err := c.compare(sent, route); err != nil {
		return nil, err
	}
	resp, err := http.DefaultTransport.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	return resp, cut(resp, route)
}

// compare compares the fields of a request that have a value with the description.
func (c *cutDown) compare(r *http.Request, route *routers.Route) error {
	if r.Body == nil {
		return nil
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	var body any
	if len(data) == 0 || json.Unmarshal(data, &body) != nil || route.Operation.RequestBody == nil {
		return nil //nolint:nilerr // not JSON, which the description does not have
	}
	if fields, ok := body.(map[string]any); ok { // a client's structs have fields for all servers
		maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil })
	}
	kept := reduced(body, schemaOf(route.Operation.RequestBody.Value.Content), 0)
	if before, after := fmt.Sprint(body), fmt.Sprint(kept); before != after {
		c.t.Errorf("%s %s: Forgejo knows %s of %s", r.Method, route.Path, after, before)
	}
	return nil
}

// cut removes the fields of an answer that are not described.
func cut(resp *http.Response, route *routers.Route) error {
	answer := route.Operation.Responses.Status(resp.StatusCode)
	if answer == nil || answer.Value == nil || resp.StatusCode >= http.StatusBadRequest {
		return nil
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var body any
	if json.Unmarshal(data, &body) == nil { // else a diff, or nothing
		if data, err = json.Marshal(reduced(body, schemaOf(answer.Value.Content), 0)); err != nil {
			return err
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	resp.ContentLength = int64(len(data))
	resp.Header.Del("Content-Length")
	return nil
}

func schemaOf(content openapi3.Content) *openapi3.SchemaRef {
	for _, media := range content {
		return media.Schema
	}
	return nil
}

// reduced returns the parts of a value that a schema describes. A schema without properties describes any value.
func reduced(value any, s *openapi3.SchemaRef, depth int) any {
	const deepest = 20 // a repository contains its parent
	if s == nil || s.Value == nil || depth > deepest {
		return value
	}
	switch v := value.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = reduced(v[i], s.Value.Items, depth+1)
		}
		return out
	case map[string]any:
		if len(s.Value.Properties) == 0 {
			return v
		}
		out := map[string]any{}
		for name, field := range v {
			for known, schema := range s.Value.Properties {
				if strings.EqualFold(known, name) {
					out[name] = reduced(field, schema, depth+1)
				}
			}
		}
		return out
	}
	return value
}
