// Package schemas provides the JSON schemas of Kubernetes' built-in kinds, from URLs or from a folder. It caches them
// by digest. It decides nothing about objects: a schema that cannot be downloaded is an error, not a finding.
//
// The package is not API: it can change in every release.
package schemas

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/sluice-gitops/sluice/policy"
)

// DefaultLocation is the default of kubeconform: https://github.com/yannh/kubernetes-json-schema.
const DefaultLocation = "https://raw.githubusercontent.com/yannh/kubernetes-json-schema/master/{{ .NormalizedKubernetesVersion }}-standalone{{ .StrictSuffix }}/{{ .ResourceKind }}{{ .KindSuffix }}.json"

const (
	maxSchema = 16 << 20 // bytes of one schema
	timeout   = 20 * time.Second
	attempts  = 2
)

// Config of a Source.
type Config struct {
	Locations []string          // templates of URLs, or of paths in Files; empty means DefaultLocation
	Files     fs.FS             // the source repository, for locations without a scheme
	Cache     string            // folder, created on demand
	Offline   bool              // download nothing
	Transport http.RoundTripper // nil is http.DefaultTransport
	UserAgent string
}

// Source implements policy.Schemas. It is safe for concurrent use, and several processes can share a cache.
type Source struct {
	config Config
	client *http.Client
	mu     sync.Mutex
	known  map[string]*outcome
}

type outcome struct {
	sync.Once
	folder string
	err    error
}

// New returns a Source. Errors name the location that is not a valid template.
func New(c Config) (*Source, error) {
	if len(c.Locations) == 0 {
		c.Locations = []string{DefaultLocation}
	}
	for i, l := range c.Locations {
		if !strings.HasSuffix(l, "json") {
			c.Locations[i] = strings.TrimSuffix(l, "/") +
				"/{{ .NormalizedKubernetesVersion }}-standalone{{ .StrictSuffix }}/{{ .ResourceKind }}{{ .KindSuffix }}.json"
		}
		if _, err := expand(c.Locations[i], "1.30.0", "v1", "Pod", true); err != nil {
			return nil, fmt.Errorf("schema location %q: %w", l, err)
		}
	}
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	return &Source{
		config: c, client: &http.Client{Transport: c.Transport, Timeout: timeout},
		known: map[string]*outcome{},
	}, nil
}

// words are the fields of kubeconform's templates.
type words struct {
	NormalizedKubernetesVersion, StrictSuffix, ResourceKind, ResourceAPIVersion, Group, KindSuffix string
}

func expand(location, kubeVersion, apiVersion, kind string, strict bool) (string, error) {
	t, err := template.New("").Option("missingkey=error").Parse(location)
	if err != nil {
		return "", err
	}
	group, version, found := strings.Cut(apiVersion, "/")
	suffix := "-" + strings.ToLower(strings.SplitN(group, ".", 2)[0])
	if found {
		suffix += "-" + strings.ToLower(version)
	} else {
		version = group
	}
	w := words{
		NormalizedKubernetesVersion: "v" + kubeVersion, ResourceKind: strings.ToLower(kind),
		ResourceAPIVersion: version, Group: group, KindSuffix: suffix,
	}
	if strict {
		w.StrictSuffix = "-strict"
	}
	var b strings.Builder
	err = t.Execute(&b, w)
	return b.String(), err
}

// Schema implements policy.Schemas. It requests a schema once, and keeps the result for the life of the Source.
func (s *Source) Schema(ctx context.Context, kubeVersion, apiVersion, kind string, strict bool) (string, error) {
	key := strings.Join([]string{kubeVersion, apiVersion, kind, fmt.Sprint(strict)}, "\x00")
	s.mu.Lock()
	o := s.known[key]
	if o == nil {
		o = &outcome{}
		s.known[key] = o
	}
	s.mu.Unlock()
	o.Do(func() { o.folder, o.err = s.schema(ctx, kubeVersion, apiVersion, kind, strict) })
	if o.err != nil && ctx.Err() != nil {
		s.mu.Lock()
		delete(s.known, key) // the caller was cancelled: the next one tries again
		s.mu.Unlock()
	}
	return o.folder, o.err
}

func (s *Source) schema(ctx context.Context, kubeVersion, apiVersion, kind string, strict bool) (string, error) {
	if !plainWord(kind) || !plainWord(strings.ReplaceAll(apiVersion, "/", "")) {
		return "", policy.ErrNoSchema
	}
	folder := filepath.Join(s.config.Cache, "view", s.locations(strict))
	name, err := expand(policy.SchemaTemplate, kubeVersion, apiVersion, kind, strict)
	if err != nil {
		return "", err
	}
	target := filepath.Join(folder, filepath.FromSlash(name))
	missing := false
	var last error
	for _, l := range s.config.Locations {
		at, err := expand(l, kubeVersion, apiVersion, kind, strict)
		if err != nil {
			return "", err
		}
		data, err := s.read(ctx, at)
		switch {
		case err == nil:
			return folder, write(target, data)
		case errors.Is(err, policy.ErrNoSchema):
			missing = true
		case ctx.Err() != nil:
			return "", ctx.Err()
		default:
			last = err
		}
	}
	if last != nil {
		return "", last
	}
	if missing {
		return "", policy.ErrNoSchema
	}
	return "", policy.ErrSchemasOffline
}

