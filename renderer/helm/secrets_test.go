package helm

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// What a chart or a schema says about values does not quote those that are secrets.
func TestErrorsQuoteNoSecrets(t *testing.T) {
	const values = `
auth:
  adminPassword: hunter2-and-more
  pin: 73519264
  existing: my-existing-secret
  mystery: k9Xw2mQz7RtY4vLp8NcB3sHd
  url: https://bob:s3cr3tpass@example.com/
env:
- {name: DB_PASSWORD, value: 'correct "horse" battery'}
tls:
  privateKey: |
    first line of the key
    second line of the key
`
	leaks := []string{"hunter2", "73519264", "k9Xw2mQz7R", "s3cr3tpass", "horse", "aHVudGVy", "line of the key"}
	eachVersion(t, func(t *testing.T, v Version) {
		t.Helper()
		for name, c := range map[string]struct {
			files []string
			want  string
		}{
			"fail": {
				[]string{"templates/a.yaml", `{{ fail (printf "%s %v is not allowed" .Values.auth.existing .Values.auth.adminPassword) }}`},
				"my-existing-secret ‹masked 16 bytes› is not allowed (the template refuses these values)",
			},
			"fail with everything": {
				[]string{"templates/a.yaml", `{{ fail (printf "%s\n%s\n%q %v" (toYaml .Values) (toJson .Values) .Values.tls.privateKey .Values) }}`},
				"my-existing-secret",
			},
			"encoded": {[]string{"templates/a.yaml", `{{ fail (.Values.auth.adminPassword | b64enc) }}`}, "‹masked 16 bytes›"},
			"error of a function": {
				[]string{"templates/a.yaml", `{{ mustToDate "2006" .Values.auth.adminPassword }}`},
				"cannot parse",
			},
			"subchart": {
				[]string{
					"charts/s/Chart.yaml", "apiVersion: v2\nname: s\nversion: 1.0.0\n", "charts/s/values.yaml", "token: hunter2-and-more\n",
					"charts/s/templates/a.yaml", `{{ fail .Values.token }}`,
				},
				"‹masked 16 bytes›",
			},
			"schema": {
				[]string{"values.schema.json", `{"properties": {"auth": {"properties": {"adminPassword": {"pattern": "^x"}, "pin": {"maximum": 3}}}}}`},
				"‹masked 16 bytes›' does not match pattern",
			},
		} {
			_, err := chartOf(t, v, append(c.files, "values.yaml", values)...).Render(t.Context(), options(nil))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: the error is %v, want %q", name, err, c.want)
				continue
			}
			for _, leak := range leaks {
				if strings.Contains(err.Error(), leak) {
					t.Errorf("%s: %q is in the error: %v", name, leak, err)
				}
			}
		}
	})
}

// A pointer of Git LFS in a chart is named as such.
// A short secret hides no name of a template.
func TestShortSecretsInErrors(t *testing.T) {
	t.Parallel()
	values := map[string]any{"dbPassword": "main", "apiToken": 4096, "existingSecret": "shop"}
	err := withoutSecrets(&TemplateError{Message: "shop/templates/main.yaml: main is no password, 4096 is. Not main. main"}, values)
	const want = "shop/templates/main.yaml: ‹masked 4 bytes› is no password, ‹masked 4 bytes› is. Not ‹masked 4 bytes›. ‹masked 4 bytes›"
	if one, ok := errors.AsType[*TemplateError](err); !ok || one.Message != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestPointersInCharts(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	eachVersion(t, func(t *testing.T, v Version) {
		t.Helper()
		if _, err := LoadArchive(v, []byte(pointer), DefaultLimits()); !errors.Is(err, manifest.ErrPointer) {
			t.Errorf("a packed chart: the error is %v, want %v", err, manifest.ErrPointer)
		}
		for _, name := range []string{"values.yaml", "charts/db-1.0.0.tgz", "values.schema.json"} {
			chart, err := Load(v, files(name, pointer), DefaultLimits())
			if err == nil {
				_, err = chart.Render(t.Context(), options(nil))
			}
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "pointer of Git LFS") {
				t.Errorf("%s: the error is %v, want the name and a pointer of Git LFS", name, err)
			}
		}
		if _, err := chartOf(t, v, "files/logo.png", pointer, "templates/a.yaml", "").Render(t.Context(), options(nil)); err != nil {
			t.Errorf("a file that nothing reads: %v", err)
		}
	})
}
