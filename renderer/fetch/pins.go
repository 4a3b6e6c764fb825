package fetch

import (
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Pin is the commit that another Git repository of the fleet is locked to.
type Pin struct {
	URL      string // as the fleet declares it
	Wanted   string // the branch or the pattern of tags that the fleet declares; a changed one is not locked
	Resolved string // the ref that it resolved to, such as refs/tags/v1.2.0
	Commit   string // 40 hexadecimal digits
}

type pinEntry struct {
	Name     string `yaml:"name"`
	URL      string `yaml:"url"`
	Wanted   string `yaml:"wanted"`
	Resolved string `yaml:"resolved"`
	Commit   string `yaml:"commit"`
}

// Pin returns the pin of the repository with the name.
func (l *Lock) Pin(name string) (Pin, bool) {
	p, ok := l.pins[name]
	return p, ok
}

// SetPin adds or replaces the pin of a repository.
func (l *Lock) SetPin(name string, p Pin) {
	if l.pins == nil {
		l.pins = map[string]Pin{}
	}
	l.pins[name] = p
}

// ClearPins removes the pins of all repositories.
func (l *Lock) ClearPins() { l.pins = nil }

// Pinned lists the names of the pinned repositories, sorted.
func (l *Lock) Pinned() []string { return slices.Sorted(maps.Keys(l.pins)) }

var commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)

func (p *lockParser) pin(n *yaml.Node) {
	e, ok := p.fields(n, "name", "url", "wanted", "resolved", "commit")
	if !ok {
		return
	}
	pin := Pin{
		URL: e.text("url", true), Wanted: e.text("wanted", true), Resolved: e.text("resolved", true),
		Commit: e.text("commit", true),
	}
	name := e.text("name", true)
	if e.failed {
		return
	}
	if !commitID.MatchString(pin.Commit) {
		p.errorf(n, "repository %s: %q is not a commit: run `sluice deps lock`", name, pin.Commit)
		return
	}
	if _, twice := p.lock.pins[name]; twice {
		p.errorf(n, "repository %s is locked twice: keep one of the two entries, or run `sluice deps lock`", name)
		return
	}
	p.lock.SetPin(name, pin)
	p.lock.remark(name, n)
}
