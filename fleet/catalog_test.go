package fleet_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/fleet"
)

const postgres3 = `apiVersion: sluice.dev/v1alpha1
kind: CatalogApp
metadata: {name: postgres}
spec:
  version: 3
  description: A database.
  parameters:
    required: [size]
    properties:
      size: {type: string, enum: [small, large], description: How much it holds.}
      backup:
        type: object
        properties: {hour: {type: integer, default: 3}, keep: {type: integer}}
        default: {}
  source: {helm: {path: charts/web}}
  vars: {owner: team-data}
`

// withCatalog is the tree of the examples with a catalog, and an app that is taken from it.
func withCatalog(from string, more map[string]string) fstest.MapFS {
	out := tree()
	files := map[string]string{
		"catalog/postgres/3/catalog.yaml":              postgres3,
		"catalog/postgres/3/layers/global/values.yaml": "size: ${app.vars.size}\n",
		"catalog/postgres/2/catalog.yaml": strings.NewReplacer("version: 3", "version: 2\n  deprecated: take 3", "owner: team-data",
			"old: true").Replace(postgres3),
		"apps/db/app.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: db}\nspec:\n  namespace: shop\n  placement: {}\n" +
			"  from: " + from + "\n",
		"apps/db/layers/region/europe/values.yaml": "size: own\n",
	}
	maps.Copy(files, more)
	for name, text := range files {
		if text == "" {
			delete(out, name)
			continue
		}
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	f, problems := fleet.Load(t.Context(), withCatalog("{catalog: postgres, version: 3, values: {size: large, backup: {keep: 2}}}", nil), nil)
	if f == nil {
		t.Fatal(problems)
	}
	app, _ := f.App("db")
	if app.From() == nil || app.From().Version() != "3" || app.From().Spec.Description != "A database." {
		t.Fatalf("%+v", app.From())
	}
	if got := fmt.Sprint(app.Spec.Vars); got != "map[backup:map[hour:3 keep:2] owner:team-data size:large]" {
		t.Errorf("the variables are %s", got)
	}
	cluster, _ := f.Cluster("eu")
	s, err := f.Select(fleet.Target{App: app, Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, v := range s.Values {
		files = append(files, v.Path)
	}
	want := []string{"catalog/postgres/3/layers/global/values.yaml", "apps/db/layers/region/europe/values.yaml"}
	if s.Sources[0].Helm.Path != "charts/web" || s.Sources[0].Helm.ReleaseName != "db" || !slices.Equal(files, want) {
		t.Errorf("%+v, values %v", s.Sources[0].Helm, files)
	}
	if len(f.Catalog) != 2 || f.Catalog[0].Version() != "2" {
		t.Errorf("the catalog is %+v", f.Catalog)
	}
	parameters := app.From().Parameters()
	if len(parameters) != 2 || !parameters[1].Required || len(parameters[1].Allowed) != 2 {
		t.Errorf("%+v", parameters)
	}
}

func TestCatalogMistakes(t *testing.T) {
	t.Parallel()
	const good = "{catalog: postgres, version: 3, values: {size: large}}"
	for name, test := range map[string]struct {
		from, want string
		more       map[string]string
	}{
		"value":         {from: "{catalog: postgres, version: 3, values: {size: huge}}", want: "apps/db/app.yaml:7:56: error: values.size of postgres 3: value must be one of 'small', 'large'"},
		"missing":       {from: "{catalog: postgres, version: 3}", want: "missing property 'size'"},
		"unknown value": {from: "{catalog: postgres, version: 3, values: {size: small, sise: 1}}", want: "additional properties 'sise' not allowed"},
		"inner":         {from: "{catalog: postgres, version: 3, values: {size: small, backup: {hour: x}}}", want: "values.backup.hour of postgres 3: got string, want integer"},
		"version":       {from: "{catalog: postgres, version: 4, values: {}}", want: "the catalog has no version 4 of postgres (one of 2, 3)"},
		"name":          {from: "{catalog: postgre, version: 3}", want: `the catalog has no postgre, did you mean postgres?`},
		"deprecated":    {from: "{catalog: postgres, version: 2, values: {size: small}}", want: "version 2 of postgres is deprecated: take 3"},
		"own source":    {from: good + "\n  source: {helm: {path: charts/web}}", want: "the app has both from and a source of its own"},
		"its variable":  {from: good + "\n  vars: {owner: me}", want: "postgres of the catalog has the variable owner, too"},
		"twice": {from: good, want: "version 3 of postgres is also in", more: map[string]string{
			"catalog/postgres/3/catalog.yaml": postgres3 + "---\n" + postgres3,
		}},
		"no source": {from: good, want: "the app has no source", more: map[string]string{
			"catalog/postgres/3/catalog.yaml": strings.Replace(postgres3, "  source: {helm: {path: charts/web}}\n", "", 1),
		}},
		"place by an app": {from: good, want: "the place of a source of the catalog cannot have references", more: map[string]string{
			"catalog/postgres/3/catalog.yaml": strings.Replace(postgres3, "charts/web", "'charts/${app.vars.size}'", 1),
		}},
		"another document": {from: good, want: "the schema has $ref: write everything in place", more: map[string]string{
			"catalog/postgres/3/catalog.yaml": strings.Replace(postgres3, "enum: [small, large]", "$ref: 'https://example.com/a.json'", 1),
		}},
		"no schema": {from: good, want: "the type of parameters is object", more: map[string]string{
			"catalog/postgres/3/catalog.yaml": strings.Replace(postgres3, "    required: [size]\n", "    type: array\n", 1),
		}},
		"large pattern": {from: good, want: "the patterns of the schema have more than 20000 steps", more: map[string]string{
			"catalog/postgres/3/catalog.yaml": strings.Replace(postgres3, "enum: [small, large]", "pattern: '(abcdefghij){999}(abcdefghij){999}'", 1),
		}},
		"large schema": {from: good, want: "bytes as JSON, more than 16384", more: map[string]string{
			"catalog/postgres/3/catalog.yaml": strings.Replace(postgres3, "How much it holds.", strings.Repeat("x", 17000), 1),
		}},
		"large values": {from: "{catalog: postgres, version: 3, values: {size: " + strings.Repeat("x", 17000) + "}}", want: "bytes as JSON, more than 16384"},
		"wrong default": {from: good, want: "the default of backup.hour: got string, want integer", more: map[string]string{
			"catalog/postgres/3/catalog.yaml": strings.Replace(postgres3, "default: {}", "default: {hour: x}", 1),
		}},
		"a reference": {from: "{catalog: postgres, version: 3, values: {size: small, backup: {hour: \"${cluster.vars.hour}\"}}}", want: "the values of postgres have the reference ${cluster.vars.hour}, which is not replaced there"},
		"another folder": {from: good, want: "version 4 of redis belongs into catalog/redis/4/catalog.yaml", more: map[string]string{
			"catalog/cache/4/catalog.yaml": strings.NewReplacer("version: 3", "version: 4", "postgres", "redis").Replace(postgres3),
		}},
		"a file beside": {from: good, want: "catalog/redis/catalog.yaml is not read", more: map[string]string{
			"catalog/redis/catalog.yaml": postgres3,
		}},
		"another kind": {from: good, want: "only CatalogApp belongs here", more: map[string]string{
			"catalog/web/1/catalog.yaml": string(tree()["apps/web/app.yaml"].Data),
		}},
	} {
		_, problems := fleet.Load(context.Background(), withCatalog(test.from, test.more), nil)
		if got := fmt.Sprint([]fleet.Problem(problems)); !strings.Contains(got, test.want) {
			t.Errorf("%s: %s\nwant %s", name, got, test.want)
		}
	}
}

// A change of a version's files touches the apps that are taken from it, and no others.
func TestCatalogAffected(t *testing.T) {
	t.Parallel()
	const from = "{catalog: postgres, version: 3, values: {size: large}}"
	base, problems := fleet.Load(t.Context(), withCatalog(from, nil), nil)
	if base == nil {
		t.Fatal(problems)
	}
	for name, test := range map[string]struct {
		file, text, from string
		want             int
		claim            fleet.Claim
	}{
		"values":             {file: "catalog/postgres/3/layers/global/values.yaml", text: "size: x\n", want: 2, claim: fleet.ClaimedByTarget},
		"values of a region": {file: "catalog/postgres/3/layers/region/europe/values.yaml", text: "size: x\n", want: 1, claim: fleet.ClaimedByTarget},
		"variables":          {file: "catalog/postgres/3/catalog.yaml", text: strings.Replace(postgres3, "team-data", "me", 1), want: 2, claim: fleet.ClaimedByDeclaration},
		"source":             {file: "catalog/postgres/3/catalog.yaml", text: strings.Replace(postgres3, "path: charts/web", "path: charts/other", 1), want: 2, claim: fleet.ClaimedByDeclaration},
		"a description":      {file: "catalog/postgres/3/catalog.yaml", text: strings.Replace(postgres3, "A database.", "Data.", 1), want: 0, claim: fleet.ClaimedByDeclaration},
		"other version":      {file: "catalog/postgres/2/catalog.yaml", text: strings.Replace(postgres3, "version: 3", "version: 2", 1), want: 0, claim: fleet.ClaimedByDeclaration},
	} {
		head, problems := fleet.Load(t.Context(), withCatalog(from, map[string]string{test.file: test.text}), nil)
		if head == nil {
			t.Fatal(name, problems)
		}
		reach := func(_ *fleet.Fleet, s fleet.Source) []string { return []string{s.Path()} }
		got := fleet.Affected(base, head, []string{test.file}, reach)
		got = slices.DeleteFunc(got, func(a fleet.AffectedTarget) bool { return a.App != "db" })
		if len(got) != test.want {
			t.Errorf("%s: %v", name, got)
		}
		if claim := fleet.Claims(base, head, []string{test.file}, reach)[test.file]; claim != test.claim {
			t.Errorf("%s is claimed by %q", name, claim)
		}
	}
}

// An app of a workspace may be made of what the catalog has, and of nothing else outside its folder.
func TestCatalogOfWorkspace(t *testing.T) {
	t.Parallel()
	tree := withCatalog("{catalog: postgres, version: 3, values: {size: large}}", map[string]string{
		"workspaces/team.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Workspace\nmetadata: {name: team}\n" +
			"spec: {clusters: {}, namespaces: [team], sources: {charts: [oci://example.com/x]}}\n",
		"workspaces/team/apps/db/app.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: db}\n" +
			"spec: {namespace: team, placement: {}, from: {catalog: postgres, version: 3, values: {size: small}}}\n",
		"workspaces/team/apps/bad/app.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: bad}\n" +
			"spec: {namespace: team, placement: {}, source: {helm: {path: charts/web}}}\n",
	})
	f, problems := fleet.Load(t.Context(), tree, nil)
	if f == nil {
		t.Fatal(problems)
	}
	app, _ := f.App("team/db")
	cluster, _ := f.Cluster("us")
	target := fleet.Target{App: app, Cluster: cluster}
	s, err := f.Select(target)
	if err != nil || s.Sources[0].Helm.Path != "charts/web" || s.Sources[0].Helm.ReleaseName != "db" || len(s.Values) != 1 {
		t.Fatalf("%v: %+v with %v", err, s.Sources, s.Values)
	}
	for name, want := range map[string]bool{
		"charts/web/Chart.yaml": true, "catalog/postgres/3/catalog.yaml": true, "catalog/postgres/2/catalog.yaml": false,
		"charts/webx/Chart.yaml": false, "sluice.yaml": false, "workspaces/team/apps/db/app.yaml": true,
	} {
		if got := target.MayRead(name); got != want {
			t.Errorf("it may read %s: %v", name, got)
		}
	}
	other, _ := f.App("team/bad")
	if s, err := f.Select(fleet.Target{App: other, Cluster: cluster}); err != nil || s.Sources[0].Helm.Path != "workspaces/team/charts/web" {
		t.Errorf("%v: %+v", err, s.Sources)
	}
}
