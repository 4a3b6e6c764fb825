package site_test

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestOverviewOfALabel: the overview of the clusters with a label shows these clusters alone, and no environment
// without them.
func TestOverviewOfALabel(t *testing.T) {
	t.Parallel()
	all := pagesOf(t, newDemo(t).read(t))
	page, ok := all["labels/class/edge.html"]
	if !ok {
		t.Fatal("there is no page labels/class/edge.html")
	}
	got := text(page)
	for _, want := range []string{
		"class=edge : 3 clusters in 3 environments", "3 of 3 clusters hold what their environments ask for", "us-east-1 3",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the overview of class=edge lacks %q: %s", want, got)
		}
	}
	for _, other := range []string{"prod-eu-1", "shop", "sluice promote"} {
		if strings.Contains(strings.ReplaceAll(got, "region=", ""), other) {
			t.Errorf("the overview of class=edge names %q, which is not of its clusters: %s", other, got)
		}
	}
	if chosen := selected(page); chosen != "labels/class/edge.html" {
		t.Errorf("the chosen page: got %q, want labels/class/edge.html", chosen)
	}
	if chosen := selected(all["index.html"]); chosen != "" {
		t.Errorf("the chosen page of the overview: got %q, want none", chosen)
	}
	for name := range all {
		if strings.HasPrefix(name, "labels/cluster/") || strings.HasPrefix(name, "labels/environment/") {
			t.Errorf("%s: clusters and environments have pages of their own", name)
		}
	}
	rows := 0
	for n := range all["clusters.html"].Descendants() {
		for _, a := range n.Attr {
			if a.Key != "data-labels" {
				continue
			}
			if rows++; !strings.Contains("\n"+a.Val, "\nclass=edge\n") && !strings.Contains("\n"+a.Val, "\nclass=core\n") {
				t.Errorf("the labels of a row of the list: got %q, want a class", a.Val)
			}
		}
	}
	if rows != 7 {
		t.Errorf("rows with labels in the list of clusters: got %d, want 7", rows)
	}
}

// selected is the value of the chosen option.
func selected(page *html.Node) string {
	for n := range page.Descendants() {
		value, chosen := "", false
		for _, a := range n.Attr {
			if a.Key == "value" {
				value = a.Val
			}
			chosen = chosen || a.Key == "selected"
		}
		if chosen && n.Data == "option" {
			return value
		}
	}
	return ""
}
