package fleet

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	sigsyaml "sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the schemas")

func TestSchemas(t *testing.T) {
	r := jsonschema.Reflector{}
	if err := r.AddGoComments("github.com/sluice-gitops/sluice/fleet", "./"); err != nil {
		t.Fatal(err)
	}
	schemas, err := Schemas(r.CommentMap)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range schemas {
		file := filepath.Join("../docs/schema", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(file); err != nil || string(have) != string(text) {
			t.Errorf("%s is not current (%v): go test ./fleet -run TestSchemas -update", file, err)
		}
		if !strings.Contains(string(text), `"description"`) || !strings.Contains(string(text),
			`"additionalProperties": false`) {
			t.Errorf("%s says too little", name)
		}
	}
	validateFixtures(t, schemas)
}

// validateFixtures validates the demonstration fleet with the schemas.
func validateFixtures(t *testing.T, schemas map[string][]byte) {
	t.Helper()
	checked := 0
	err := filepath.WalkDir("../testdata/fleet", func(p string, d os.DirEntry, err error) error {
		kind := map[bool]string{
			strings.HasSuffix(p, "app.yaml"):  "app.json",
			filepath.Base(p) == "sluice.yaml": "fleet.json", strings.Contains(p, "/clusters/"): "cluster.json",
		}[true]
		if err != nil || d.IsDir() || kind == "" {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for doc := range strings.SplitSeq(string(data), "\n---\n") {
			if strings.Contains(doc, "kind: ClusterClass") {
				kind = "clusterclass.json"
			}
			validate(t, schemas[kind], p, doc)
			checked++
		}
		return nil
	})
	if err != nil || checked < 10 {
		t.Errorf("%d documents checked, %v", checked, err)
	}
}

func validate(t *testing.T, schema []byte, name, doc string) {
	t.Helper()
	var v any
	if err := sigsyaml.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatal(err)
	}
	if err := compile(t, schema).Validate(v); err != nil {
		t.Errorf("%s: the error is %v", name, err)
	}
}
