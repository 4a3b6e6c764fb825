// Package check evaluates the HTTP and Prometheus checks that gate a promotion.
//
// The addresses come from the trunk's sluice.yaml, never from a merge request. The transport of a service refuses
// internal addresses that its configuration does not allow. If a check cannot be evaluated, its state is unknown,
// which blocks the promotion.
//
// The package is not API: it can change in every release.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/rollout"
)

const (
	timeout   = 10 * time.Second
	maxAnswer = 1 << 20 // bytes
	maxValue  = 40      // characters of a sample in a reason, which comments and records repeat
	tooLarge  = "the answer of Prometheus has more than 1 MiB: aggregate in the query, as with min()"
	refused   = "the host is internal, and network.allow in the service's configuration does not name it"
)

// Client evaluates checks. It is safe for concurrent use.
type Client struct {
	client    *http.Client
	userAgent string
}

// New returns a Client. A nil transport is the default one. The transport refuses an internal address with an error
// that wraps fetch.ErrInvalid. The client does not follow redirects.
func New(userAgent string, transport http.RoundTripper) *Client {
	return &Client{
		client: &http.Client{
			Transport: transport, Timeout: timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		userAgent: userAgent,
	}
}

// Check evaluates the checks of an environment one after the other, each within 10 s, and returns the state of each in
// the same order. It implements promotion.Checker.
func (c *Client) Check(ctx context.Context, e fleet.Environment, now time.Time) []rollout.CheckResult {
	out := make([]rollout.CheckResult, 0, len(e.Promotion.Checks))
	for _, one := range e.Promotion.Checks {
		f := rollout.CheckResult{Name: one.Name, State: rollout.Unknown, At: now}
		switch {
		case one.HTTP != nil:
			f.State, f.Reason = c.http(ctx, one.HTTP)
		case one.Prometheus != nil:
			f.State, f.Reason, f.Value = c.prometheus(ctx, one.Prometheus)
		}
		out = append(out, f)
	}
	return out
}

// get returns the status and the first maxAnswer bytes of an answer, and one more byte if there are more.
func (c *Client) get(ctx context.Context, address string) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("User-Agent", c.userAgent)
	resp, err := c.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // the body was read
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	return resp.StatusCode, body, err
}

// http sends a GET request. The check passes if the answer has the expected status. A reason is text for a person; it
// is "" for Green.
func (c *Client) http(ctx context.Context, check *fleet.HTTPCheck) (rollout.State, string) {
	expected := check.Status
	if expected == 0 {
		expected = http.StatusOK
	}
	status, _, err := c.get(ctx, check.URL)
	switch {
	case errors.Is(err, fetch.ErrInvalid):
		return rollout.Unknown, refused
	case err != nil:
		return rollout.Unknown, "the address does not answer"
	case status != expected:
		return rollout.Red, "the address answers with status " + strconv.Itoa(status)
	}
	return rollout.Green, ""
}

// prometheus runs an instant query (https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries). The
// check passes if the result has at least one sample and each sample is greater than 0. least is the least sample; nil if
// there is none, or one is no number.
func (c *Client) prometheus(ctx context.Context, check *fleet.PrometheusCheck) (state rollout.State,
	reason string, least *float64,
) {
	status, body, err := c.get(ctx, strings.TrimSuffix(check.URL, "/")+"/api/v1/query?query="+
		url.QueryEscape(check.Query))
	switch {
	case errors.Is(err, fetch.ErrInvalid):
		return rollout.Unknown, refused, nil
	case err != nil:
		return rollout.Unknown, "Prometheus does not answer", nil
	case status != http.StatusOK:
		return rollout.Unknown, fmt.Sprintf("Prometheus answers with status %d: try the query in its web page", status), nil
	case len(body) > maxAnswer:
		return rollout.Unknown, tooLarge, nil
	}
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			ResultType string `json:"resultType"`
			Result     []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" ||
		answer.Data.ResultType != "vector" {
		return rollout.Unknown, "the answer of Prometheus is not a vector", nil
	}
	if len(answer.Data.Result) == 0 {
		return rollout.Unknown, "the query has no result", nil
	}
	state = rollout.Green
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string) // any other type is not a number, so the check is red
		v, err := strconv.ParseFloat(text, 64)
		if (err != nil || !(v > 0)) && state == rollout.Green {
			state, reason = rollout.Red, fmt.Sprintf("a value is %q, not greater than 0", safetext.Brief(text, maxValue))
		}
		if err != nil || math.IsNaN(v) {
			return rollout.Red, reason, nil
		}
		if least == nil || v < *least {
			least = &v
		}
	}
	return state, reason, least
}
