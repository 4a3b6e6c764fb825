package webhook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// gitlab verifies and decodes https://docs.gitlab.com/user/project/integrations/webhook_events/: the hooks of
// projects, of groups and of the whole system.
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

// signingKey decodes a signing secret: whsec_ followed by the key in base64 (https://www.standardwebhooks.com).
func signingKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil {
		return nil, errors.New("a signing secret is whsec_ followed by base64")
	}
	return key, nil
}

// verify checks the signature if the request has one and signing secrets are configured, and the token
// otherwise. With both kinds of secrets configured either is accepted, so that an installation can change
// from tokens to signatures without losing events.
func (g gitlab) verify(e *Endpoint, h http.Header, body []byte, now time.Time, tolerance time.Duration) error {
	if h.Get("webhook-signature") != "" && len(e.Signing) > 0 {
		return g.signed(e, h, body, now, tolerance)
	}
	given := sha256.Sum256([]byte(h.Get("X-Gitlab-Token")))
	matches := 0
	for _, secret := range e.Secrets {
		want := sha256.Sum256([]byte(secret))
		matches |= subtle.ConstantTimeCompare(given[:], want[:])
	}
	if matches != 1 || h.Get("X-Gitlab-Token") == "" {
		return errUnsigned
	}
	return nil
}

// signed checks `webhook-signature`: HMAC-SHA256 over id, timestamp and body, by one of several keys. GitLab sends
// several signatures while keys are rotated.
func (gitlab) signed(e *Endpoint, h http.Header, body []byte, now time.Time, tolerance time.Duration) error {
	id, stamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" {
		return errUnsigned
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return errOld
	}
	matches := false
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
			matches = ok && err == nil && hmac.Equal(want, given) || matches
		}
	}
	if !matches {
		return errUnsigned
	}
	return nil
}

// gitlabSource is the member that all events of a project have.
type gitlabSource struct {
	Project struct {
		Path string `json:"path_with_namespace"`
	} `json:"project"`
}

func (s *gitlabSource) repository() string { return s.Project.Path }

func (gitlab) decode(event string, body []byte) ([]hint.Hint, error) {
	kind := map[string]string{
		"Push Hook": "push", "Tag Push Hook": "tag_push", "Merge Request Hook": "merge_request",
		"Note Hook": "note", "Pipeline Hook": "pipeline", "Member Hook": "member",
	}[event]
	if event == "System Hook" {
		var err error
		if kind, err = systemKind(body); err != nil {
			return nil, &payloadError{event: event, err: err}
		}
	}
	switch kind {
	case "member", "user_add_to_group", "user_add_to_team", "user_remove_from_group", "user_remove_from_team",
		"user_update_for_group", "user_update_for_team":
		return []hint.Hint{{Kind: hint.Members}}, nil
	case "push", "tag_push":
		return decode(event, body, gitlabPush)
	case "merge_request":
		return decode(event, body, gitlabMergeRequest)
	case "note":
		return decode(event, body, gitlabNote)
	case "pipeline":
		return decode(event, body, gitlabPipeline)
	}
	return nil, nil
}

// systemKind returns the kind of a system hook: object_kind if the payload equals that of a project's hook,
// event_name otherwise (https://docs.gitlab.com/administration/system_hooks/).
func systemKind(body []byte) (string, error) {
	var p struct {
		ObjectKind string `json:"object_kind"`
		EventName  string `json:"event_name"`
	}
	err := unmarshal(body, &p)
	return cmp.Or(p.ObjectKind, p.EventName), err
}

type gitlabPushEvent struct {
	gitlabSource
	Ref   string `json:"ref"`
	After string `json:"after"`
}

func gitlabPush(p *gitlabPushEvent) ([]hint.Hint, error) {
	return pushed(p.Ref, p.After)
}

type gitlabMergeRequestEvent struct {
	gitlabSource
	ObjectAttributes struct {
		IID int `json:"iid"`
	} `json:"object_attributes"`
}

func gitlabMergeRequest(p *gitlabMergeRequestEvent) ([]hint.Hint, error) {
	if p.ObjectAttributes.IID <= 0 {
		return nil, errors.New("it has no object_attributes.iid")
	}
	return []hint.Hint{{Kind: hint.Review, Number: p.ObjectAttributes.IID}}, nil
}

type gitlabNoteEvent struct {
	gitlabSource
	ObjectAttributes struct {
		ID           int64  `json:"id"`
		NoteableType string `json:"noteable_type"`
		System       bool   `json:"system"`
		Action       string `json:"action"` // since GitLab 16.11
		Note         string `json:"note"`
		Created      string `json:"created_at"`
		Updated      string `json:"updated_at"`
	} `json:"object_attributes"`
	MergeRequest struct {
		IID int `json:"iid"`
	} `json:"merge_request"`
}

func gitlabNote(p *gitlabNoteEvent) ([]hint.Hint, error) {
	a := p.ObjectAttributes
	if a.NoteableType == "" {
		return nil, errors.New("it has no object_attributes.noteable_type")
	}
	if a.NoteableType != "MergeRequest" || a.System || !mayCommand(a.Note) || a.Action != "" && a.Action != "create" {
		return nil, nil
	}
	if p.MergeRequest.IID <= 0 || a.ID <= 0 {
		return nil, errors.New("it has no merge_request.iid or no object_attributes.id")
	}
	return []hint.Hint{{
		Kind: hint.Comment, Number: p.MergeRequest.IID, Comment: a.ID,
		Text: createdDigest(a.Note, a.Created, a.Updated), Urgent: urgent(a.Note),
	}}, nil
}

type gitlabPipelineEvent struct {
	gitlabSource
	MergeRequest struct {
		IID int `json:"iid"`
	} `json:"merge_request"`
}

// gitlabPipeline decodes the progress or end of a merge request's pipeline, because gates may wait for its statuses.
func gitlabPipeline(p *gitlabPipelineEvent) ([]hint.Hint, error) {
	if p.MergeRequest.IID <= 0 {
		return nil, nil
	}
	return []hint.Hint{{Kind: hint.Trunk}}, nil
}
