package site_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/site"
	"github.com/sluice-gitops/sluice/site/index"
)

// page returns the text of the page with a title.
func pageTitled(t *testing.T, f *site.Fleet, title string) string {
	t.Helper()
	for name, doc := range pagesOf(t, f) {
		if !strings.HasPrefix(name, "versions/") {
			continue
		}
		if got := text(doc); strings.Contains(got, "Search "+title+" ") {
			return got
		}
	}
	t.Fatalf("no page of a version has the title %q", title)
	return ""
}

// TestPageOfAnImage: the page of an image says where it runs and which commits brought it, and that of the image before
// it where that one still runs.
func TestPageOfAnImage(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.repo.Write("apps/shop/layers/global/values.yaml",
		d.repo.Read("apps/shop/layers/global/values.yaml")+"\nimage: {tag: \"2.2\"}\n")
	d.repo.Write("charts/web/Chart.yaml", strings.ReplaceAll(d.repo.Read("charts/web/Chart.yaml"), "1.4.0", "1.4.1"))
	d.repo.Commit("Shop 2.2")
	d.hydrate("dev")
	f := d.read(t)
	got := pageTitled(t, f, "registry.example.com/web:2.2")
	for _, want := range []string{
		"Image on 1 cluster", "dev shop dev-1 How it got there", "dev hydrate", "Shop 2.2", "shop on 1 cluster",
		"Other versions that run registry.example.com/web:2.1", "sluice where --image registry.example.com/web:2.2",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page of the image lacks %q: %s", want, got)
		}
	}
	if strings.Contains(got, "Open the harbour") || strings.Contains(got, "staging") {
		t.Errorf("the page of the image names what did not bring it: %s", got)
	}
	if got := pageTitled(t, f, "web 1.4.1"); !strings.Contains(got, "Chart on ") ||
		!strings.Contains(got, "Shop 2.2") || strings.Contains(got, "prod") {
		t.Errorf("the page of the chart: %s", got)
	}
	overview := text(pagesOf(t, f)["index.html"])
	if !strings.Contains(overview, "shop 2.2 web 1.4.1 ×1") {
		t.Errorf("the overview lacks the new tag: %s", overview)
	}
	links := 0
	for n := range pagesOf(t, f)["index.html"].Descendants() {
		for _, a := range n.Attr {
			if a.Key == "href" && strings.HasPrefix(a.Val, "versions/") {
				links++
			}
		}
	}
	if links < 8 {
		t.Errorf("links of the overview to versions: got %d, want at least 8", links)
	}
	again, err := site.Read(t.Context(), d.h, site.Request{
		Trunk: d.tip, Now: f.Made, Version: "test", Key: []byte("key"), Index: f.Index, Images: f.Images, Sources: f.Sources,
	})
	if err != nil {
		t.Fatal(err)
	}
	fact := site.Fact{Kind: index.Image, Text: "registry.example.com/web:2.2"}
	if !slices.ContainsFunc(again.Environments[0].History, func(h site.Event) bool {
		return slices.ContainsFunc(h.Apps, func(c site.AppChange) bool { return slices.Contains(c.Brought, fact) })
	}) {
		t.Error("with what an earlier call has read, no event brings the image")
	}
}

// TestSearchLinksToClusters: a row of the search leads to some of its clusters, also without a script.
func TestSearchLinksToClusters(t *testing.T) {
	t.Parallel()
	all := pagesOf(t, newDemo(t).read(t))
	got := text(all["search.html"])
	for _, want := range []string{
		"config.currency value 4 shop 4 dev-1 , prod-eu-1 , prod-us-1 , staging-1", "and 3 more",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the search lacks %q: %s", want, got)
		}
	}
	links := map[string]bool{}
	for n := range all["search.html"].Descendants() {
		for _, a := range n.Attr {
			if a.Key == "href" && strings.HasPrefix(a.Val, "clusters/") {
				links[a.Val] = true
			}
		}
	}
	if !links["clusters/prod-eu-1.html"] {
		t.Errorf("the search links to the clusters %v, want prod-eu-1 among them", links)
	}
}

// TestWarningsOfFiles: a warning of a file is listed as a warning, with its place, and nothing counts as unread.
func TestWarningsOfFiles(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	r.Write("apps/shop/layers/region/mars/values.yaml", "a: 1\n")
	r.Commit("A layer that no cluster uses")
	f := (&demo{repo: r}).read(t)
	if len(f.Problems) > 0 || !slices.ContainsFunc(f.Warnings, func(w string) bool {
		return strings.Contains(w, "apps/shop/layers/region/mars") && strings.Contains(w, "warning")
	}) {
		t.Errorf("got the problems %q and the warnings %q, want one warning of apps/shop/layers/region/mars", f.Problems,
			f.Warnings)
	}
	got := text(pagesOf(t, f)["index.html"])
	if strings.Contains(got, "What could not be read") || !strings.Contains(got, "Warnings ") ||
		!strings.Contains(got, "region/mars") {
		t.Errorf("the overview: %s", got)
	}
}
