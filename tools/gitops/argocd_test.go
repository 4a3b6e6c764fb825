package gitops

import (
	"encoding/json"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/argoproj/notifications-engine/pkg/triggers"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	now   = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	older = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// The engine of Argo CD's notifications evaluates the printed trigger for each state of an Application.
func TestTriggerOfCommitStatuses(t *testing.T) {
	s := newSource(t)
	config := configMap(t, s.bootstrap("argocd", "prod-eu-1", "--forge=github"))
	var conditions []triggers.Condition
	if err := yaml.UnmarshalStrict([]byte(config["trigger.sluice-commit-status"]), &conditions); err != nil {
		t.Fatal(err)
	}
	engine, err := triggers.NewService(map[string][]triggers.Condition{"x": conditions})
	if err != nil {
		t.Fatal(err)
	}
	run := func(status string) (send, once string) {
		t.Helper()
		app := map[string]any{}
		if status != "" { // a new Application has no status
			status = "status: " + status
		}
		if err := yaml.UnmarshalStrict([]byte(status), &app); err != nil {
			t.Fatal(err)
		}
		results, err := engine.Run("x", map[string]any{"app": app})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Triggered {
				send += strings.Join(r.Templates, " ")
				once += r.OncePer
			}
		}
		return send, once
	}
	synced := func(health, revision string) string {
		return "{sync: {status: Synced, revision: " + revision + "}, health: {status: " + health + "}}"
	}
	for status, want := range map[string]string{
		"":                          "",
		"{}":                        "",
		"{sync: {status: Unknown}}": "",
		synced("Healthy", now):      "sluice-healthy",
		synced("Progressing", now):  "",
		synced("Missing", now):      "",
		synced("Degraded", now):     "sluice-failed",
		"{sync: {status: OutOfSync, revision: " + now + "}, health: {status: Healthy}}": "",
		// A sync of this commit failed. A failed sync of the previous commit does not count.
		"{sync: {status: OutOfSync, revision: " + now +
			"}, health: {status: Healthy}, operationState: {phase: Failed, operation: {sync: {revision: " + now +
			"}}}}": "sluice-failed",
		"{sync: {status: OutOfSync, revision: " + now +
			"}, health: {status: Healthy}, operationState: {phase: Error, operation: {sync: {revision: " + older +
			"}}}}": "",
		"{sync: {status: OutOfSync, revision: " + now +
			"}, health: {status: Healthy}, operationState: {phase: Running, operation: {sync: {revision: " + now +
			"}}}}": "",
		// While Argo CD retries, the operation stays Running. The status is red after the third failed attempt for
		// this commit.
		"{sync: {status: OutOfSync, revision: " + now +
			"}, health: {status: Healthy}, operationState: {phase: Running, retryCount: 2, operation: {sync: {revision: " + now + "}}}}": "",
		"{sync: {status: OutOfSync, revision: " + now +
			"}, health: {status: Healthy}, operationState: {phase: Running, retryCount: 3, operation: {sync: {revision: " + now + "}}}}": "sluice-failed",
		"{sync: {status: OutOfSync, revision: " + now +
			"}, health: {status: Healthy}, operationState: {phase: Running, retryCount: 3, operation: {sync: {revision: " + older + "}}}}": "",
		"{sync: {status: Synced, revision: " + now +
			"}, health: {status: Healthy}, operationState: {phase: Succeeded, operation: {sync: {revision: " + older +
			"}}}}": "sluice-healthy",
	} {
		if send, _ := run(status); send != want {
			t.Errorf("%s sends %q, want %q", status, send, want)
		}
	}
	_, first := run(synced("Healthy", now))
	_, again := run(synced("Healthy", now))
	_, next := run(synced("Healthy", older))
	_, recovered := run("{sync: {status: Synced, revision: " + now +
		"}, health: {status: Healthy, lastTransitionTime: later}}")
	if first == "" || first != again || first == next || first == recovered || next == recovered {
		t.Errorf("sent once for %q, %q, %q, %q", first, again, next, recovered)
	}
}

