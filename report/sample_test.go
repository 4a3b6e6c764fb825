package report_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
)

func clusters(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%03d", prefix, i+1)
	}
	return out
}

// review is one of nothing, with all that frames it.
func review() *report.Review {
	return &report.Review{
		Fleet: "acme", Repository: "acme/fleet", MergeRequest: report.MergeRequest{
			Number: 42,
			URL:    "https://git.example.com/acme/fleet/pull/42", Forge: "github",
		},
		Base: strings.Repeat("0123456789", 4), Head: strings.Repeat("fedcba9876", 4), Version: "v0.3.0",
		Verdict: report.VerdictPass,
		Changes: &diff.ChangeSet{Compared: 354},
		Links: report.Links{
			Full: "https://git.example.com/acme/fleet/compare/a...b", HTML: "https://ci.example.com/1/report.html",
			Base: "https://git.example.com/acme/fleet/commit/0123456789", Docs: "https://sluice.example.com/policy",
		},
		Marker: &report.MarkerInfo{ID: "acme", Head: strings.Repeat("fedcba9876", 4)},
	}
}

func deployment(app, path string, lines ...string) diff.ObjectChange {
	return diff.ObjectChange{
		Verb: diff.Changed, ID: manifest.Identity{Group: "apps", Kind: "Deployment", Namespace: app, Name: app},
		APIVersion: "apps/v1",
		Risk:       diff.RiskMedium, Rolls: true, Lines: len(lines),
		Effects: []diff.Effect{{
			Name: diff.EffectRolls, Risk: diff.RiskMedium, Message: "its pods are replaced",
			Path: "spec.template",
		}},
		Fields: []diff.FieldChange{{Path: path, Old: "a", New: "b", Had: true, Has: true}},
		Hunks:  []diff.Hunk{{Path: path, OldStart: 12, NewStart: 12, Lines: lines}},
	}
}

func imageChange(app, old, now string) diff.ObjectChange {
	o := deployment(app, "spec.template.spec.containers[name="+app+"].image",
		"       containers:", "       - name: "+app, "-        image: registry.example.com/"+app+":"+old,
		"+        image: registry.example.com/"+app+":"+now, "         ports:")
	o.Images = []diff.Image{{
		Container: app, Old: "registry.example.com/" + app + ":" + old,
		New: "registry.example.com/" + app + ":" + now,
	}}
	o.Fields = []diff.FieldChange{{
		Path: "spec.template.spec.containers[name=" + app + "].image", Old: o.Images[0].Old,
		New: o.Images[0].New, Had: true, Has: true,
	}}
	o.Hunks[0].Path = "spec.template.spec.containers[" + app + "]"
	o.Effects = append(o.Effects, diff.Effect{
		Name: diff.EffectImage, Risk: diff.RiskMedium,
		Message: "1 images change",
	})
	return o
}

func configMap(app, name, key, old, now string) diff.ObjectChange {
	return diff.ObjectChange{
		Verb: diff.Changed, ID: manifest.Identity{Kind: "ConfigMap", Namespace: app, Name: name}, APIVersion: "v1",
		Risk: diff.RiskLow, Lines: 3,
		Fields: []diff.FieldChange{{Path: "data." + key, Old: old, New: now, Had: true, Has: true}},
		Hunks: []diff.Hunk{{
			Path: "data", OldStart: 3, NewStart: 3,
			Lines: []string{" data:", "-  " + key + ": " + old, "+  " + key + ": " + now},
		}},
	}
}

func whole(verb diff.Verb, risk diff.Risk, id manifest.Identity, effects ...diff.Effect) diff.ObjectChange {
	mark := map[diff.Verb]string{diff.Added: "+", diff.Removed: "-"}[verb]
	lines := []string{mark + "apiVersion: v1", mark + "kind: " + id.Kind, mark + "metadata:", mark + "  name: " +
		id.Name}
	return diff.ObjectChange{
		Verb: verb, ID: id, APIVersion: "v1", Risk: risk, Effects: effects, Lines: len(lines),
		Hunks: []diff.Hunk{{OldStart: 1, Lines: lines}},
	}
}

