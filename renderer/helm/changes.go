package helm

import "strings"

// changes are the values of a program that its files can change, as paths of the chart that is rendered.
type changes struct {
	single bool // the program has templates of one chart only
	all    bool
	paths  []string
}

func singleChart(units map[string]unit) bool {
	for _, u := range units {
		if u.within != "Values" {
			return false
		}
	}
	return true
}

// add adds what a file of the chart with its values at within changes. Charts share `.Release` and the rest of the scope, and can share parts
// of their globals, so a change of these counts as a change of everything.
func (c *changes) add(writes *pathSet, within string) {
	c.all = c.all || writes.all
	for path := range writes.paths {
		rest, ok := strings.CutPrefix(path+separator, "Values"+separator)
		full := within + separator + rest
		if !ok || !c.single && (rest == "" || strings.Contains(full, separator+"global"+separator)) {
			c.all = true
			continue
		}
		c.paths = append(c.paths, full)
	}
}

// touch reports whether a file reads something that can change.
func (c *changes) touch(reads *fileReads, within string) bool {
	if !c.all && len(c.paths) == 0 {
		return false
	}
	for i := range reads.blocks {
		if c.all || reads.blocks[i].all {
			return true
		}
		for path := range reads.blocks[i].paths {
			rest, ok := strings.CutPrefix(path+separator, "Values"+separator)
			if ok && c.overlap(within+separator+rest) {
				return true
			}
		}
	}
	return false
}

func (c *changes) overlap(path string) bool {
	for _, other := range c.paths {
		if strings.HasPrefix(path, other) || strings.HasPrefix(other, path) {
			return true
		}
	}
	return false
}