// The printed templates send a request about the compared commit to the forge's API.
func TestTemplatesOfCommitStatuses(t *testing.T) {
	s := newSource(t)
	app := map[string]any{"app": map[string]any{
		"metadata": map[string]any{"name": "prod-eu-1.shop", "labels": map[string]any{
			"sluice.dev/app":     "shop",
			"sluice.dev/cluster": "prod-eu-1",
		}},
		"status": map[string]any{"sync": map[string]any{"revision": now}},
	}}
	for _, c := range []struct{ url, api, path, header, field, failed string }{
		{
			"https://github.com/acme/fleet.git", "https://api.github.com", "repos/acme/fleet/statuses/" + now,
			"Authorization: Bearer $sluice-token", "context", "failure",
		},
		{
			"https://github.example.com/acme/fleet.git", "https://github.example.com/api/v3",
			"repos/acme/fleet/statuses/" + now, "Authorization: Bearer $sluice-token", "context", "failure",
		},
		{
			"git@gitlab.com:acme/platform/fleet.git", "https://gitlab.com/api/v4",
			"projects/acme%2Fplatform%2Ffleet/statuses/" + now, "PRIVATE-TOKEN: $sluice-token", "name", "failed",
		},
	} {
		config := configMap(t, s.bootstrap("argocd", "prod-eu-1", "--url="+c.url))
		var service struct {
			URL          string
			Headers      []struct{ Name, Value string }
			RetryMax     int
			RetryWaitMax time.Duration
		}
		if err := yaml.UnmarshalStrict([]byte(config["service.webhook.sluice"]), &service); err != nil {
			t.Fatal(err)
		}
		if service.URL != c.api || len(service.Headers) == 0 || service.Headers[0].Name+": "+
			service.Headers[0].Value != c.header {
			t.Errorf("%s: the service is %+v", c.url, service)
		}
		if service.RetryMax != 8 || service.RetryWaitMax != 30*time.Second {
			t.Errorf("%s: a post is repeated %d times, at most every %s", c.url, service.RetryMax, service.RetryWaitMax)
		}
		for name, state := range map[string]string{
			"template.sluice-healthy": "success",
			"template.sluice-failed":  c.failed,
		} {
			var notification struct {
				Webhook map[string]struct{ Method, Path, Body string }
			}
			if err := yaml.UnmarshalStrict([]byte(config[name]), &notification); err != nil {
				t.Fatal(err)
			}
			hook := notification.Webhook["sluice"]
			if path := execute(t, hook.Path, app); hook.Method != "POST" || path != c.path {
				t.Errorf("%s: %s %s", c.url, hook.Method, path)
			}
			var body map[string]string
			if err := json.Unmarshal([]byte(execute(t, hook.Body, app)), &body); err != nil {
				t.Fatal(err)
			}
			if body["state"] != state || body[c.field] != "argocd/shop/prod-eu-1" || body["description"] == "" {
				t.Errorf("%s: %s says %v", c.url, name, body)
			}
		}
	}
}

// Applications subscribe only to triggers that exist.
func TestApplicationsAreSubscribed(t *testing.T) {
	s := newSource(t)
	printed := s.bootstrap("argocd", "prod-eu-1", "--forge=github")
	config := configMap(t, printed)
	waves := map[string]string{}
	for _, o := range printed {
		if o.GetKind() != "Application" {
			continue
		}
		waves[o.GetLabels()["sluice.dev/app"]] = o.GetAnnotations()["argocd.argoproj.io/sync-wave"]
		subscribed := false
		for key := range o.GetAnnotations() {
			if rest, ok := strings.CutPrefix(key, "notifications.argoproj.io/subscribe."); ok {
				trigger, service, _ := strings.Cut(rest, ".")
				subscribed = config["trigger."+trigger] != "" && config["service.webhook."+service] != ""
			}
		}
		if !subscribed {
			t.Errorf("%s is subscribed to nothing: %v", o.GetName(), o.GetAnnotations())
		}
	}
	if waves["baseline"] != "0" || waves["shop"] != "1" || waves["odd.-app"] != "2" {
		t.Errorf("waves %v", waves)
	}
}

func configMap(t *testing.T, printed []*unstructured.Unstructured) map[string]string {
	t.Helper()
	for _, o := range printed {
		if o.GetKind() == "ConfigMap" {
			data, _, err := unstructured.NestedStringMap(o.Object, "data")
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
	}
	t.Fatal("no ConfigMap is printed")
	return nil
}

func execute(t *testing.T, text string, vars any) string {
	t.Helper()
	parsed, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, vars); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
