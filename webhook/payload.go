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

// unmarshal decodes the members of a payload that v declares, whatever the shape of the others. If a member has another
// type, unmarshal sets the other members and returns an error that names that one.
func unmarshal(payload []byte, v any) error {
	err := json.Unmarshal(payload, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(wrong.Value, " ") // `number 12` quotes the payload
		return fmt.Errorf("%s has the JSON type %s", wrong.Field, kind)
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

// pushed returns the hint for a ref that a push moved to the commit after. There is none for a branch that was deleted,
// and for refs other than branches and tags. A deleted tag gives a hint, because a fleet may follow the repository's
// tags.
func pushed(ref, after string) ([]hint.Hint, error) {
	branch, isBranch := strings.CutPrefix(ref, "refs/heads/")
	deleted := strings.Trim(after, "0") == "" // the commit is only zeros
	switch {
	case ref == "":
		return nil, errors.New("it has no ref")
	case strings.HasPrefix(ref, "refs/tags/"):
		return []hint.Hint{{Kind: hint.Tag}}, nil
	case !isBranch || branch == "" || deleted:
		return nil, nil
	case len(branch) > maxBranch || strings.ContainsAny(branch, "\x00\n\r"): // a forge has no such branch
		return nil, nil
	}
	return []hint.Hint{{Kind: hint.Trunk, Ref: branch}}, nil
}

const maxBranch = 500 // bytes of a name

// createdDigest returns the digest of a comment's text as it was created. It returns "" if the comment was
// edited since: the payload then has the text of whoever edited it.
func createdDigest(text, created, updated string) string {
	if text == "" || created != updated {
		return ""
	}
	return forge.TextDigest(text)
}

// mayCommand reports whether the bot must read a comment. It must read any comment, because somebody may edit a command
// into it, except a review that Sluice wrote: otherwise each review would cost a request for its own comment.
func mayCommand(text string) bool {
	return !strings.HasPrefix(text, reviewMarker) || commandPattern.MatchString(text)
}

// urgent reports whether a comment may contain a command that does not wait for the running tasks of its repository.
// The bot later parses the comment and checks the author's rights.
func urgent(text string) bool { return urgentPattern.MatchString(text) }
