package schemas_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/policy/schemas"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const configMap = `{"type": "object", "additionalProperties": false, "required": ["metadata"], "properties": {
  "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
  "data": {"type": "object", "additionalProperties": {"type": "string"}}}}`

// served is a server with one schema that counts requests.
func served(t *testing.T) (*httptest.Server, *[]string) {
	t.Helper()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		switch {
		case strings.HasSuffix(r.URL.Path, "/v1.33.0-standalone-strict/configmap-v1.json"):
			_, _ = w.Write([]byte(configMap))
		case strings.Contains(r.URL.Path, "secret"):
			w.WriteHeader(http.StatusBadGateway)
		case strings.Contains(r.URL.Path, "service"):
			_, _ = w.Write([]byte(`{"properties": {"spec": {"$ref": "http://169.254.169.254/"}}}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

func source(t *testing.T, c schemas.Config) *schemas.Source {
	t.Helper()
	s, err := schemas.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func findings(t *testing.T, s policy.Schemas, text string) *policy.Result {
	t.Helper()
	e, err := policy.Load(t.Context(), fstest.MapFS{}, policy.Options{Now: time.Unix(0, 0), Schemas: s})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Decode([]byte(text), manifest.DefaultBudget())
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Check(t.Context(), policy.Input{Subjects: policy.Listed(policy.Subject{
		Cluster: &policy.Cluster{Name: "a", Environment: "prod", KubeVersion: "1.33.2"},
		App:     &policy.App{Name: "web", Namespace: "shop"},
		Objects: []policy.Object{{Key: text, Object: objects[0]}},
	})})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata: {a: 1}\n"

// unknown has a field that only the schema reveals as wrong.
const unknown = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndta: {}\n"

func TestValidation(t *testing.T) {
	server, asked := served(t)
	cache := t.TempDir()
	s := source(t, schemas.Config{Locations: []string{server.URL}, Cache: cache})
	r := findings(t, s, bad)
	if len(r.Findings) != 1 || r.Findings[0].Rule != policy.RuleSchema || r.Findings[0].Path != "data.a" ||
		r.Findings[0].Severity != policy.SeverityError {
		t.Fatalf("findings %+v, notes %q", r.Findings, r.Notes)
	}
	if r := findings(t, s, strings.Replace(bad, "a: 1", `a: "1"`, 1)); len(r.Findings) != 0 || len(r.Notes) != 0 {
		t.Errorf("a good object: %+v %q", r.Findings, r.Notes)
	}
	if r := findings(t, s, unknown); len(r.Findings) != 1 {
		t.Errorf("an unknown field: %+v", r.Findings)
	}
	if len(*asked) != 1 {
		t.Errorf("requests %q, want one", *asked)
	}

	t.Run("offline, from the cache", func(t *testing.T) {
		server.Close()
		if r := findings(t, source(t, schemas.Config{Locations: []string{server.URL}, Cache: cache, Offline: true}),
			unknown); len(r.Findings) != 1 {
			t.Errorf("findings %+v, notes %q", r.Findings, r.Notes)
		}
	})
	t.Run("a damaged cache entry is downloaded again", func(t *testing.T) {
		err := filepath.WalkDir(filepath.Join(cache, "sha256"), func(name string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				return os.WriteFile(name, []byte(`{}`), 0o600)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		r := findings(t, source(t, schemas.Config{Locations: []string{server.URL}, Cache: cache, Offline: true}),
			unknown)
		if len(r.Findings) != 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0],
			"could not be downloaded: v1 ConfigMap") {
			t.Errorf("findings %+v, notes %q", r.Findings, r.Notes)
		}
	})
}

func TestUnavailableSchemasAreReported(t *testing.T) {
	server, _ := served(t)
	s := source(t, schemas.Config{Locations: []string{server.URL}, Cache: t.TempDir()})
	for text, note := range map[string]string{
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\n":             "could not be downloaded: v1 Secret",
		"apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: shop}\n":            "could not be downloaded: v1 Service",
		"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: s, namespace: shop}\n": "neither a CustomResourceDefinition in the fleet nor a schema describes the kind: example.com/v1 Widget",
	} {
		r := findings(t, s, text)
		if len(r.Findings) != 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], note) {
			t.Errorf("%s: findings %+v, notes %q", text, r.Findings, r.Notes)
		}
	}
	if _, err := s.Schema(t.Context(), "1.33.0", "v1", "../../etc/passwd", true); !errors.Is(err, policy.ErrNoSchema) {
		t.Errorf("a hostile kind: %v", err)
	}
}

func TestFilesOfTheRepository(t *testing.T) {
	files := fstest.MapFS{"schemas/v1.33.0-standalone-strict/configmap-v1.json": {Data: []byte(configMap)}}
	s := source(t, schemas.Config{Locations: []string{"schemas"}, Files: files, Cache: t.TempDir(), Offline: true})
	if r := findings(t, s, unknown); len(r.Findings) != 1 || len(r.Notes) != 0 {
		t.Errorf("findings %+v, notes %q", r.Findings, r.Notes)
	}
}
