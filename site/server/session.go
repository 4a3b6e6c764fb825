package server

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/securecookie"
	"golang.org/x/oauth2"
)

// SignIn is a place where people sign in: an OpenID provider or a forge.
type SignIn interface {
	// URL returns the address that the browser goes to. The state and the nonce come back; verifier is PKCE's. An error
	// means that nobody can sign in now.
	URL(ctx context.Context, state, nonce, verifier string) (string, error)
	// Finish exchanges the code that came back for the name of the person.
	Finish(ctx context.Context, code, nonce, verifier string) (name string, err error)
	// Identity names the provider and everything that decides who may sign in. Cookies of another identity are invalid.
	Identity() string
	// Lasts returns how long a sign-in is valid before the server asks the provider again.
	Lasts() time.Duration
}

// ErrNotAllowed means that a person has signed in, and is not among those that the configuration allows.
var ErrNotAllowed = fmt.Errorf("you are not among the people who may see these pages")

const (
	sessionFor = 8 * time.Hour    // where Rights ask the forge about the person again and again
	renewAfter = 10 * time.Minute // elsewhere: the provider signs in who is still a member without a question
	signInFor  = 10 * time.Minute
	signIns    = 8   // that one browser can have begun at a time: proxies limit the size of all cookies
	maxBack    = 512 // bytes of the address to go back to
)

// Sessions is an Access that keeps who has signed in, in a signed cookie.
type Sessions struct {
	signIn  SignIn
	secure  bool // cookies are sent over HTTPS alone
	session *securecookie.SecureCookie
	pending *securecookie.SecureCookie
	log     *slog.Logger
}

// signedIn is the content of the session's cookie.
type signedIn struct {
	Name string `json:"n"`
}

// pending is the content of the cookie of somebody who is on the way through the sign-in. It is encrypted.
type pending struct {
	State, Nonce, Verifier, Back string
}

// NewSessions makes sessions. key signs the cookies, and a key derived from it those of one sign-in: a cookie of
// another provider, client or list of groups is that of a stranger. Without a key, sessions end with the process.
// address is where people open the pages: cookies of an https address are sent over HTTPS alone.
func NewSessions(signIn SignIn, key []byte, address string, log *slog.Logger) (*Sessions, error) {
	if len(key) == 0 {
		key = []byte(rand.Text())
	}
	sign, err := derive(key, "sluice session of "+signIn.Identity())
	if err != nil {
		return nil, err
	}
	signPending, err := derive(key, "sluice sign-in of "+signIn.Identity())
	if err != nil {
		return nil, err
	}
	encrypt, err := derive(key, "sluice sign-in encryption of "+signIn.Identity())
	if err != nil {
		return nil, err
	}
	s := &Sessions{
		signIn: signIn, secure: strings.HasPrefix(address, "https://"), log: log,
		session: securecookie.New(sign,
			nil).MaxAge(int(signIn.Lasts().Seconds())).SetSerializer(securecookie.JSONEncoder{}),
		pending: securecookie.New(signPending,
			encrypt).MaxAge(int(signInFor.Seconds())).SetSerializer(securecookie.JSONEncoder{}),
	}
	return s, nil
}

func derive(key []byte, purpose string) ([]byte, error) {
	const length = 32
	out, err := hkdf.Key(sha256.New, key, nil, purpose, length)
	if err != nil {
		return nil, fmt.Errorf("key of cookies: %w", err)
	}
	return out, nil
}

// name is the name of a cookie. The prefix makes browsers refuse one that another host or an insecure page has set.
func (s *Sessions) name(what string) string {
	if s.secure {
		return "__Host-sluice-" + what
	}
	return "sluice-" + what
}

func (s *Sessions) set(w http.ResponseWriter, codec *securecookie.SecureCookie, what string, value any,
	age time.Duration,
) error {
	text, err := codec.Encode(s.name(what), value)
	if err != nil {
		return fmt.Errorf("cookie: %w", err)
	}
	http.SetCookie(w, s.cookie(what, text, int(age.Seconds())))
	return nil
}

// cookie is not readable by scripts. Lax lets the provider's redirect bring it, and no other site's form.
func (s *Sessions) cookie(what, value string, seconds int) *http.Cookie {
	//nolint:gosec // secure where the pages have an https address
	return &http.Cookie{
		Name: s.name(what), Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: s.secure,
		SameSite: http.SameSiteLaxMode,
	}
}

