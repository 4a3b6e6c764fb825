package argocd

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/tools/gitops/argocd/argoref"
)

// Compares every form of the fields that Argo CD writes with `kustomize edit`, over every form of what the
// kustomization says already.
func TestKustomizeEditsEqualArgoCD(t *testing.T) {
	const digest = "@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	type table struct {
		written, fields []string
	}
	tables := map[string]table{
		"images": {
			written: []string{
				"", "images: [{name: nginx, newTag: '1'}]", "images: [{name: nginx, newName: r.example.com/ngx}]",
				"images: [{name: nginx, newName: r.example.com/ngx, newTag: '1'}]",
				"images: [{name: nginx, digest: '" + digest[1:] + "'}]",
				"images: [{name: nginx, newName: r.example.com/ngx, newTag: '1', digest: '" + digest[1:] + "'}]",
				"images: [{name: other, newTag: '1'}, {name: nginx, newTag: '1'}, {name: nginx, newTag: '2'}]",
			},
			fields: []string{
				"images: ['nginx:3.0']", "images: ['nginx" + digest + "']", "images: ['nginx:3.0" + digest + "']",
				"images: ['nginx=new']", "images: ['nginx=new:3.0']",
				"images: ['nginx=new" + digest + "']", "images: ['nginx=new:3.0" + digest + "']",
				"images: ['nginx=*:3.0']", "images: ['nginx=new:*']", "images: ['nginx=*:*']",
				"images: ['nginx=*" + digest + "']", "images: ['nginx=new@*']", "images: ['nginx:*" + digest + "']",
				"images: [nginx]", "images: ['nginx=r.example.com:5000/new']",
				"images: ['nginx=r.example.com:5000/new:3.0']", "images: ['nginx:3.0', 'nginx:4.0']",
				"images: ['nginx:3.0', 'r.example.com:5000/side:2']", "images: ['r.example.com:5000/side=a=b:2']",
				"images: ['nginx:$ARGOCD_APP_NAME']", "images: ['--force']", "images: ['']",
			},
		},
		"labels": {
			written: []string{
				"", "commonLabels: {a: base, c: d}", "labels: [{pairs: {a: base}}]",
				"labels: [{pairs: {a: base}, includeSelectors: true}]",
				"labels: [{pairs: {a: base}, includeTemplates: true}]",
				"labels: [{pairs: {c: d}}]",
				"commonLabels: {a: base}\nlabels: [{pairs: {a: other}}, {pairs: {e: f}, includeTemplates: true}]",
			},
		},
		"annotations": {
			written: []string{"", "commonAnnotations: {a: base, c: d}"},
			fields: []string{
				"commonAnnotations: {a: new}", "{commonAnnotations: {a: new}, forceCommonAnnotations: true}",
				"commonAnnotations: {b: 'x:y', d: '$ARGOCD_APP_NAME'}", "commonAnnotations: {b: '\"quoted\"'}",
				"{commonAnnotations: {b: '$ARGOCD_APP_NAME-$$x-$NONE'}, commonAnnotationsEnvsubst: true}",
				"commonAnnotations: {b: ''}",
			},
		},
		"names": {
			written: []string{"", "namePrefix: base-\nnameSuffix: -base\nnamespace: base"},
			fields: []string{
				"namePrefix: new-", "nameSuffix: -new", "{namePrefix: new-, nameSuffix: '--new'}", "namespace: new",
				"namespace: Not_Valid", "version: v5", "{namePrefix: '-x-'}",
			},
		},
		"replicas": {
			written: []string{
				"", "replicas: [{name: web, count: 7}]",
				"replicas: [{name: web, count: 7}, {name: other, count: 1}]",
			},
			fields: []string{
				"replicas: [{name: web, count: 3}]", "replicas: [{name: web, count: '3'}]",
				"replicas: [{name: web, count: 0}]", "replicas: [{name: web, count: x}]",
				"replicas: [{name: web, count: 3}, {name: web, count: 4}]",
			},
		},
		"components": {
			written: []string{"", "components: [../../component]", "components: [../../other]"},
			fields: []string{
				"components: [../../component]", "components: [../../component, ../../component]",
				"components: [../../comp*]", "components: [../../none]", "components: [../../*one]",
				"{components: [../../none, ../../component], ignoreMissingComponents: true}",
				"{components: [../../none], ignoreMissingComponents: true}",
				"{components: ['../../comp*'], ignoreMissingComponents: true}",
				"components: [/component]", "{components: [/component], ignoreMissingComponents: true}",
				"{components: [../../../component], ignoreMissingComponents: true}",
				"components: [../../component/]",
			},
		},
		"patches": {
			written: []string{
				"", "patches: [{target: {kind: Deployment}, patch: '- {op: add, path: /metadata/annotations, value: {x: y}}'}]", "patches: []", "patches:", "patchesStrategicMerge: [p.yaml]",
				"# no patches:\npatchesJson6902: [{target: {kind: Deployment, name: web, version: v1, group: apps}, path: j.yaml}]",
			},
			fields: []string{
				"patches: [{target: {kind: Deployment, name: web}, patch: '- {op: add, path: /metadata/labels, value: {x: z}}'}]", "patches: [{path: p.yaml}]", "patches: [{path: none.yaml}]",
				"patches: [{target: {labelSelector: 'app=web', group: apps, version: v1}, patch: '{apiVersion: apps/v1, kind: Deployment, metadata: {name: renamed}}', options: {allowNameChange: true}}]",
				"{namePrefix: x-, images: ['nginx:3'], patches: [{target: {name: web}, path: p.yaml}], components: [../../component], replicas: [{name: web, count: 4}]}",
			},
		},
	}
	labels := tables["labels"]
	for _, force := range []bool{false, true} {
		for _, where := range []string{
			"", ", labelWithoutSelector: true",
			", labelWithoutSelector: true, labelIncludeTemplates: true", ", labelIncludeTemplates: true",
		} {
			for _, pairs := range []string{"{a: new}", "{a: new, b: '$ARGOCD_APP_NAME'}"} {
				labels.fields = append(labels.fields, fmt.Sprintf("{commonLabels: %s, forceCommonLabels: %t%s}", pairs,
					force, where))
			}
		}
	}
	labels.fields = append(labels.fields, "commonLabels: {b: 'x:y'}", "commonLabels: {'b:c': x}",
		"commonLabels: {b: ''}")
	tables["labels"] = labels

	dir := t.TempDir()
	files := map[string]string{
		"sluice.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\nspec:\n  environments: [{name: in-cluster}]\n  import: [{argocd: {version: " + argoref.Version + ", apps: [argocd/**], repositories: [\"" + url +
			"\"], clusters: {in-cluster: {server: https://kubernetes.default.svc, environment: in-cluster}}}}]\n",
		"component/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {component: 'yes'}\n",
		"other/kustomization.yaml":     "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {other: 'yes'}\n",
	}
	var apps strings.Builder
	forms := map[string]int{}
	for name, table := range tables {
		for m, written := range table.written {
			for n, fields := range table.fields {
				app := fmt.Sprintf("%s-%d-%d", name, m, n)
				forms[name]++
				maps.Copy(files, map[string]string{
					"kz/" + app + "/kustomization.yaml": "# comment\nresources: [d.yaml]\n" + written + "\n",
					"kz/" + app + "/p.yaml":             "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {p: 'yes'}}\n",
					"kz/" + app + "/j.yaml":             "- {op: add, path: /metadata/annotations, value: {j: 'yes'}}\n",
					"kz/" + app + "/d.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: {app: web}}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n" +
						"    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: 'nginx:1.0'}, {name: side, image: 'r.example.com:5000/side:1'}]}\n",
				})
				fmt.Fprintf(&apps, "---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: %s, namespace: argocd}\nspec:\n  project: default\n  destination: {server: https://kubernetes.default.svc, namespace: ns}\n"+
					"  source:\n    repoURL: %s\n    path: kz/%s\n    kustomize:\n      %s\n", app, url, app, fields)
			}
		}
	}
	files["argocd/all.yaml"] = strings.TrimPrefix(apps.String(), "---\n")
	write(t, dir, files)
	equal, objects := compare(t, dir, url, map[string]string{"https://kubernetes.default.svc": "in-cluster"})
	t.Logf("forms %v: %d build and are equal", forms, equal)
	if forms["images"] < 60 || forms["labels"] < 26 || objects < 300 {
		t.Errorf("compared %v, %d objects: want 60 forms of images, 26 of labels, 300 objects", forms, objects)
	}
}

