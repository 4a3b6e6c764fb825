package helm

import (
	"fmt"
	"maps"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"helm.sh/helm/v3/pkg/chartutil"
)

// ReleaseName returns the name that `helm template` gives a release: the name, the result of nameTemplate, or
// `release-name` without either. The template may call only functions whose results never change.
func ReleaseName(name, nameTemplate string) (string, error) {
	switch {
	case name != "" && nameTemplate != "":
		return "", fmt.Errorf("a release has either releaseName or nameTemplate: remove one")
	case nameTemplate != "":
		functions := sprig.HermeticTxtFuncMap()
		maps.DeleteFunc(functions, func(name string, _ any) bool { return volatile(name) })
		t, err := template.New("nameTemplate").Funcs(functions).Parse(nameTemplate)
		if err != nil {
			return "", fmt.Errorf("%w (functions whose results change are not allowed: write the name as releaseName)",
				err)
		}
		var out strings.Builder
		if err := t.Execute(&out, nil); err != nil {
			return "", err
		}
		name = out.String()
	case name == "":
		name = "release-name"
	}
	if err := chartutil.ValidateReleaseName(name); err != nil {
		return "", fmt.Errorf("release name %q: %w", name, err)
	}
	return name, nil
}
