package events

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/wneessen/go-mail"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// ReceiverKind is how a receiver is told.
type ReceiverKind string

// The kinds of receivers.
const (
	Webhook ReceiverKind = "webhook" // CloudEvents with a signature of Standard Webhooks
	Slack   ReceiverKind = "slack"   // incoming webhook
	Teams   ReceiverKind = "teams"   // incoming webhook of Workflows
	Email   ReceiverKind = "email"
)

// updates reports whether the receiver is told each change of an episode. A message in a chat or a mailbox cannot be
// changed: people get one when the episode begins, and one when it ends.
func (k ReceiverKind) updates() bool { return k == Webhook }

// Receiver gets the events that its rule selects. Empty lists select everything.
type Receiver struct {
	Name         string
	Kind         ReceiverKind
	URL          string // of a webhook; a credential
	Secret       []byte // signs webhooks
	Mail         Mail
	Events       []Kind
	Repositories func(path string) bool // nil: all
	Environments []string               // patterns of names
	Workspaces   []string               // patterns of names; an event about no workspace matches none
	Severity     Severity               // the least
	Template     *template.Template     // of the text for people; nil: the default
}

// Mail is how mail is sent.
type Mail struct {
	Host           string
	Port           int
	TLS            string // starttls, tls or none
	User, Password string
	From           string
	To             []string
}

// wants reports whether the rule selects an event.
func (r *Receiver) wants(e *Event) bool {
	matches := func(patterns []string, names ...string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(names, func(name string) bool {
			return slices.ContainsFunc(patterns, func(p string) bool {
				ok, err := path.Match(p, name)
				return err == nil && ok
			})
		})
	}
	return (len(r.Events) == 0 || slices.Contains(r.Events, e.Kind)) && e.Severity.AtLeast(r.Severity) &&
		(r.Repositories == nil || r.Repositories(e.Repository)) && matches(r.Environments, e.Environment) &&
		matches(r.Workspaces, e.Workspaces...)
}

// request returns the body and the headers of a message.
func (r *Receiver) request(m *message, now time.Time) ([]byte, http.Header, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	if r.Kind == Webhook {
		header.Set("Content-Type", cloudevents.ApplicationCloudEventsJSON)
		body, err := m.cloudEvent()
		if err != nil {
			return nil, nil, err
		}
		sign(header, r.Secret, m.id(), now, body)
		return body, header, nil
	}
	text, err := r.text(m)
	if err != nil {
		return nil, nil, err
	}
	body := slackMessage(m, text)
	if r.Kind == Teams {
		body = teamsMessage(m, text)
	}
	data, err := json.Marshal(body)
	return data, header, err
}

// data is the data of a CloudEvent. docs/events.md describes it.
type data struct {
	Event
	Episode string    `json:"episode"`
	State   State     `json:"state"`
	Since   time.Time `json:"since"`
}

// typePrefix is the prefix of the types of CloudEvents.
const typePrefix = "dev.sluice."

func (m *message) cloudEvent() ([]byte, error) {
	e := cloudevents.New()
	e.SetID(m.id())
	e.SetSource(cmp.Or(m.URL, "/"+m.Repository)) // the forge may have left the configuration
	e.SetType(typePrefix + string(m.Kind))
	e.SetTime(m.Time)
	if m.Environment != "" {
		e.SetSubject(m.Environment)
	}
	if err := e.SetData(cloudevents.ApplicationJSON, data{m.Event, m.Episode, m.State, m.Since}); err != nil {
		return nil, err
	}
	if err := e.Validate(); err != nil {
		return nil, err
	}
	return json.Marshal(e)
}

// sign adds the headers of https://www.standardwebhooks.com: the signature covers the id, the time of the attempt and
// the body.
func sign(h http.Header, key []byte, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, id+"."+stamp+".") // a hash returns no errors
	_, _ = mac.Write(body)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", stamp)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// SigningKey returns the key of a secret as Standard Webhooks writes it: whsec_ and 24 to 64 bytes in base64.
func SigningKey(secret string) ([]byte, error) {
	const least, most = 24, 64
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < least || len(key) > most {
		return nil, errors.New("it must be whsec_ and 24 to 64 bytes in base64 (`echo whsec_$(openssl rand -base64 32)`)")
	}
	return key, nil
}

// DefaultTemplate is the text for people: a title, and lines below it.
const DefaultTemplate = `{{if eq .State "ended"}}Over: {{end}}{{.Title}}
{{.Repository}}{{if .Environment}}, {{.Environment}}{{end}}{{if .Workspaces}}, workspaces {{join .Workspaces}}{{end}}
{{- if and .Text (ne .State "ended")}}
{{.Text}}{{end}}
{{- if and .Command (ne .State "ended")}}
Next: {{.Command}}{{end}}`

// fields are what a template can use.
type fields struct {
	Event
	State string
	Since time.Time
}

