package argocd_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/importer/argocd"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// The fields of a Kustomize source do what the commands of `kustomize edit` do. tools/gitops/argocd compares all forms
// with Argo CD.
func TestKustomizeEdits(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	for name, c := range map[string]struct{ written, fields, want, err string }{
		"an image loses its new name": {
			written: "images: [{name: nginx, newName: r.example.com/ngx, newTag: '1'}]",
			fields:  "images: ['nginx:3.0']", want: "image: nginx:3.0",
		},
		"an image keeps its new name": {
			written: "images: [{name: nginx, newName: r.example.com/ngx, newTag: '1'}]",
			fields:  "images: ['nginx=*:3.0']", want: "image: r.example.com/ngx:3.0",
		},
		"an image gets tag and digest": {fields: "images: ['nginx:3.0@" + digest + "']", want: "image: nginx:3.0@" +
			digest},
		"an image without a change": {
			fields: "images: [nginx]",
			err:    "kustomize.images: kustomize edit set image nginx: invalid format of image",
		},
		"an image that is an option": {fields: "images: ['--none']", err: "unknown flag"},
		"a label takes another's place": {
			written: "commonLabels: {a: base}",
			fields:  "{commonLabels: {a: new}, forceCommonLabels: true}", want: "a: new",
		},
		"a label is there already": {
			written: "commonLabels: {a: base}", fields: "commonLabels: {a: new}",
			err: "label a already in kustomization file (set forceCommonLabels)",
		},
		"labels in templates only": {
			fields: "{commonLabels: {a: new}, labelIncludeTemplates: true}",
			err:    "--without-selector flag must be specified",
		},
		"an annotation is there": {
			written: "commonAnnotations: {a: base}",
			fields:  "commonAnnotations: {a: new}", err: "(set forceCommonAnnotations)",
		},
		"the revision in an image": {
			fields: "images: ['nginx:$ARGOCD_APP_REVISION']",
			err:    "kustomize.images: the variable ARGOCD_APP_REVISION is not supported",
		},
		"a count that is text": {fields: "replicas: [{name: web, count: '3'}]", want: "replicas: 3"},
		"a count that is none": {
			fields: "replicas: [{name: web, count: x}]",
			err:    `kustomize.replicas web: "x" is no number`,
		},
		"components by pattern": {fields: "components: [../compon*]", want: "component: \"yes\""},
		"a component elsewhere": {
			fields: "components: ['https://git.example.com/acme/other//x?ref=v1']",
			err:    "git.example.com",
		},
		"a component that is not there": {fields: "components: [../none]", err: "../none"},
		"a patch after the others":      {written: "patches: [{target: {kind: Deployment}, patch: '- {op: replace, path: /spec/replicas, value: 7}'}]", fields: "patches: [{target: {kind: Deployment}, patch: '- {op: replace, path: /spec/replicas, value: 9}'}]", want: "replicas: 9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			units, _, err := argocd.Import(t.Context(),
				options("-- component/kustomization.yaml --\napiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {component: 'yes'}\n"+
					"-- kz/d.yaml --\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 1, template: {spec: {containers: [{name: web, image: 'nginx:1.0'}]}}}\n"+
					"-- kz/kustomization.yaml --\nresources: [d.yaml]\n"+c.written+"\n"+
					"-- argocd/a.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec:\n  project: default\n  destination: {name: prod, namespace: ns}\n  source: {"+own+"path: kz, kustomize: "+braced(c.fields)+"}\n"))
			if err != nil || len(units) != 1 {
				t.Fatalf("%d units, %v; want 1 unit", len(units), err)
			}
			if u := units[0]; c.err != "" {
				if u.Err == nil || !strings.Contains(u.Err.Error(), c.err) {
					t.Errorf("the error is %v, want %q", u.Err, c.err)
				}
				return
			} else if u.Err != nil {
				t.Fatal(u.Err)
			}
			text, err := manifest.Encode(units[0].Sources[0].Objects[0])
			if err != nil || !strings.Contains(string(text), c.want) {
				t.Errorf("%v; the object is\n%s\nwant %s", err, text, c.want)
			}
		})
	}
}

func braced(fields string) string {
	if strings.HasPrefix(fields, "{") {
		return fields
	}
	return "{" + fields + "}"
}
