package page_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/report"
)

// TestRiskComesFirst: the cautions and the tree begin with the greatest risk, whatever the names, and each caution is a
// link to the object that it is about.
func TestRiskComesFirst(t *testing.T) {
	t.Parallel()
	target := func(app, before, after string) diff.Target {
		return diff.Target{
			App: app, Cluster: "c", Environment: "prod", Before: objects(t, before),
			After: objects(t, after),
		}
	}
	calm := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: a}\ndata: {a: %}\n"
	targets := []diff.Target{
		target("aaa", strings.Replace(calm, "%", "b", 1), strings.Replace(calm, "%", "c", 1)),
		target("zzz", operator, strings.Replace(operator, "storage: 200Gi", "storage: 100Gi", 1)),
		target("mmm", operator, strings.Replace(operator, "resources: [pods,", "resources: [secrets, pods,", 1)),
	}
	page := string(render(t, &report.Review{Fleet: "acme", Changes: diff.Compare(targets, nil, []string{"prod"},
		placed(targets))}))
	body, _, _ := strings.Cut(page[strings.Index(page, "<body>"):], "<script>")
	names := func(expression, in string) (out []string) {
		for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(in, -1) {
			out = append(out, m[1])
		}
		return out
	}
	tree, rest, _ := strings.Cut(body[strings.Index(body, `id="tree"`):], "</nav>")
	if got := strings.Join(names(`class="leaf app".*?class="name">([^<]*)`, tree), " "); got != "zzz mmm aaa" {
		t.Errorf("apps of the tree: %s", got)
	}
	cautions, list, _ := strings.Cut(rest, `<div id="list">`)
	if got := strings.Join(names(` of <code>([^<]*)</code> on`, cautions), " "); got != "zzz mmm" {
		t.Errorf("apps of the cautions: %s", got)
	}
	links := names(`<a href="#(o[^"]*)">`, cautions)
	for _, id := range links {
		_, object, found := strings.Cut(list, `<article class="obj" id="`+id+`"`)
		object, _, _ = strings.Cut(object, "</article>")
		if !found || !strings.Contains(object, `class="hunk"`) || !strings.Contains(object, `class="effect`) {
			t.Errorf("the caution leads to %s, which has no hunk", id)
		}
	}
	if len(links) != 2 {
		t.Errorf("%d cautions are links", len(links))
	}
}
