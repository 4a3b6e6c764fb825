package check_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bed/bedtest"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/check"
)

// A real Prometheus answers the queries that people write.
func TestRealPrometheus(t *testing.T) {
	bedtest.Need(t, "prometheus")
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "errors{zone=\"a\"} 3\nerrors{zone=\"b\"} 9\nrequests 0\nqueue +Inf\nlatency_bucket{le=\"1\"} 5\nlatency_bucket{le=\"+Inf\"} 5\n")
	}))
	defer app.Close()
	p, err := bedtest.StartPrometheus(t.Context(), t.TempDir(), strings.TrimPrefix(app.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	client := check.New("sluice", nil)
	for query, want := range map[string]struct {
		state  rollout.State
		reason string
		value  float64
	}{
		"errors < bool 10":    {state: rollout.Green, value: 1},
		"errors < bool 5":     {state: rollout.Red, reason: `a value is "0"`, value: 0},
		"errors < 10":         {state: rollout.Green, value: 3},
		"errors < 1":          {state: rollout.Unknown, reason: "no result"},
		"max(errors)":         {state: rollout.Green, value: 9},
		"absent(errors)":      {state: rollout.Unknown, reason: "no result"},
		"nothing":             {state: rollout.Unknown, reason: "no result"},
		"requests / requests": {state: rollout.Red, reason: `a value is "NaN"`},
		"-queue":              {state: rollout.Red, reason: `a value is "-Inf"`},
		"scalar(requests)":    {state: rollout.Unknown, reason: "not a vector"},
		"errors[1m]":          {state: rollout.Unknown, reason: "not a vector"},
		`"text"`:              {state: rollout.Unknown, reason: "not a vector"},
		"sum(":                {state: rollout.Unknown, reason: "status 400"},
		"histogram_quantile(0.9, latency_bucket) > bool 0.5": {state: rollout.Green, value: 1},
	} {
		got := client.Check(t.Context(), fleet.Environment{Promotion: fleet.Promotion{Checks: []fleet.Check{{
			Name: "x", Prometheus: &fleet.PrometheusCheck{URL: p.URL + "/", Query: query},
		}}}}, time.Now())[0]
		if got.State != want.state || !strings.Contains(got.Reason, want.reason) ||
			want.state == rollout.Green && (got.Value == nil || *got.Value != want.value) {
			t.Errorf("%s: %+v, want %+v", query, got, want)
		}
	}
}
