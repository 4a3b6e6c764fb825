package config

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Forge configures one account on one forge.
type Forge struct {
	Name         string   `yaml:"name"` // part of the webhook's path: /hooks/<name>
	Kind         string   `yaml:"kind"` // github, gitlab or gitea
	API          string   `yaml:"api"`  // URL. Default: the public one; Gitea has none
	Git          string   `yaml:"git"`  // base URL for clones. Default: the API's host
	App          App      `yaml:"app"`  // GitHub App
	Token        Secret   `yaml:"token"`
	GitToken     Secret   `yaml:"gitToken"`     // reads repositories. Default: Token, or the App's
	PushToken    Secret   `yaml:"pushToken"`    // pushes branches. Default: GitToken
	Secrets      []Secret `yaml:"secrets"`      // of webhooks; several while they are rotated
	Signing      []Secret `yaml:"signing"`      // GitLab's signing secrets (whsec_…)
	Repositories []string `yaml:"repositories"` // patterns of full paths: acme/*
	// further repositories for spec.output.repository: patterns of full paths, or of addresses elsewhere
	Outputs   Outputs    `yaml:"outputs"`
	Settings  Settings   `yaml:"settings"`
	Overrides []Override `yaml:"overrides"` // of all that match, the last one that sets a key decides it
	Receivers []Receiver `yaml:"receivers"` // get a notification when branches move
}

// App is a GitHub App.
type App struct {
	ID  int64  `yaml:"id"`
	Key Secret `yaml:"key"`
}

// Settings can differ between repositories.
type Settings struct {
	Drafts     *bool    `yaml:"drafts"`     // review drafts. Default: true
	Labels     []string `yaml:"labels"`     // review only with one of these
	SkipLabels []string `yaml:"skipLabels"` // do not review with one of these
	Previews   *bool    `yaml:"previews"`   // Default: true
	PreviewCap int      `yaml:"previewCap"` // targets. Default: 2000
	PerPush    int      `yaml:"refsPerPush"`
	Context    string   `yaml:"context"` // of commit statuses. Default: sluice
	Checks     *bool    `yaml:"checks"`  // check runs instead of statuses. Default: with a GitHub App
	// Deployments shows on the forge which commits environments run. Default: false.
	Deployments *bool `yaml:"deployments"`
	// BranchProtection is required (default) or off. With required, promotions wait until the branches are protected.
	BranchProtection string `yaml:"branchProtection"`
}

// Values of Settings.BranchProtection.
const (
	ProtectionRequired = "required"
	ProtectionOff      = "off"
)

// Override has settings for some repositories.
type Override struct {
	Repositories []string `yaml:"repositories"`
	Settings     Settings `yaml:"settings"`
}

