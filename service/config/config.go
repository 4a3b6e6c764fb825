// Package config is the service's configuration: a YAML file, decoded strictly, with secrets in files or variables of their
// own. Everything that is wrong is said at once. It opens nothing but the files that it names.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/worker"
	yaml "go.yaml.in/yaml/v3"
)

// Config is the service's configuration.
type Config struct {
	Listen      string        `yaml:"listen"`      // address of webhooks, pages and probes. Default: :8080
	Metrics     string        `yaml:"metrics"`     // address of metrics; "" is Listen's
	Debug       string        `yaml:"debug"`       // address of pprof; "" is none
	Data        string        `yaml:"data"`        // folder of queue, mirrors and caches. Default: /var/lib/sluice
	Mirrors     ByteSize      `yaml:"mirrors"`     // most that mirrors may take. Default: 20Gi
	Workers     int           `yaml:"workers"`     // repositories at once. Default: 4
	Jobs        int           `yaml:"jobs"`        // targets rendered at once. Default: all processors
	Sweep       time.Duration `yaml:"sweep"`       // time between looks at everything. Default: 2m
	Promote     time.Duration `yaml:"promote"`     // time between looks at what promotions wait for. Default: 1m
	Drain       time.Duration `yaml:"drain"`       // most time that running work gets at the end. Default: 2m
	Queue       Queue         `yaml:"queue"`       //
	Isolation   worker.Mode   `yaml:"isolation"`   // of worker processes: required (default), degraded or off
	Network     Network       `yaml:"network"`     // that charts and schemas may be fetched from
	Fingerprint Secret        `yaml:"fingerprint"` // key of the fingerprints that stand for secrets
	SignKey     string        `yaml:"signKey"`     // file of the key that signs rendered commits: an SSH or OpenPGP private key, or a .pub file whose key the SSH agent holds
	Tracing     string        `yaml:"tracing"`     // URL of an OTLP receiver over HTTP; "" is none
	Forges      []Forge       `yaml:"forges"`
}

// Network limits which addresses the service fetches charts and schemas from on behalf of a fleet.
type Network struct {
	Allow []string `yaml:"allow"` // hosts, host:port, addresses or CIDR ranges that are reachable although they are private
}

// Queue says where tasks wait.
type Queue struct {
	URL         string `yaml:"url"`         // of a NATS cluster; "" is one of our own in the process
	Credentials string `yaml:"credentials"` // file of NATS credentials
	Replicas    int    `yaml:"replicas"`    // of streams. Default: 1, or 3 with a URL
	Shards      *bool  `yaml:"shards"`      // have all replicas render large hydrations together. Default: with a URL
}

// Forge is one account on one forge.
type Forge struct {
	Name         string     `yaml:"name"` // part of the webhook's path: /hooks/<name>
	Kind         string     `yaml:"kind"` // github or gitlab
	API          string     `yaml:"api"`  // URL. Default: the public one
	Git          string     `yaml:"git"`  // URL that repositories are cloned below. Default: the API's host
	App          App        `yaml:"app"`  // GitHub App
	Token        Secret     `yaml:"token"`
	GitToken     Secret     `yaml:"gitToken"`     // reads repositories. Default: Token, or the App's
	PushToken    Secret     `yaml:"pushToken"`    // pushes branches. Default: GitToken
	Secrets      []Secret   `yaml:"secrets"`      // of webhooks: several at once while they are rotated
	Signing      []Secret   `yaml:"signing"`      // GitLab's signing secrets (whsec_…)
	Repositories []string   `yaml:"repositories"` // patterns of full paths: acme/*
	Outputs      Outputs    `yaml:"outputs"`      // where spec.output.repository may point, beside them: patterns of full paths, or of addresses elsewhere
	Settings     Settings   `yaml:"settings"`
	Overrides    []Override `yaml:"overrides"` // the last that matches wins
	Receivers    []Receiver `yaml:"receivers"` // told of branches that moved
}

// App is a GitHub App.
type App struct {
	ID  int64  `yaml:"id"`
	Key Secret `yaml:"key"`
}

// Settings are what a repository may have otherwise.
type Settings struct {
	Drafts     *bool    `yaml:"drafts"`     // review drafts. Default: true
	Labels     []string `yaml:"labels"`     // review only with one of these
	SkipLabels []string `yaml:"skipLabels"` // do not review with one of these
	Previews   *bool    `yaml:"previews"`   // Default: true
	PreviewCap int      `yaml:"previewCap"` // targets. Default: 2000
	PerPush    int      `yaml:"refsPerPush"`
	Context    string   `yaml:"context"` // of commit statuses. Default: sluice
	Checks     *bool    `yaml:"checks"`  // check runs instead of statuses. Default: with a GitHub App
}

// Override are settings for some repositories.
type Override struct {
	Repositories []string `yaml:"repositories"`
	Settings     Settings `yaml:"settings"`
}