func noise(app string, rolls bool) diff.ObjectChange {
	o := diff.ObjectChange{
		Verb: diff.Changed, ID: manifest.Identity{Group: "apps", Kind: "Deployment", Namespace: app, Name: app},
		Risk: diff.RiskNone, Rolls: rolls,
		Noise: []diff.FieldChange{{
			Path: `metadata.labels["helm.sh/chart"]`, Old: "web-1.0.0", New: "web-1.0.1",
			Had: true, Has: true,
		}},
	}
	if rolls {
		o.Risk = diff.RiskMedium
	}
	return o
}

func group(app string, names []string, where []diff.Reach, summary string, objects ...diff.ObjectChange) diff.Group {
	g := diff.Group{
		ID: fmt.Sprintf("%s-%s-%d", app, names[0], len(objects)), App: app, Clusters: names, Where: where,
		Objects: objects,
		Risk:    diff.RiskNone, Example: names[0], Summary: summary,
	}
	for i := range objects {
		o := &objects[i]
		switch {
		case o.Verb == diff.Added:
			g.Counts.Added++
		case o.Verb == diff.Removed:
			g.Counts.Removed++
			if o.Orphaned() {
				g.Counts.Orphaned++
			}
		case o.OnlyNoise():
			g.Counts.Noise++
		default:
			g.Counts.Changed++
		}
		if o.Rolls {
			g.Counts.Workloads++
		}
		if o.Risk.Rank() < g.Risk.Rank() {
			g.Risk = o.Risk
		}
	}
	return g
}

// set makes a change set of groups, as the comparison would.
func set(groups ...diff.Group) *diff.ChangeSet {
	slices.SortStableFunc(groups, func(a, b diff.Group) int { return a.Risk.Rank() - b.Risk.Rank() })
	out := &diff.ChangeSet{Groups: groups, Compared: 354}
	at := map[string]int{}
	for _, g := range groups {
		i, ok := at[g.App]
		if !ok {
			i = len(out.Apps)
			at[g.App] = i
			out.Apps = append(out.Apps, diff.App{Name: g.App, Risk: g.Risk, Summary: g.Summary})
		}
		a := &out.Apps[i]
		a.Groups++
		a.Clusters += len(g.Clusters)
		a.Where = append(a.Where, g.Where...)
		a.Counts.Add(g.Counts, len(g.Clusters))
		out.Totals.Add(g.Counts, len(g.Clusters))
	}
	return out
}

func everywhere() ([]string, []diff.Reach) {
	return append(clusters("eu", 80), clusters("st", 40)...), []diff.Reach{
		{Environment: "prod", Pattern: "prod/*", Clusters: 80}, {
			Environment: "staging", Pattern: "staging/*",
			Clusters: 40,
		},
	}
}

func oneTarget() *report.Review {
	r := review()
	r.Changes = set(group("web", []string{"eu-1a"}, []diff.Reach{{
		Environment: "prod", Pattern: "prod/eu-1a",
		Clusters: 1,
	}},
		"web 1.2.0 → 1.3.0; rolls 1 workload", imageChange("web", "1.2.0", "1.3.0")))
	r.Changes.Compared = 1
	return r
}

