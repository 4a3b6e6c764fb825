package webhook

import (
	"errors"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// source is a payload with the name of its repository.
type source interface{ repository() string }

// decode decodes the payload of an event into P, creates its hints, and sets their repository. It reads only the
// members that P declares. Every error is a *payloadError, which names the repository if the payload does.
func decode[P any, S interface {
	*P
	source
}](event string, body []byte, hints func(S) ([]hint.Hint, error),
) ([]hint.Hint, error) {
	p := S(new(P))
	err := unmarshal(body, p)
	var out []hint.Hint
	if err == nil {
		if out, err = hints(p); err == nil && len(out) == 0 {
			return nil, nil
		}
	}
	// Also after an error: p has the members that could be decoded.
	repository := p.repository()
	if !validRepository(repository) {
		repository, err = "", errors.Join(err, errors.New("it names no repository"))
	}
	if err != nil {
		return nil, &payloadError{event: event, repository: repository, err: err}
	}
	for i := range out {
		out[i].Place = hint.NewPlace("", repository)
	}
	return out, nil
}
