package triage

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/hmarr/codeowners"

	"github.com/sluice-gitops/sluice/fleet"
)

// places are where forges look for CODEOWNERS. The first one that exists counts. The order is GitHub's
// (https://docs.github.com/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners)
// and GitLab's (https://docs.gitlab.com/user/project/codeowners/), each without the folder of the other.
func places() []string {
	return []string{".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"}
}

const maxOwnersFile = 3 << 20 // bytes, as on GitHub

// byOwners is the rule of requests that CODEOWNERS asks for.
const byOwners = "CODEOWNERS"

// codeowners adds requests for the owners of what changes.
func (p *Plan) codeowners(f *fleet.Fleet, file func(name string) ([]byte, error), effects []effect) error {
	var text []byte
	name := ""
	for _, one := range places() {
		data, err := file(one)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", one, err)
		}
		text, name = data, one
		break
	}
	switch {
	case name == "":
		p.Notes = append(p.Notes, "spec.review.codeowners is set, and there is no CODEOWNERS")
		return nil
	case len(text) > maxOwnersFile:
		p.Notes = append(p.Notes, name+" is not read: it has more than 3 MiB")
		return nil
	}
	owners := parseOwners(string(text))
	for _, at := range paths(f, effects) {
		for _, o := range owners.of(at) {
			r := Request{Name: o.Value, Team: o.Type == codeowners.TeamOwner, rule: byOwners}
			if !slices.ContainsFunc(p.Requests, func(have Request) bool {
				return have.rule == byOwners && have.Team == r.Team && strings.EqualFold(have.Name, r.Name)
			}) {
				p.Requests = append(p.Requests, r)
			}
		}
	}
	return nil
}

// paths returns the files of the trunk that belong to what changes, in order: those that declare the apps and the
// workspaces, and those of the layer environment that the apps read in the environments. Files of other repositories
// have owners there.
func paths(f *fleet.Fleet, effects []effect) []string {
	seen := map[string]bool{}
	add := func(name string) {
		if name != "" && fleet.RepositoryOf(name) == "" {
			seen[name] = true
		}
	}
	for _, e := range effects {
		app, ok := f.App(e.app)
		if !ok { // it is new: the file that declares it changes
			continue
		}
		add(app.File)
		if w := app.Workspace(); w != nil {
			add(w.File)
		}
		cluster, ok := f.Cluster(e.cluster)
		if !ok {
			continue
		}
		t := fleet.Target{App: app, Cluster: cluster}
		for _, l := range slices.Concat(f.ValuesFiles(t), f.Components(t)) {
			if l.Layer == environmentLayer {
				add(l.Path)
			}
		}
	}
	out := make([]string, 0, len(seen))
	for name := range seen {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

const environmentLayer = "environment"

// ownersFile is a CODEOWNERS file by its sections: one on GitHub, several on GitLab, where each has a say.
type ownersFile []codeowners.Ruleset

// of returns the owners of a path: those of the last line that matches, in each section.
func (o ownersFile) of(name string) []codeowners.Owner {
	var out []codeowners.Owner
	for _, section := range o {
		rule, err := section.Match(name)
		if err == nil && rule != nil {
			out = append(out, rule.Owners...)
		}
	}
	return out
}

// parseOwners reads CODEOWNERS as GitHub and GitLab do: a line that is not valid is skipped. Owners by email and GitLab's
// roles, such as @@maintainer, are nobody who can be asked for a review.
func parseOwners(text string) ownersFile {
	out := ownersFile{nil}
	preset := "" // owners of the section, for lines without owners
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if owners, ok := section(line); ok {
			out, preset = append(out, nil), owners
			continue
		}
		rules, err := codeowners.ParseFile(strings.NewReader(line), codeowners.WithOwnerMatchers(matchers()))
		if err != nil || len(rules) == 0 {
			continue
		}
		if len(rules[0].Owners) == 0 && preset != "" {
			with, err := codeowners.ParseFile(strings.NewReader(rules[0].RawPattern()+" "+preset),
				codeowners.WithOwnerMatchers(matchers()))
			if err == nil && len(with) > 0 {
				rules = with
			}
		}
		rules[0].Owners = slices.DeleteFunc(rules[0].Owners, func(o codeowners.Owner) bool { return o.Type == nobody })
		out[len(out)-1] = append(out[len(out)-1], rules...)
	}
	return out
}

// section returns the default owners of the section that a line begins: [Name], ^[Name] or [Name][2], then owners
// (https://docs.gitlab.com/user/project/codeowners/reference/#sections). A line of GitHub never begins with a bracket.
func section(line string) (owners string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(line, "^"), "[")
	if !ok {
		return "", false
	}
	_, rest, ok = strings.Cut(rest, "]")
	if !ok {
		return "", false
	}
	if count, found := strings.CutPrefix(rest, "["); found {
		_, rest, _ = strings.Cut(count, "]")
	}
	return strings.TrimSpace(rest), true
}

// nobody is the type of owners that cannot be asked.
const nobody = "nobody"

// matchers accept the owners of GitHub and of GitLab, whose groups have several slashes and whose users have dots.
func matchers() []codeowners.OwnerMatcher {
	return []codeowners.OwnerMatcher{codeowners.OwnerMatchFunc(func(s string) (codeowners.Owner, error) {
		name, ok := strings.CutPrefix(s, "@")
		switch {
		case !ok || name == "" || strings.Contains(name, "@"):
			return codeowners.Owner{Value: s, Type: nobody}, nil
		case strings.Contains(name, "/"):
			return codeowners.Owner{Value: name, Type: codeowners.TeamOwner}, nil
		}
		return codeowners.Owner{Value: name, Type: codeowners.UsernameOwner}, nil
	})}
}
