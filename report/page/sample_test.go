package page_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {helm.sh/chart: web-1.0.0, app: web}}
spec:
  minReadySeconds: 5
  progressDeadlineSeconds: 600
  replicas: 2
  revisionHistoryLimit: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {checksum/config: aaa}}
    spec:
      automountServiceAccountToken: false
      containers:
        - name: web
          image: registry.example.com/shop/web:1.2.0@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
          args: [--listen=:8080, --log-level=info, --shutdown-grace=20s]
          env:
            - {name: DATABASE_URL, value: "postgres://db.shop.svc:5432/shop?sslmode=verify-full&pool=10"}
            - {name: CURRENCY, value: EUR}
          ports: [{name: web, containerPort: 8080}]
          resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
        - name: metrics
          image: registry.example.com/shop/exporter:0.9.1
      securityContext: {runAsNonRoot: true}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web-settings, namespace: shop}
data:
  cache.ttl: 60s
  feature.checkout: "false"
  feature.search: "true"
  log.format: json
  log.level: info
  region: ${REGION}
  upstream: http://catalog.shop.svc
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, labels: {helm.sh/chart: web-1.0.0}}
spec: {ports: [{name: web, port: 80, targetPort: web}], selector: {app: web}}
`

const operator = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: backup-operator}
rules:
  - {apiGroups: [''], resources: [pods, persistentvolumeclaims], verbs: [get, list, watch]}
  - {apiGroups: [apps], resources: [statefulsets], verbs: [get, list, watch, patch]}
  - {apiGroups: [batch], resources: [jobs], verbs: [get, list, create, delete]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: backup-store, namespace: backup}
spec:
  replicas: 1
  serviceName: backup-store
  selector: {matchLabels: {app: backup-store}}
  template:
    metadata: {labels: {app: backup-store}}
    spec: {containers: [{name: store, image: "registry.example.com/backup/store:3.1.0"}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: archive, namespace: backup}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 200Gi}}}
`

// objects decodes a YAML stream, with its canonical text as keys.
func objects(tb testing.TB, text string) []diff.Object {
	tb.Helper()
	list, err := manifest.Decode([]byte(text), manifest.DefaultBudget())
	if err != nil {
		tb.Fatal(err)
	}
	out := make([]diff.Object, len(list))
	for i, o := range list {
		data, err := manifest.Encode(o)
		if err != nil {
			tb.Fatal(err)
		}
		out[i] = diff.Object{Key: string(data), Object: o}
	}
	return out
}

// placed is a fleet that has every app on the clusters of some targets.
type placed []diff.Target

func (p placed) Placed(string) []diff.Cluster {
	var out []diff.Cluster
	seen := map[string]bool{}
	for i := range p {
		if c := p[i].Cluster; !seen[c] {
			seen[c] = true
			out = append(out, diff.Cluster{Name: c, Environment: p[i].Environment})
		}
	}
	return out
}

