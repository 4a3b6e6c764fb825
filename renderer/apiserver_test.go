package renderer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sigsyaml "sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/bed/bedtest"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// A real API server accepts every object that the corpus' charts render, as Flux and Argo CD apply them: definitions of
// kinds first. Only the server's own words decide; kinds that no chart of the corpus defines are left out and counted.
func TestAPIServerAcceptsRenderedCharts(t *testing.T) {
	bedtest.Need(t, "kubernetes")
	if _, err := os.Stat(filepath.Join(corpus, "charts")); err != nil {
		t.Skip("the corpus is not here")
	}
	k, err := bedtest.StartKubernetes(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, err := k.Kubectl(t.Context(), "", "create", "namespace", "ns"); err != nil {
		t.Fatal(err)
	}
	engine := NewEngine(DefaultLimits())
	accepted, unknown := 0, map[string]int{}
	for _, c := range helmCases(t) {
		if !c.crds || c.content.Archive == nil { // charts of our own are not made for a server
			continue
		}
		values, err := sigsyaml.YAMLToJSON([]byte(c.values))
		if err != nil {
			t.Fatal(err)
		}
		if string(values) == "null" {
			values = []byte("{}")
		}
		out, err := engine.Render(t.Context(), &Bundle{
			Namespace: "ns", KubeVersion: "1.37.0", APIVersions: []string{"monitoring.coreos.com/v1"}, Helm: 4,
			Sources: []Source{{Helm: &HelmSource{
				Release: "rel", Chart: c.content, Dependencies: c.deps, Values: values, IncludeCRDs: true,
			}}},
		})
		if err != nil {
			t.Logf("%s: %v", c.name, err) // the chart refuses the version or the values, and Helm says the same: see TestChartsEqualHelmTemplate
			continue
		}
		var definitions, others []manifest.Object
		for _, o := range out.Objects {
			list, err := manifest.Decode(o.YAML, manifest.DefaultBudget())
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range list {
				if one.Kind() == "CustomResourceDefinition" {
					definitions = append(definitions, one)
				} else {
					others = append(others, one)
				}
			}
		}
		for _, o := range slices.Concat(definitions, others) {
			name := fmt.Sprintf("%s: %s %s", c.name, o.Kind(), o.Name())
			if strings.HasPrefix(o.Name(), "test-") || strings.Contains(o.Annotation("helm.sh/hook"), "test") {
				continue // a tool does not apply tests of Helm
			}
			path, err := k.Path(t.Context(), o)
			for range 30 { // a definition needs a moment until its kind is served
				if err == nil || len(definitions) == 0 {
					break
				}
				time.Sleep(100 * time.Millisecond)
				path, err = k.Path(t.Context(), o)
			}
			if err != nil {
				unknown[o.APIVersion()+" "+o.Kind()]++
				continue
			}
			isDefinition := o.Kind() == "CustomResourceDefinition"
			_, err = k.Apply(t.Context(), path, o, !isDefinition)
			status, refused := errors.AsType[*bedtest.StatusError](err)
			switch {
			case err == nil:
				accepted++
			case refused && status.Reason == "NotFound" && strings.Contains(status.Message, "namespaces"):
				accepted++ // its namespace is an object of the same chart, and nothing is stored in a dry run
			default:
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	t.Logf("%d objects accepted; kinds that are not known here: %v", accepted, unknown)
	if accepted < 500 {
		t.Errorf("%d objects were accepted, want at least 500: the corpus is not read", accepted)
	}
}
