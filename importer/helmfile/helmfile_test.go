package helmfile

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/fleet"
)

// repo is a repository with a chart, a helmfile and values files.
func repo() fstest.MapFS {
	return fstest.MapFS{
		"deploy/helmfile.yaml":         {Data: []byte("x")},
		"deploy/charts/web/Chart.yaml": {Data: []byte("name: web\n")},
		"deploy/plain/all.yaml":        {Data: []byte("kind: ConfigMap\n")},
		"deploy/values/a.yaml":         {Data: []byte("a: 1\nmap: {x: 1}\n")},
		"deploy/values/b.yaml":         {Data: []byte("b: 2\n")},
		"deploy/values/ours.yaml":      {Data: []byte("name: ${cluster.name}\n")},
		"deploy/values/near.yaml":      {Data: []byte("name: ${enviroment}\n")},
		"deploy/values/t.yaml.gotmpl":  {Data: []byte("a: {{ 1 }}\n")},
		"deploy/values/twice.yaml":     {Data: []byte("a: 1\na: 2\n")},
		"deploy/note.txt":              {Data: []byte("hello, {world}\n")},
	}
}

const head = "---\n#  Source: /home/ada/fleet/deploy/helmfile.yaml\n\n"

const secretValues = "user: ada\npassword: ref+vault://x\n"

func convert(t *testing.T, files fs.FS, states ...State) (*Result, error) {
	t.Helper()
	tree, ok := files.(Files)
	if !ok {
		t.Fatal("no files")
	}
	return Convert(Options{States: states, Files: tree, Root: "/work/elsewhere"})
}

func state(environment, text string) State {
	return State{Environment: environment, File: environment + ".yaml", Data: []byte(head + text)}
}

// loadFleet adds the files of a result to the repository and loads the fleet.
func loadFleet(t *testing.T, files fstest.MapFS, r *Result) *fleet.Fleet {
	t.Helper()
	for name, data := range r.Files {
		files[name] = &fstest.MapFile{Data: data}
	}
	f, problems := fleet.Load(t.Context(), files, nil)
	if f == nil {
		t.Fatal(problems)
	}
	return f
}

// without returns the findings that are not of an effect.
func without(effect string, list []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(list), func(f Finding) bool { return f.Effect == effect })
}

