package helm

import (
	"strings"
	"testing"
)

func TestReleaseName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, template, want, refused string }{
		{"web", "", "web", ""},
		{"", "", "release-name", ""},
		{"", `{{ "A" | lower }}-1`, "a-1", ""},
		{"web", "x", "", "remove one"},
		{"-x", "", "", "release name"},
		{"Web", "", "", "release name"},
		{"", `{{ env "HOME" }}`, "", `function "env" not defined`},
		{"", `{{ randAlpha 5 }}`, "", "functions whose results change are not allowed"},
		{"", `{{ genPrivateKey "rsa" | sha256sum | trunc 8 }}`, "", "functions whose results change"},
		{"", `{{ now | date "2006" }}`, "", "functions whose results change"},
		{"", `{{ fail "no" }}`, "", "no"},
		{"", `{{ .x }}`, "", "release name"},
		{"", `{{`, "", "unclosed"},
	} {
		got, err := ReleaseName(c.name, c.template)
		if got != c.want || (err == nil) != (c.refused == "") ||
			err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("the name is %q, the template is %q: the result of ReleaseName is %q, the error is %v", c.name,
				c.template, got, err)
		}
	}
}