// Person implements Access. It ignores a cookie that is forged, expired or of another key.
func (s *Sessions) Person(r *http.Request) (string, bool) {
	c, err := r.Cookie(s.name("session"))
	if err != nil {
		return "", false
	}
	var v signedIn
	if err := s.session.Decode(s.name("session"), c.Value, &v); err != nil || v.Name == "" {
		return "", false
	}
	return v.Name, true
}

// SignIn implements Access.
func (s *Sessions) SignIn(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Accept") == "text/event-stream" || r.Method != http.MethodGet {
		message(w, r, http.StatusUnauthorized, "sign in first")
		return
	}
	state := rand.Text()
	slot := s.slot(r, state)
	p := pending{State: state + slot, Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Back: r.URL.RequestURI()}
	if len(p.Back) > maxBack {
		p.Back = "/"
	}
	to, err := s.signIn.URL(r.Context(), p.State, p.Nonce, p.Verifier)
	if err != nil {
		s.log.Warn("nobody can sign in to the pages", "error", err)
		message(w, r, http.StatusServiceUnavailable, "the sign-in provider does not answer: try again in a minute")
		return
	}
	if err := s.set(w, s.pending, "signin-"+slot, p, signInFor); err != nil {
		s.fail(w, r, "the sign-in cannot begin", err)
		return
	}
	http.Redirect(w, r, to, http.StatusFound)
}

// slot returns the end of the name of the cookie for a new sign-in. Each tab of a browser can begin one, and all of
// them do when the session ends. A cookie that exists is replaced only if there are no others.
func (s *Sessions) slot(r *http.Request, random string) string {
	var free []int
	for i := range signIns {
		if _, err := r.Cookie(s.name("signin-" + strconv.Itoa(i))); err != nil {
			free = append(free, i)
		}
	}
	if n := len(free); n > 0 {
		return strconv.Itoa(free[int(random[0])%n])
	}
	return strconv.Itoa(int(random[0]) % signIns)
}

// Handle implements Access: the provider's answer, and signing out.
func (s *Sessions) Handle(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/-/callback":
		s.callback(w, r)
	case "/-/signout":
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			message(w, r, http.StatusMethodNotAllowed, "sign out with the button")
			return true
		}
		http.SetCookie(w, s.cookie("session", "", -1))
		message(w, r, http.StatusOK, "You are signed out.")
	default:
		return false
	}
	return true
}

func (s *Sessions) callback(w http.ResponseWriter, r *http.Request) {
	state := r.URL.Query().Get("state")
	cookie := "signin-" + state[max(0, len(state)-1):]
	c, err := r.Cookie(s.name(cookie))
	var p pending
	if err == nil {
		err = s.pending.Decode(s.name(cookie), c.Value, &p)
	}
	if err != nil || subtle.ConstantTimeCompare([]byte(p.State), []byte(state)) != 1 || state == "" {
		if _, known := s.Person(r); known { // another tab has signed in
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		message(w, r, http.StatusBadRequest, "this sign-in was not begun here, or took longer than ten minutes: open the page again")
		return
	}
	http.SetCookie(w, s.cookie(cookie, "", -1))
	name, err := s.signIn.Finish(r.Context(), r.URL.Query().Get("code"), p.Nonce, p.Verifier)
	if err != nil {
		s.log.Info("a sign-in failed", "error", err)
		message(w, r, http.StatusForbidden, "the sign-in failed, or you are not among the people who may see these pages")
		return
	}
	if err := s.set(w, s.session, "session", signedIn{name}, s.signIn.Lasts()); err != nil {
		s.fail(w, r, "the session cannot begin", err)
		return
	}
	http.Redirect(w, r, local(p.Back), http.StatusFound)
}

// local keeps a place to go back to on this server.
func local(back string) string {
	u, err := url.Parse(back)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(back, "/") || strings.HasPrefix(back, "//") ||
		strings.HasPrefix(back, "/\\") {
		return "/"
	}
	return back
}

func (s *Sessions) fail(w http.ResponseWriter, r *http.Request, what string, err error) {
	s.log.Error(what, "error", err)
	message(w, r, http.StatusInternalServerError, what)
}