// ParseTemplate parses a template and tries it.
func ParseTemplate(text string) (*template.Template, error) {
	t, err := template.New("template").Option("missingkey=error").Funcs(template.FuncMap{
		"join": func(list []string) string { return strings.Join(list, ", ") },
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	r := Receiver{Template: t}
	_, err = r.text(&message{Event: Event{Workspaces: []string{"a"}}, State: Opened})
	return t, err
}

// MaxTitle is the size of a title in characters.
const MaxTitle = 140

// lines is the text for people.
type lines struct {
	title string
	rest  string // lines
}

// text applies the template. Nothing in it is markup: each line is escaped for the medium.
func (r *Receiver) text(m *message) (lines, error) {
	t := r.Template
	if t == nil {
		var err error
		if t, err = ParseTemplate(DefaultTemplate); err != nil {
			return lines{}, err
		}
	}
	const most = 4 << 10
	var out bytes.Buffer
	if err := t.Execute(&out, fields{m.Event, string(m.State), m.Since}); err != nil {
		return lines{}, err
	}
	text := strings.TrimSpace(safetext.Shorten(out.String(), most))
	title, rest, _ := strings.Cut(text, "\n")
	return lines{safetext.Brief(title, MaxTitle), safetext.Lines(strings.TrimSpace(rest))}, nil
}

type object map[string]any

// slackMessage returns a message with blocks of plain text: Slack makes no links, mentions or emoji of them.
func slackMessage(m *message, text lines) any {
	plain := func(s string) object { return object{"type": "plain_text", "text": s, "emoji": false} }
	blocks := []object{{"type": "header", "text": plain(text.title)}}
	if text.rest != "" {
		const most = 2900 // Slack takes 3,000 characters
		blocks = append(blocks, object{"type": "section", "text": plain(safetext.Shorten(text.rest, most))})
	}
	if m.URL != "" {
		blocks = append(blocks, object{"type": "actions", "elements": []object{
			{"type": "button", "text": plain("Open"), "url": m.URL},
		}})
	}
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	return object{"text": escape.Replace(text.title), "blocks": blocks} // the text is for notifications
}

// teamsMessage returns an Adaptive Card. Runs of text have no markup, unlike text blocks.
func teamsMessage(m *message, text lines) any {
	color := map[Severity]string{Info: "default", Warning: "warning", Error: "attention"}[m.Severity]
	if m.State == Ended {
		color = "good"
	}
	run := func(s string, more object) object {
		out := object{"type": "TextRun", "text": s}
		maps.Copy(out, more)
		return object{"type": "RichTextBlock", "inlines": []object{out}}
	}
	body := []object{run(text.title, object{"weight": "bolder", "size": "medium", "color": color})}
	for line := range strings.Lines(text.rest) {
		body = append(body, run(strings.TrimSuffix(line, "\n"), nil))
	}
	card := object{
		"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
		"body": body,
	}
	if m.URL != "" {
		card["actions"] = []object{{"type": "Action.OpenUrl", "title": "Open", "url": m.URL}}
	}
	return object{"type": "message", "attachments": []object{
		{"contentType": "application/vnd.microsoft.card.adaptive", "content": card},
	}}
}

// mail sends a message. The messages of one episode are one thread.
func (r *Receiver) mail(ctx context.Context, m *message) error {
	text, err := r.text(m)
	if err != nil {
		return err
	}
	out := mail.NewMsg()
	if err := out.From(r.Mail.From); err != nil {
		return fmt.Errorf("from: %w", err)
	}
	if err := out.To(r.Mail.To...); err != nil {
		return fmt.Errorf("to: %w", err)
	}
	_, domain, _ := strings.Cut(r.Mail.From, "@")
	domain = strings.TrimRight(domain, "> ")
	first := m.Episode + "@" + domain
	out.SetMessageIDWithValue(first)
	if m.State == Ended {
		out.SetMessageIDWithValue(m.id() + "@" + domain)
		out.SetGenHeader(mail.HeaderInReplyTo, "<"+first+">")
		out.SetGenHeader(mail.HeaderReferences, "<"+first+">")
	}
	out.SetGenHeader("Auto-Submitted", "auto-generated")
	out.Subject(text.title)
	body := text.title + "\n\n" + text.rest + "\n"
	if m.URL != "" {
		body += "\n" + m.URL + "\n"
	}
	out.SetBodyString(mail.TypeTextPlain, body)
	options := []mail.Option{mail.WithPort(r.Mail.Port), mail.WithTimeout(sendTime)}
	switch r.Mail.TLS {
	case "none":
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	case "tls":
		options = append(options, mail.WithSSL())
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if r.Mail.User != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(r.Mail.User),
			mail.WithPassword(r.Mail.Password))
	}
	client, err := mail.NewClient(r.Mail.Host, options...)
	if err != nil {
		return err
	}
	return client.DialAndSendWithContext(ctx, out)
}
