package site

import (
	"fmt"
	"testing"
)

// TestDotsHaveALimit: whatever the labels of a large fleet are, the overview draws so many dots. A small fleet has dots
// only.
func TestDotsHaveALimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ clusters, values, dots int }{
		{5000, 50, pageDots},
		{5000, 5000, 60},
		{2000, 20, pageDots},
		{300, 20, 600},
		{7, 2, 14},
	} {
		e := &Environment{Name: "prod"}
		f := &Fleet{Environments: []*Environment{e}, Labels: []string{"region", "zone"}}
		for i := range c.clusters {
			value := fmt.Sprintf("v%04d", i%c.values)
			f.Clusters = append(f.Clusters, &Cluster{
				Name: fmt.Sprint(i), Environment: e,
				Labels: map[string]string{"region": value, "zone": value}, State: "active",
			})
		}
		dots := 0
		for _, fold := range newOverview(f, nil, choice{}).Folds {
			for _, r := range fold.Rows {
				if r.Dots {
					dots += len(r.Clusters)
				}
			}
		}
		if c.values == 5000 {
			dots /= 2 // each label lists 60 values of one cluster
		}
		if dots != c.dots {
			t.Errorf("%d clusters with %d values: %d dots, expected %d", c.clusters, c.values, dots, c.dots)
		}
	}
}
