package github_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// GitHub's description of its REST API, as it publishes it.
const (
	openAPI     = "@octokit/openapi@19.1.0"
	openAPIFile = "package/generated/api.github.com.json"
)

// described compares every request and answer with GitHub's description.
func described(t *testing.T, next http.RoundTripper) http.RoundTripper {
	t.Helper()
	return checked{t, router(t), next}
}

type checked struct {
	t      *testing.T
	router routers.Router
	next   http.RoundTripper
}

func (c checked) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(got))
	if c.router != nil && !strings.HasSuffix(r.URL.Path, "/graphql") && resp.StatusCode != http.StatusBadGateway &&
		resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusUnauthorized {
		if err := c.check(r, sent, resp, got); err != nil {
			c.t.Errorf("%s %s: %d: %.3000v\n%.600s", r.Method, r.URL, resp.StatusCode, err, got)
		}
	}
	if c.router != nil && strings.HasSuffix(r.URL.Path, "/graphql") && resp.StatusCode == http.StatusOK {
		if err := checkGraph(sent, got); err != nil {
			c.t.Errorf("GraphQL: %v\n%.600s", err, got)
		}
	}
	return resp, nil
}

func (c checked) check(r *http.Request, sent []byte, resp *http.Response, got []byte) error {
	asked := r.Clone(context.Background())
	asked.URL = &url.URL{
		Scheme: "https", Host: "api.github.com", Path: r.URL.Path, RawPath: r.URL.RawPath,
		RawQuery: r.URL.RawQuery,
	}
	asked.Host = "api.github.com"
	asked.Body = io.NopCloser(bytes.NewReader(sent))
	asked.ContentLength = int64(len(sent))
	asked.Header.Set("Content-Type", "application/json")
	route, params, err := c.router.FindRoute(asked)
	if err != nil {
		return err
	}
	options := &openapi3filter.Options{
		AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
		IncludeResponseStatus: resp.StatusCode < 400, MultiError: true,
	}
	input := &openapi3filter.RequestValidationInput{Request: asked, PathParams: params, Route: route, Options: options}
	if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
		return err
	}
	header := resp.Header.Clone()
	header.Set("Content-Type", "application/json")
	return openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: header,
		Body: io.NopCloser(bytes.NewReader(got)), Options: options,
	})
}

var (
	routerOnce sync.Once
	theRouter  routers.Router
	routerErr  error
)

// router parses the description once, and only the addresses that Sluice uses.
func router(t *testing.T) routers.Router {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Log("answers are not held against GitHub's description: that needs npm, which is not here")
		return nil
	}
	routerOnce.Do(func() { theRouter, routerErr = loadRouter() })
	if routerErr != nil {
		t.Fatal(routerErr)
	}
	return theRouter
}

func loadRouter() (routers.Router, error) {
	data, err := npmFile(openAPI, openAPIFile)
	if err != nil {
		return nil, err
	}
	var raw map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	paths, _ := raw["paths"].(map[string]any)
	for path := range paths {
		keep := false
		for _, part := range []string{
			"/repos/{owner}/{repo}/pulls", "/commits/{commit_sha}/pulls",
			"/issues/{issue_number}/comments", "/issues/{issue_number}/labels", "/issues/comments/{comment_id}", "/statuses", "check-runs", "/app",
			"/user", "/collaborators/{username}/permission", "/teams/{team_slug}/memberships", "/installation",
			"/rules/branches/{branch}", "/branches/{branch}", "/repos/{owner}/{repo}/deployments",
		} {
			keep = keep || strings.Contains(path, part)
		}
		if !keep {
			delete(paths, path)
		}
	}
	for _, unused := range []string{"webhooks", "x-webhooks"} {
		delete(raw, unused)
	}
	if data, err = json.Marshal(raw); err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		return nil, err
	}
	doc.Servers = openapi3.Servers{{URL: "https://api.github.com"}}
	return gorillamux.NewRouter(doc)
}

// npmFile reads one file of a pinned npm package, and caches it.
func npmFile(spec, file string) ([]byte, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "sluice-test", strings.NewReplacer("@", "-", "/", "-").Replace(spec))
	kept := filepath.Join(dir, filepath.Base(file))
	if data, err := os.ReadFile(kept); err == nil {
		return data, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), "npm", "pack", "--silent", "--pack-destination", dir, spec)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, errors.Join(errors.New("npm pack "+spec+": "+string(out)), err)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(archives) == 0 {
		return nil, errors.Join(errors.New("npm pack "+spec+" left no archive"), err)
	}
	defer func() { _ = os.Remove(archives[0]) }()
	packed, err := os.ReadFile(archives[0])
	if err != nil {
		return nil, err
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if err != nil {
			return nil, errors.Join(errors.New(file+" is not in "+spec), err)
		}
		if h.Name != file {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		return data, os.WriteFile(kept, data, 0o600)
	}
}
