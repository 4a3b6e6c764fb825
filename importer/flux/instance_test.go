package flux_test

import (
	"strings"
	"testing"
)

// What a FluxInstance says makes the root: its name, its source and its patches. The source is this repository, and so
// is another one with the same address and ref.
func TestFluxInstance(t *testing.T) {
	t.Parallel()
	oci := strings.ReplaceAll(strings.Replace(strings.Replace(instance, "GitRepository", "OCIRepository", 1),
		"https://git", "oci://registry", 1), "refs/heads/main", "latest")
	from := func(kind, name string) string {
		return strings.Replace(ks("cluster/ks.yaml", "apps", "./app"), "{kind: GitRepository, name: flux-system}",
			"{kind: "+kind+", name: "+name+"}", 1) + configMap
	}
	repository := func(spec, annotations string) string {
		return "-- cluster/source.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: other, namespace: flux-system, annotations: {" + annotations + "}}\nspec: {interval: 1m, " + spec + "}\n"
	}
	for name, c := range map[string]struct {
		files       string
		root, fails string
	}{
		"Git": {
			"-- fi.yaml --" + instance + from("GitRepository", "flux-system"), "flux-system",
			"",
		},
		"with a name": {"-- fi.yaml --" + strings.Replace(instance, "sync: {", "sync: {name: main, ", 1) +
			from("GitRepository", "main"), "main", ""},
		"another name fails": {"-- fi.yaml --" + strings.Replace(instance, "sync: {", "sync: {name: main, ", 1) +
			from("GitRepository", "flux-system"), "main", "GitRepository flux-system/flux-system is not in Git"},
		"gitless": {"-- fi.yaml --" + oci + from("OCIRepository", "flux-system"), "flux-system", ""},
		"a bucket": {"-- fi.yaml --" + strings.Replace(instance, "GitRepository", "Bucket", 1) +
			from("Bucket", "flux-system"), "flux-system", ""},
		"the same artifact": {"-- fi.yaml --" + oci + from("OCIRepository", "other") +
			repository(`url: "oci://registry.example.com/acme/fleet", ref: {tag: latest}`, ""), "flux-system", ""},
		"another tag": {
			"-- fi.yaml --" + oci + from("OCIRepository", "other") +
				repository(`url: "oci://registry.example.com/acme/fleet", ref: {tag: v1}`, ""), "flux-system",
			"is not this repository",
		},
		"another artifact": {
			"-- fi.yaml --" + oci + from("OCIRepository", "other") +
				repository(`url: "oci://registry.example.com/acme/lib", ref: {tag: latest}`, ""), "flux-system",
			"sluice.dev/pushed-from",
		},
		"annotated": {
			"-- fi.yaml --" + instance + from("OCIRepository", "other") +
				repository(`url: "oci://registry.example.com/acme/lib", ref: {tag: v1}`, `sluice.dev/pushed-from: "."`),
			"flux-system", "",
		},
		"a directory": {
			"-- fi.yaml --" + instance +
				strings.Replace(from("OCIRepository", "other"), "./app", "./", 1) +
				repository(`url: "oci://registry.example.com/acme/lib"`, `sluice.dev/pushed-from: ./app`), "flux-system",
			"",
		},
		"no directory": {
			"-- fi.yaml --" + instance + from("OCIRepository", "other") +
				repository(`url: "oci://registry.example.com/acme/lib"`, `sluice.dev/pushed-from: none`), "flux-system",
			`names "none", which is not a directory`,
		},
		"the same repository": {"-- fi.yaml --" + instance + from("GitRepository", "again") +
			"-- cluster/again.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: again, namespace: flux-system}\nspec: {url: \"https://git.example.com/acme/fleet.git\", ref: {branch: main}}\n", "flux-system", ""},
		"its path in chart values": {
			"-- apps/release.yaml --" + instanceChart + from("GitRepository", "flux-system"),
			"flux-system", "",
		},
	} {
		list, err := importer(t, c.files).Import(t.Context(), "cluster")
		if err != nil {
			t.Errorf("%s: the error is %v", name, err)
			continue
		}
		if list[0].Key.Name != c.root || list[0].Err != nil || list[0].Origin.Line == 0 {
			t.Errorf("%s: the root is %s from %s (error %v), want %s", name, list[0].Key, list[0].Origin, list[0].Err,
				c.root)
		}
		app := list[len(list)-1]
		switch {
		case c.fails == "" && app.Err != nil:
			t.Errorf("%s: the app fails: %v", name, app.Err)
		case c.fails == "" && !strings.Contains(string(app.Stream), "color: red"):
			t.Errorf("%s: the app has the objects %q, want the ConfigMap", name, app.Stream)
		case c.fails != "" && (app.Err == nil || !strings.Contains(app.Err.Error(), c.fails)):
			t.Errorf("%s: the app's error is %v, want %q", name, app.Err, c.fails)
		}
	}
}

// Patches of a FluxInstance change its Kustomization.
func TestPatchedSync(t *testing.T) {
	t.Parallel()
	patched := "-- fi.yaml --" + instance + `  kustomize:
    patches:
      - target: {kind: Deployment, name: kustomize-controller}
        patch: '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--concurrent=10"}]'
      - target: {kind: Kustomization}
        patch: '[{"op": "add", "path": "/spec/postBuild", "value": {"substitute": {"color": "green"}}}]'
      - patch: |
          apiVersion: kustomize.toolkit.fluxcd.io/v1
          kind: Kustomization
          metadata: {name: flux-system, namespace: flux-system}
          spec: {targetNamespace: web}
-- cluster/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {color: "${color}"}
`
	list, err := importer(t, patched).Import(t.Context(), "cluster")
	if err != nil || list[0].Err != nil {
		t.Fatal(err, list[0].Err)
	}
	for _, want := range []string{"color: green", "namespace: web"} {
		if !strings.Contains(string(list[0].Stream), want) {
			t.Errorf("the objects of the cluster are %q, want %q", list[0].Stream, want)
		}
	}
}
