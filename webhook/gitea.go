package webhook

import (
	"cmp"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// gitea verifies and decodes the webhooks of Gitea (https://docs.gitea.com/usage/repository/webhooks) and Forgejo. Their
// payloads have the members of GitHub's that Sluice reads. Forgejo sends Gitea's headers besides its own.
type gitea struct{}

func (gitea) identify(h http.Header) (id, event string) {
	return cmp.Or(h.Get("X-Forgejo-Delivery"), h.Get("X-Gitea-Delivery")),
		cmp.Or(h.Get("X-Forgejo-Event"), h.Get("X-Gitea-Event"))
}

// verify checks X-Forgejo-Signature or X-Gitea-Signature: the HMAC-SHA256 of the body in hexadecimal digits.
func (gitea) verify(e *Endpoint, h http.Header, body []byte, _ time.Time, _ time.Duration) error {
	given, err := hex.DecodeString(cmp.Or(h.Get("X-Forgejo-Signature"), h.Get("X-Gitea-Signature")))
	if err != nil || !signed(e.Secrets, body, given) {
		return errUnsigned
	}
	return nil
}

func (gitea) decode(event string, body []byte) ([]hint.Hint, error) {
	switch event {
	case "push":
		return decode(event, body, githubPush)
	case "pull_request":
		return decode(event, body, githubPullRequest)
	case "issue_comment":
		return decode(event, body, githubComment)
	}
	return nil, nil
}
