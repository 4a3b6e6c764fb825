package fleet_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// A label that no cluster has is an error at its place, with the name that was probably meant, unless it is optional.
func TestLabelsThatNoClusterHas(t *testing.T) {
	t.Parallel()
	placed := func(placement string) map[string]string {
		files := fleettest.Small()
		files["apps/web/app.yaml"] = fleettest.Base + "kind: App\nmetadata: {name: web}\nspec:\n  namespace: web\n" +
			"  placement: " + placement + "\n  source: {helm: {path: charts/web}}\n"
		return files
	}
	edited := func(file, before, after string) map[string]string {
		files := fleettest.Small()
		text := strings.Replace(files[file], before, after, 1)
		if text == files[file] {
			t.Fatalf("%s does not contain %q", file, before)
		}
		files[file] = text
		return files
	}
	promotion := func(text string) map[string]string {
		return edited("sluice.yaml", "after: [dev]}", "after: [dev], promotion: {"+text+"}}")
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string // "" for no error
	}{
		"key":                {placed("{matchLabels: {regoin: eu}}"), "apps/web/app.yaml:6:37: error: no cluster has the label regoin, did you mean region?"},
		"value":              {placed("{matchLabels: {region: eus}}"), "apps/web/app.yaml:6:37: error: no cluster has the label region=eus, did you mean region=eu?"},
		"nothing similar":    {placed("{matchLabels: {flavour: x}}"), "no cluster has the label flavour (correct it"},
		"expression":         {placed("{matchExpressions: [{key: regoin, operator: In, values: [eu]}]}"), "no cluster has the label regoin, did you mean region?"},
		"exists":             {placed("{matchExpressions: [{key: regoin, operator: Exists}]}"), "no cluster has the label regoin"},
		"negative":           {placed("{matchExpressions: [{key: regoin, operator: NotIn, values: [eu]}]}"), "no cluster has the label regoin"},
		"value of many":      {placed("{matchExpressions: [{key: region, operator: In, values: [eu, su]}]}"), "no cluster has the label region=su, did you mean region="},
		"class":              {placed("{matchLabels: {class: egde}}"), "did you mean class=edge?"},
		"cluster":            {placed("{matchLabels: {cluster: c}}"), "no cluster has the label cluster=c"},
		"environment":        {placed("{matchLabels: {environment: prd}}"), "did you mean environment=prod?"},
		"layer":              {edited("sluice.yaml", "region", "regoin"), "sluice.yaml:5:32: error: no cluster has the label regoin, did you mean region?"},
		"wave":               {promotion("waves: [{name: a, clusters: {matchLabels: {regoin: eu}}}]"), "no cluster has the label regoin"},
		"avoidTogether":      {promotion("avoidTogether: [regoin]"), "no cluster has the label regoin, did you mean region? (correct it, give the label to a cluster or a class, or remove it)"},
		"optional":           {placed("{optional: true, matchLabels: {regoin: eu}}"), ""},
		"optional value":     {placed("{optional: true, matchLabels: {region: ue}}"), ""},
		"optional condition": {placed("{matchExpressions: [{key: skip, operator: DoesNotExist, optional: true}]}"), ""},
		"optional layer":     {edited("sluice.yaml", "region", "{name: regoin, optional: true}"), ""},
		"unused class":       {placed("{matchLabels: {tier: low}}"), ""},
		"no cluster at all":  {placed("{matchLabels: {region: eu, environment: prod}}"), ""},
		"retired cluster":    {edited("clusters/a.yaml", "environment: dev", "state: retired, environment: dev"), ""},
		"layer of templates": {edited("sluice.yaml", "region", "{name: anything, values: [\"env/${cluster.labels.region}.yaml\"]}"), ""},
		"cause": {
			edited("clusters/b.yaml", "labels: {region: us}", "lables: {region: us}"),
			"clusters/b.yaml:3:21: error: unknown key metadata.lables, did you mean labels?",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := fleet.Load(t.Context(), fleettest.NewTree(c.files), nil)
			got := problems.Error()
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the errors are %q, want %q", got, c.want)
			}
			if strings.Count(got, "\n") > 0 {
				t.Errorf("want one error, got %q", got)
			}
		})
	}
}

// A pattern of clusters that matches nothing is an error, which names what it was probably meant to match.
func TestNoClusterFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, want string }{
		{"", "sluice.yaml: error: no file matches clusters/*.yaml (add one, or set spec.files.clusters)"},
		{"cluster/a.yaml", "(rename the folder cluster to clusters)"},
		{"clusters/a.yml", "(rename clusters/a.yml to a.yaml)"},
	} {
		files := fleettest.Small()
		text := files["clusters/a.yaml"]
		delete(files, "clusters/a.yaml")
		delete(files, "clusters/b.yaml")
		delete(files, "clusters/classes.yaml")
		files["apps/web/app.yaml"] = strings.Replace(files["apps/web/app.yaml"], "placement: {}",
			"placement: {matchLabels: {region: eu}}", 1)
		if c.file != "" {
			files[c.file] = text
		}
		_, problems := fleet.Load(t.Context(), fleettest.NewTree(files), nil)
		if got := problems.Error(); !strings.Contains(got, c.want) || strings.Count(got, "\n") > 0 {
			t.Errorf("with %q: the errors are %q, want only %q", c.file, got, c.want)
		}
	}
}