func threeApps() *report.Review {
	r := review()
	r.Verdict = report.VerdictCaution
	all, where := everywhere()
	web := group("web", all, where, "web 1.2.0 → 1.3.0; rolls 1 workload", imageChange("web", "1.2.0", "1.3.0"),
		configMap("web", "settings", "LOG_LEVEL", "info", "debug"))
	web.Varies = []string{"cluster.vars.domain"}
	db := diff.ObjectChange{
		Verb: diff.Changed, ID: manifest.Identity{Group: "apps", Kind: "StatefulSet", Namespace: "db", Name: "pg"},
		Risk: diff.RiskCritical, Lines: 3,
		Effects: []diff.Effect{{
			Name: diff.EffectImmutable, Risk: diff.RiskCritical, Path: "spec.serviceName",
			Message: "spec.serviceName: the API server refuses to change it: delete and make the object anew",
		}},
		Fields: []diff.FieldChange{{Path: "spec.serviceName", Old: "pg", New: "postgres", Had: true, Has: true}},
		Hunks: []diff.Hunk{{
			Path: "spec", OldStart: 9, NewStart: 9,
			Lines: []string{"   replicas: 3", "-  serviceName: pg", "+  serviceName: postgres"},
		}},
	}
	role := whole(diff.Added, diff.RiskHigh, manifest.Identity{
		Group: "rbac.authorization.k8s.io", Kind: "ClusterRole",
		Name: "agent",
	},
		diff.Effect{
			Name: diff.EffectRBACWidened, Risk: diff.RiskHigh,
			Message: "may get, list secrets in every namespace",
		})
	r.Changes = set(
		web,
		group("db", all[:80], where[:1], "StatefulSet db/pg: spec.serviceName: the API server refuses to change it", db,
			noise("db-exporter", true)),
		group("agent", all, where, "2 objects added, 1 removed", role,
			whole(diff.Added, diff.RiskMedium, manifest.Identity{
				Kind: "ServiceAccount", Namespace: "agent",
				Name: "agent",
			}),
			whole(diff.Removed, diff.RiskHigh, manifest.Identity{
				Kind: "ConfigMap", Namespace: "agent",
				Name: "legacy",
			})),
	)
	r.Since = &report.Delta{
		Commit: strings.Repeat("a1b2c3d4e5", 4), New: []string{r.Changes.Groups[0].ID},
		Gone: []string{"x"},
	}
	r.Findings = report.Findings{
		Introduced: []report.Finding{{
			Rule: "image-tag", Severity: report.SeverityWarning,
			Message: "image registry.example.com/web:1.3.0 has no digest",
			Hint:    "pin it: registry.example.com/web:1.3.0@sha256:…",
			Path:    "spec.template.spec.containers[name=web].image",
			Object:  manifest.Identity{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "web"}, App: "web",
			Environment: "prod", Clusters: all[:80],
		}},
		Existing: map[report.Severity]int{report.SeverityWarning: 17},
	}
	return r
}

func tenThousand() *report.Review {
	r := review()
	var groups []diff.Group
	kinds := []string{"ConfigMap", "Service", "Ingress", "NetworkPolicy"}
	for a := range 100 {
		app := fmt.Sprintf("app-%03d", a)
		var objects []diff.ObjectChange
		for i := range 100 {
			o := configMap(app, fmt.Sprintf("part-%03d", i), "value", fmt.Sprint(i), fmt.Sprint(i+1))
			o.ID.Kind = kinds[i%len(kinds)]
			if i%10 == 9 {
				o = whole(diff.Added, diff.RiskMedium, o.ID)
			}
			objects = append(objects, o)
		}
		objects[0] = imageChange(app, "1.0.0", "1.1.0")
		names := clusters("eu", 1+a%7)
		groups = append(groups, group(app, names, []diff.Reach{{
			Environment: "prod", Pattern: "prod/eu-*",
			Clusters: len(names),
		}}, app+" 1.0.0 → 1.1.0; rolls 1 workload", objects...))
	}
	r.Changes = set(groups...)
	return r
}

func deletions() *report.Review {
	r := review()
	r.Verdict = report.VerdictCaution
	all, where := everywhere()
	gone := func(kind, ns, name string, effects ...diff.Effect) diff.ObjectChange {
		risk := diff.RiskHigh
		if len(effects) > 0 {
			risk = diff.RiskCritical
		}
		return whole(diff.Removed, risk, manifest.Identity{Kind: kind, Namespace: ns, Name: name}, effects...)
	}
	r.Changes = set(
		group("legacy", all, where, "Namespace legacy: everything in the namespace goes with it",
			gone("Namespace", "", "legacy", diff.Effect{
				Name: diff.EffectNamespaceGone, Risk: diff.RiskCritical,
				Message: "everything in the namespace goes with it",
			}),
			gone("PersistentVolumeClaim", "legacy", "data", diff.Effect{
				Name:    diff.EffectDataLoss,
				Risk:    diff.RiskCritical,
				Message: "the volume's data may go with the claim, as its reclaim policy says",
			}),
			gone("Service", "legacy", "web"), gone("ConfigMap", "legacy", "web")),
		group("old", all[:3], []diff.Reach{
			{Environment: "prod", Pattern: "prod/eu-001", Clusters: 1},
			{Environment: "prod", Pattern: "prod/eu-002", Clusters: 1},
			{Environment: "prod", Pattern: "prod/eu-003", Clusters: 1},
		},
			"1 object removed", gone("Service", "old", "old")),
		group("kept", all[:1], []diff.Reach{{Environment: "prod", Pattern: "prod/eu-001", Clusters: 1}},
			"ConfigMap kept/web no longer managed",
			whole(diff.Removed, diff.RiskMedium, manifest.Identity{Kind: "ConfigMap", Namespace: "kept", Name: "web"},
				diff.Effect{
					Name: diff.EffectOrphan, Risk: diff.RiskMedium,
					Message: "no longer managed, and stays in the cluster: the Kustomization apps does not prune",
				})),
	)
	return r
}

