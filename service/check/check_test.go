package check_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/check"
)

func environment(checks ...fleet.Check) fleet.Environment {
	e := fleet.Environment{Name: "prod"}
	e.Promotion.Checks = checks
	return e
}

func TestHTTPCheck(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/teapot":
			w.WriteHeader(http.StatusTeapot)
		case "/moved":
			http.Redirect(w, r, "/ok", http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	c := check.New("sluice/test", nil)
	for name, one := range map[string]struct {
		check fleet.HTTPCheck
		want  rollout.State
	}{
		"200":            {fleet.HTTPCheck{URL: server.URL + "/ok"}, rollout.Green},
		"another status": {fleet.HTTPCheck{URL: server.URL + "/teapot"}, rollout.Red},
		"the expected status": {
			fleet.HTTPCheck{URL: server.URL + "/teapot", Status: http.StatusTeapot},
			rollout.Green,
		},
		"redirects do not follow": {fleet.HTTPCheck{URL: server.URL + "/moved"}, rollout.Red},
		"no answer":               {fleet.HTTPCheck{URL: gone.URL}, rollout.Unknown},
	} {
		got := c.Check(t.Context(), environment(fleet.Check{Name: "web", HTTP: &one.check}), time.Unix(0, 0))
		if len(got) != 1 || got[0].State != one.want || (one.want == rollout.Green) != (got[0].Reason == "") {
			t.Errorf("%s: the result of Check is %+v, want %s", name, got, one.want)
		}
	}
}

func TestPrometheusCheck(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"up":     `{"status":"success","data":{"resultType":"vector","result":[{"value":[0,"1"]},{"value":[0,"2.5"]}]}}`,
		"down":   `{"status":"success","data":{"resultType":"vector","result":[{"value":[0,"1"]},{"value":[0,"0"]}]}}`,
		"nan":    `{"status":"success","data":{"resultType":"vector","result":[{"value":[0,"NaN"]}]}}`,
		"number": `{"status":"success","data":{"resultType":"vector","result":[{"value":[0,1]}]}}`,
		"none":   `{"status":"success","data":{"resultType":"vector","result":[]}}`,
		"matrix": `{"status":"success","data":{"resultType":"matrix","result":[]}}`,
		"failed": `{"status":"error"}`,
		"long": `{"status":"success","data":{"resultType":"vector","result":[{"value":[0,"` +
			strings.Repeat("x", 1000) + `"]}]}}`,
		"text": `hello`,
		"large": `{"status":"success","data":{"resultType":"vector","result":[` +
			strings.Repeat(`{"value":[0,"1"]},`, 100_000) + `{"value":[0,"0"]}]}}`,
	}
	reasons := map[string]string{"refused": "status 400", "large": "1 MiB"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/query" {
			http.NotFound(w, r)
			return
		}
		query := r.URL.Query().Get("query")
		if query == "refused" {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = fmt.Fprint(w, answers[query]) // the client is gone
	}))
	t.Cleanup(server.Close)
	c := check.New("sluice/test", nil)
	for query, want := range map[string]rollout.State{
		"up": rollout.Green, "down": rollout.Red, "nan": rollout.Red, "number": rollout.Red, "long": rollout.Red,
		"none": rollout.Unknown, "matrix": rollout.Unknown, "failed": rollout.Unknown, "text": rollout.Unknown,
		"refused": rollout.Unknown, "large": rollout.Unknown,
	} {
		got := c.Check(t.Context(), environment(fleet.Check{
			Name:       query,
			Prometheus: &fleet.PrometheusCheck{URL: server.URL + "/", Query: query},
		}), time.Unix(0, 0))
		if len(got) != 1 || got[0].State != want || len(got[0].Reason) > 100 ||
			!strings.Contains(got[0].Reason, reasons[query]) {
			t.Errorf("%s: the result of Check is %+v, want %s", query, got, want)
		}
	}
}

// TestChecksStayWithinTheGuard: a check on an internal address is unknown and is not sent, whether the host is a name
// or an address; the reason names the key that allows it. Metadata services are internal.
func TestChecksStayWithinTheGuard(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := fetch.NewGuard()
	if err != nil {
		t.Fatal(err)
	}
	c := check.New("sluice/test", guard.Transport())
	for _, host := range []string{
		at.Host, "localhost:" + at.Port(), "169.254.169.254", "[::1]:" + at.Port(),
		"[::ffff:127.0.0.1]:" + at.Port(),
	} {
		e := environment(fleet.Check{Name: "a", HTTP: &fleet.HTTPCheck{URL: "http://" + host}},
			fleet.Check{Name: "b", Prometheus: &fleet.PrometheusCheck{URL: "http://" + host, Query: "up"}})
		for _, got := range c.Check(t.Context(), e, time.Unix(0, 0)) {
			if got.State != rollout.Unknown || !strings.Contains(got.Reason, "network.allow") {
				t.Errorf("%s: the result is %+v", host, got)
			}
		}
	}
	if asked > 0 {
		t.Errorf("%d requests reached an internal server", asked)
	}
	if guard, err = fetch.NewGuard(at.Host); err != nil {
		t.Fatal(err)
	}
	got := check.New("sluice/test", guard.Transport()).Check(t.Context(),
		environment(fleet.Check{Name: "a", HTTP: &fleet.HTTPCheck{URL: server.URL}}), time.Unix(0, 0))
	if got[0].State != rollout.Green || asked != 1 {
		t.Errorf("an allowed host: %+v", got)
	}
}
