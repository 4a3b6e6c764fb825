package argocd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/importer/argocd"
)

// An overlay that changes Applications or ApplicationSets wins over its base, and patches are no objects.
func TestOverlaysWin(t *testing.T) {
	t.Parallel()
	const set = "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  generators: [{list: {elements: [{name: a}, {name: b}]}}]\n" +
		"  template: {metadata: {name: \"{{name}}\"}, spec: {project: default, source: {" + own +
		"path: plain}, destination: {name: prod}}}\n"
	const one = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: web}\nspec: {project: default, source: {" + own + "path: plain}, destination: {name: prod}}\n"
	const none = "plain/config.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\n-- "
	for name, c := range map[string]struct {
		files, problem string
		want           []string
	}{
		"a list for Applications": {files: "argocd/patch.yaml --\n# for every kind: ApplicationSet of argoproj.io/v1alpha1\n- {op: add, path: /metadata/labels, value: {a: b}}\n-- argocd/web.yaml --\n" + one, want: []string{"web"}},
		"lists in JSON":           {files: "argocd/patch.json --\n[{\"op\": \"test\", \"path\": \"/a\", \"value\": \"ApplicationSet argoproj.io/v1\"}]\n-- argocd/web.yaml --\n" + one, want: []string{"web"}},
		"a list and an object that is none": {
			files: "argocd/x.yaml --\n- argoproj.io/v1alpha1 Application\n---\nkind: [\n-- argocd/web.yaml --\n" + one,
			want:  []string{"web"}, problem: "x.yaml",
		},
		"a patched set": {
			files: "base/set.yaml --\n" + set +
				"-- base/kustomization.yaml --\nresources: [set.yaml]\n-- overlay/kustomization.yaml --\nresources: [../base]\npatches: [{path: p.yaml, target: {kind: ApplicationSet}}]\n" +
				"-- overlay/p.yaml --\n- {op: remove, path: /spec/generators/0/list/elements/1}\n",
			want: []string{"a"},
		},
		"a strategic merge patch that is complete": {
			files: "base/web.yaml --\n" + one +
				"-- base/kustomization.yaml --\nresources: [web.yaml]\n-- overlay/kustomization.yaml --\nresources: [../base]\nnamePrefix: x-\npatches: [{path: p.yaml}]\n" +
				"-- overlay/p.yaml --\n" + strings.Replace(one, "name: prod", "name: other", 1),
			want: []string{"x-web: spec.destination: the cluster \"other\""},
		},
		"an Application that is a patch elsewhere": {
			files: "apps/web.yaml --\n" + one +
				"-- tests/kustomization.yaml --\nresources: [../plain/config.yaml]\npatches: [{path: ../apps/web.yaml}]\n",
			want: []string{"web"},
		},
		"a deleted Application": {
			files: "base/web.yaml --\n" + one + "---\n" + strings.Replace(one, "name: web", "name: gone", 1) +
				"-- overlay/kustomization.yaml --\nresources: [../base]\npatchesStrategicMerge: [d.yaml]\n-- base/kustomization.yml --\nresources: [web.yaml]\n" +
				"-- overlay/d.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: gone}\n$patch: delete\n",
			want: []string{"web"},
		},
		"a component": {
			files: "overlay/web.yaml --\n" + one +
				"-- overlay/kustomization.yaml --\nresources: [web.yaml]\ncomponents: [../component]\n-- component/kustomization.yaml --\nkind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\nnameSuffix: -x\n",
			want: []string{"web-x"},
		},
		"patches of other kinds": {
			files: "overlay/web.yaml --\n" + one +
				"-- overlay/kustomization.yaml --\nresources: [web.yaml, 'https://example.com/install.yaml']\npatches: [{path: cm.yaml}, {target: {kind: Deployment|Stateful.*}, patch: '[]'}]\n-- overlay/cm.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm}\n",
			want: []string{"web"},
		},
		"an overlay that fails": {
			files: "overlay/web.yaml --\n" + one +
				"-- overlay/kustomization.yaml --\nresources: [web.yaml, none.yaml]\nnamePrefix: x-\n",
			problem: "none.yaml",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			units, problems, err := argocd.Import(t.Context(), options("-- "+none+c.files))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, u := range units {
				text := u.Name
				if u.Err != nil {
					text += ": " + u.Err.Error()
				}
				got = append(got, text)
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("the Applications are %q, want %q", got, c.want)
			}
			if (c.problem == "") != (len(problems) == 0) || c.problem != "" &&
				!strings.Contains(problems[0].Message+problems[0].Origin.File, c.problem) {
				t.Errorf("the problems are %+v, want %q", problems, c.problem)
			}
		})
	}
}