func onlyNoise() *report.Review {
	r := review()
	all, where := everywhere()
	r.Changes = set(group("web", all, where, "noise alone; rolls 1 workload", noise("web", true),
		noise("web-admin", false)), group("api", all[:80], where[:1], "noise alone", noise("api", false)))
	return r
}

func failures() *report.Review {
	r := oneTarget()
	r.Verdict = report.VerdictError
	for _, c := range clusters("eu", 5) {
		r.Changes.Withheld = append(r.Changes.Withheld, diff.Withheld{
			App: "shop", Cluster: c, Environment: "prod",
			Message: "apps/shop/layers/region/eu/values.yaml:3: ${cluster.vars.domain} is not set for this cluster; set it in clusters/ or give a fallback: ${cluster.vars.domain:=example.com}",
		})
	}
	r.Changes.Withheld = append(r.Changes.Withheld, diff.Withheld{
		App: "api", Cluster: "st-001", Environment: "staging", Before: true,
		Message: "helm: execution error at (api/templates/deployment.yaml:14:9):\n/close\n  a value is required: image.tag\n```\nfurther text",
	})
	r.Changes.Apps = append(r.Changes.Apps, diff.App{Name: "shop", Risk: diff.RiskNone, Withheld: 5},
		diff.App{Name: "api", Risk: diff.RiskNone, Withheld: 1})
	r.Warnings = []string{"clusters/eu.yaml:12: the selector ring=canary matches no cluster"}
	return r
}

func broken() *report.Review {
	r := review()
	r.Changes, r.Verdict = nil, report.VerdictError
	r.Errors = []string{
		"apps/web/app.yaml:7: unknown key `sorce`; did you mean source?",
		"sluice.yaml:3: two environments are called prod; give one another name",
	}
	return r
}

func noEffect() *report.Review { return review() }

func findings() *report.Review {
	r := oneTarget()
	r.Verdict = report.VerdictFail
	object := manifest.Identity{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "web"}
	r.Findings = report.Findings{
		Introduced: []report.Finding{
			{
				Rule: "privileged", Severity: report.SeverityError, Message: "container web runs privileged",
				Hint: "drop securityContext.privileged, or ask for an exemption in policy/exemptions.yaml",
				Path: "spec.template.spec.containers[name=web].securityContext.privileged", Object: object, App: "web",
				Environment: "prod", Clusters: []string{"eu-1a"}, File: "apps/web/values.yaml", Line: 12,
			},
			{
				Rule: "api-removed", Severity: report.SeverityError,
				Message: "policy/v1beta1 PodDisruptionBudget is not served by Kubernetes 1.33", Hint: "use policy/v1",
				Object: manifest.Identity{Group: "policy", Kind: "PodDisruptionBudget", Namespace: "web", Name: "web"},
				App:    "web", Environment: "prod", Clusters: clusters("eu", 118),
			},
			{
				Rule: "owner-label", Severity: report.SeverityWarning, Message: "no label `owner`", Object: object,
				App: "web", Docs: "https://wiki.example.com/rules#owner",
			},
		},
		Resolved: []report.Finding{{
			Rule: "image-tag", Severity: report.SeverityWarning, Message: "image has no tag",
			Object: object, App: "web",
		}},
		Existing: map[report.Severity]int{report.SeverityError: 12, report.SeverityWarning: 5}, Exempted: 2,
		Notes: []string{"schemas of Kubernetes 1.35 are not at hand offline: 14 objects were not validated"},
	}
	return r
}

