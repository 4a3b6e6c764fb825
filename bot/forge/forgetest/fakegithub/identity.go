package fakegithub

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// identity is who sends a request.
type identity struct {
	user    *account
	app     *app
	jwt     bool      // the App itself
	install *install  // an installation of the App
	only    []string  // repositories of the token, by path in lower case; none is all
	bot     bool      // no user's token: of an installation, or of a workflow
	end     time.Time // zero is never
}

type app struct {
	App
	account  *account
	created  time.Time
	installs []*install
}

type install struct {
	id      int64
	owner   *account
	created time.Time
}

// identify returns the sender of a request; false if the credential is not accepted.
func (s *state) identify(header string) (identity, bool) {
	if header == "" {
		return identity{}, true
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") && !strings.EqualFold(scheme, "token") {
		return identity{}, false
	}
	if who, ok := s.tokens[token]; ok {
		return who, who.end.IsZero() || s.now().Before(who.end)
	}
	for _, a := range s.apps {
		if a.signed(token, s.now()) {
			return identity{app: a, jwt: true, bot: true}, true
		}
	}
	return identity{}, false
}

// signed verifies an App's token as GitHub documents it: RS256, at most ten minutes long.
func (a *app) signed(token string, now time.Time) bool {
	part := strings.Split(token, ".")
	if len(part) != 3 || a.Key == nil {
		return false
	}
	sum := sha256.Sum256([]byte(part[0] + "." + part[1]))
	sig, err := base64.RawURLEncoding.DecodeString(part[2])
	if err != nil || rsa.VerifyPKCS1v15(a.Key, crypto.SHA256, sum[:], sig) != nil {
		return false
	}
	data, err := base64.RawURLEncoding.DecodeString(part[1])
	var claims struct {
		IssuedAt int64  `json:"iat"`
		Expires  int64  `json:"exp"`
		Issuer   string `json:"iss"`
	}
	if err != nil || json.Unmarshal(data, &claims) != nil {
		return false
	}
	at := now.Unix()
	return (claims.Issuer == fmt.Sprint(a.ID) || claims.Issuer == a.ClientID && a.ClientID != "") &&
		claims.IssuedAt <= at && at < claims.Expires && claims.Expires-at <= 600
}

// admit checks the permission that an address requires, and finds its repository. An invisible repository is
// not found.
func (c *call) admit(n need) (answer, bool) {
	switch n {
	case asApp:
		if !c.who.jwt {
			return problem(http.StatusUnauthorized, "A JSON web token could not be decoded"), false
		}
	case signedIn:
		if c.who.jwt || c.who.user == nil {
			return problem(http.StatusUnauthorized, "Requires authentication"), false
		}
	case anybody:
	case reader, writer:
		c.repo = c.s.repo(c.r.PathValue("owner") + "/" + c.r.PathValue("repo"))
		if c.repo == nil || c.who.jwt {
			return notFound(), false
		}
		role := c.role()
		if role == "" || role == "none" {
			return notFound(), false
		}
		if n == writer && !mayWrite(role) {
			return c.forbidden(), false
		}
	}
	return answer{}, true
}

func (c *call) forbidden() answer {
	if c.who.bot {
		return problem(http.StatusForbidden, "Resource not accessible by integration")
	}
	return problem(http.StatusForbidden, "Must have push access to the repository.")
}

func mayWrite(role string) bool { return role == "write" || role == "maintain" || role == "admin" }

// role returns what the sender may do in the repository.
func (c *call) role() string {
	path := strings.ToLower(c.repo.path())
	if len(c.who.only) > 0 && !slices.Contains(c.who.only, path) {
		return "none"
	}
	if c.who.install != nil {
		if c.who.install.owner != c.repo.owner {
			return "none"
		}
		return "write"
	}
	if c.who.user == nil {
		return "none"
	}
	if c.who.bot {
		return "write"
	}
	return c.repo.roles[strings.ToLower(c.who.user.login)]
}