// locations returns a name for the set of locations, so that two fleets with one cache do not share schemas.
func (s *Source) locations(strict bool) string {
	sum := sha256.Sum256([]byte(strings.Join(s.config.Locations, "\n") + fmt.Sprint(strict)))
	return hex.EncodeToString(sum[:8])
}

func plainWord(s string) bool {
	return s != "" && len(s) < 200 &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") == "" &&
		!strings.Contains(s, "..")
}

func (s *Source) read(ctx context.Context, at string) ([]byte, error) {
	if !strings.HasPrefix(at, "https://") && !strings.HasPrefix(at, "http://") {
		if s.config.Files == nil {
			return nil, policy.ErrNoSchema
		}
		data, err := fs.ReadFile(s.config.Files, path.Clean(at))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			return nil, policy.ErrNoSchema
		}
		if err != nil {
			return nil, err
		}
		return data, check(at, data)
	}
	if data, ok := s.cached(at); ok {
		return data, nil
	}
	if s.config.Offline {
		return nil, policy.ErrSchemasOffline
	}
	data, err := s.fetch(ctx, at)
	if err != nil {
		return nil, err
	}
	return data, s.keep(at, data)
}

// The cache stores contents by digest, and for each URL a file with the digest of its content. A content that does not
// match its digest is downloaded again.
func (s *Source) pointer(url string) string {
	sum := sha256.Sum256([]byte(url))
	return filepath.Join(s.config.Cache, "urls", hex.EncodeToString(sum[:]))
}

func (s *Source) content(digest string) string {
	return filepath.Join(s.config.Cache, "sha256", digest[:2], digest)
}

func (s *Source) cached(url string) ([]byte, bool) {
	pointer, err := os.ReadFile(s.pointer(url))
	digest := strings.TrimSpace(string(pointer))
	if err != nil || len(digest) != 2*sha256.Size || !plainWord(digest) {
		return nil, false
	}
	data, err := os.ReadFile(s.content(digest))
	if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != digest {
		return nil, false
	}
	return data, true
}

func (s *Source) keep(url string, data []byte) error {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	if err := write(s.content(digest), data); err != nil {
		return err
	}
	return write(s.pointer(url), []byte(digest+"\n"))
}

// write creates or replaces a file in one step.
func write(name string, data []byte) error {
	if have, err := os.ReadFile(name); err == nil && bytes.Equal(have, data) { //nolint:gosec // in the cache
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("cache of schemas: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return fmt.Errorf("cache of schemas: %w", err)
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // err is returned
		return fmt.Errorf("cache of schemas: %w", err)
	}
	return nil
}

// fetch downloads a schema. It returns ErrNoSchema if the server says that it has none, and ErrSchemasOffline for any
// other failure.
func (s *Source) fetch(ctx context.Context, url string) ([]byte, error) {
	var last error
	for range attempts {
		data, err := s.get(ctx, url)
		if err == nil || errors.Is(err, policy.ErrNoSchema) || ctx.Err() != nil {
			return data, err
		}
		last = err
	}
	return nil, fmt.Errorf("%w: %w", policy.ErrSchemasOffline, last)
}

func (s *Source) get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", s.config.UserAgent)
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // the body was read
	if response.StatusCode == http.StatusNotFound {
		return nil, policy.ErrNoSchema
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxSchema+1))
	if err != nil {
		return nil, err
	}
	return data, check(url, data)
}

// check refuses contents that are not a schema, and schemas with references to other documents.
func check(at string, data []byte) error {
	if len(data) > maxSchema {
		return fmt.Errorf("%s: the schema has more than %d bytes", at, maxSchema)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("%s is not a JSON schema: %w", at, err)
	}
	if _, ok := v.(map[string]any); !ok {
		return fmt.Errorf("%s is not a JSON schema", at)
	}
	if ref := foreignReference(v); ref != "" {
		return fmt.Errorf("%s refers to %s, but only standalone schemas are supported", at, ref)
	}
	return nil
}

// foreignReference returns the first $ref that is not within the document; "" if there is none.
func foreignReference(v any) string {
	switch x := v.(type) {
	case map[string]any:
		if ref, ok := x["$ref"].(string); ok && !strings.HasPrefix(ref, "#") {
			return ref
		}
		for _, v := range x {
			if ref := foreignReference(v); ref != "" {
				return ref
			}
		}
	case []any:
		for _, v := range x {
			if ref := foreignReference(v); ref != "" {
				return ref
			}
		}
	}
	return ""
}
