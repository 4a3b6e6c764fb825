// Package notify sends a message to Flux and Argo CD when rendered branches move, so that they reconcile at once
// instead of at their next poll. Webhooks of forges are not enough: GitLab sends none for a push that changes more
// than three refs.
//
// The package sends requests only to addresses that an operator configured, never to one from a repository, and signs
// them with the operator's secrets. A lost message only delays the next reconciliation.
//
// The package is not API: it can change in every release.
package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // older releases of Argo CD verify this signature
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

	"github.com/sluice-gitops/sluice/internal/plainhttp"
	"github.com/sluice-gitops/sluice/internal/retry"
)

// Kind is the tool that receives messages.
type Kind string

// The kinds of receivers.
const (
	Flux   Kind = "flux"   // a Receiver of the type generic-hmac
	ArgoCD Kind = "argocd" // /api/webhook, with webhook.github.secret
)

// Receiver is an address that receives messages. An address with ${cluster.name} or ${environment} stands for one
// address per cluster or environment.
type Receiver struct {
	Kind     Kind
	URL      string
	Secret   []byte
	Clusters []string // patterns of names; none means all
}

// Move is a branch that moved. Cluster is empty for the branch of an environment.
type Move struct {
	Branch, Environment, Cluster string
	Before, After                string // commits; Before is empty for a new branch
}

const (
	parallel   = 16
	tries      = 3
	timeout    = 10 * time.Second // of one request
	answerSize = 64 << 10         // bytes of an answer that are read
	noCommit   = "0000000000000000000000000000000000000000"
)

// Notifier sends messages to receivers. It is safe for concurrent use.
type Notifier struct {
	Receivers []Receiver
	Client    *http.Client // must not follow redirects: see NewClient
	UserAgent string
	Wait      time.Duration // before the first retry; it doubles with each further retry
	PlainHTTP []string      // hosts of Flux receivers that may be reached over unencrypted HTTP; see plainhttp.Check
}

// NewClient returns a client that follows no redirect, because a signed message must reach only the configured
// address.
func NewClient() *http.Client {
	return &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// message is a request to send.
type message struct {
	kind   Kind
	url    string
	secret []byte
	move   Move
}

// Notify sends the moves of branches of a repository to all receivers. repository is its address without credentials.
// The error joins one error for each address that failed. Errors name only the host, because the path of a Flux
// receiver is a secret.
func (n *Notifier) Notify(ctx context.Context, repository string, moves []Move) error {
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
	_ = group.Wait() // the functions return no error
	return errors.Join(failed...)
}

// messages returns the requests to send. A Flux receiver ignores the content and reconciles all of its resources, so
// each gets only one message.
func (n *Notifier) messages(moves []Move) []message {
	var out []message
	sent := map[string]bool{}
	for _, r := range n.Receivers {
		for _, m := range moves {
			if !r.receives(&m) {
				continue
			}
			address := strings.NewReplacer("${cluster.name}", url.PathEscape(m.Cluster), "${environment}",
				url.PathEscape(m.Environment)).Replace(r.URL)
			if r.Kind == Flux && sent[address] {
				continue
			}
			sent[address] = true
			out = append(out, message{kind: r.Kind, url: address, secret: r.Secret, move: m})
		}
	}
	return out
}

// receives reports whether a move concerns the receiver.
func (r *Receiver) receives(m *Move) bool {
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
		return fmt.Errorf("notify %s of %s: the address is not a URL", m.kind, m.move.Branch)
	}
	if m.kind == Flux { // the path of a Flux receiver is a credential; to Argo CD, only a signature is sent
		if err := plainhttp.Check(u, n.PlainHTTP); err != nil {
			return fmt.Errorf("notify %s of %s: %w", m.kind, m.move.Branch, err)
		}
	}
	body, err := m.body(repository)
	if err != nil {
		return err
	}
	policy := retry.Policy{Tries: tries, First: n.Wait, Max: tries * n.Wait}
	_, err = retry.Do(ctx, policy, func(ctx context.Context) (struct{}, error) {
		return struct{}{},
			n.post(ctx, m, body)
	})
	if err != nil {
		return fmt.Errorf("notify %s at %s of %s: %w", m.kind, u.Host, m.move.Branch, err)
	}
	return nil
}

// post sends a message once. It marks temporary errors with retry.Again.
func (n *Notifier) post(ctx context.Context, m *message, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address is not a URL")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", n.UserAgent)
	m.sign(r.Header, body)
	resp, err := n.Client.Do(r)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address
		}
		return retry.Again(err)
	}
	// drain the body, so that the connection is reused
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, answerSize))
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return retry.Again(fmt.Errorf("it answers %d", resp.StatusCode))
	}
	return fmt.Errorf("it answers %d", resp.StatusCode)
}

// sign adds the signature: for Flux as in https://fluxcd.io/flux/components/notification/receivers/#generic-hmac, for
// Argo CD as in GitHub's webhooks (https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries).
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

// push is the part of GitHub's push event that Argo CD reads. Without a list of changed files, Argo CD refreshes every
// application of the branch.
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
		before = noCommit
	}
	return json.Marshal(push{
		Ref: "refs/heads/" + m.move.Branch, Before: before, After: m.move.After,
		Repository: pushRepository{HTMLURL: Web(repository)},
	})
}

// Web returns the address of a repository's web page from its clone address.
func Web(repository string) string {
	// git@host:path
	if host, rest, ok := strings.Cut(repository, ":"); ok && !strings.Contains(repository, "://") &&
		!strings.Contains(host, "/") {
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
