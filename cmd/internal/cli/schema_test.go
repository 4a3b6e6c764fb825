package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/data"
	"github.com/sluice-gitops/sluice/rollout"
)

// TestOutputSchemas generates the schemas that `sluice schema` prints, and compares them with the embedded ones and
// with those of the documentation. The scripts validate real output with them.
func TestOutputSchemas(t *testing.T) {
	r := jsonschema.Reflector{}
	for _, pkg := range []string{"cmd/internal/cli", "promote", "report", "report/data", "diff", "renderer/manifest"} {
		if err := r.AddGoComments("github.com/sluice-gitops/sluice", "../../../"+pkg); err != nil {
			t.Fatal(err)
		}
	}
	for verb, entries := range map[string]any{"status": []statusEntry{}, "history": []historyEntry{}, "upgrade": data.UpgradeDocument{}, "versions": promote.FleetVersions{}} {
		schema := r.Reflect(entries)
		schema.ID = jsonschema.ID("https://sluice.dev/schema/v1alpha1/" + verb + ".json")
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, '\n')
		for _, dir := range []string{"schema", "../../../docs/schema"} {
			file := filepath.Join(dir, verb+".json")
			if flag.Lookup("update").Value.String() == "true" {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, text) {
				t.Errorf("%s is not current (%v): go test ./cmd/internal/cli -run TestOutputSchemas -update", file, err)
			}
		}
		if !slices.Contains(schemaNames(), verb) {
			t.Errorf("sluice schema does not know %s", verb)
		}
	}
}

