package github

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// limited reports whether a 403 is a refusal by a rate limit: GitHub answers 403 as well as 429 for both of its
// limits.
func limited(resp *http.Response) bool {
	if resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-Ratelimit-Remaining") == "0" {
		return true
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(data))
	text := strings.ToLower(string(data[:min(len(data), 4096)]))
	return err == nil && (strings.Contains(text, "secondary rate limit") ||
		strings.Contains(text, "#abuse-rate-limits") ||
		strings.Contains(text, "#about-secondary-rate-limits"))
}