// Each construct is carried over, or named with the reason.
func TestReleases(t *testing.T) {
	t.Parallel()
	const web = "releases:\n- {name: web, namespace: web, chart: ./charts/web"
	for name, c := range map[string]struct {
		state string
		files map[string]string // file → a part of its text
		finds string            // a part of a finding; "" for none
	}{
		"plain": {web + "}\n", map[string]string{"apps/web/app.yaml": "path: deploy/charts/web"}, ""},
		"no crds": {
			"helmDefaults: {skipCRDs: true}\n" + web + "}\n",
			map[string]string{"apps/web/app.yaml": "      path: deploy/charts/web\n"},
			"",
		},
		"schema": {
			web + ", skipSchemaValidation: true}\n",
			map[string]string{"apps/web/app.yaml": "schema: skip"},
			"",
		},
		"default schema": {
			"helmDefaults: {skipSchemaValidation: true}\n" + web + "}\n",
			map[string]string{"apps/web/app.yaml": "schema: skip"},
			"",
		},
		"override": {
			"namespace: other\n" + web + "}\n",
			map[string]string{"apps/web/app.yaml": "namespace: other"},
			"",
		},
		"no namespace": {
			"releases:\n- {name: web, chart: ./charts/web}\n",
			map[string]string{"apps/web/app.yaml": "namespace: default"},
			"changed namespace",
		},
		"context": {
			web + ", kubeContext: 'arn:aws:eks:eu:1:cluster/Prod'}\n",
			map[string]string{"clusters/arn-aws-eks-eu-1-cluster-prod.yaml": "environment: prod"},
			"",
		},
		"environment": {"environments: {prod: {kubeContext: prod-1}, staging: {kubeContext: staging-1}}\n" + web +
			"}\n", map[string]string{"clusters/prod-1.yaml": "environment: prod"}, ""},
		"own labels": {
			web + ", labels: {name: web, chart: web, namespace: web}}\n",
			map[string]string{"apps/web/app.yaml": "web"},
			"",
		},
		"labels": {
			web + ", labels: {tier: front}}\n",
			map[string]string{"apps/web/app.yaml": "web"},
			"not carried over labels",
		},
		"versions": {
			"kubeVersion: v1.33.2\napiVersions: [a/v1]\n" + web + "}\n",
			map[string]string{"clusters/prod.yaml": "kubeVersion: 1.33.2"},
			"",
		},
		"other versions": {
			web +
				", kubeVersion: 1.33.2}\n- {name: api, namespace: web, chart: ./charts/web, kubeVersion: 1.32.0}\n", nil,
			"left out kubeVersion, apiVersions",
		},
		"set": {web +
			", values: [{a: {b: 1}}], set: [{name: a.b, value: '2'}, {name: l, values: [x, 'y,z']}, {name: f, file: note.txt}], setString: [{name: s, value: '3'}]}\n", map[string]string{"apps/web/layers/global/values.yaml": "a:\n  b: 2\nf: |\n  hello, {world}\nl:\n- x\n- y,z\ns: \"3\"\n"}, ""},
		"set in a list": {
			web + ", values: [{l: [a, b]}], set: [{name: 'l[1]', value: c}]}\n",
			map[string]string{"apps/web/layers/global/values.yaml": "l:\n- a\n- c\n"},
			"",
		},
		"set a reference": {
			web + ", set: [{name: p, value: ref+vault://x}]}\n",
			map[string]string{"apps/web/app.yaml": "web"},
			"not carried over set p",
		},
		"null": {
			web + ", values: [{a: 1, b: 1}, {a: null}]}\n",
			map[string]string{"apps/web/layers/global/values.yaml": "a: null\nb: 1\n"},
			"",
		},
		"reference": {
			web + ", values: ['values/secret.yaml']}\n",
			map[string]string{"apps/web/app.yaml": "web"},
			"not carried over values[0] password",
		},
		"our reference": {
			web + ", values: ['values/ours.yaml']}\n",
			map[string]string{"apps/web/layers/global/values.yaml": "name: $${cluster.name}"},
			"",
		},
		"near reference": {
			web + ", values: ['values/near.yaml']}\n",
			map[string]string{"apps/web/layers/global/values.yaml": "name: $${enviroment}"},
			"",
		},
		"kept": {
			web + ", values: ['values/a.yaml', {x: 1}, 'values/b.yaml', {u: 1}]}\n",
			map[string]string{"apps/web/app.yaml": "file1:\n        prod: deploy/values/a.yaml\n      file2:\n        prod: apps/web/values/prod-2.yaml\n      file3:\n        prod: deploy/values/b.yaml", "apps/web/values/prod-2.yaml": "x: 1", "apps/web/environment/prod/values.yaml": "u: 1", "sluice.yaml": "${app.vars.values.file3.${environment}:=.git/none}"},
			"",
		},
		"prefix": {
			web + ", valuesPathPrefix: values/, values: [a.yaml]}\n",
			map[string]string{"apps/web/app.yaml": "file1:\n        prod: deploy/values/a.yaml"},
			"",
		},
		"key twice": {
			web + ", values: ['values/twice.yaml']}\n",
			map[string]string{"apps/web/layers/global/values.yaml": "a: 2\n"},
			"",
		},
		"missing file": {
			web + ", values: ['values/none.yaml']}\n", nil,
			"left out values[0]: the repository has no file deploy/values/none.yaml",
		},
		"missing permitted": {
			web + ", missingFileHandler: Warn, values: ['values/none.yaml']}\n",
			map[string]string{"apps/web/app.yaml": "web"},
			"changed values[0] values/none.yaml: does not exist, and missingFileHandler permits it",
		},
		"template": {
			web + ", values: ['values/t.yaml.gotmpl']}\n", nil,
			"left out values[0]: deploy/values/t.yaml.gotmpl is a template of helmfile (give a second state",
		},
		"values of a URL": {web + ", values: ['git::https://x/y@v.yaml']}\n", nil, "is fetched from a URL"},
		"outside": {
			web + ", values: ['../../x.yaml']}\n", nil,
			"left out values[0]: ../../x.yaml is not below the repository",
		},
		"absolute": {
			web + ", values: ['/etc/passwd']}\n", nil,
			"left out values[0]: /etc/passwd is not below the repository",
		},
		"range":           {"repositories: [{name: r, url: 'https://charts.example.com/'}]\nreleases: [{name: web, namespace: web, chart: r/web, version: ~1.2}]\n", map[string]string{"apps/web/app.yaml": "chart: web\n      includeCRDs: true\n      repo: https://charts.example.com\n      version: ~1.2"}, ""},
		"newest":          {"repositories: [{name: r, url: 'https://charts.example.com'}]\nreleases: [{name: web, namespace: web, chart: r/web}]\n", map[string]string{"apps/web/app.yaml": "version: '*'"}, "changed version"},
		"devel":           {"repositories: [{name: r, url: 'https://charts.example.com'}]\nreleases: [{name: web, namespace: web, chart: r/web, devel: true}]\n", map[string]string{"apps/web/app.yaml": "version: '>0.0.0-0'"}, ""},
		"credentials":     {"repositories: [{name: r, url: 'https://ada:hunter2@charts.example.com'}]\nreleases: [{name: web, namespace: web, chart: r/web}]\n", nil, "left out repositories: the URL of r can have credentials"},
		"query":           {"repositories: [{name: r, url: 'https://charts.example.com/x?token=hunter2'}]\nreleases: [{name: web, namespace: web, chart: r/web}]\n", nil, "left out repositories: the URL of r can have credentials"},
		"fragment":        {"repositories: [{name: r, url: 'https://charts.example.com/x#hunter2'}]\nreleases: [{name: web, namespace: web, chart: r/web}]\n", nil, "left out repositories: the URL of r can have credentials"},
		"OCI query":       {"repositories: [{name: r, url: 'example.com/x?token=hunter2', oci: true}]\nreleases: [{name: web, namespace: web, chart: r/web}]\n", nil, "left out repositories: the URL of r can have credentials"},
		"OCI chart query": {"releases: [{name: web, namespace: web, chart: 'oci://example.com/web?token=hunter2', version: 1.0.0}]\n", nil, "left out chart: it has a digest, a query or credentials"},
		"no versions": {
			web + ", kubeVersion: 1.33.2}\n- {name: api, namespace: web, chart: ./charts/web}\n",
			map[string]string{"apps/api/app.yaml": "api"},
			"changed kubeVersion, apiVersions: the release sets none",
		},
		"versions left out": {"releases:\n- {name: api, namespace: web, chart: gone/api, kubeVersion: 1.30.0}\n- {name: web, namespace: web, chart: ./charts/web, kubeVersion: 1.33.2}\n", map[string]string{"clusters/prod.yaml": "kubeVersion: 1.33.2", "apps/web/app.yaml": "web"}, "left out chart: gone/api is neither"},
		"OCI repository":    {"repositories: [{name: r, url: registry.example.com/charts, oci: true}]\nreleases: [{name: web, namespace: web, chart: r/a/web, version: 1.0.0}]\n", map[string]string{"apps/web/app.yaml": "chart: oci://registry.example.com/charts/a/web"}, ""},
		"OCI tag":           {"releases: [{name: web, namespace: web, chart: 'oci://registry.example.com:5000/web:1.2.0'}]\n", map[string]string{"apps/web/app.yaml": "chart: oci://registry.example.com:5000/web\n      includeCRDs: true\n      version: 1.2.0"}, ""},
		"OCI digest":        {"releases: [{name: web, namespace: web, chart: 'oci://registry.example.com/web@sha256:00'}]\n", nil, "left out chart: it has a digest"},
		"version digest":    {"releases: [{name: web, namespace: web, chart: 'oci://registry.example.com/web', version: '1.0.0@sha256:00'}]\n", nil, "left out version: it has a digest"},
		"URL": {
			"releases: [{name: web, namespace: web, chart: 'git::https://example.com/x?ref=v1'}]\n",
			nil, "left out chart: it is fetched from a URL",
		},
		"unknown alias": {
			"releases: [{name: web, namespace: web, chart: gone/web}]\n", nil,
			"neither a folder of the repository nor a chart of a repository",
		},
		"no chart": {"releases: [{name: web, namespace: web, chart: ./plain}]\n", nil, "has no Chart.yaml"},
		"json patch": {
			web +
				", jsonPatches: [{target: {kind: ConfigMap}, patch: [{op: remove, path: /data}]}]}\n",
			map[string]string{"apps/web/layers/global/kustomization.yaml": "target:\n    kind: ConfigMap"},
			"",
		},
		"patch by path": {
			web + ", jsonPatches: [{target: {kind: ConfigMap}, path: x.yaml}]}\n", nil,
			"left out jsonPatches[0]",
		},
		"patch and string": {
			web + ", setString: [{name: a, value: b}], strategicMergePatches: [{kind: X}]}\n", nil,
			"left out setString",
		},
		"transformers":    {web + ", transformers: [{kind: X}]}\n", nil, "left out transformers"},
		"dependencies":    {web + ", dependencies: [{chart: x}]}\n", nil, "left out dependencies"},
		"force namespace": {web + ", forceNamespace: x}\n", nil, "left out forceNamespace"},
		"post-renderer":   {web + ", postRenderer: ./x}\n", nil, "left out postRenderer"},
		"default renderer": {
			"helmDefaults: {postRenderer: ./x}\n" + web + "}\n", nil,
			"left out helmDefaults.postRenderer",
		},
		"unknown field":   {web + ", novel: true}\n", nil, "left out novel: Sluice does not know the field"},
		"unknown default": {"helmDefaults: {novel: true}\n" + web + "}\n", nil, "left out helmDefaults.novel"},
		"not installed": {
			web + ", installed: false}\n- {name: api, namespace: web, chart: ./charts/web}\n",
			map[string]string{"apps/api/app.yaml": "api"},
			"changed installed",
		},
		"condition": {
			web + ", condition: web.enabled}\nrenderedvalues: {web: {enabled: true}}\n",
			map[string]string{"apps/web/app.yaml": "web"},
			"",
		},
		"false condition": {web +
			", condition: a.web.enabled}\n- {name: api, namespace: web, chart: ./charts/web}\nrenderedvalues: {a: {web: {enabled: false}}}\n", map[string]string{"apps/api/app.yaml": "api", "apps/web/app.yaml": ""}, "changed condition: a.web.enabled is false"},
		"literal condition": {
			web +
				", condition: false}\n- {name: api, namespace: web, chart: ./charts/web, condition: 'True'}\n",
			map[string]string{"apps/api/app.yaml": "api"},
			"changed condition: false is false",
		},
		"no value": {web +
			", condition: web.enabled}\n- {name: api, namespace: web, chart: ./charts/web}\nrenderedvalues: {web: {enabled: 'true'}}\n", nil, "changed condition: web.enabled is false"},
		"unknown condition": {
			web + ", condition: web.enabled}\nrenderedvalues: {api: {enabled: true}}\n", nil,
			"left out condition: the values of the environment have no map web",
		},
		"no condition": {
			web + ", condition: web.on}\nrenderedvalues: {web: {on: true}}\n", nil,
			`left out condition: "web.on" is neither`,
		},
		"no values": {
			web + ", condition: web.enabled}\n", nil,
			"left out condition: \"web.enabled\" needs renderedvalues",
		},
		"need elsewhere": {
			web + ", needs: [other-cluster/web/db]}\n",
			map[string]string{"apps/web/app.yaml": "web"},
			"not carried over needs other-cluster/web/db: the release is on another cluster",
		},
		"need": {
			web + ", needs: [db/db]}\n- {name: db, namespace: db, chart: ./charts/web}\n",
			map[string]string{"apps/web/app.yaml": "dependsOn:\n  - db"},
			"",
		},
		"two of a name": {
			web + "}\n- {name: web, namespace: other, chart: ./charts/web}\n",
			map[string]string{
				"apps/web.web/app.yaml":   "releaseName: web",
				"apps/other.web/app.yaml": "releaseName: web",
			},
			"",
		},
		"name of two": {"releases:\n- {name: b, namespace: a, chart: ./charts/web}\n- {name: b, namespace: c, chart: ./charts/web}\n- {name: a.b, namespace: x, chart: ./charts/web}\n", map[string]string{"apps/a.b/app.yaml": "releaseName: b"}, "left out name: its app would be a.b, as that of the release b in the namespace a"},
		"other environment": {
			"environments: {Production: {kubeContext: prod-1}, staging: {kubeContext: staging-1}}\n" +
				web + "}\n",
			map[string]string{"clusters/prod.yaml": "environment: prod"},
			"changed kubeContext: the helmfile has no environment prod, and those that it has have a kubeContext (Production: prod-1, staging: staging-1)",
		},
		"own context": {
			"environments: {Production: {kubeContext: prod-1}}\n" + web + ", kubeContext: prod-2}\n",
			map[string]string{"clusters/prod-2.yaml": "environment: prod"},
			"",
		},
		"bad name": {"releases: [{name: We_B, namespace: web, chart: ./charts/web}]\n", nil, "left out name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := repo()
			if strings.Contains(c.state, "secret.yaml") {
				files["deploy/values/secret.yaml"] = &fstest.MapFile{Data: []byte(secretValues)}
			}
			result, err := convert(t, files, state("prod", c.state))
			if result == nil {
				t.Fatal(err)
			}
			for file, part := range c.files {
				if text := string(result.Files[file]); !strings.Contains(text, part) {
					t.Errorf("%s is %q, without %q (%v)", file, text, part, slices.Sorted(maps.Keys(result.Files)))
				}
			}
			var finds []string
			for _, f := range result.Findings {
				if f.Reason == writtenReason { // TestInlineValues
					continue
				}
				finds = append(finds, f.Effect+" "+f.Field+": "+f.Reason)
				if strings.Contains(f.Reason+f.Field, "hunter2") {
					t.Errorf("a finding shows a password: %+v", f)
				}
				if f.Release != "" && (f.File != "prod.yaml" || f.Line < 4) {
					t.Errorf("the finding is at %s:%d", f.File, f.Line)
				}
			}
			if text := strings.Join(finds, "\n"); c.finds == "" && text != "" || !strings.Contains(text, c.finds) {
				t.Errorf("findings %q, want %q", text, c.finds)
			}
			if (strings.HasPrefix(c.finds, LeftOut) || strings.HasPrefix(c.finds, "changed condition")) &&
				name != "other versions" && name != "versions left out" && result.Files["apps/web/app.yaml"] != nil {
				t.Error("a release that is left out has an app")
			}
		})
	}
}