// Secret is a value that stands in a file or in a variable, never in the configuration itself.
type Secret struct {
	File  string `yaml:"file"`
	Env   string `yaml:"env"`
	value []byte
}

// Bytes is the secret, without white space around it; empty if it is not set.
func (s Secret) Bytes() []byte { return s.value }

// Set says that the secret is configured.
func (s Secret) Set() bool { return s.File != "" || s.Env != "" }

// String hides the value.
func (s Secret) String() string { return "(secret)" }

// ByteSize is a number of bytes such as 20Gi.
type ByteSize int64

// UnmarshalYAML reads 20Gi, 512Mi or a plain number.
func (b *ByteSize) UnmarshalYAML(n *yaml.Node) error {
	m := regexp.MustCompile(`^([0-9]{1,9})(Ki|Mi|Gi|Ti)?$`).FindStringSubmatch(n.Value)
	if m == nil {
		return fmt.Errorf("line %d: %q is no size such as 20Gi", n.Line, n.Value)
	}
	var number int64
	if _, err := fmt.Sscan(m[1], &number); err != nil {
		return err
	}
	*b = ByteSize(number << map[string]int{"": 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}[m[2]])
	return nil
}

// Sources are where a configuration's secrets come from.
type Sources struct {
	Getenv func(string) string
	Read   func(file string) ([]byte, error)
}

// Parse reads a configuration and everything that it names. The error lists all problems.
func Parse(name string, data []byte, s Sources) (*Config, error) {
	c := &Config{}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.defaults()
	p := &problems{name: name}
	c.check(p)
	c.load(p, s)
	return c, errors.Join(p.list...)
}

func (c *Config) defaults() {
	c.Listen = cmp.Or(c.Listen, ":8080")
	c.Data = cmp.Or(c.Data, "/var/lib/sluice")
	c.Mirrors = cmp.Or(c.Mirrors, 20<<30)
	c.Workers = cmp.Or(c.Workers, 4)
	c.Sweep = cmp.Or(c.Sweep, 2*time.Minute)
	c.Promote = cmp.Or(c.Promote, time.Minute)
	c.Drain = cmp.Or(c.Drain, 2*time.Minute)
	c.Isolation = cmp.Or(c.Isolation, worker.Required)
	if c.Queue.URL != "" {
		c.Queue.Replicas = cmp.Or(c.Queue.Replicas, 3)
	}
	c.Queue.Replicas = cmp.Or(c.Queue.Replicas, 1)
	for i := range c.Forges {
		f := &c.Forges[i]
		f.Name = cmp.Or(f.Name, f.Kind)
		switch f.Kind {
		case "github":
			f.API = cmp.Or(f.API, "https://api.github.com/")
			f.Git = cmp.Or(f.Git, gitBase(f.API, "api.github.com", "https://github.com"))
		case "gitlab":
			f.API = cmp.Or(f.API, "https://gitlab.com/api/v4")
			f.Git = cmp.Or(f.Git, gitBase(f.API, "", ""))
		}
	}
}

// gitBase is where repositories are below, from the API's address.
func gitBase(api, special, then string) string {
	u, err := url.Parse(api)
	if err != nil {
		return ""
	}
	if u.Host == special {
		return then
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/api/v4"), "/api/v3")
	return strings.TrimSuffix(u.String(), "/")
}

type problems struct {
	name string
	list []error
}

func (p *problems) add(format string, args ...any) {
	p.list = append(p.list, fmt.Errorf("%s: %w", p.name, fmt.Errorf(format, args...)))
}

// Restart names the settings that differ and that a running service does not take over.
func Restart(running, next *Config) []string {
	var out []string
	a, b := reflect.ValueOf(*running), reflect.ValueOf(*next)
	for i := range a.NumField() {
		name := a.Type().Field(i).Tag.Get("yaml")
		if name != "forges" && name != "signKey" && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			out = append(out, name)
		}
	}
	return out
}

func (c *Config) check(p *problems) {
	for key, address := range map[string]string{"metrics": c.Metrics, "debug": c.Debug} {
		if address != "" && (address == c.Listen || key == "debug" && address == c.Metrics) {
			p.add("%s: %s is taken: it needs an address of its own", key, address)
		}
	}
	if len(c.Forges) == 0 {
		p.add("forges: at least one is needed")
	}
	if c.Workers < 1 || c.Workers > 1000 {
		p.add("workers: %d is not between 1 and 1000", c.Workers)
	}
	if _, err := fetch.NewGuard(c.Network.Allow...); err != nil {
		p.add("network.allow: %w", err)
	}
	if _, err := worker.ParseMode(string(c.Isolation)); err != nil {
		p.add("isolation: %w", err)
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"sweep", c.Sweep}, {"promote", c.Promote}} {
		if d.value < 5*time.Second {
			p.add("%s: %s is less than 5s", d.key, d.value)
		}
	}
	var names []string
	for i := range c.Forges {
		f := &c.Forges[i]
		at := fmt.Sprintf("forges[%d]", i)
		if slices.Contains(names, f.Name) {
			p.add("%s: the name %q is taken", at, f.Name)
		}
		names = append(names, f.Name)
		f.check(p, at)
	}
}

func webURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil
}

func (f *Forge) check(p *problems, at string) {
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,40}$`).MatchString(f.Name) {
		p.add("%s.name: %q must be lower-case letters, digits and dashes", at, f.Name)
	}
	if f.Kind != "github" && f.Kind != "gitlab" {
		p.add("%s.kind: %q must be github or gitlab", at, f.Kind)
		return
	}
	for _, u := range []string{f.API, f.Git} {
		if !webURL(u) {
			p.add("%s: %q is no http or https URL without credentials", at, u)
		}
	}
	if !f.Token.Set() && f.App.ID == 0 {
		p.add("%s: a token or, on GitHub, an app is needed", at)
	}
	if f.App.ID != 0 && (f.Kind != "github" || !f.App.Key.Set()) {
		p.add("%s.app: an app needs GitHub and a key", at)
	}
	if len(f.Secrets)+len(f.Signing) == 0 {
		p.add("%s.secrets: a webhook's secret is needed: without one anybody could send events", at)
	}
	if f.Kind == "github" && len(f.Signing) > 0 {
		p.add("%s.signing: only GitLab has signing secrets: GitHub's go to secrets", at)
	}
	if len(f.Repositories) == 0 {
		p.add("%s.repositories: say which ones, such as [\"acme/*\"]", at)
	}
	for i := range f.Receivers {
		f.Receivers[i].check(p, fmt.Sprintf("%s.receivers[%d]", at, i))
	}
	for _, list := range append([][]string{f.Repositories, f.Outputs}, overridden(f.Overrides)...) {
		for _, pattern := range list {
			if _, err := path.Match(pattern, ""); err != nil || !strings.Contains(pattern, "/") {
				p.add("%s: %q is no pattern of a repository's full path", at, pattern)
			}
		}
	}
}

func overridden(list []Override) [][]string {
	out := make([][]string, len(list))
	for i, o := range list {
		out[i] = o.Repositories
	}
	return out
}

// load reads the secrets.
func (c *Config) load(p *problems, s Sources) {
	read := func(at string, secret *Secret, required bool) { secret.load(p, s, at, required) }
	read("fingerprint", &c.Fingerprint, false)
	if c.SignKey != "" {
		if _, err := s.Read(c.SignKey); err != nil {
			p.add("signKey: %w", err)
		}
	}
	for i := range c.Forges {
		f := &c.Forges[i]
		at := fmt.Sprintf("forges[%d]", i)
		read(at+".token", &f.Token, false)
		read(at+".gitToken", &f.GitToken, false)
		read(at+".pushToken", &f.PushToken, false)
		read(at+".app.key", &f.App.Key, false)
		for k := range f.Secrets {
			read(fmt.Sprintf("%s.secrets[%d]", at, k), &f.Secrets[k], true)
		}
		for k := range f.Signing {
			read(fmt.Sprintf("%s.signing[%d]", at, k), &f.Signing[k], true)
		}
		for k := range f.Receivers {
			read(fmt.Sprintf("%s.receivers[%d].secret", at, k), &f.Receivers[k].Secret, true)
		}
	}
}

func (secret *Secret) load(p *problems, s Sources, at string, required bool) {
	switch {
	case secret.File != "" && secret.Env != "":
		p.add("%s: file or env, not both", at)
	case secret.File != "":
		data, err := s.Read(secret.File)
		if err != nil {
			p.add("%s: %w", at, err)
			return
		}
		secret.value = bytes.TrimSpace(data)
	case secret.Env != "":
		secret.value = []byte(strings.TrimSpace(s.Getenv(secret.Env)))
	case !required:
		return
	}
	if len(secret.value) == 0 {
		p.add("%s: the secret is empty", at)
	}
}

// Outputs are patterns of repositories that rendered branches may go to: of full paths on the forge, or of whole addresses.
type Outputs []string

// Path says whether a repository on the forge is one of them.
func (o Outputs) Path(repository string) bool {
	return matches(slices.DeleteFunc(slices.Clone(o), isAddress), repository)
}

// Address says whether an address is one of them. The end .git makes no difference.
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

// Has says whether the forge's repositories include one.
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

// For are the settings of a repository.
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
		Drafts: pick(s.Drafts, base.Drafts), Previews: pick(s.Previews, base.Previews), Checks: pick(s.Checks, base.Checks),
		Labels: base.Labels, SkipLabels: base.SkipLabels, PreviewCap: cmp.Or(s.PreviewCap, base.PreviewCap),
		PerPush: cmp.Or(s.PerPush, base.PerPush), Context: cmp.Or(s.Context, base.Context),
	}
	if s.Labels != nil {
		out.Labels = s.Labels
	}
	if s.SkipLabels != nil {
		out.SkipLabels = s.SkipLabels
	}
	return out
}