// compiled returns the schema that `sluice schema VERB` prints.
func compiled(t *testing.T, verb string) *validator.Schema {
	t.Helper()
	var out bytes.Buffer
	o := System()
	o.Out = &out
	if status := Main(t.Context(), []string{"schema", verb}, o); status != 0 {
		t.Fatalf("sluice schema %s: exit status %d", verb, status)
	}
	parsed, err := validator.UnmarshalJSON(&out)
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(verb, parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(verb)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// The schema has every field that the output may have, and refuses other fields.
func TestOutputMatchesSchemas(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	source := rollout.Source{
		Commit: "c", Apps: map[string]string{"shop": "d"},
		Clusters: map[string]rollout.ClusterSource{"eu-1": {Commit: "e", Apps: map[string]string{"web": "f"}}},
	}
	full := promote.Status{
		Environment: "prod", Branch: "env/prod", Tip: "1", Source: source, Behind: 1, Done: []string{"x"},
		Refused: []string{"y"}, Candidate: "t",
		Plan: &promote.Plan{Tree: "t", Clusters: []string{"eu-1"}, Added: 1, Commits: []string{"abc x"}},
		Decision: rollout.Decision{
			Gates:     []rollout.Gate{{Name: "bake", State: rollout.Waiting, Reason: "r", Since: at, Until: at}},
			WaveGates: []rollout.Gate{{Name: "halt", State: rollout.Unknown}},
			Waves: []rollout.WaveProgress{{
				Name: "all", State: rollout.WaveBaking, Moved: 1, Total: 2,
				Frozen: []string{"eu-2"}, Since: at, Until: at, Reason: "r",
			}},
			Frozen: []string{"eu-2"}, Freezes: []rollout.Freeze{{
				Target: "eu-2", From: at, Until: at, Reason: "r",
				By: "mia",
			}}, WaitsFor: "w", Next: at,
			Silent: []rollout.Silence{{Cluster: "eu-1", Apps: []string{"shop"}, Status: "argocd/shop/*", Since: at}},
			Record: rollout.Record{
				Halt: &rollout.Halt{Reason: "r", At: at},
				Holds: []rollout.Hold{{
					Cause: rollout.CauseFailed, Source: source, Wave: "canary",
					Clusters: []string{"eu-1"}, Apps: []string{"shop"}, By: "mia", Reason: "r", Since: at,
				}},
			},
		},
	}
	commit := promote.HistoryEntry{
		Source: source, At: at, Subject: "s", Author: "mia",
		Trailers: []gitstore.Trailer{{Key: "Sluice-Source", Value: "c"}},
	}
	history := []promote.HistoryEntry{commit, {At: at}}
	for _, verb := range rollout.PastVerbs() {
		history = append(history, promote.HistoryEntry{At: at, Command: &rollout.PastCommand{
			Verb: verb, By: "mia",
			Reason: "r", Scope: "eu-1", Until: at, At: at,
		}})
	}
	plan := report.Upgrade{
		Repository: "acme", Commit: "c", Version: "v1", To: "Kubernetes 1.37", Steps: []string{"1.36", "1.37"}, Notes: []string{"n"},
		Clusters: []report.UpgradeCluster{{
			Name: "eu-1", Environment: "prod", From: "1.35", To: "1.37", Assumed: true, Verdict: report.UpgradeBlocked,
			BlockedBy: []string{"b"}, Warnings: 1, Changed: 2,
		}},
		Issues: []report.UpgradeIssue{{At: "1.36", Existing: true, Unknown: true, Finding: report.Finding{
			Rule: "api-removed", Severity: report.SeverityError, Message: "m", Hint: "h", Path: "apiVersion", App: "web",
			Object:      manifest.Identity{Group: "policy", Kind: "PodDisruptionBudget", Namespace: "web", Name: "web"},
			Environment: "prod", Clusters: []string{"eu-1"}, File: "apps/web/app.yaml", Line: 4,
		}}},
		Changes: &diff.ChangeSet{}, Took: time.Second,
	}
	for name, test := range map[string]struct {
		verb  string
		value any
	}{
		"status": {"status", statusEntries([]promote.Status{
			full,
			{Environment: "x"},
			{Environment: "y", Plan: &promote.Plan{}},
		}, "")},
		"status, none": {"status", statusEntries(nil, "")},
		"status, follower": {"status", followerEntries([]promote.Running{{Environment: "dev", Branch: "env/dev"}},
			map[string]bool{}, "")},
		"upgrade":       {"upgrade", data.Upgrade(&plan)},
		"upgrade, none": {"upgrade", data.Upgrade(&report.Upgrade{})},
		"versions": {"versions", &promote.FleetVersions{
			Clusters: []promote.ClusterVersion{
				{Cluster: "eu-1", Environment: "prod", Wave: "canary", Runs: "1.36.1", Wants: "1.37.0", Since: at, Blocked: "r"},
				{Cluster: "eu-2", Environment: "prod"},
			},
			Upgrades: []promote.Upgrade{
				{
					Environment: "mgmt", Minor: "1.37", Since: at, Began: at, Done: at, Reached: 1, Total: 2, Commands: 1, Approvals: 1, Partial: true,
					Waves: []promote.UpgradeWave{{Environment: "prod", Wave: "canary", Reached: 1, Total: 2}, {Environment: "dev"}},
				},
				{Environment: "dev", Minor: "1.36", Waves: []promote.UpgradeWave{}},
			},
		}},
		"history":       {"history", historyEntries(history)},
		"history, none": {"history", historyEntries(nil)},
	} {
		text, err := json.Marshal(test.value)
		if err != nil {
			t.Fatal(err)
		}
		value, err := validator.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		schema := compiled(t, test.verb)
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: the error is %v\nthe text is\n%s", name, err, text)
		}
		if plan, ok := value.(map[string]any); ok {
			if plan["unknown"] = true; schema.Validate(value) == nil {
				t.Errorf("%s: the schema allows unknown keys", name)
			}
			continue
		}
		list, ok := value.([]any)
		if !ok || strings.Contains(string(text), "0001-01-01") {
			t.Fatalf("%s: the text is %s", name, text)
		}
		if len(list) > 0 {
			if list[0].(map[string]any)["unknown"] = true; schema.Validate(value) == nil {
				t.Errorf("%s: the schema allows unknown keys", name)
			}
		}
	}
	var out bytes.Buffer
	o := System()
	o.Out, o.Err = &out, &out
	if status := Main(t.Context(), []string{"schema", "diff"}, o); status != ExitUsage ||
		!strings.Contains(out.String(), "history, status, upgrade or versions") {
		t.Errorf("exit status %d: %s", status, out.String())
	}
}
