package github

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

// static is a configured token.
type static string

// Key implements rest.Credential.
func (static) Key() string { return "token" }

// Token implements rest.Credential.
func (s static) Token(context.Context) (string, error) { return string(s), nil }

// Refused implements rest.Credential.
func (static) Refused(string) bool { return false }

// jwt is the credential of the App itself: a token that the App signs, for requesting installation tokens.
type jwt struct {
	issuer  string
	private *rsa.PrivateKey
	clock   func() time.Time
}

// Key implements rest.Credential.
func (jwt) Key() string { return "app" }

// Refused implements rest.Credential.
func (jwt) Refused(string) bool { return false }

// Token implements rest.Credential. GitHub accepts a lifetime of at most ten minutes. The token is valid from a
// minute ago, because clocks may differ.
func (j jwt) Token(context.Context) (string, error) {
	now := j.clock()
	claims, err := json.Marshal(map[string]any{
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(8 * time.Minute).Unix(), "iss": j.issuer,
	})
	if err != nil {
		return "", fmt.Errorf("github: sign the App's token: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, j.private, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("github: sign the App's token: %w", err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}

// privateKey parses the key of the App.
func privateKey(data []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return privateKeyError("is not PEM", nil)
	}
	if block.Type == "RSA PRIVATE KEY" {
		key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
		if err != nil {
			return privateKeyError("cannot be read", err)
		}
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return privateKeyError("cannot be read", err)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return privateKeyError("is not an RSA key", nil)
	}
	return key, nil
}

// app provides credentials for repositories. An App has one installation for each account.
type app struct {
	jwt    jwt
	client *github.Client
	clock  func() time.Time
	fixed  int64

	mu            sync.Mutex
	itself        *github.App
	installations map[string]int64         // by owner, in lower case
	tokens        map[string]*installation // by repository, in lower case; "" is all repositories
}

// early is the time before its expiry at which a token is replaced, because a push may take some time.
const early = 5 * time.Minute

// of returns the credential for a repository.
func (a *app) of(ctx context.Context, p place) (rest.Credential, error) {
	id, err := a.installation(ctx, p)
	if err != nil {
		return nil, err
	}
	return a.held(id, p), nil
}

func (a *app) held(id int64, p place) *installation {
	key := strings.ToLower(p.owner + "/" + p.name)
	a.mu.Lock()
	defer a.mu.Unlock()
	have := a.tokens[key]
	if have == nil || have.id != id {
		have = &installation{app: a, id: id, place: p}
		a.tokens[key] = have
	}
	return have
}

func (a *app) installation(ctx context.Context, p place) (int64, error) {
	if a.fixed != 0 {
		return a.fixed, nil
	}
	owner := strings.ToLower(p.owner)
	a.mu.Lock()
	id := a.installations[owner]
	a.mu.Unlock()
	if id != 0 {
		return id, nil
	}
	in, _, err := a.client.Apps.FindRepositoryInstallation(rest.With(ctx, a.jwt), p.owner, p.name)
	if err != nil {
		return 0, fmt.Errorf("find the installation of the App (check that it is installed on the repository): %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.installations[owner] = in.GetID()
	return in.GetID(), nil
}

// forget drops an installation that no longer exists. The next request looks for its successor.
func (a *app) forget(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for owner, have := range a.installations {
		if have == id {
			delete(a.installations, owner)
		}
	}
}

// installation is the credential of the App for one repository, or for all repositories of an installation if
// the place is empty.
type installation struct {
	app   *app
	id    int64
	place place

	mu   sync.Mutex // held during the request for a token, so that there is only one request at a time
	have string
	end  time.Time
	// reads reports whether the token can read check runs, but not write them.
	reads bool
}

// Key implements rest.Credential.
func (i *installation) Key() string { return fmt.Sprint("installation ", i.id) }

// Token implements rest.Credential. It requests a new token some minutes before the old one expires.
func (i *installation) Token(ctx context.Context) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.have != "" && i.app.clock().Before(i.end.Add(-early)) {
		return i.have, nil
	}
	o := &github.InstallationTokenOptions{} // nil would be sent as null, which GitHub does not document
	if i.place.name != "" {
		o.Repositories = []string{i.place.name}
	}
	// An unused token does no harm: the request may be repeated.
	t, _, err := i.app.client.Apps.CreateInstallationToken(rest.Repeatable(rest.With(ctx, i.app.jwt)), i.id, o)
	if err != nil {
		if status(err) == 404 {
			i.app.forget(i.id)
		}
		if status(err) == 422 && i.place.name != "" {
			err = fmt.Errorf("%w: the App is not installed on %s/%s, or the repository does not exist",
				forge.ErrNotFound, i.place.owner, i.place.name)
		}
		return "", fmt.Errorf("get a token for installation %d: %w", i.id, translated(err))
	}
	if t.GetToken() == "" {
		return "", fmt.Errorf("get a token for installation %d: %w: the answer has none", i.id, forge.ErrUnavailable)
	}
	i.have, i.end = t.GetToken(), t.GetExpiresAt().Time
	i.reads = t.GetPermissions().GetChecks() == "read"
	return i.have, nil
}

// readsChecks reports whether the App can read check runs, but not write them.
func (i *installation) readsChecks(ctx context.Context) (bool, error) {
	if _, err := i.Token(ctx); err != nil {
		return false, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reads, nil
}

// Refused implements rest.Credential.
func (i *installation) Refused(token string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.have == token {
		i.have = ""
	}
	return true
}

// status returns the HTTP status of an error, or 0.
func status(err error) int {
	var e *github.ErrorResponse
	if errors.As(err, &e) && e.Response != nil {
		return e.Response.StatusCode
	}
	return 0
}
