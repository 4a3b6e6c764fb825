package config

import (
	"cmp"
	"fmt"
	"net/mail"
	"path"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/internal/plainhttp"
	"github.com/sluice-gitops/sluice/service/events"
)

// Events configures who is told of what needs people.
type Events struct {
	Late      time.Duration   `yaml:"late"` // after which a promotion that waits is late. Default: 4h
	Receivers []EventReceiver `yaml:"receivers"`
}

// EventReceiver is told of the events that all of its lists select. An empty list selects everything.
type EventReceiver struct {
	Name         string   `yaml:"name"`         // unique
	Kind         string   `yaml:"kind"`         // webhook, slack, teams or email
	URL          Secret   `yaml:"url"`          // of a webhook; whoever knows it can write there
	Secret       Secret   `yaml:"secret"`       // signs webhooks: whsec_ and base64
	Mail         Mail     `yaml:"mail"`         // of the kind email
	Events       []string `yaml:"events"`       // kinds of events
	Repositories []string `yaml:"repositories"` // patterns of full paths
	Environments []string `yaml:"environments"` // patterns of names
	Workspaces   []string `yaml:"workspaces"`   // patterns of names
	Severity     string   `yaml:"severity"`     // the least: info (default), warning or error
	Template     string   `yaml:"template"`     // of the text for people
}

// Mail configures how mail is sent.
type Mail struct {
	Host     string   `yaml:"host"`
	Port     int      `yaml:"port"` // Default: 587, or 465 with tls
	TLS      string   `yaml:"tls"`  // starttls (default), tls or none
	User     string   `yaml:"user"`
	Password Secret   `yaml:"password"`
	From     string   `yaml:"from"`
	To       []string `yaml:"to"`
}

func (e *Events) defaults() {
	e.Late = cmp.Or(e.Late, 4*time.Hour)
	for i := range e.Receivers {
		r := &e.Receivers[i]
		r.Severity = cmp.Or(r.Severity, string(events.Info))
		if r.Kind == string(events.Email) {
			r.Mail.TLS = cmp.Or(r.Mail.TLS, "starttls")
			r.Mail.Port = cmp.Or(r.Mail.Port, map[string]int{"tls": 465}[r.Mail.TLS], 587)
		}
	}
}

func (e *Events) check(p *problems) {
	if e.Late < time.Minute {
		p.add("events.late: %s is less than 1m", e.Late)
	}
	names := map[string]bool{}
	for i := range e.Receivers {
		r := &e.Receivers[i]
		at := fmt.Sprintf("events.receivers[%d]", i)
		if !namePattern.MatchString(r.Name) {
			p.add("%s.name: %q must be lower-case letters, digits and dashes", at, r.Name)
		}
		if names[r.Name] {
			p.add("%s.name: another receiver has the name %q: choose another one", at, r.Name)
		}
		names[r.Name] = true
		r.check(p, at)
	}
}

func (r *EventReceiver) check(p *problems, at string) {
	kind := events.ReceiverKind(r.Kind)
	switch kind {
	case events.Webhook, events.Slack, events.Teams:
		if !r.URL.Set() {
			p.add("%s.url: it is required, as {file: PATH} or {env: VARIABLE}", at)
		}
		if !slices.Equal([]string{r.Mail.Host, r.Mail.From}, []string{"", ""}) {
			p.add("%s.mail: only the kind email has it", at)
		}
	case events.Email:
		r.Mail.check(p, at+".mail")
		if r.URL.Set() {
			p.add("%s.url: the kind email has none", at)
		}
	default:
		p.add("%s.kind: %q must be webhook, slack, teams or email", at, r.Kind)
	}
	if (kind == events.Webhook) != r.Secret.Set() {
		p.add("%s.secret: a webhook needs one, and no other kind has one", at)
	}
	for _, k := range r.Events {
		if !slices.Contains(events.Kinds(), events.Kind(k)) {
			p.add("%s.events: %q is not one of %q", at, k, events.Kinds())
		}
	}
	if !slices.Contains(events.Severities(), events.Severity(r.Severity)) {
		p.add("%s.severity: %q must be info, warning or error", at, r.Severity)
	}
	for _, pattern := range slices.Concat(r.Repositories, r.Environments, r.Workspaces) {
		if _, err := path.Match(pattern, ""); err != nil {
			p.add("%s: %q is not a valid pattern", at, pattern)
		}
	}
	if r.Template == "" {
		return
	}
	if kind == events.Webhook {
		p.add("%s.template: a webhook has data and no text for people", at)
	} else if _, err := events.ParseTemplate(r.Template); err != nil {
		p.add("%s.template: %w (docs/events.md lists the fields)", at, err)
	}
}

func (m *Mail) check(p *problems, at string) {
	if m.Host == "" {
		p.add("%s.host: it is required: the server that takes the mail", at)
	}
	if m.Port < 1 || m.Port > 65535 {
		p.add("%s.port: %d is not between 1 and 65535", at, m.Port)
	}
	switch m.TLS {
	case "starttls", "tls":
	case "none":
		if m.User != "" && !plainhttp.Loopback(m.Host) {
			p.add("%s.tls: a password is not sent to %s without TLS: use starttls or tls", at, m.Host)
		}
	default:
		p.add("%s.tls: %q must be starttls, tls or none", at, m.TLS)
	}
	if (m.User != "") != m.Password.Set() {
		p.add("%s: set user and password, or neither", at)
	}
	if len(m.To) == 0 {
		p.add("%s.to: name at least one address", at)
	}
	for _, address := range append([]string{m.From}, m.To...) {
		if _, err := mail.ParseAddress(address); err != nil {
			p.add("%s: %q is not an address such as sre@example.com", at, address)
		}
	}
}

func (e *Events) load(p *problems, s Sources) {
	for i := range e.Receivers {
		r := &e.Receivers[i]
		at := fmt.Sprintf("events.receivers[%d]", i)
		r.URL.load(p, s, at+".url", false)
		r.Secret.load(p, s, at+".secret", false)
		r.Mail.Password.load(p, s, at+".mail.password", false)
		if len(r.URL.Bytes()) > 0 && !webURL(string(r.URL.Bytes())) { // not quoted: it is a credential
			p.add("%s.url: it must be an http or https URL without credentials", at)
		}
		if len(r.Secret.Bytes()) > 0 {
			if _, err := events.SigningKey(string(r.Secret.Bytes())); err != nil {
				p.add("%s.secret: %w", at, err)
			}
		}
	}
}

// Receiver returns the receiver that package events tells.
func (r *EventReceiver) Receiver() (events.Receiver, error) {
	out := events.Receiver{
		Name: r.Name, Kind: events.ReceiverKind(r.Kind), URL: string(r.URL.Bytes()), Environments: r.Environments,
		Workspaces: r.Workspaces, Severity: events.Severity(r.Severity),
		Mail: events.Mail{
			Host: r.Mail.Host, Port: r.Mail.Port, TLS: r.Mail.TLS, User: r.Mail.User,
			Password: string(r.Mail.Password.Bytes()), From: r.Mail.From, To: r.Mail.To,
		},
	}
	for _, k := range r.Events {
		out.Events = append(out.Events, events.Kind(k))
	}
	if len(r.Repositories) > 0 {
		out.Repositories = func(repository string) bool { return matches(r.Repositories, repository) }
	}
	var err error
	if out.Kind == events.Webhook {
		if out.Secret, err = events.SigningKey(string(r.Secret.Bytes())); err != nil {
			return out, err
		}
	}
	if r.Template != "" {
		out.Template, err = events.ParseTemplate(r.Template)
	}
	return out, err
}
