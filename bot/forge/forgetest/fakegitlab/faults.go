package fakegitlab

import (
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/faults"
)

// FaultKind is a kind of fault.
type FaultKind int

// The kinds of faults.
const (
	TooMany      FaultKind = iota // 429 with Retry-After
	BadGateway                    // 502
	Lost                          // the request has its effect, and the connection closes without an answer
	TooLong                       // 400: the text is too long
	Denied                        // 403
	Unauthorized                  // 401
)

// Fault is a fault of the next requests that match it. GitLab does not say until when a limit holds.
type Fault = faults.Fault[FaultKind]

// Fail adds a fault.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.Add(f)
}

// faultAnswer is what GitLab answers with a fault.
func faultAnswer(f *Fault) answer {
	switch f.Kind {
	case TooMany:
		a := answer{
			code: http.StatusTooManyRequests, value: fields{"message": "Retry later"},
			header: map[string]string{},
		}
		if f.RetryAfter > 0 {
			a.header["Retry-After"] = strconv.Itoa(int(f.RetryAfter / time.Second))
		}
		return a
	case BadGateway:
		return problem(http.StatusBadGateway, "GitLab is not responding")
	case TooLong:
		return problem(http.StatusBadRequest, `{"note"=>["is too long (1100000 B). The maximum size is 1 MB."]}`)
	case Denied:
		return problem(http.StatusForbidden, "403 Forbidden")
	case Unauthorized:
		return problem(http.StatusUnauthorized, "401 Unauthorized")
	case Lost:
	}
	return answer{}
}
