package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gitlab decodes https://docs.gitlab.com/user/project/integrations/webhook_events/, of projects, groups and the whole system.
type gitlab struct{}

func (gitlab) identify(h http.Header) (id, event string) {
	id = h.Get("webhook-id")
	if id == "" {
		id = h.Get("Idempotency-Key")
	}
	if id == "" {
		id = h.Get("X-Gitlab-Event-UUID")
	}
	return id, h.Get("X-Gitlab-Event")
}

// signingKey reads a signing secret: whsec_ and the key in base64, as https://www.standardwebhooks.com has it.
func signingKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		return nil, errors.New("a signing secret begins with whsec_ and goes on in base64")
	}
	return key, nil
}

// verify checks a signature where signing secrets are configured, and else the token. With both configured, either will do: so one takes
// the place of the other without a gap.
func (g gitlab) verify(e *Endpoint, h http.Header, body []byte, now time.Time, tolerance time.Duration) error {
	if h.Get("webhook-signature") != "" && len(e.Signing) > 0 {
		return g.signed(e, h, body, now, tolerance)
	}
	given := sha256.Sum256([]byte(h.Get("X-Gitlab-Token")))
	fits := 0
	for _, secret := range e.Secrets {
		want := sha256.Sum256([]byte(secret))
		fits |= subtle.ConstantTimeCompare(given[:], want[:])
	}
	if fits != 1 || h.Get("X-Gitlab-Token") == "" {
		return errUnsigned
	}
	return nil
}

// signed checks `webhook-signature`: HMAC-SHA256 over id, timestamp and body, several of them while keys are rotated.
func (gitlab) signed(e *Endpoint, h http.Header, body []byte, now time.Time, tolerance time.Duration) error {
	id, stamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" {
		return errUnsigned
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return errOld
	}
	fits := false
	for _, secret := range e.Signing {
		key, err := signingKey(secret)
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "."))
		mac.Write(body)
		want := mac.Sum(nil)
		for one := range strings.FieldsSeq(h.Get("webhook-signature")) {
			text, ok := strings.CutPrefix(one, "v1,")
			given, err := base64.StdEncoding.DecodeString(text)
			fits = ok && err == nil && hmac.Equal(want, given) || fits
		}
	}
	if !fits {
		return errUnsigned
	}
	return nil
}

// gitlabEvent is what is read of a payload. System hooks have event_name where the others have object_kind.
type gitlabEvent struct {
	ObjectKind string `json:"object_kind"`
	EventName  string `json:"event_name"`
	Ref        string `json:"ref"`
	After      string `json:"after"`
	Project    *struct {
		Path string `json:"path_with_namespace"`
	} `json:"project"`
	ObjectAttributes *struct {
		IID          int    `json:"iid"`
		ID           int64  `json:"id"`
		NoteableType string `json:"noteable_type"`
		System       bool   `json:"system"`
		Action       string `json:"action"`
		Ref          string `json:"ref"`
		Source       string `json:"source"`
		Note         string `json:"note"`
		Created      string `json:"created_at"`
		Updated      string `json:"updated_at"`
	} `json:"object_attributes"`
	MergeRequest *struct {
		IID int `json:"iid"`
	} `json:"merge_request"`
}

func (gitlab) decode(event string, body []byte) ([]Hint, error) {
	if !slices.Contains(Events("gitlab"), event) { // emoji, tags, jobs, issues …
		return nil, nil
	}
	var p gitlabEvent
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("payload of %s: %w", event, err)
	}
	if p.Project == nil {
		return nil, nil // of the system: users, groups
	}
	if !repository(p.Project.Path) {
		return nil, fmt.Errorf("payload of %s: no project", event)
	}
	return p.hints(p.Project.Path), nil
}

func (p *gitlabEvent) hints(repo string) []Hint {
	kind := p.ObjectKind
	if kind == "" {
		kind = p.EventName
	}
	a := p.ObjectAttributes
	switch {
	case kind == "push":
		if name := branch(p.Ref, p.After); name != "" {
			return []Hint{{Repository: repo, Kind: Trunk, Ref: name}}
		}
	case kind == "merge_request" && a != nil && a.IID > 0:
		return []Hint{{Repository: repo, Kind: Review, Number: a.IID}}
	case kind == "note" && a != nil && a.NoteableType == "MergeRequest" && !a.System && (a.Action == "" || a.Action == "create") && p.MergeRequest != nil && p.MergeRequest.IID > 0:
		return []Hint{{Repository: repo, Kind: Comment, Number: p.MergeRequest.IID, Comment: a.ID, Text: created(a.Note, a.Created, a.Updated), Urgent: urgent(a.Note)}}
	case kind == "pipeline" && p.MergeRequest != nil && p.MergeRequest.IID > 0: // statuses may have changed that gates wait for
		return []Hint{{Repository: repo, Kind: Trunk}}
	}
	return nil
}
