package service

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	selectorPattern = regexp.MustCompile(`(sluice_[a-z_]+)\{([^}]*)\}`)
	labelPattern    = regexp.MustCompile(`([a-z]+)\s*(?:=|!)`)
	byPattern       = regexp.MustCompile(`by \(([a-z, ]+)\) \(.*?(sluice_[a-z_]+)`)
	legendPattern   = regexp.MustCompile(`\{\{([a-z]+)\}\}`)
)

// deploy/grafana/sluice.json uses only metrics and labels of the service, and shows every metric.
func TestDashboard(t *testing.T) {
	known := exported(t)
	var d struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(page(t, "deploy/grafana/sluice.json")), &d); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, s := range selectorPattern.FindAllStringSubmatch(target.Expr, -1) {
				labels, ok := known[s[1]]
				if !ok {
					t.Errorf("%s: the service has no metric %s", p.Title, s[1])
				}
				shown[strings.TrimSuffix(strings.TrimSuffix(s[1], "_bucket"), "_count")] = true
				for _, l := range labelPattern.FindAllStringSubmatch(s[2], -1) {
					if l[1] != "job" && !slices.Contains(labels, l[1]) {
						t.Errorf("%s: %s has no label %s, but %v", p.Title, s[1], l[1], labels)
					}
				}
			}
			for _, by := range byPattern.FindAllStringSubmatch(target.Expr, -1) {
				for l := range strings.SplitSeq(by[1], ", ") {
					if !slices.Contains(known[by[2]], l) {
						t.Errorf("%s: %s has no label %s, but %v", p.Title, by[2], l, known[by[2]])
					}
				}
			}
			for _, l := range legendPattern.FindAllStringSubmatch(target.LegendFormat, -1) {
				if l[1] != "instance" && !strings.Contains(target.Expr, l[1]) {
					t.Errorf("%s: the legend names %s, which %s does not give", p.Title, l[1], target.Expr)
				}
			}
		}
	}
	for metric := range known {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count"), "_sum")
		if !shown[base] {
			t.Errorf("no panel shows %s", base)
		}
	}
}
