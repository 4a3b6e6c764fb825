package report

import "strings"

// part is a list of the report that can be cut at its end. more counts what is cut.
type part struct {
	head  string
	items []string
	fold  int    // items above the fold; 0: no fold
	open  string // begins the fold
	close string // ends it
	more  func(shown int) string
	tail  string
}

// fit returns the longest beginning of the part within budget characters, and its number of items. The head, the tail
// and the count of what is cut are always written, whatever the budget.
func (p *part) fit(budget int) (text string, shown int) {
	if len(p.items) == 0 {
		return "", 0
	}
	base := size(p.head) + size(p.tail)
	if p.fold > 0 && len(p.items) > p.fold {
		base += size(p.open) + size(p.close)
	}
	sums := make([]int, len(p.items)+1)
	for i, item := range p.items {
		sums[i+1] = sums[i] + size(item)
	}
	shown = len(p.items)
	more := ""
	for base+sums[shown]+size(more) > budget && shown > 0 {
		over := base + sums[shown] + size(more) - budget
		next := shown - 1
		for next > 0 && sums[shown]-sums[next] < over {
			next--
		}
		shown = next
		more = p.more(shown)
	}
	return p.text(shown, more), shown
}

func (p *part) text(shown int, more string) string {
	var out strings.Builder
	out.WriteString(p.head)
	Folded := p.fold > 0 && shown > p.fold
	for i, item := range p.items[:shown] {
		if Folded && i == p.fold {
			out.WriteString(p.open)
		}
		out.WriteString(item)
	}
	if Folded {
		out.WriteString(p.close)
	}
	out.WriteString(more)
	out.WriteString(p.tail)
	return out.String()
}
