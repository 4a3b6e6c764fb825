// Package config parses the service's configuration: a YAML file, decoded strictly, whose secrets come from other
// files or variables. It reports all mistakes at once. It opens only the files that the configuration names.
//
// The package is not API: it can change in every release.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/internal/yamlmistake"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/worker"
	yaml "go.yaml.in/yaml/v3"
)

// Config is the service's configuration.
type Config struct {
	Listen  string   `yaml:"listen"`  // address of webhooks and probes. Default: :8080
	Metrics string   `yaml:"metrics"` // address of metrics and of the isolation report; "" disables both
	Debug   string   `yaml:"debug"`   // address of pprof; "" disables it
	Data    string   `yaml:"data"`    // folder of queue, mirrors and reports. Default: /var/lib/sluice
	Mirrors ByteSize `yaml:"mirrors"` // limit for the size of all mirrors. Default: 20Gi
	// reviews processed at once, as many commands, and as many other tasks. Default: 4
	Workers int           `yaml:"workers"`
	Reviews int           `yaml:"reviews"` // of one repository processed at once. Default: 2
	Jobs    int           `yaml:"jobs"`    // targets rendered at once. Default: all processors
	Sweep   time.Duration `yaml:"sweep"`   // interval of sweeps. Default: 2m
	Promote time.Duration `yaml:"promote"` // interval of checks of promotions. Default: 1m
	Drain   time.Duration `yaml:"drain"`   // time limit for running work at shutdown. Default: 2m
	Queue   Queue         `yaml:"queue"`   //
	// confinement of worker processes: required (default), degraded or off
	Isolation   worker.Mode `yaml:"isolation"`
	Network     Network     `yaml:"network"`     // private hosts that charts, schemas and checks may be fetched from
	Fingerprint Secret      `yaml:"fingerprint"` // key of the fingerprints that replace secrets
	// file of the key that signs rendered commits: an SSH or OpenPGP private key, or a .pub file whose key the SSH
	// agent has
	SignKey string  `yaml:"signKey"`
	Tracing string  `yaml:"tracing"` // URL of an OTLP receiver over HTTP; "" disables tracing
	Pages   Pages   `yaml:"pages"`   // pages of the fleets
	Events  Events  `yaml:"events"`  // who is told of what needs people; without receivers nobody
	Forges  []Forge `yaml:"forges"`
}

// Network limits which addresses the service connects to on behalf of a fleet: for charts, schemas, checks and
// receivers.
type Network struct {
	// hosts, host:port, addresses or CIDR ranges that are reachable although they are private
	Allow []string `yaml:"allow"`
}

// Queue configures the queue.
type Queue struct {
	URL         string `yaml:"url"`         // of a NATS cluster; "" runs the queue in this process
	Credentials string `yaml:"credentials"` // file of NATS credentials
	Replicas    int    `yaml:"replicas"`    // copies of each message. Default: 1, or 3 with a URL
	// share reports of merge requests with the other replicas. Default: true with a URL
	Reports *bool `yaml:"reports"`
}

var sizePattern = regexp.MustCompile(`^([0-9]{1,9})(Ki|Mi|Gi|Ti)?$`)

// ByteSize is a number of bytes such as 20Gi.
type ByteSize int64

// UnmarshalYAML parses 20Gi, 512Mi or a plain number.
func (b *ByteSize) UnmarshalYAML(n *yaml.Node) error {
	m := sizePattern.FindStringSubmatch(n.Value)
	if m == nil {
		return fmt.Errorf("line %d: %q is not a size such as 20Gi", n.Line, n.Value)
	}
	var number int64
	if _, err := fmt.Sscan(m[1], &number); err != nil {
		return err
	}
	*b = ByteSize(number << map[string]int{"": 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}[m[2]])
	return nil
}

// Sources read the secrets of a configuration.
type Sources struct {
	Getenv func(string) string
	Read   func(file string) ([]byte, error)
}

// Parse parses a configuration and reads the files that it names. The error lists all problems.
func Parse(name string, data []byte, s Sources) (*Config, error) {
	c := &Config{}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, yamlmistake.Errors(name, yamlmistake.Explain(err, data, c))
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
	c.Mirrors, c.Pages.Reports = cmp.Or(c.Mirrors, 20<<30), cmp.Or(c.Pages.Reports, 2<<30)
	c.Workers, c.Reviews = cmp.Or(c.Workers, 4), cmp.Or(c.Reviews, 2)
	c.Sweep = cmp.Or(c.Sweep, 2*time.Minute)
	c.Promote = cmp.Or(c.Promote, time.Minute)
	c.Drain = cmp.Or(c.Drain, 2*time.Minute)
	c.Isolation = cmp.Or(c.Isolation, worker.Required)
	if c.Queue.URL != "" {
		c.Queue.Replicas = cmp.Or(c.Queue.Replicas, 3)
	}
	c.Queue.Replicas = cmp.Or(c.Queue.Replicas, 1)
	c.Events.defaults()
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
		case "gitea":
			f.Git = cmp.Or(f.Git, gitBase(f.API, "", ""))
		}
	}
}

type problems struct {
	name string
	list []error
}

func (p *problems) add(format string, args ...any) {
	p.list = append(p.list, fmt.Errorf("%s: %w", p.name, fmt.Errorf(format, args...)))
}

// Restart returns the changed settings that a running service does not adopt.
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
			p.add("%s: another setting uses the address %s: choose another one", key, address)
		}
	}
	if len(c.Forges) == 0 {
		p.add("forges: configure at least one forge")
	}
	if c.Workers < 1 || c.Workers > 1000 {
		p.add("workers: %d is not between 1 and 1000", c.Workers)
	}
	if c.Reviews < 1 || c.Reviews > 100 {
		p.add("reviews: %d is not between 1 and 100", c.Reviews)
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
	c.checkPages(p)
	c.Events.check(p)
	var names []string
	for i := range c.Forges {
		f := &c.Forges[i]
		at := fmt.Sprintf("forges[%d]", i)
		if slices.Contains(names, f.Name) {
			p.add("%s: another forge has the name %q: choose another one", at, f.Name)
		}
		names = append(names, f.Name)
		f.check(p, at)
	}
}

// load reads the secrets.
func (c *Config) load(p *problems, s Sources) {
	read := func(at string, secret *Secret, required bool) { secret.load(p, s, at, required) }
	read("fingerprint", &c.Fingerprint, false)
	c.loadPages(p, s)
	c.Events.load(p, s)
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
