// Package notify tells Flux and Argo CD at once that rendered branches moved, instead of leaving them to find out at their next
// look. Forges do not do that reliably: GitLab sends no webhook for a push of more than three refs. It owns requests to the
// addresses that an operator configured, signed with the operator's secrets. It must never take an address from a repository,
// and nothing may depend on it: what is not told is found out a little later.
package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // older releases of Argo CD check this one
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Kind is who listens.
type Kind string

// The kinds.
const (
	Flux   Kind = "flux"   // a Receiver of the type generic-hmac
	ArgoCD Kind = "argocd" // /api/webhook, with webhook.github.secret
)

// Receiver is one address, or with ${cluster.name} or ${environment} in it one for each.
type Receiver struct {
	Kind     Kind
	URL      string
	Secret   []byte
	Clusters []string // patterns of names; none: all
}

// Move is a branch that is at another commit now. Cluster is empty for the branch of an environment.
type Move struct {
	Branch, Environment, Cluster string
	Before, After                string // commits; Before is empty for a new branch
}

const (
	parallel   = 16
	tries      = 3
	oneTry     = 10 * time.Second
	answerSize = 64 << 10
	nothing    = "0000000000000000000000000000000000000000"
)

// Notifier sends. It is safe for concurrent use.
type Notifier struct {
	Receivers []Receiver
	Client    *http.Client // its redirects must not be followed: see NewClient
	UserAgent string
	Wait      time.Duration // before the second try; doubled then
}

// NewClient makes a client that follows no redirect: a signed message is for the configured address alone.
func NewClient() *http.Client {
	return &http.Client{Timeout: oneTry, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// message is a request to be sent.
type message struct {
	kind   Kind
	url    string
	secret []byte
	move   Move
}

// Tell tells all receivers of branches of a repository (its address, without credentials). Each error is about one address, and
// names its host alone: a Flux receiver's path is as good as a password.
func (n *Notifier) Tell(ctx context.Context, repository string, moves []Move) error {
	messages := n.messages(moves)
	failed := make([]error, len(messages))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, m := range messages {
		group.Go(func() error {
			failed[i] = n.send(ctx, repository, &m)
			return nil
		})
	}
	_ = group.Wait() // none of them gives an error
	return errors.Join(failed...)
}

// messages are what there is to send. A Flux receiver has everything behind it looked at whatever the message says: one is enough.
func (n *Notifier) messages(moves []Move) []message {
	var out []message
	told := map[string]bool{}
	for _, r := range n.Receivers {
		for _, m := range moves {
			if !r.wants(&m) {
				continue
			}
			address := strings.NewReplacer("${cluster.name}", url.PathEscape(m.Cluster), "${environment}", url.PathEscape(m.Environment)).Replace(r.URL)
			if r.Kind == Flux && told[address] {
				continue
			}
			told[address] = true
			out = append(out, message{kind: r.Kind, url: address, secret: r.Secret, move: m})
		}
	}
	return out
}

func (r *Receiver) wants(m *Move) bool {
	if m.Cluster == "" {
		return !strings.Contains(r.URL, "${cluster.name}") && len(r.Clusters) == 0
	}
	return len(r.Clusters) == 0 || slices.ContainsFunc(r.Clusters, func(pattern string) bool {
		ok, err := path.Match(pattern, m.Cluster)
		return err == nil && ok
	})
}

func (n *Notifier) send(ctx context.Context, repository string, m *message) error {
	u, err := url.Parse(m.url)
	if err != nil {
		return fmt.Errorf("notify %s of %s: the address is none", m.kind, m.move.Branch)
	}
	body, err := m.body(repository)
	if err != nil {
		return err
	}
	wait := n.Wait
	for try := 1; ; try++ {
		again, err := n.once(ctx, m, body)
		if err == nil {
			return nil
		}
		if !again || try == tries || ctx.Err() != nil {
			return fmt.Errorf("notify %s at %s of %s: %w", m.kind, u.Host, m.move.Branch, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// once makes one try, and says whether another one may help.
func (n *Notifier) once(ctx context.Context, m *message, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the address is none")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", n.UserAgent)
	m.sign(r.Header, body)
	resp, err := n.Client.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address
		}
		return true, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, answerSize))
	_ = resp.Body.Close()
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return false, nil
	}
	return resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests, fmt.Errorf("it answers %d", resp.StatusCode)
}

// sign adds the signature: Flux's as https://fluxcd.io/flux/components/notification/receivers/#generic-hmac has it, Argo CD's as
// GitHub's webhooks have it (https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries).
func (m *message) sign(h http.Header, body []byte) {
	if m.kind == Flux {
		h.Set("X-Signature", "sha256="+sum(sha256.New, m.secret, body))
		return
	}
	h.Set("X-GitHub-Event", "push")
	h.Set("X-Hub-Signature", "sha1="+sum(sha1.New, m.secret, body))
	h.Set("X-Hub-Signature-256", "sha256="+sum(sha256.New, m.secret, body))
}

func sum(algorithm func() hash.Hash, key, body []byte) string {
	mac := hmac.New(algorithm, key)
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// push is what Argo CD reads of GitHub's push event. Without a list of changed files it looks at every application of the branch.
type push struct {
	Ref        string         `json:"ref"`
	Before     string         `json:"before"`
	After      string         `json:"after"`
	Repository pushRepository `json:"repository"`
}

type pushRepository struct {
	HTMLURL       string `json:"html_url"`
	DefaultBranch string `json:"default_branch"`
}

func (m *message) body(repository string) ([]byte, error) {
	before := m.move.Before
	if before == "" {
		before = nothing
	}
	return json.Marshal(push{Ref: "refs/heads/" + m.move.Branch, Before: before, After: m.move.After, Repository: pushRepository{HTMLURL: Web(repository)}})
}

// Web is the address of a repository's page, as forges have it, from the one that it is cloned from.
func Web(repository string) string {
	if host, rest, ok := strings.Cut(repository, ":"); ok && !strings.Contains(repository, "://") && !strings.Contains(host, "/") { // git@host:path
		repository = "ssh://" + host + "/" + rest
	}
	u, err := url.Parse(repository)
	if err != nil || u.Host == "" {
		return repository
	}
	if u.Scheme == "ssh" {
		u.Scheme, u.Host = "https", u.Hostname()
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), ".git")
	return u.String()
}
