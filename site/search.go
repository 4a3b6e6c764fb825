package site

import (
	"bytes"
	"fmt"

	"github.com/sluice-gitops/sluice/site/index"
)

const (
	searchPath = "search.html"
	searchRows = 1000 // facts of one kind that the page lists
	searchHits = 500  // targets that a search shows
	searchApps = 4    // apps that a fact names
)

// search is what the page of the search fills in.
type search struct {
	Fleet *Fleet
	Rows  []searchRow
	More  int
	Query string
	Hits  []searchHit
	Total int
}

type searchRow struct {
	index.Count
	MoreApps int
}

// MoreClusters is the number of clusters that the row does not name.
func (r searchRow) MoreClusters() int { return r.Clusters - len(r.Some) }

type searchHit struct {
	index.Hit
	Environment string
}

func newSearch(f *Fleet) *search {
	out := &search{Fleet: f}
	if f.Index == nil {
		return out
	}
	var list []index.Count
	list, out.More = f.Index.Inventory(searchRows, index.Image, index.Chart, index.Type, index.Namespace, index.Value,
		index.Object)
	for _, c := range list {
		row := searchRow{Count: c, MoreApps: max(0, len(c.Apps)-searchApps)}
		row.Apps = c.Apps[:len(c.Apps)-row.MoreApps]
		out.Rows = append(out.Rows, row)
	}
	return out
}

// Search renders the page of the search with the targets that a text finds.
func (p *Pages) Search(text string) ([]byte, error) {
	page := p.pages[searchPath]
	if text != "" && p.fleet.Index != nil {
		found := &search{Fleet: p.fleet, Query: text}
		var hits []index.Hit
		hits, found.Total = p.fleet.Index.Search(index.Query{Any: text}, searchHits)
		environments := make(map[string]string, len(p.fleet.Clusters))
		for _, c := range p.fleet.Clusters {
			environments[c.Name] = c.Environment.Name
		}
		for _, h := range hits {
			found.Hits = append(found.Hits, searchHit{h, environments[h.Cluster]})
		}
		page.data = found
	}
	var out bytes.Buffer
	if err := p.templates[page.template].Execute(&out, frame{
		Page: page, Fleet: p.fleet, Policy: policy, Live: p.live,
		Data: page.content(),
	}); err != nil {
		return nil, fmt.Errorf("page %s: %w", page.Path, err)
	}
	return out.Bytes(), nil
}
