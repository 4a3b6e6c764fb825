package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
)

// payloadError means that a verified payload does not have the documented shape. The event is not refused: the
// service sweeps the repository or, if the payload names none, all of the forge's repositories.
type payloadError struct {
	event      string
	repository string // "" if it is unknown
	err        error
}

// Error returns the event and the member that has another shape. It quotes no other part of the payload.
func (e *payloadError) Error() string { return "payload of " + e.event + ": " + e.err.Error() }

func (e *payloadError) Unwrap() error { return e.err }

// unmarshal decodes the members of a payload that v declares, whatever the shape of the others. If one member has
// another type, the other members are still set.
func unmarshal(payload []byte, v any) error {
	err := json.Unmarshal(payload, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s has the JSON type %s", wrong.Field, strings.Fields(wrong.Value + " ?")[0])
	}
	if err != nil {
		return errors.New("it is not JSON")
	}
	return nil
}

// reviewMarker begins the comments that Sluice writes; package report has the rest of it.
const reviewMarker = "<!-- sluice-review v1"

var (
	headerPattern     = regexp.MustCompile(`^[A-Za-z0-9_. \-]{1,100}$`)
	repositoryPattern = regexp.MustCompile(`^[A-Za-z0-9_.\-]+(/[A-Za-z0-9_.\-]+)+$`)
	commandPattern    = regexp.MustCompile(`(^|[\r\n])/sluice`)
	urgentPattern     = regexp.MustCompile(`(?m)^/sluice (cancel|freeze|halt|rollback)\b`)
)

// cleanHeader returns a header's value if it can be logged and counted, and "" otherwise.
func cleanHeader(s string) string {
	if headerPattern.MatchString(s) {
		return s
	}
	return ""
}

// validRepository reports whether a path can be the full path of a repository. Names such as `.github` are valid.
func validRepository(path string) bool {
	if len(path) >= 500 || !repositoryPattern.MatchString(path) {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "." || name == ".." {
			return false
		}
	}
	return true
}

// pushedBranch returns the name of the branch that a push moved. It returns "" for tags and for deleted branches.
func pushedBranch(ref, after string) string {
	name, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok || len(name) > 500 || strings.Trim(after, "0") == "" || strings.ContainsAny(name, "\x00\n\r") {
		return ""
	}
	return name
}

// pushedTag returns the hint for a ref that is a tag, also for one that was deleted.
func pushedTag(ref string) []hint.Hint {
	if !strings.HasPrefix(ref, "refs/tags/") {
		return nil
	}
	return []hint.Hint{{Kind: hint.Tag}}
}

// createdText returns the digest of a comment's text as it was created. It returns "" if the comment was
// edited since: the payload then has the text of whoever edited it.
func createdText(text, created, updated string) string {
	if text == "" || created != updated {
		return ""
	}
	return forge.TextDigest(text)
}

// mayCommand reports whether a comment may contain a command, now or after an edit. A review that Sluice wrote has
// none: without this check, each review would cost a request for its own comment.
func mayCommand(text string) bool {
	return !strings.HasPrefix(text, reviewMarker) || commandPattern.MatchString(text)
}

// urgent reports whether a comment may contain a command that does not wait for what runs in its repository. The bot
// later parses the comment and checks the author's rights.
func urgent(text string) bool { return urgentPattern.MatchString(text) }
