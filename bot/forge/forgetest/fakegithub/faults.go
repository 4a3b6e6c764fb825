package fakegithub

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/faults"
)

// FaultKind is a kind of fault.
type FaultKind int

// The kinds of faults.
const (
	TooMany      FaultKind = iota // 429 with Retry-After
	Secondary                     // 403 of the secondary rate limit, with Retry-After if it is set
	Exhausted                     // 403 of the primary rate limit, which ends at Until
	BadGateway                    // 502
	Unavailable                   // 503
	Lost                          // the request has its effect, and the connection closes without an answer
	TooLong                       // 422: the text is too long
	Denied                        // 403
	Unauthorized                  // 401
)

// Fault is a fault of the next requests that match it.
type Fault = faults.Fault[FaultKind]

// Fail adds a fault.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.Add(f)
}

// faultAnswer is what GitHub answers with a fault.
func faultAnswer(f *Fault, now time.Time) answer {
	headers := map[string]string{}
	if f.RetryAfter > 0 {
		headers["Retry-After"] = fmt.Sprint(int(f.RetryAfter / time.Second))
	}
	var a answer
	switch f.Kind {
	case TooMany:
		a = problem(http.StatusTooManyRequests,
			"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
	case Secondary:
		a = problem(http.StatusForbidden,
			"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
	case Exhausted:
		a = problem(http.StatusForbidden, "API rate limit exceeded for installation.")
		until := f.Until
		if until.IsZero() {
			until = now.Add(time.Hour)
		}
		headers["X-RateLimit-Limit"], headers["X-RateLimit-Remaining"] = "5000", "0"
		headers["X-RateLimit-Reset"] = fmt.Sprint(until.Unix())
	case BadGateway:
		a = problem(http.StatusBadGateway, "Server Error")
	case Unavailable:
		a = problem(http.StatusServiceUnavailable, "Service unavailable")
	case TooLong:
		a = invalid("IssueComment", "body", "unprocessable", "body is too long (maximum is 65536 characters)")
	case Denied:
		a = problem(http.StatusForbidden, "Resource not accessible by integration")
	case Unauthorized:
		a = problem(http.StatusUnauthorized, "Bad credentials")
	case Lost:
	}
	a.value = refusal{header: headers, value: a.value}
	return a
}