// What a state cannot be is an error.
func TestBadStates(t *testing.T) {
	t.Parallel()
	const web = "releases: [{name: web, namespace: web, chart: ./charts/web}]\n"
	for name, c := range map[string]struct {
		states []State
		want   string
	}{
		"empty":       {[]State{{Environment: "prod", File: "prod.yaml"}}, "prod.yaml has no state"},
		"no YAML":     {[]State{state("prod", "a: 1\nb:\n- c: @\n")}, "prod.yaml:6: "},
		"second":      {[]State{state("prod", web+"---\na: 1\nb:\n- c: @\n")}, "prod.yaml:8: "},
		"a list":      {[]State{state("prod", "- a\n")}, "helmfile build"},
		"no releases": {[]State{state("prod", "templates: {}\n")}, "no release can be converted"},
		"no chart":    {[]State{state("prod", "releases: [{name: web}]\n")}, "releases[0] has no name or no chart"},
		"null":        {[]State{state("prod", "releases: [null]\n")}, "releases[0] has no name or no chart"},
		"aliases": {[]State{state("prod", "a: &a ["+strings.Repeat("x,", 2000)+"]\nb: &b ["+
			strings.Repeat("*a,", 2000)+"]\nc: ["+strings.Repeat("*b,", 100)+"]\n")}, "exceeds the limit"},
		"environment": {[]State{state("Prod Env", web)}, `"Prod Env" cannot be the name of an environment`},
		"three":       {[]State{state("prod", web), state("prod", web), state("prod", web)}, "has three states"},
		"two named": {
			[]State{
				state("prod", strings.Replace(web, "}]", ", values: [a.yaml]}]", 1)),
				state("prod", strings.Replace(web, "}]", ", values: [a.yaml]}]", 1)),
			},
			"both states of prod name values files",
		},
		"twice": {[]State{state("prod",
			"releases: [{name: web, namespace: web, chart: ./charts/web}, {name: web, namespace: web, chart: ./charts/web}]\n")}, "is in the environment prod twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := convert(t, repo(), c.states...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
	for _, name := range []string{
		"apps/web/layers/global/values.yaml", "apps/web/environment/prod/values.yaml",
		"apps/web/app.yaml", "layers/global/values.yaml",
	} {
		taken := repo()
		taken[name] = &fstest.MapFile{Data: []byte("a: 1\n")}
		if _, err := convert(t, taken, state("prod", web)); err == nil ||
			!strings.Contains(err.Error(), " exists, and the fleet would read it") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// The two states of an environment complete each other.
func TestTwoStates(t *testing.T) {
	t.Parallel()
	const web = "releases: [{name: web, namespace: web, chart: ./charts/web, missingFileHandler: Info, values: ["
	named := web + "values/a.yaml, values/none.yaml, values/t.yaml.gotmpl, {x: 1}, values/b.yaml]}]\n"
	embedded := web + "{a: 1, map: {x: 1}}, {a: 7}, {x: 1}, {b: 3}]}]\n"
	for _, states := range [][]State{
		{state("prod", named), state("prod", embedded)},
		{state("prod", embedded), state("prod", named)},
	} {
		result, err := convert(t, repo(), states...)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(result.Kept, []string{"deploy/values/a.yaml"}) { // b.yaml has another content now
			t.Errorf("kept %v", result.Kept)
		}
		if text := string(result.Files["apps/web/environment/prod/values.yaml"]); text != "a: 7\nb: 3\nx: 1\n" {
			t.Errorf("the text is %q", text)
		}
	}
	for name, other := range map[string]string{
		"fewer":   web + "{a: 1, map: {x: 1}}]}]\n",
		"more":    web + "{a: 1, map: {x: 1}}, {a: 7}, {x: 1}, {b: 3}, {c: 4}]}]\n",
		"another": strings.Replace(embedded, "name: web", "name: api", 1),
	} {
		result, err := convert(t, repo(), state("prod", named), state("prod", other))
		if rest := without(Changed, result.Findings); err == nil || len(rest) != 1 || rest[0].Effect != LeftOut {
			t.Errorf("%s: the error is %v, the result is %+v", name, err, result)
		}
	}
}

// A state with --embed-values has the secrets that values files refer to. They are never written.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const web = "releases: [{name: web, namespace: web, chart: ./charts/web, values: ["
	files := repo()
	files["deploy/values/secret.yaml"] = &fstest.MapFile{Data: []byte(secretValues)}
	files["deploy/values/secret.yaml.gotmpl"] = &fstest.MapFile{Data: []byte("password: {{ \"ref+vault://x\" | fetchSecretValue }}\n")}
	embedded := state("prod", web+"{user: ada, password: hunter2}]}]\n")
	if _, err := convert(t, files, embedded); err == nil || !strings.Contains(err.Error(),
		"deploy/values/secret.yaml has references that helmfile replaces by secrets (give the state without --embed-values too)") {
		t.Error(err)
	}
	result, err := convert(t, files, state("prod", web+"values/secret.yaml]}]\n"), embedded)
	if err != nil || string(result.Files["apps/web/layers/global/values.yaml"]) != "user: ada\n" ||
		result.Findings[0].Field != "values[0] password" {
		t.Errorf("the error is %v, the result is %+v", err, result)
	}
	if result.Findings[0].Effect != NotCarried {
		t.Errorf("the findings are %+v", result.Findings[0])
	}
	result, err = convert(t, files, state("prod", web+"values/secret.yaml.gotmpl]}]\n"), embedded)
	if err == nil || len(result.Files) > 0 || !strings.Contains(result.Findings[0].Reason, "reads a secret store") {
		t.Errorf("the error is %v, the result is %+v", err, result)
	}
}

// One kubeContext in two environments is two clusters, and namespaces can differ between environments.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	text := func(namespace, version string) string {
		return "repositories: [{name: r, url: 'https://charts.example.com'}]\nreleases: [{name: web, namespace: " +
			namespace + ", kubeContext: shared, chart: r/web, version: " + version + "}]\n"
	}
	result, err := convert(t, repo(), state("staging", text("web-s", "1.1.0")), state("prod", text("web-p", "1.0.0")))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(result.Clusters, []string{"prod-shared", "shared"}) {
		t.Errorf("clusters %v", result.Clusters)
	}
	app := string(result.Files["apps/web/app.yaml"])
	for _, part := range []string{
		"namespace: ${app.vars.namespaces.${environment}}", "prod: web-p",
		"environments:\n    prod:\n      source:\n        helm:\n          chart: web\n          includeCRDs: true\n          repo: https://charts.example.com\n          version: 1.0.0",
	} {
		if !strings.Contains(app, part) {
			t.Errorf("app.yaml has no %q:\n%s", part, app)
		}
	}
	// Clusters of an environment that differ need layers of their own, and have one chart.
	two := "releases:\n- {name: web, namespace: web, kubeContext: a, chart: ./charts/web, values: [{k: 1}]}\n- {name: web, namespace: web, kubeContext: b, chart: ./charts/web, values: [{k: 2}]}\n"
	if result, err = convert(t, repo(), state("prod", two)); err != nil ||
		string(result.Files["apps/web/layers/cluster/b/values.yaml"]) != "k: 2\n" {
		t.Errorf("the error is %v, the result is %v", err, result)
	}
	other := strings.Replace(two, "kubeContext: b, chart: ./charts/web",
		"kubeContext: b, chart: oci://example.com/web, version: 1.0.0", 1)
	if result, err = convert(t, repo(), state("prod", other)); err != nil ||
		len(without(Changed, result.Findings)) != 1 || without(Changed, result.Findings)[0].Field != "chart" ||
		!slices.Equal(result.Clusters, []string{"a"}) {
		t.Errorf("the error is %v, the result is %+v", err, result)
	}
}

// fieldsOf are the fields that helmfile 1.8.0 declares for a release, a state and helmDefaults (pkg/state/state.go).
func fieldsOf() map[string]string {
	return map[string]string{
		"release":      "chart chartPath directory version verify keyring enableDNS devel wait waitRetries waitForJobs timeout recreatePods force installed updateStrategy atomic rollbackOnFailure cleanupOnFail forceConflicts historyMax condition createNamespace reuseValues disableOpenAPIValidation disableValidation disableValidationOnInstall missingFileHandler missingFileHandlerConfig needs hooks unitTests name description namespace labels values secrets set setString valuesTemplate setTemplate apiVersions kubeVersion env valuesPathPrefix kubeContext insecureSkipTLSVerify plainHttp verifyTemplate waitTemplate installedTemplate conditionTemplate dependencies jsonPatches strategicMergePatches transformers adopt forceGoGetter forceNamespace skipDeps skipRefresh resolveOCIVersions postRenderer skipSchemaValidation postRendererArgs cascade suppressOutputLineRegex disableAutoDetectedKubeVersionForDiff inherit suppressDiff deleteWait deleteTimeout syncReleaseLabels takeOwnership serverSide trackMode trackTimeout trackLogs trackFailedLogs helmStuckGrace trackKinds skipKinds trackResources kubedogQPS kubedogBurst trackFailOnError",
		"state":        "helmBinary kustomizeBinary values environments bases helmDefaults helmfiles kubeContext namespace chart repositories commonLabels releases llm apiVersions kubeVersion hooks templates defaultInherit missingFileHandler missingFileHandlerConfig lockFilePath filepath renderedvalues",
		"helmDefaults": "kubeContext args diffArgs syncArgs templateArgs verify keyring enableDNS skipSchemaValidation devel wait waitRetries waitForJobs timeout recreatePods force atomic rollbackOnFailure cleanupOnFail forceConflicts historyMax createNamespace skipCRDs skipDeps skipRefresh resolveOCIVersions reuseValues postRenderer postRendererArgs cascade suppressOutputLineRegex disableAutoDetectedKubeVersionForDiff disableValidation disableOpenAPIValidation insecureSkipTLSVerify plainHttp deleteWait deleteTimeout syncReleaseLabels takeOwnership serverSide trackMode helmStuckGrace",
	}
}

// Sluice knows each field of helmfile, no other one, and the page names each.
func TestFields(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/from-helmfile.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, ok := strings.Cut(string(page), "## Fields")
	if !ok {
		t.Fatal("the page has no fields")
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(tables, -1) {
		named[m[1]] = true
	}
	for kind, known := range map[string]map[string]field{
		"release": releaseFields(), "state": stateFields(),
		"helmDefaults": defaultFields(),
	} {
		theirs := strings.Fields(fieldsOf()[kind])
		for _, name := range theirs {
			if _, ok := known[name]; !ok {
				t.Errorf("%s: %s has no class", kind, name)
			}
			if !named[name] {
				t.Errorf("%s: the page does not name %s", kind, name)
			}
		}
		if kind == "helmDefaults" {
			continue // knows more, which a release has
		}
		for name := range known {
			if !slices.Contains(theirs, name) {
				t.Errorf("%s: helmfile has no field %s", kind, name)
			}
		}
	}
}

// Each target takes the values files of its release in their order, whatever the names of clusters.
func TestValuesFilesOfTargets(t *testing.T) {
	t.Parallel()
	files := repo()
	result, err := convert(t, files, state("v1.2", `releases:
- {name: web, namespace: web, kubeContext: a.example.com, chart: ./charts/web, values: [values/b.yaml, values/a.yaml]}
- {name: web, namespace: web, kubeContext: b.example.com, chart: ./charts/web, values: [{x: 1}, values/b.yaml, {u: 1}]}
- {name: api, namespace: web, kubeContext: b.example.com, chart: ./charts/web, values: [{x: 1}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	f := loadFleet(t, files, result)
	got := map[string]string{}
	for _, target := range f.Targets() {
		var names []string
		for _, file := range f.ValuesFiles(target) {
			names = append(names, file.Path)
		}
		got[target.String()] = strings.Join(names, " ")
	}
	want := map[string]string{
		"a.example.com/web": "deploy/values/b.yaml deploy/values/a.yaml",
		"b.example.com/web": "apps/web/values/b.example.com-1.yaml deploy/values/b.yaml apps/web/cluster/b.example.com/values.yaml",
		"b.example.com/api": "apps/api/layers/global/values.yaml",
	}
	if !maps.Equal(got, want) {
		t.Errorf("the result is %v\nwant %v", got, want)
	}
}

// What the fleet merges is what Helm merges, also if values above a kept file replace a map and then set it again.
func TestMergedValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values string
		files  string // that the target takes, without the kept one
	}{
		"null between": {
			"values/a.yaml, {map: null}, {map: {y1: 2}}",
			"apps/web/values/prod-2.yaml apps/web/values/prod-3.yaml",
		},
		"scalar between": {
			"values/a.yaml, {map: 1}, {map: {y1: 2}}",
			"apps/web/values/prod-2.yaml apps/web/values/prod-3.yaml",
		},
		"list between": {
			"values/a.yaml, {map: [1]}, {map: {y1: 2}}",
			"apps/web/values/prod-2.yaml apps/web/values/prod-3.yaml",
		},
		"null last": {"values/a.yaml, {map: {y1: 2}}, {map: null}", "apps/web/environment/prod/values.yaml"},
		"maps":      {"values/a.yaml, {map: {y1: 2}}, {map: {y2: 2}}", "apps/web/environment/prod/values.yaml"},
		"set": {
			"values/a.yaml, {map: null}, {map: {}}], set: [{name: map.y1, value: '2'}",
			"apps/web/values/prod-2.yaml apps/web/values/prod-3.yaml apps/web/environment/prod/values.yaml",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := repo()
			result, err := convert(t, files,
				state("prod", "releases: [{name: web, namespace: web, chart: ./charts/web, values: ["+c.values+"]}]\n"))
			if err != nil {
				t.Fatal(err)
			}
			f := loadFleet(t, files, result)
			var got []string
			for _, file := range f.ValuesFiles(f.Targets()[0]) {
				got = append(got, file.Path)
			}
			if text := strings.Join(got, " "); text != "deploy/values/a.yaml "+c.files {
				t.Errorf("the target takes %s", text)
			}
		})
	}
}

// Two releases of one name are two findings, and count twice.
func TestReleasesOfOneName(t *testing.T) {
	t.Parallel()
	const text = "releases:\n- {name: web, namespace: a, chart: gone/x}\n- {name: web, namespace: b, chart: gone/x}\n- {name: web, namespace: b, kubeContext: k, chart: gone/x}\n- {name: api, namespace: b, chart: ./charts/web}\n"
	result, err := convert(t, repo(), state("staging", text), state("prod", text))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(result.Findings); n != 3 || result.LeftOutReleases() != 3 {
		t.Errorf("%d findings, %d left out", n, result.LeftOutReleases())
	}
	if f := result.Findings[2]; !slices.Equal(f.Places, []Place{{"staging", "b", "k"}, {"prod", "b", "k"}}) ||
		!slices.Equal(f.Environments, []string{"staging", "prod"}) {
		t.Errorf("the fleet is %+v", f)
	}
}

// Values files in the folder that the app gets stay there, and a file of any name in the repository is no layer of all
// apps.
func TestFilesBesideApps(t *testing.T) {
	t.Parallel()
	files := repo()
	files["helmfile.yaml"] = &fstest.MapFile{Data: []byte("x")}
	files["none"] = &fstest.MapFile{Data: []byte("a: 1\n")}
	files["apps/web/values.yaml"] = &fstest.MapFile{Data: []byte("a: 1\n")}
	text := "---\n#  Source: /work/elsewhere/helmfile.yaml\n\nreleases:\n- {name: web, namespace: web, chart: ./deploy/charts/web, values: [apps/web/values.yaml]}\n- {name: api, namespace: web, chart: ./deploy/charts/web}\n"
	result, err := convert(t, files, State{Environment: "prod", File: "prod.yaml", Data: []byte(text)})
	if err != nil || !slices.Equal(result.Kept, []string{"apps/web/values.yaml"}) {
		t.Fatalf("the error is %v, the result is %+v", err, result)
	}
	f := loadFleet(t, files, result)
	for _, target := range f.Targets() {
		want := map[string]int{"web": 1, "api": 0}[target.App.Name]
		if list := f.ValuesFiles(target); len(list) != want {
			t.Errorf("%s takes %v", target, list)
		}
	}
}

// A release that is left out, for whatever reason, gives its cluster no versions.
func TestVersionsOfClusters(t *testing.T) {
	t.Parallel()
	const end = "- {name: api, namespace: web, kubeContext: b, chart: ./charts/web}\n- {name: db, namespace: web, kubeContext: b, chart: ./charts/web, kubeVersion: 1.33.2}\n"
	for name, c := range map[string]struct{ releases, leftOut string }{
		"by chart": {"- {name: web, namespace: web, kubeContext: a, chart: ./charts/web}\n- {name: web, namespace: web, kubeContext: b, chart: oci://example.com/web, version: 1.0.0, kubeVersion: 1.30.0}\n" + end, "web chart"},
		"by name": {"- {name: Web, namespace: web, kubeContext: b, chart: ./charts/web, kubeVersion: 1.30.0}\n" +
			end, "Web name"},
		"by version": {end + "- {name: web, namespace: web, kubeContext: b, chart: ./charts/web, kubeVersion: 1.30.0}\n", "web kubeVersion, apiVersions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := convert(t, repo(), state("prod", "releases:\n"+c.releases))
			if err != nil {
				t.Fatal(err)
			}
			if text := string(result.Files["clusters/b.yaml"]); !strings.Contains(text, "kubeVersion: 1.33.2") {
				t.Errorf("the cluster has not the version of db:\n%s", text)
			}
			if name == "by chart" == (result.Files["apps/web/app.yaml"] == nil) || !slices.Contains(result.Apps, "db") {
				t.Errorf("apps %v", result.Apps)
			}
			var got []string
			for _, f := range result.Findings {
				if f.Effect == LeftOut || f.Field == "kubeVersion, apiVersions" {
					got = append(got, f.Release+" "+f.Field)
				}
			}
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values([]string{
				c.leftOut,
				"api kubeVersion, apiVersions",
			}))) {
				t.Errorf("findings of %v, want %s left out, and api without versions: %+v", got, c.leftOut,
					result.Findings)
			}
		})
	}
}