// gitBase derives the base URL for clones from the API's address.
func gitBase(api, special, then string) string {
	u, err := url.Parse(api)
	if err != nil {
		return ""
	}
	if u.Host == special {
		return then
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	for _, version := range []string{"/api/v4", "/api/v3", "/api/v1"} {
		u.Path = strings.TrimSuffix(u.Path, version)
	}
	return strings.TrimSuffix(u.String(), "/")
}

func webURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,40}$`)

func (f *Forge) check(p *problems, at string) {
	if !namePattern.MatchString(f.Name) {
		p.add("%s.name: %q must be lower-case letters, digits and dashes", at, f.Name)
	}
	if !slices.Contains([]string{"github", "gitlab", "gitea"}, f.Kind) {
		p.add("%s.kind: %q must be github, gitlab or gitea (also for Forgejo)", at, f.Kind)
		return
	}
	if f.Kind == "gitea" && f.API == "" {
		p.add("%s.api: set the address of the server, such as https://git.example.com: Gitea has no public one", at)
		return
	}
	for _, one := range [][2]string{{"api", f.API}, {"git", f.Git}} {
		if !webURL(one[1]) { // not quoted: it may hold a credential
			p.add("%s.%s: it must be an http or https URL without credentials", at, one[0])
		}
	}
	f.checkCredentials(p, at)
	if len(f.Repositories) == 0 {
		p.add("%s.repositories: list at least one pattern, such as [\"acme/*\"]", at)
	}
	f.Settings.check(p, at+".settings")
	for i := range f.Overrides {
		f.Overrides[i].Settings.check(p, fmt.Sprintf("%s.overrides[%d].settings", at, i))
	}
	for i := range f.Receivers {
		f.Receivers[i].check(p, fmt.Sprintf("%s.receivers[%d]", at, i))
	}
	for _, list := range append([][]string{f.Repositories, f.Outputs}, overridden(f.Overrides)...) {
		for _, pattern := range list {
			if _, err := path.Match(pattern, ""); err != nil || !strings.Contains(pattern, "/") {
				p.add("%s: %q is not a pattern of full repository paths, such as acme/*", at, pattern)
			}
		}
	}
}

// checkCredentials checks that the service can authenticate to the forge, and the forge's webhooks to the service.
func (f *Forge) checkCredentials(p *problems, at string) {
	if !f.Token.Set() && f.App.ID == 0 {
		p.add("%s: set token or, on GitHub, app", at)
	}
	if f.App.ID != 0 && (f.Kind != "github" || !f.App.Key.Set()) {
		p.add("%s.app: only GitHub has apps, and an app needs a key", at)
	}
	if len(f.Secrets)+len(f.Signing) == 0 {
		p.add("%s.secrets: set the webhook's secret; without one, anybody could send events", at)
	}
	if f.Kind != "gitlab" && len(f.Signing) > 0 {
		p.add("%s.signing: only GitLab has signing secrets; put those of other forges into secrets", at)
	}
}

func (s *Settings) check(p *problems, at string) {
	switch s.BranchProtection {
	case "", ProtectionRequired, ProtectionOff:
	default:
		p.add("%s.branchProtection: %q must be required or off", at, s.BranchProtection)
	}
}

func overridden(list []Override) [][]string {
	out := make([][]string, len(list))
	for i, o := range list {
		out[i] = o.Repositories
	}
	return out
}

// Outputs are patterns of repositories that rendered branches may go to: of full paths on the forge, or of full
// addresses.
type Outputs []string

// Path reports whether a pattern matches a repository on the forge.
func (o Outputs) Path(repository string) bool {
	return matches(slices.DeleteFunc(slices.Clone(o), isAddress), repository)
}

// Address reports whether a pattern matches an address. A trailing .git is ignored.
func (o Outputs) Address(address string) bool {
	plain := func(s string) string { return strings.TrimSuffix(s, ".git") }
	return slices.ContainsFunc(o, func(pattern string) bool {
		ok, err := path.Match(plain(pattern), plain(address))
		return err == nil && ok && isAddress(pattern) && !strings.Contains(address, "..")
	})
}

func isAddress(pattern string) bool {
	return strings.Contains(pattern, "://") || strings.Contains(pattern, "@")
}

// Has reports whether the configuration of the forge includes a repository.
func (f *Forge) Has(repository string) bool { return matches(f.Repositories, repository) }

func matches(patterns []string, repository string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if group, ok := strings.CutSuffix(pattern, "/**"); ok {
			return strings.HasPrefix(repository, group+"/")
		}
		ok, err := path.Match(pattern, repository)
		return err == nil && ok
	})
}

// For returns the settings of a repository.
func (f *Forge) For(repository string) Settings {
	out := f.Settings
	for _, o := range f.Overrides {
		if matches(o.Repositories, repository) {
			out = o.Settings.over(out)
		}
	}
	return out
}

func (s Settings) over(base Settings) Settings {
	pick := func(a, b *bool) *bool {
		if a != nil {
			return a
		}
		return b
	}
	out := Settings{
		Drafts: pick(s.Drafts, base.Drafts), Previews: pick(s.Previews, base.Previews),
		Checks: pick(s.Checks, base.Checks), Deployments: pick(s.Deployments, base.Deployments),
		Labels: base.Labels, SkipLabels: base.SkipLabels, PreviewCap: cmp.Or(s.PreviewCap, base.PreviewCap),
		PerPush: cmp.Or(s.PerPush, base.PerPush), Context: cmp.Or(s.Context, base.Context),
		BranchProtection: cmp.Or(s.BranchProtection, base.BranchProtection),
	}
	if s.Labels != nil {
		out.Labels = s.Labels
	}
	if s.SkipLabels != nil {
		out.SkipLabels = s.SkipLabels
	}
	return out
}