// Compares strategic merge patches of Applications: directives, lists, fields that the patch or the template lacks, and
// values.
func TestTemplatePatchesEqualArgoCD(t *testing.T) {
	patches := []string{
		"spec: {source: {helm: {$patch: replace, valuesObject: {b: 2}}}}",
		"spec: {source: {helm: {valuesObject: {$patch: replace, b: 2}}}}",
		"spec: {source: {helm: {valuesObject: {$patch: delete}}}}",
		"spec: {source: {helm: {$patch: delete}}}",
		"spec: {source: {helm: null}}",
		"spec: {source: {helm: {valuesObject: {b: 2, gone: null}}}}",
		"spec: {source: {helm: {valuesObject: {nested: {more: 1}}}}}",
		"spec: {source: {helm: {valuesObject: {nested: {$patch: replace, more: 1}}}}}",
		"spec: {source: {helm: {valuesObject: {list: [z]}}}}",
		"spec: {source: {helm: {valuesObject: {list: {z: 1}, nested: [1]}}}}",
		"spec: {source: {helm: {valuesObject: {new: {more: 1}}}}}",
		"spec: {source: {helm: {valuesObject: null, values: 'own: 1'}}}",
		"spec: {source: {helm: {parameters: [{name: p, value: patched}]}}}",
		"spec: {source: {helm: {parameters: [{$patch: delete, name: p}]}}}",
		"spec: {source: {helm: {$retainKeys: [valuesObject], valuesObject: {b: 2}}}}",
		"spec: {source: {helm: {releaseName: other, unknown: {a: 1}}}}",
		"spec: {source: {$patch: replace, repoURL: '" + url + "', path: plain}}",
		"spec: {source: {$patch: delete}}",
		"spec: {source: null, sources: [{repoURL: '" + url + "', path: plain}, {repoURL: '" + url + "', path: chart}]}",
		"spec: {project: other, destination: {namespace: patched}}",
		"spec: {$patch: replace, source: {repoURL: '" + url +
			"', path: plain}, destination: {server: 'https://kubernetes.default.svc', namespace: n}}",
		"spec: {$patch: delete}",
		"metadata: {name: renamed-{{nn}}, finalizers: [example.com/x], labels: {$patch: replace, b: c}}",
		"metadata: {finalizers: [{$patch: delete}]}",
		"metadata: {$deleteFromPrimitiveList/finalizers: [resources-finalizer.argocd.argoproj.io]}",
		"metadata: {ownerReferences: [{uid: a, name: b, kind: C, apiVersion: v1}]}",
		"metadata: {$patch: delete}",
		"{\"spec\": {\"source\": {\"helm\": {\"values\": \"a: 1\"}}}}",
		"spec: {source: {helm: {skipCrds: text}}}",
		"spec: [1]",
		"[]",
		"$patch: bad",
		"spec: {source: {helm: {$patch: bad}}}",
		"{}",
		"",
	}
	dir := t.TempDir()
	files := map[string]string{
		"sluice.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\nspec:\n  environments: [{name: in-cluster}]\n  import: [{argocd: {version: " + argoref.Version + ", apps: [argocd/**], repositories: [\"" + url +
			"\"], clusters: {in-cluster: {server: https://kubernetes.default.svc, environment: in-cluster}}}}]\n",
		"chart/Chart.yaml":        "apiVersion: v2\nname: c\nversion: 0.1.0\n",
		"chart/values.yaml":       "a: x\nlist: [d]\n",
		"chart/templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}\ndata:\n  values: {{ .Values | toJson | quote }}\n",
		"plain/cm.yaml":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n",
	}
	for n, patch := range patches {
		files[fmt.Sprintf("argocd/set-%d.yaml",
			n)] = fmt.Sprintf("apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set-%[1]d, namespace: argocd}\nspec:\n  generators: [{list: {elements: [{nn: p%[1]d}]}}]\n"+
			"  template:\n    metadata: {name: '{{nn}}', labels: {a: b}}\n    spec:\n      project: default\n      destination: {server: https://kubernetes.default.svc, namespace: ns}\n"+
			"      source: {repoURL: %[2]s, path: chart, helm: {valuesObject: {a: base, gone: 1, nested: {c: d}, list: [e]}, parameters: [{name: p, value: q}, {name: r, value: s}]}}\n"+
			"  templatePatch: |\n    %[3]s\n", n, url, patch)
	}
	write(t, dir, files)
	equal, objects := compare(t, dir, url, map[string]string{"https://kubernetes.default.svc": "in-cluster"})
	t.Logf("%d patches: %d Applications are equal", len(patches), equal)
	if equal < 18 || objects < 18 {
		t.Errorf("compared %d Applications and %d objects of %d patches, want 18", equal, objects, len(patches))
	}
}