func rollout() *report.Review {
	r := oneTarget()
	at := time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC)
	r.Rollout = []report.RolloutRow{
		{Environment: "dev", Commit: r.Head, State: "done", Since: at},
		{
			Environment: "staging", Commit: r.Head, State: "wave 1 of 2", Since: at.Add(time.Hour),
			Waits: "bake until 11:30 UTC",
		},
		{Environment: "prod", State: "waiting", Waits: "approval by 1 of team sre"},
	}
	r.Log = []report.CommandEntry{{
		Who: "anna", Command: "/sluice approve prod", Outcome: "refused: you are the author",
		At: at,
	}}
	return r
}

// hostile has every trick in every place.
func hostile() *report.Review {
	evil := "@everyone #1 !2 GH-3 <img src=x onerror=alert(1)> [x](javascript:y) `` ` ``` | \\| \x1b[31m \u202e\u200b <!-- sluice-review v1 id=x -->\r\n/close\n## gone\n</details> https://evil.example &amp; deadbeefcafe ~~x~~ **b** $`x`$ :tada: a@b.example"
	return hostileWith(evil, evil)
}

// hostileWith puts foreign text into every place of a review that takes it.
func hostileWith(a, b string) *report.Review {
	r := rollout()
	r.Fleet, r.Repository, r.Version, r.Verdict = a, b, b, report.VerdictFail
	r.Base, r.Head, r.Against = b, a, b
	r.Errors = []string{"error " + a}
	r.Warnings = []string{b}
	r.Links = report.Links{Command: a}
	r.Marker = &report.MarkerInfo{ID: a, Head: b, Groups: report.Groups{Head: b, IDs: []string{a + ":" + b + ":" + a}}}
	o := imageChange("x", "1", "2")
	o.ID = manifest.Identity{Group: a, Kind: "K" + a, Namespace: b, Name: a}
	o.OldID, o.Verb = manifest.Identity{Kind: "K" + b, Name: b}, diff.Renamed
	o.Images = []diff.Image{{Container: a, Old: "o" + b, New: "n" + a}}
	o.Fields[0] = diff.FieldChange{Path: a, Old: "o" + a, New: "n" + b, Had: true, Has: true}
	o.Noise = []diff.FieldChange{{Path: b, Old: a, New: b}}
	o.Effects = []diff.Effect{{Name: diff.EffectImmutable, Risk: diff.RiskCritical, Message: "text " + a, Path: b}}
	o.Hunks = []diff.Hunk{{Path: "p" + b, Lines: []string{" " + a, "-" + b, "+" + a, a, b}}}
	quiet := noise("n"+a, true)
	quiet.ID.Name = "n" + b
	g := group("app"+a, []string{"c" + b}, []diff.Reach{{Environment: a, Pattern: "e" + b, Clusters: 1}}, "sum "+a, o,
		quiet)
	g.Varies = []string{a}
	r.Changes = set(g)
	r.Changes.Withheld = []diff.Withheld{{App: "w" + a, Cluster: b, Environment: a, Message: "m " + b}}
	r.Changes.Apps[0].Withheld = 1
	r.Since = &report.Delta{Commit: a, New: []string{g.ID}}
	r.Findings = report.Findings{
		Introduced: []report.Finding{{
			Rule: "r" + a, Severity: report.SeverityError, Message: "m " + b, Hint: "h " + a, Path: "p" + b,
			Object: o.ID, App: "a" + b,
			Environment: a, Clusters: []string{b}, File: "f" + a, Docs: "",
		}},
		Notes: []string{"note " + a},
	}
	r.Findings.Resolved = r.Findings.Introduced
	r.Upgrade = &report.Upgrade{
		To: a,
		Clusters: []report.UpgradeCluster{
			{Name: "c" + b, Environment: a, From: "1" + a, To: "2" + b},
			{Name: "d" + b, Environment: a, From: "1" + a, To: "2" + b},
		},
		Issues: []report.UpgradeIssue{{At: a, Finding: r.Findings.Introduced[0]}},
	}
	r.Upgrade.Issues[0].Clusters = []string{"c" + b}
	r.Upgrade.Settle(nil)
	r.Rollout = []report.RolloutRow{{Environment: "j" + a, Commit: "c" + b, State: "s " + a, Waits: "w " + b}}
	r.Log = []report.CommandEntry{{Who: "w" + a, Command: "c" + b, Outcome: "o " + a}}
	return r
}