// fleetReview is a review as a fleet sees it: a release, a risky change of an operator, one label on many objects.
func fleetReview(tb testing.TB) *report.Review {
	tb.Helper()
	counts := map[string]int{"dev": 2, "staging": 6, "prod": 40}
	var targets []diff.Target
	add := func(app, before, after string) {
		for _, env := range []string{"dev", "staging", "prod"} {
			for i := range counts[env] {
				region := []string{"eu-west", "us-east", "ap-south"}[i%3]
				fill := strings.NewReplacer("${REGION}", region)
				targets = append(targets, diff.Target{
					App: app, Cluster: fmt.Sprintf("%s-%s-%02d", env, region, i), Environment: env,
					Sync:   diff.SyncArgoCD,
					Facts:  func() map[string]string { return map[string]string{"cluster.labels.region": region} },
					Before: objects(tb, fill.Replace(before)), After: objects(tb, fill.Replace(after)),
				})
			}
		}
	}
	add("web", web, strings.NewReplacer("web:1.2.0@sha256:0123456789ab", "web:1.3.0@sha256:fedcba987654", "web-1.0.0",
		"web-1.1.0", "aaa", "bbb",
		"log-level=info", "log-level=debug", "replicas: 2", "replicas: 3", "cache.ttl: 60s", "cache.ttl: 90s",
		"pool=10", "pool=25", `feature.checkout: "false"`, `feature.checkout: "true"`,
		"upstream: http://catalog.shop.svc", "upstream: http://catalog.${REGION}.shop.svc").Replace(web))
	add("backup-operator", operator, strings.NewReplacer("[pods, persistentvolumeclaims], verbs: [get, list, watch]",
		"[pods, persistentvolumeclaims, secrets], verbs: [get, list, watch, delete]",
		"verbs: [get, list, watch, patch]", "verbs: [get, list, watch]", "serviceName: backup-store",
		"serviceName: store", "store:3.1.0", "store:3.2.0", "storage: 200Gi", "storage: 100Gi").Replace(operator))
	var labels, labelled strings.Builder
	for i := range 9 {
		fmt.Fprintf(&labels, "---\napiVersion: v1\nkind: Service\nmetadata: {name: gateway-%d, namespace: edge, labels: {tier: edge}}\nspec: {selector: {app: gateway-%d}}\n", i, i)
		fmt.Fprintf(&labelled, "---\napiVersion: v1\nkind: Service\nmetadata: {name: gateway-%d, namespace: edge, labels: {tier: edge, team: traffic}}\nspec: {selector: {app: gateway-%d}}\n", i, i)
	}
	add("gateway", labels.String(), labelled.String()+
		"---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: gateway, namespace: edge}\nspec: {podSelector: {matchLabels: {tier: edge}}, policyTypes: [Ingress, Egress]}\n")
	withheld := []diff.Withheld{{
		App: "search", Cluster: "prod-eu-west-00", Environment: "prod",
		Message: "apps/search/layers/region/eu-west/values.yaml:12: ${cluster.vars.shards} is not set for this cluster; set it in clusters/ or write ${cluster.vars.shards:=3}",
	}}
	r := &report.Review{
		Fleet: "acme", Base: strings.Repeat("0123456789", 4), Head: strings.Repeat("fedcba9876", 4), Version: "v0.4.0",
		Verdict: report.VerdictFail,
		MergeRequest: report.MergeRequest{
			Number: 42, Title: "Release the shop and move backups",
			URL: "https://git.example.com/acme/fleet/pull/42", Forge: "github",
		},
		Changes: diff.Compare(targets, withheld, []string{"dev", "staging", "prod"}, placed(targets)),
	}
	deployment := manifest.Identity{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	for _, env := range []string{"dev", "staging", "prod"} {
		var names []string
		for i := range counts[env] {
			names = append(names, fmt.Sprintf("%s-%02d", env, i))
		}
		r.Findings.Introduced = append(r.Findings.Introduced, report.Finding{
			Rule: "image-tag", Severity: report.SeverityWarning,
			Message: "the image registry.example.com/shop/exporter:0.9.1 has no digest",
			Hint:    "pin the image by digest",
			Path:    "spec.template.spec.containers[name=metrics].image", Object: deployment, App: "web", Environment: env,
			Clusters: names, Docs: "https://sluice.example.com/policy/image-tag",
		})
	}
	r.Findings.Introduced = append(r.Findings.Introduced, report.Finding{
		Rule: "no-secret-access", Severity: report.SeverityError,
		Message: "a ClusterRole must not read Secrets in all namespaces",
		Hint:    "use a Role in the namespace, or ask for an exemption in policy/exemptions.yaml",
		Object:  manifest.Identity{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "backup-operator"},
		App:     "backup-operator", Environment: "prod", Clusters: []string{"prod-eu-west-00"},
		File: "apps/backup-operator/app.yaml", Line: 7,
	})
	r.Findings.Existing = map[report.Severity]int{report.SeverityWarning: 17}
	r.Warnings = []string{"clusters/prod.yaml:31: the label tier is not used by any app"}
	return r
}

// many makes n changes of one object each, in groups of size objects. One in a thousand has a caution.
func many(n, size int, text string) *report.Review {
	c := &diff.ChangeSet{}
	apps := map[string]*diff.App{}
	for i := range n / size {
		name := fmt.Sprintf("app-%d", i%97)
		g := diff.Group{
			ID: fmt.Sprintf("id%d", i), App: name, Clusters: []string{fmt.Sprintf("eu-%d", i%50)},
			Risk: diff.RiskMedium, Summary: "replicas " + text, Example: "eu-1",
			Environments: []string{[]string{"dev", "prod"}[i%2]},
			Where: []diff.Reach{{
				Environment: []string{"dev", "prod"}[i%2], Pattern: fmt.Sprintf("prod/eu-%d", i%50),
				Clusters: 1,
			}},
		}
		for k := range size {
			id := manifest.Identity{
				Group: "apps", Kind: []string{"Deployment", "Service"}[(i+k)%2], Namespace: "shop",
				Name: fmt.Sprintf("web-%d", i*size+k),
			}
			lines := []string{
				" spec:", "   progressDeadlineSeconds: 600", "   revisionHistoryLimit: 10",
				"-  replicas: 1", fmt.Sprintf("+  replicas: %d", 2+i*size+k), "   selector:", "     matchLabels:",
				"       app: " + id.Name + text,
			}
			g.Objects = append(g.Objects, diff.ObjectChange{
				Verb: diff.Changed, ID: id, APIVersion: "apps/v1", Risk: diff.RiskMedium,
				Fields: []diff.FieldChange{{Path: "spec.replicas", Old: 1, New: i*size + k, Had: true, Has: true}},
				Hunks:  []diff.Hunk{{Path: "spec", OldStart: 11, NewStart: 11, Lines: lines}}, Lines: len(lines),
				Context: strings.Split(strings.Repeat("line: of the object before\n", 40), "\n"),
			})
			if (i*size+k)%1000 == 700 {
				g.Objects[k].Effects = []diff.Effect{{
					Name: diff.EffectImmutable, Risk: diff.RiskHigh,
					Message: "the cluster refuses the new selector",
				}}
			}
			g.Counts.Changed++
		}
		c.Groups = append(c.Groups, g)
		if apps[name] == nil {
			apps[name] = &diff.App{Name: name, Risk: diff.RiskMedium}
		}
	}
	for i := range 97 {
		if a := apps[fmt.Sprintf("app-%d", i)]; a != nil {
			c.Apps = append(c.Apps, *a)
		}
	}
	return &report.Review{
		Fleet: "acme", Base: strings.Repeat("a", 40), Head: strings.Repeat("b", 40), Version: "v1",
		Changes: c, Verdict: report.VerdictPass,
	}
}

// hostileReview puts a text into every place of a review.
func hostileReview(tb testing.TB, text string) *report.Review {
	tb.Helper()
	r := fleetReview(tb)
	r.Fleet, r.Version, r.Against, r.MergeRequest.Title, r.MergeRequest.URL = text, text, text, text,
		"https://x.example/"+text
	r.Errors, r.Warnings, r.Findings.Notes = []string{"e " + text}, []string{"w " + text}, []string{"n " + text}
	for i := range r.Changes.Groups {
		g := &r.Changes.Groups[i]
		g.Summary, g.Varies = "s "+text, []string{text}
		for j := range g.Objects {
			o := &g.Objects[j]
			o.ID.Kind = "K" + text
			for k := range o.Hunks {
				o.Hunks[k].Path = "p" + text
				for l := range o.Hunks[k].Lines {
					o.Hunks[k].Lines[l] = o.Hunks[k].Lines[l][:1] + text
				}
			}
			for k := range o.Images {
				o.Images[k].New = "n" + text
			}
			for k := range o.Rights {
				o.Rights[k].Verb = "v" + text
			}
			for k := range o.Effects {
				o.Effects[k].Message = "m " + text
			}
		}
	}
	for i := range r.Findings.Introduced {
		f := &r.Findings.Introduced[i]
		f.Rule, f.Message, f.Hint, f.Docs = "r"+text, "m "+text, "h "+text, ""
	}
	return r
}
