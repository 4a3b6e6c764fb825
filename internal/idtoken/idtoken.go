// Package idtoken gets tokens of OpenID Connect that prove to Sigstore who a job is.
package idtoken

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/internal/plainhttp"
)

// audience is that of tokens for Sigstore.
const audience = "sigstore"

// maxToken limits the bytes of a token, and of the answer that has it.
const maxToken = 64 << 10

// Source returns what gets a token each time it is called, because tokens are short-lived; nil if the environment has
// none. It looks for, in this order,
//
//   - SLUICE_SIGSTORE_TOKEN_FILE, a file such as a projected token of a Kubernetes service account,
//   - SIGSTORE_ID_TOKEN, as id_tokens of GitLab CI set it,
//   - ACTIONS_ID_TOKEN_REQUEST_URL and ACTIONS_ID_TOKEN_REQUEST_TOKEN of GitHub Actions, which a job has with the
//     permission id-token: write (https://docs.github.com/en/actions/reference/security/oidc).
//
// It refuses a token for another audience, such as that of a Kubernetes API server: whoever gets it could use it there.
// Errors hold no token.
func Source(getenv func(string) string) func(ctx context.Context) (string, error) {
	if file := getenv("SLUICE_SIGSTORE_TOKEN_FILE"); file != "" {
		return func(context.Context) (string, error) { return read(file) }
	}
	if token := getenv("SIGSTORE_ID_TOKEN"); token != "" {
		return func(context.Context) (string, error) { return checked(token, "SIGSTORE_ID_TOKEN") }
	}
	address, bearer := getenv("ACTIONS_ID_TOKEN_REQUEST_URL"), getenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
	if address == "" || bearer == "" {
		return nil
	}
	return func(ctx context.Context) (string, error) { return request(ctx, address, bearer) }
}

func read(file string) (string, error) {
	f, err := os.Open(file) //nolint:gosec // the user names it
	if err != nil {
		return "", fmt.Errorf("SLUICE_SIGSTORE_TOKEN_FILE: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	data, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("SLUICE_SIGSTORE_TOKEN_FILE: %w", err)
	}
	return checked(strings.TrimSpace(string(data)), "SLUICE_SIGSTORE_TOKEN_FILE")
}

// checked returns a token that has the form of one and is for Sigstore.
func checked(token, where string) (string, error) {
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s has no token in the form of a JWT", where)
	}
	var claims struct {
		Audience audiences `json:"aud"`
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(text, &claims) != nil {
		return "", fmt.Errorf("%s has no token in the form of a JWT", where)
	}
	if !slices.Contains(claims.Audience, audience) {
		return "", fmt.Errorf("%s has a token for another audience than %s, which is sent nowhere: request one for it", where, audience)
	}
	return token, nil
}

// audiences is the claim aud, which is one text or a list (https://www.rfc-editor.org/rfc/rfc7519#section-4.1.3).
type audiences []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audiences) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// request asks GitHub for a token.
func request(ctx context.Context, address, bearer string) (string, error) {
	const where, patience = "ACTIONS_ID_TOKEN_REQUEST_URL", 30 * time.Second
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New(where + " is not a URL")
	}
	if err := plainhttp.Check(u, nil); err != nil {
		return "", fmt.Errorf("%s: %w", where, err)
	}
	query := u.Query()
	query.Set("audience", audience)
	u.RawQuery = query.Encode()
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return "", errors.New(where + " is not a URL")
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("%s: %s does not answer", where, u.Host)
	}
	defer answer.Body.Close() //nolint:errcheck // it is only read
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxToken+1))
	if err != nil || answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s answers with %d", where, u.Host, answer.StatusCode)
	}
	var body struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(data, &body) != nil {
		return "", fmt.Errorf("%s: %s gives no token", where, u.Host)
	}
	return checked(body.Value, where)
}
